//! `delta.rec/chunk32`, second launch: walks the chunks of a sequence in order, with the state in registers.
//!
//! Math      see `rec_chunk32.rs`; the steps are in `rec_chunk32_steps.rs`, the memory plan in `rec_chunk32_place.rs`
//! Shapes    `RecParams` with value_heads = VPK * key_heads, VPK = 1, 2, 3 or 4; a span that is a multiple of 32
//! Mapping   grid x = 8 * key head + column group of 16, y = sequence; 4 warps a value head. A lane is (ts, cq): token or
//!           row slot 0 to 7, column slot 0 to 3. S^T k and S^T q: warp w takes state rows 32 w .. + 31 of all tokens and
//!           columns, a lane 4 tokens x 4 columns of both; of the sums a lane keeps 2 tokens x 2 columns and adds those of
//!           the other three warps. D and o: these 2 x 2, a token of the first and one of the second half, so that every
//!           warp skips as much above the diagonal. Update: rows 32 w + 4 ts .. + 3 of columns 4 cq .. + 3, whose 16
//!           values stay in registers for the whole launch; shared memory has a copy by columns for the products
//! Order     S^T k, S^T q: fma chain of a warp's 32 rows, r ascending; own part plus that of warp w xor 1, plus the sum of
//!           those of w xor 2 and w xor 3. D, o, update: fma chain from 0 over tokens, ascending; o and S last, one fma
//! Staging   k and q of the next chunk from the products of this one on, two buffers; T and P of this chunk from its start
//!           on, v and decays in registers from then on: all of them are used after the products
//! Barriers  a chunk has one of the block (rows have landed, the other buffer and T, P, the parts have no reader left, the
//!           copy of S is whole) and three of each head's 128 threads: parts are there; Y is there, the parts are read, T
//!           and P have landed; D is there
//! Loads     lanes that differ in bit 0 (a column slot) read the same token rows, in bit 1 (a token slot) the same columns:
//!           16-byte loads of such pairs are returned in 2 cycles of the SM's shared memory instead of 4
//! Budget    168 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`

use cuda_std::barrier::sync_named;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{copy, float, global, int, kernel, shared};

use super::RecParams;
use super::rec_chunk32::{CHUNK, KEYS, Record, copy_keys};
use super::rec_chunk32_place::{COLUMNS, D_AT, HEAD_LEN, HEAD_THREADS, Lane, MATRIX, MATRIX_AT, SCALED_AT, Y_AT};
use crate::geometry::{HEAD_DIM, OUTPUT_SCALE};

/// Blocks of a key head.
pub const BLOCKS: usize = HEAD_DIM / COLUMNS;

/// Buffers of k and q.
pub const BUFFERS: usize = 2;

/// Dynamic shared memory of the kernel for `vpk` heads.
#[must_use]
pub const fn shared_bytes(vpk: usize, buffers: usize) -> usize {
    4 * (buffers * KEYS + vpk * HEAD_LEN)
}
// Opt-in of compute capability 8.0, 9.0.
const _: () = assert!(shared_bytes(3, BUFFERS) <= 166_912 && shared_bytes(4, BUFFERS) <= 232_448);

/// Launch bounds for `vpk` heads; the block has its SM for itself.
pub const fn bounds(vpk: u32) -> Bounds {
    Bounds { threads: HEAD_THREADS * vpk, min_blocks: 1 }
}

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, value_heads = key_heads; grid x `key_heads * 8`, block 128, dynamic
/// shared memory [`shared_bytes`]; scratch as the launch of `delta_rec_chunk32_prep` with the same parameters left it.
#[kernel(sm = 80)]
#[launch_bounds(bounds(1))]
pub unsafe fn delta_rec_chunk32_scan_vpk1(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<Together, 1, 4, 8>(p) }
}

/// # Safety
/// As [`delta_rec_chunk32_scan_vpk1`] with value_heads = 2 key_heads, block 256.
#[kernel(sm = 80)]
#[launch_bounds(bounds(2))]
pub unsafe fn delta_rec_chunk32_scan_vpk2(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<Together, 2, 8, 8>(p) }
}

/// # Safety
/// As [`delta_rec_chunk32_scan_vpk1`] with value_heads = 3 key_heads, block 384.
#[kernel(sm = 80)]
#[launch_bounds(bounds(3))]
pub unsafe fn delta_rec_chunk32_scan_vpk3(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<Together, 3, 12, 8>(p) }
}

/// # Safety
/// As [`delta_rec_chunk32_scan_vpk1`] with value_heads = 4 key_heads, block 512.
#[kernel(sm = 80)]
#[launch_bounds(bounds(4))]
pub unsafe fn delta_rec_chunk32_scan_vpk4(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<Together, 4, 16, 4>(p) }
}

