//! Clusters: blocks that wait for each other and write to each other's shared memory.
//!
//! The blocks of a cluster may run on several OS threads. A block gathers at a barrier of its own; then its first thread
//! waits, as one that polls memory, until the other blocks have come too.

use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::atomic::poll;
use super::barrier::arrive;
use super::block::{Block, Primitive, Source, raise, suspend};
use super::context;
use super::fault::{Access, Fault, Space};
use crate::global::Word32;

static SYNC: Primitive = Primitive { name: "cluster::sync", aligned: true };
const STORE: &str = "cluster::store";

/// Where a block of a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Ahead,
    /// It runs, and its shared memory is here.
    Running(usize),
    Ended,
}

#[derive(Debug)]
struct State {
    members: Vec<Member>,
    /// Arrivals of blocks at the barrier, since the start.
    arrived: u64,
}

/// Some blocks that start together.
#[derive(Debug)]
pub(crate) struct Cluster(Mutex<State>);

impl Cluster {
    /// Those of a grid of `blocks` blocks; none where a block is a cluster.
    pub fn all(blocks: u64, size: u32) -> Vec<Self> {
        let state = || State { members: vec![Member::Ahead; size as usize], arrived: 0 };
        let clusters = if size > 1 { blocks / u64::from(size) } else { 0 };
        (0..clusters).map(|_| Self(Mutex::new(state()))).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block starts, with its shared memory at `shared`.
    pub fn enter(&self, rank: usize, shared: usize) {
        self.state().members[rank] = Member::Running(shared);
    }

    /// A block ends: from now on its shared memory may go.
    pub fn leave(&self, rank: usize) {
        self.state().members[rank] = Member::Ended;
    }
}

/// Host body of [`cluster::rank`](crate::cluster::rank).
#[inline(always)]
pub(crate) fn rank() -> u32 {
    // SAFETY: the running block, read only.
    unsafe { (*context::block()).rank() }
}

/// Host body of [`cluster::sync`](crate::cluster::sync).
#[inline(always)]
#[track_caller]
pub(crate) fn sync() {
    let source = Location::caller();
    if arrive(&SYNC, 0, None, true, source) {
        suspend();
    }
    if context::with(|c| c.linear.get()) == 0 {
        wait_for_others(source);
    }
    if arrive(&SYNC, 0, None, true, source) {
        suspend();
    }
}

/// Counts the block, and waits for the others as its first thread.
#[inline(never)]
fn wait_for_others(source: Source) {
    let block: *mut Block = context::block();
    // SAFETY: the running block; the reference ends here.
    unsafe { (*block).gather_cluster() };
    // SAFETY: as above, each time.
    while !unsafe { (*block).is_gathered() }.unwrap_or_else(|fault| raise(fault)) {
        poll(source);
    }
}

impl Block {
    fn rank(&self) -> u32 {
        self.index[0] % self.grid().cluster
    }

    fn gather_cluster(&mut self) {
        self.gathered += 1;
        if let Some(cluster) = self.grid().cluster_of(self.linear) {
            cluster.state().arrived += 1;
        }
    }

    /// Whether all blocks have come as often as this one.
    fn is_gathered(&self) -> Result<bool, Fault> {
        let Some(cluster) = self.grid().cluster_of(self.linear) else { return Ok(true) };
        let state = cluster.state();
        if state.arrived >= self.gathered * state.members.len() as u64 {
            return Ok(true);
        }
        if state.members.contains(&Member::Ended) { Err(self.stuck_fault()) } else { Ok(false) }
    }

    /// Writes a word at the place in block `rank`'s shared memory that `address` is in this block's.
    fn store_at(&self, address: usize, rank: u32, word: u32, source: Source) -> Result<(), Fault> {
        let bad = |problem: String| Fault::BadOperand { place: self.place(source), primitive: STORE, problem };
        let dynamic = self.grid().launch.dynamic_shared as usize;
        let Some(offset) = self.shared_offset(address).filter(|offset| offset + 4 <= dynamic) else {
            return Err(bad(format!(
                "{address:#x} is not in the {dynamic} bytes of the block's dynamic shared memory"
            )));
        };
        if !address.is_multiple_of(4) {
            let (place, space, access) = (self.place(source), Space::Shared, Access::Write);
            return Err(Fault::Misaligned { place, space, access, address, bytes: 4 });
        }
        let Some(cluster) = self.grid().cluster_of(self.linear) else {
            return Err(bad("the kernel has no clusters".to_owned()));
        };
        // Held while it is written, so that the block does not end meanwhile.
        let state = cluster.state();
        match state.members.get(rank as usize) {
            None => Err(bad(format!("there is no block {rank} in a cluster of {}", state.members.len()))),
            Some(Member::Ahead) => Err(bad(format!("block {rank} of the cluster has not started: sync first"))),
            Some(Member::Ended) => Err(bad(format!("block {rank} of the cluster has ended"))),
            Some(Member::Running(shared)) => {
                // SAFETY: within the dynamic area of the other block, whose arena is in place while it is a member; the
                // kernel orders the word's uses by `cluster::sync`.
                unsafe { ((shared + offset) as *mut u32).write(word) };
                Ok(())
            }
        }
    }
}

/// Host body of [`cluster::store`](crate::cluster::store).
///
/// # Safety
/// Nothing races with the access; range, alignment and that the other block runs are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn store<T: Word32>(p: *mut T, rank: u32, v: T) {
    store_word(p as usize, rank, v.to_u32(), Location::caller());
}

#[inline(never)]
fn store_word(address: usize, rank: u32, word: u32, source: Source) {
    // SAFETY: the running block, read only.
    if let Err(fault) = unsafe { (*context::block()).store_at(address, rank, word, source) } {
        raise(fault);
    }
}
