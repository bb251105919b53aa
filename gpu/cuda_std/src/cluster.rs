//! Clusters (sm_90a): neighbouring blocks along the grid's x that run at the same time and reach each other's shared
//! memory. `#[kernel(sm = 90, cluster = N)]` says how many.
//!
//! A block's shared memory can be written by the others from its start, which the first [`sync`] shows, to its end: behind
//! the last write there is a [`sync`], so that no block ends while others write to it.

use crate::{global::Word32, imp};

/// Number of the block in its cluster.
#[inline(always)]
#[must_use]
pub fn rank() -> u32 {
    imp::cluster::rank()
}

/// Waits until every thread of every block of the cluster is here; what they wrote before it, to any block's shared
/// memory, is seen by all of them after it.
#[inline(always)]
#[track_caller]
pub fn sync() {
    imp::cluster::sync();
}

/// Writes a word to the shared memory of block `rank` of the cluster, at the place that `p` is in the block's own.
///
/// # Safety
/// `p` is a multiple of 4 in the block's dynamic shared area, `rank` below the cluster's size; the other block has
/// started and does not end, and nothing else accesses the word there, between the same two [`sync`]s.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Word32>(p: *mut T, rank: u32, v: T) {
    // SAFETY: same contract.
    unsafe { imp::cluster::store(p, rank, v) }
}
