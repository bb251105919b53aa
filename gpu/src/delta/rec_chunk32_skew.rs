//! `delta.rec/chunk32_skew`, second launch: the scan of `delta.rec/chunk32` with the heads of a block a third of a chunk apart, so
//! that where one waits for its other warps the others multiply.
//!
//! Math      as `delta_rec_chunk32_scan_vpk3` (`rec_chunk32_scan.rs`)
//! Shapes    `RecParams` with value_heads = 3 key_heads; a span that is a multiple of 32
//! Mapping   as there
//! Order     as there
//! Staging   three buffers: when the first head is about to start chunk c, the second is behind its products of c - 1, the third
//!           before D of c - 1. There all meet: rows of c have landed, and nobody reads those of c - 2, over which rows of c + 1 go
//! Barriers  a chunk has one of the block, at each head's own place, and three of each head; heads but the first have one more
//!           at the chunk's start, the block one before the first chunk
//! Budget    168 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`; the bits of `delta.rec/chunk32`

use cuda_std::barrier::sync_named;
use cuda_std::thread::sync_threads;
use cuda_std::{copy, kernel};

use super::RecParams;
use super::rec_chunk32_place::{HEAD_THREADS, Lane};
use super::rec_chunk32_scan::{Rows, Sharing, body, bounds};

/// Buffers of k and q.
pub const BUFFERS: usize = 3;

/// # Safety
/// As `delta_rec_chunk32_scan_vpk3`, dynamic shared memory `shared_bytes(3, BUFFERS)`.
#[kernel(sm = 90)]
#[launch_bounds(bounds(3))]
pub unsafe fn delta_rec_chunk32_skew_vpk3(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<Skewed, 3, 12, 8>(p) }
}

/// Each head meets the others at a place of its own.
struct Skewed;

impl Sharing for Skewed {
    const BUFFERS: usize = BUFFERS;

    #[inline(always)]
    #[track_caller]
    unsafe fn at_start<const WARPS: usize>(rows: &Rows, lane: &Lane) {
        copy::cp_async_wait_all();
        sync_threads();
        // SAFETY: the second buffer is fresh; all warps of the block call it.
        unsafe { rows.copy::<WARPS>(lane, 1, BUFFERS) };
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn at_chunk<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32) {
        // SAFETY: all 128 threads of the head meet, or all heads do; the first chunk needs no more than the start gave.
        unsafe {
            if lane.head > 0 {
                sync_named(1 + lane.head as u32, HEAD_THREADS);
            } else if chunk > 0 {
                meet::<WARPS>(rows, lane, chunk);
            }
        }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn behind_products<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32) {
        if lane.head == 1 {
            // SAFETY: the second head's place.
            unsafe { meet::<WARPS>(rows, lane, chunk + 1) };
        }
    }

    #[inline(always)]
    unsafe fn behind_sums<const WARPS: usize>(_: &Rows, _: &Lane, _: u32) {}

    #[inline(always)]
    fn wait_for_matrices() {
        copy::cp_async_wait_all();
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn before_corrections<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32) {
        if lane.head == 2 {
            // SAFETY: the third head's place.
            unsafe { meet::<WARPS>(rows, lane, chunk + 1) };
        }
    }
}

/// The barrier of the block, behind those of the heads.
const BLOCK: u32 = 8;

/// Meets the other heads when the first is about to start `chunk`, if there is such a chunk.
///
/// # Safety
/// All warps of the block call it for each chunk but the first.
#[inline(always)]
#[track_caller]
unsafe fn meet<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32) {
    if chunk < rows.chunks {
        copy::cp_async_wait_all();
        // SAFETY: all warps meet; then nobody reads the rows of the chunk before the one before any more.
        unsafe {
            sync_named(BLOCK, 32 * WARPS as u32);
            rows.copy::<WARPS>(lane, chunk + 1, BUFFERS);
        }
    }
}