/// How the heads of a block share the rows of k and q.
pub(super) trait Sharing {
    /// Buffers of k and q.
    const BUFFERS: usize;

    /// Before the first chunk, whose rows are under way.
    ///
    /// # Safety
    /// All warps of the block call it once, and each of the others once for each chunk, in the order below.
    unsafe fn at_start<const WARPS: usize>(rows: &Rows, lane: &Lane);

    /// At the start of a chunk: its rows are there when it returns, and T, P, the parts and the copy of S as `Barriers` says.
    ///
    /// # Safety
    /// As [`at_start`](Self::at_start).
    unsafe fn at_chunk<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32);

    /// Behind a chunk's products.
    ///
    /// # Safety
    /// As [`at_start`](Self::at_start).
    unsafe fn behind_products<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32);

    /// When the sums of all warps of the head are there.
    ///
    /// # Safety
    /// As [`at_start`](Self::at_start).
    unsafe fn behind_sums<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32);

    /// Waits for the lane's copies of T and P.
    fn wait_for_matrices();

    /// Before D.
    ///
    /// # Safety
    /// As [`at_start`](Self::at_start).
    unsafe fn before_corrections<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32);
}

/// The rows of k and q that a block shares.
pub(super) struct Rows<'a> {
    pub p: &'a RecParams,
    pub key_head: usize,
    /// `[buffers][KEYS]` in shared memory; chunk c is in buffer c mod their number.
    pub keys: *mut f32,
    pub chunks: u32,
}

impl Rows<'_> {
    /// Starts the copy of the warp's rows of chunk `chunk`, which may be behind the last one.
    ///
    /// # Safety
    /// Its buffer has no reader left; all warps of the block call it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy<const WARPS: usize>(&self, lane: &Lane, chunk: u32, buffers: usize) {
        // SAFETY: the caller's.
        unsafe {
            let to = self.keys.add(chunk as usize % buffers * KEYS);
            copy_keys::<WARPS>(self.p, chunk, self.key_head, to, lane.thread / 32, lane.id);
        }
        copy::cp_async_commit();
    }
}

/// All heads start a chunk together.
struct Together;

impl Sharing for Together {
    const BUFFERS: usize = BUFFERS;

    #[inline(always)]
    unsafe fn at_start<const WARPS: usize>(_: &Rows, _: &Lane) {}

    #[inline(always)]
    #[track_caller]
    unsafe fn at_chunk<const WARPS: usize>(_: &Rows, _: &Lane, _: u32) {
        copy::cp_async_wait_all();
        sync_threads();
    }

    #[inline(always)]
    unsafe fn behind_products<const WARPS: usize>(_: &Rows, _: &Lane, _: u32) {}

    #[inline(always)]
    #[track_caller]
    unsafe fn behind_sums<const WARPS: usize>(rows: &Rows, lane: &Lane, chunk: u32) {
        // SAFETY: the other buffer has no reader left; all warps of the block call it. Here, because loads of shared memory
        // are what this stage waits for.
        unsafe { rows.copy::<WARPS>(lane, chunk + 1, BUFFERS) };
    }

    #[inline(always)]
    fn wait_for_matrices() {
        copy::cp_async_wait_group::<1>(); // the next rows may be under way
    }

    #[inline(always)]
    unsafe fn before_corrections<const WARPS: usize>(_: &Rows, _: &Lane, _: u32) {}
}

/// The kernel for `VPK` heads, `WARPS` = 4 `VPK`. The two long loops take `STEP` rows or tokens at once: unrolled as a whole,
/// ptxas loads far ahead and spills.
#[inline(always)]
pub(super) unsafe fn body<S: Sharing, const VPK: usize, const WARPS: usize, const STEP: usize>(p: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { p.of_block() };
    if p.tokens == 0 {
        return;
    }
    let lane = Lane::of(thread_idx_x() as usize);
    let (key_head, group) = (block_idx_x() as usize / BLOCKS, block_idx_x() as usize % BLOCKS);
    let head = key_head + lane.head * p.key_heads as usize;
    let column = head * HEAD_DIM + group * COLUMNS;
    let row_pitch = p.value_heads as usize * HEAD_DIM;
    let keys = shared::dynamic_shared::<f32>();
    // SAFETY: the part of the lane's head, behind the buffers.
    let part = unsafe { keys.add(S::BUFFERS * KEYS + lane.head * HEAD_LEN) };
    // SAFETY: rows 32 w + 4 ts + 3 < 128, columns 4 cq + 3 < 16 of the block's: only this thread touches them.
    let state = unsafe { p.state.add(lane.row * row_pitch + column + lane.quad) };
    let barrier = 1 + lane.head as u32;

    let rows = Rows { p: &p, key_head, keys, chunks: p.tokens.div_ceil(CHUNK as u32) };
    // SAFETY: all buffers are fresh; all warps of the block call it.
    unsafe { rows.copy::<WARPS>(&lane, 0, S::BUFFERS) };
    let mut s = [[0.0f32; 4]; 4];
    for r in 0..4 {
        // SAFETY: as said at `state`; multiples of 16 bytes.
        s[r] = unsafe { global::load4(state.add(r * row_pitch)) };
    }
    // SAFETY: the lane's tile of the head's copy.
    unsafe { lane.store_state(part, &s) };

    // SAFETY: the record of the first chunk, written by prep.
    let mut record = unsafe { Record::new(&p, block_idx_y() as usize, 0, head) };
    // SAFETY: all warps of the block call these, in this order.
    unsafe { S::at_start::<WARPS>(&rows, &lane) };
    let mut chunk = 0u32;
    while chunk < rows.chunks {
        let buffer = chunk as usize % S::BUFFERS * KEYS;
        let first = chunk * CHUNK as u32;
        let (lane, column) = (lane.again(), int::opaque(column));
        // SAFETY: as at the start. T and P have no reader left (see Barriers).
        unsafe {
            S::at_chunk::<WARPS>(&rows, &lane, chunk);
            lane.copy_matrices(record, part);
        }
        copy::cp_async_commit();
        // SAFETY: the record was written by prep; the columns are the call's.
        let (since_start, beta, v) =
            unsafe { (lane.pair(record.since_start()), lane.pair(record.beta()), lane.load_values(&p, first, column)) };

        // SAFETY: rows have landed and the copy of S is whole; the parts have no reader left; all 128 threads of the head,
        // in whole warps, meet at its barrier.
        let parts = unsafe {
            let sums = lane.products::<STEP>(keys.add(buffer), part);
            S::behind_products::<WARPS>(&rows, &lane, chunk);
            lane.send(part, &sums);
            sync_named(barrier, HEAD_THREADS);
            lane.receive(part, &sums)
        };
        // SAFETY: as at the start.
        unsafe { S::behind_sums::<WARPS>(&rows, &lane, chunk) };
        let (x, qs) = (parts.sums(0), parts.sums(1));
        let mut y = [[0.0f32; 2]; 2];
        for j in 0..2 {
            for i in 0..2 {
                y[j][i] = float::fma(-since_start[j], x[j][i], v[j][i]) * beta[j];
            }
        }
        // SAFETY: Y has no reader left. The record as above; not before the products, whose registers are all in use.
        let (until_end, whole) = unsafe {
            lane.store_columns(part.add(Y_AT), &y);
            (lane.pair(record.until_end()), global::load(record.since_start().add(CHUNK - 1)))
        };
        record = record.next(p.value_heads);
        S::wait_for_matrices();
        // SAFETY: as for the barrier above.
        unsafe { sync_named(barrier, HEAD_THREADS) };
        let lane = lane.again();
        // SAFETY: T has landed, Y is there; the parts, over which D goes, are read. The barrier as above.
        unsafe {
            S::before_corrections::<WARPS>(&rows, &lane, chunk);
            let d = lane.triangular(part.add(MATRIX_AT), part.add(Y_AT));
            lane.store_columns(part.add(D_AT), &d);
            lane.store_scaled(part.add(SCALED_AT), &d, until_end);
            sync_named(barrier, HEAD_THREADS);
        }
        let lane = lane.again();
        // SAFETY: P has landed, D is there; the columns are the call's; nobody reads the copy of S any more.
        unsafe {
            let mut o = lane.triangular(part.add(MATRIX_AT + MATRIX), part.add(D_AT));
            for j in 0..2 {
                for i in 0..2 {
                    o[j][i] = float::fma(since_start[j], qs[j][i], o[j][i]) * OUTPUT_SCALE;
                }
            }
            lane.store_outputs(&p, first, column, &o);
            lane.update::<STEP>(&mut s, whole, keys.add(buffer), part.add(SCALED_AT));
            lane.store_state(part, &s);
        }
        chunk += 1;
    }
    copy::cp_async_wait_all();
    if p.keep_state == 0 {
        let (lane, row_pitch) = (lane.again(), int::opaque(row_pitch));
        // SAFETY: as at the start.
        let state = unsafe { p.state.add(lane.row * row_pitch + column + lane.quad) };
        for r in 0..4 {
            // SAFETY: as for the loads of the state.
            unsafe { global::store4(state.add(r * row_pitch), s[r]) };
        }
    }
}
