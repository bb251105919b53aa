//! `delta.rec/chunk32`, second launch: walks the chunks of a sequence in order, with the state in registers.
//!
//! Math      see `rec_chunk32.rs`
//! Shapes    `RecParams` with value_heads = VPK * key_heads, VPK = 1, 2, 3 or 4; a span that is a multiple of 32
//! Mapping   grid x = 8 * key head + column group of 16, y = sequence; 4 warps a value head. A lane is (ts, cq): token or
//!           row slot 0 to 7, column slot 0 to 3. S^T k and S^T q: warp w takes state rows 32 w .. + 31 of all tokens and
//!           columns, a lane 4 tokens x 4 columns of both; of the sums a lane keeps 2 tokens x 2 columns and adds those of
//!           the other three warps. D and o: these 2 x 2, a token of the first and one of the second half, so that every
//!           warp skips as much above the diagonal. Update: rows 32 w + 4 ts .. + 3 of columns 4 cq .. + 3, whose 16
//!           values stay in registers for the whole launch; shared memory has a copy by columns for the products
//! Order     S^T k, S^T q: fma chain of a warp's 32 rows, r ascending; own part plus that of warp w xor 1, plus the sum of
//!           those of w xor 2 and w xor 3. D, o, update: fma chain from 0 over tokens, ascending; o and S last, one fma
//! Staging   k and q of the next chunk while this one runs, two buffers; T and P of this chunk from its start on, v and
//!           decays in registers from then on: all of them are used after the products
//! Barriers  a chunk has one of the block (rows have landed, the other buffer and T, P, the parts have no reader left, the
//!           copy of S is whole) and three of each head's 128 threads: parts are there; Y is there, the parts are read, T
//!           and P have landed; D is there
//! Loads     lanes that differ in bit 0 (a column slot) read the same token rows, in bit 1 (a token slot) the same columns:
//!           a 16-byte load of pairs takes 2 cycles of the SM's shared memory, not 4
//! Budget    184 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`

use cuda_std::barrier::sync_named;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{copy, float, global, int, kernel, shared};

use super::RecParams;
use super::rec_chunk32::{CHUNK, KEYS, MATRIX_PITCH, ROW_PITCH, Record, at_token, copy_keys};
use crate::geometry::{HEAD_DIM, OUTPUT_SCALE};

/// Columns of a block.
pub const COLUMNS: usize = 16;
/// Blocks of a key head.
pub const BLOCKS: usize = HEAD_DIM / COLUMNS;
/// Threads of a value head.
pub const HEAD_THREADS: u32 = 128;
const HEAD_WARPS: usize = 4;

/// f32 of a staged matrix.
const MATRIX: usize = CHUNK * MATRIX_PITCH;
/// f32 from a column of Y or D to the next: scalar stores of a warp and 16-byte loads then use all banks once.
const COLUMN_PITCH: usize = CHUNK + 8;
/// f32 from a token of the scaled D to the next, for the same reason.
const TOKEN_PITCH: usize = COLUMNS + 4;
/// f32 of what a warp sends to another: 8 of each lane.
const PART: usize = 8 * 32;

// Shared memory in f32: two buffers of k and q rows, then for each head the parts below.
const STATE_AT: usize = 0; // the state by columns; read by the products, written by the update
const MATRIX_AT: usize = STATE_AT + COLUMNS * ROW_PITCH; // T, then P
const Y_AT: usize = MATRIX_AT + 2 * MATRIX; // Y by columns
const PARTS_AT: usize = Y_AT + COLUMNS * COLUMN_PITCH; // parts of the products, 3 of each warp; then D, scaled D
const D_AT: usize = PARTS_AT; // D by columns
const SCALED_AT: usize = D_AT + COLUMNS * COLUMN_PITCH; // exp(G_L - G_t) D_t by tokens
const HEAD_LEN: usize = PARTS_AT + 3 * HEAD_WARPS * PART;
const _: () = assert!(SCALED_AT + CHUNK * TOKEN_PITCH <= HEAD_LEN && HEAD_LEN.is_multiple_of(4));

/// Dynamic shared memory of the kernel for `vpk` heads.
#[must_use]
pub const fn shared_bytes(vpk: usize) -> usize {
    4 * (2 * KEYS + vpk * HEAD_LEN)
}
const _: () = assert!(shared_bytes(3) <= 166_912 && shared_bytes(4) <= 232_448); // opt-in of compute capability 8.0, 9.0

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
    unsafe { body::<1, 4, 8>(p) }
}

/// # Safety
/// As [`delta_rec_chunk32_scan_vpk1`] with value_heads = 2 key_heads, block 256.
#[kernel(sm = 80)]
#[launch_bounds(bounds(2))]
pub unsafe fn delta_rec_chunk32_scan_vpk2(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<2, 8, 8>(p) }
}

/// # Safety
/// As [`delta_rec_chunk32_scan_vpk1`] with value_heads = 3 key_heads, block 384.
#[kernel(sm = 80)]
#[launch_bounds(bounds(3))]
pub unsafe fn delta_rec_chunk32_scan_vpk3(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<3, 12, 8>(p) }
}

/// # Safety
/// As [`delta_rec_chunk32_scan_vpk1`] with value_heads = 4 key_heads, block 512.
#[kernel(sm = 80)]
#[launch_bounds(bounds(4))]
pub unsafe fn delta_rec_chunk32_scan_vpk4(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<4, 16, 4>(p) }
}

/// The kernel for `VPK` heads, `WARPS` = 4 `VPK`. The two long loops take `STEP` rows or tokens at once: unrolled as a whole,
/// ptxas loads far ahead and spills.
#[inline(always)]
unsafe fn body<const VPK: usize, const WARPS: usize, const STEP: usize>(p: RecParams) {
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
    // SAFETY: the part of the lane's head, behind both buffers.
    let part = unsafe { keys.add(2 * KEYS + lane.head * HEAD_LEN) };
    // SAFETY: rows 32 w + 4 ts + 3 < 128, columns 4 cq + 3 < 16 of the block's: only this thread touches them.
    let state = unsafe { p.state.add(lane.row * row_pitch + column + lane.quad) };
    let barrier = 1 + lane.head as u32;

    // SAFETY: the first chunk has a token; both buffers are fresh; all warps of the block call it.
    unsafe { copy_keys::<WARPS>(&p, 0, key_head, keys, lane.thread / 32, lane.id) };
    copy::cp_async_commit();
    let mut s = [[0.0f32; 4]; 4];
    for r in 0..4 {
        // SAFETY: as said at `state`; multiples of 16 bytes.
        s[r] = unsafe { global::load4(state.add(r * row_pitch)) };
    }
    // SAFETY: the lane's tile of the head's copy.
    unsafe { lane.store_state(part, &s) };

    // SAFETY: the record of the first chunk, written by prep.
    let mut record = unsafe { Record::new(&p, block_idx_y() as usize, 0, head) };
    let chunks = p.tokens.div_ceil(CHUNK as u32);
    let mut chunk = 0u32;
    while chunk < chunks {
        let buffer = chunk as usize % 2 * KEYS;
        let first = chunk * CHUNK as u32;
        let (lane, column) = (lane.again(), int::opaque(column));
        copy::cp_async_wait_all();
        sync_threads();
        // SAFETY: T and P, and the other buffer, have no reader left (see Barriers).
        unsafe { lane.copy_matrices(record, part) };
        copy::cp_async_commit();
        // SAFETY: as above; all warps of the block call it.
        unsafe { copy_keys::<WARPS>(&p, chunk + 1, key_head, keys.add(KEYS - buffer), lane.thread / 32, lane.id) };
        copy::cp_async_commit();
        // SAFETY: the record was written by prep; the columns are the call's.
        let (gates, v) = unsafe { (Gates::load(record, &lane), lane.load_values(&p, first, column)) };

        // SAFETY: rows have landed and the copy of S is whole; parts have no reader left.
        let (x, qs) = unsafe { lane.products::<STEP>(keys.add(buffer), part, barrier) };
        for j in 0..2 {
            for i in 0..2 {
                let y = float::fma(-gates.since_start[j], x[j][i], v[j][i]) * gates.beta[j];
                // SAFETY: the lane's own element of Y, whose last readers met at a barrier since.
                unsafe { shared::store(part.add(Y_AT + lane.column_at(i) + lane.token(j)), y) };
            }
        }
        // SAFETY: as for the gates. Not before the products, whose registers are all in use.
        let (until_end, whole) = unsafe {
            (
                [
                    global::load(record.until_end().add(lane.token(0))),
                    global::load(record.until_end().add(lane.token(1))),
                ],
                global::load(record.since_start().add(CHUNK - 1)),
            )
        };
        record = record.next(p.value_heads);
        copy::cp_async_wait_group::<1>(); // T and P
        // SAFETY: all 128 threads of the head, in whole warps.
        unsafe { sync_named(barrier, HEAD_THREADS) };
        let lane = lane.again();
        // SAFETY: T has landed, Y is there; the parts, over which D goes, are read.
        unsafe {
            let d = lane.triangular(part.add(MATRIX_AT), part.add(Y_AT));
            for j in 0..2 {
                for i in 0..2 {
                    let scaled = until_end[j] * d[j][i];
                    shared::store(part.add(D_AT + lane.column_at(i) + lane.token(j)), d[j][i]);
                    shared::store(part.add(SCALED_AT + lane.token(j) * TOKEN_PITCH + lane.column(i)), scaled);
                }
            }
            sync_named(barrier, HEAD_THREADS);
        }
        let lane = lane.again();
        // SAFETY: P has landed, D is there.
        unsafe {
            let o = lane.triangular(part.add(MATRIX_AT + MATRIX), part.add(D_AT));
            let y = p.y.wrapping_add(column + lane.left[0]);
            for j in 0..2 {
                let token = first + lane.token(j) as u32;
                let row = at_token(y, token, p.y_stride).cast_mut();
                let mut o_row = [0.0f32; 2];
                for i in 0..2 {
                    o_row[i] = float::fma(gates.since_start[j], qs[j][i], o[j][i]) * OUTPUT_SCALE;
                }
                if token < p.tokens {
                    global::store(row, o_row[0]);
                    global::store(row.add(4), o_row[1]);
                }
            }
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

/// What Y needs of a lane's two tokens.
struct Gates {
    since_start: [f32; 2],
    beta: [f32; 2],
}

impl Gates {
    /// # Safety
    /// The record is there.
    #[inline(always)]
    unsafe fn load(record: Record, lane: &Lane) -> Self {
        let (first, second) = (lane.token(0), lane.token(1));
        // SAFETY: tokens are below 32.
        unsafe {
            Self {
                since_start: [
                    global::load(record.since_start().add(first)),
                    global::load(record.since_start().add(second)),
                ],
                beta: [global::load(record.beta().add(first)), global::load(record.beta().add(second))],
            }
        }
    }
}

/// A lane's place in its head.
#[derive(Clone, Copy)]
struct Lane {
    /// Thread of the block.
    thread: usize,
    /// Lane in the warp.
    id: usize,
    /// Head of the block.
    head: usize,
    /// Warp in the head.
    warp: usize,
    /// Its first own token, and that of warp xor 1.
    near: [usize; 2],
    /// Its first own column, and that of warp xor 2.
    left: [usize; 2],
    /// First state row of the update.
    row: usize,
    /// First column of the update.
    quad: usize,
}

impl Lane {
    #[inline(always)]
    fn of(thread: usize) -> Self {
        let small = thread as u32; // the arithmetic below in 32 bits
        let (id, warp) = (small % 32, small / 32 % HEAD_WARPS as u32);
        let (ts, cq) = (id / 2 % 8, id % 2 + id / 16 * 2);
        let (near, left) = (8 * (warp % 2) + ts, 8 * (warp / 2) + cq);
        Self {
            thread,
            id: id as usize,
            head: (small / HEAD_THREADS) as usize,
            warp: warp as usize,
            near: [near as usize, (near ^ 8) as usize],
            left: [left as usize, (left ^ 8) as usize],
            row: (32 * warp + 4 * ts) as usize,
            quad: 4 * cq as usize,
        }
    }

    /// The same place, made anew from a number that the compiler does not know: else it keeps the addresses of all stages in
    /// registers, from before the first chunk on.
    #[inline(always)]
    fn again(&self) -> Self {
        Self::of(int::opaque(self.thread))
    }

    /// Token of slot `slot`: 0 and 1 are the lane's own, 2 and 3 those of warp xor 1. Even warps own the first and the last
    /// eight tokens, odd ones those between.
    #[inline(always)]
    fn token(&self, slot: usize) -> usize {
        match slot {
            0 => self.near[0],
            1 => self.near[1] + 16,
            2 => self.near[1],
            _ => self.near[0] + 16,
        }
    }

    /// Column of slot `slot`: 0 and 1 are the lane's own, 2 and 3 those of warp xor 2.
    #[inline(always)]
    fn column(&self, slot: usize) -> usize {
        self.left[slot / 2] + 4 * (slot % 2)
    }

    /// Where the column of slot `slot` starts in Y and D.
    #[inline(always)]
    fn column_at(&self, slot: usize) -> usize {
        self.left[slot / 2] * COLUMN_PITCH + 4 * (slot % 2) * COLUMN_PITCH
    }

    /// Writes the lane's tile of the state to the head's copy.
    ///
    /// # Safety
    /// `part` is the head's part of shared memory; its copy of the state has no reader.
    #[inline(always)]
    unsafe fn store_state(&self, part: *mut f32, s: &[[f32; 4]; 4]) {
        for c in 0..4 {
            let at = STATE_AT + (self.quad + c) * ROW_PITCH + self.row;
            // SAFETY: row + 3 < 128, column < 16; multiples of 4 floats.
            unsafe { shared::store4(part.add(at), [s[0][c], s[1][c], s[2][c], s[3][c]]) };
        }
    }

    /// Starts the copies of T and P on and below the diagonal, 8 x 8 blocks at a time; the caller closes the group.
    ///
    /// # Safety
    /// The record is there; T and P in `part` have no reader; all 128 threads of the head call it.
    #[inline(always)]
    unsafe fn copy_matrices(&self, record: Record, part: *mut f32) {
        let thread = self.thread as u32 % HEAD_THREADS;
        for half in 0..2 {
            let (row, quad) = (16 * half + thread / 8, thread % 8);
            if quad / 2 <= row / 8 {
                let from = 16 * half * CHUNK as u32 + 4 * thread; // row * 32 + 4 quad
                let to = MATRIX_AT as u32 + row * MATRIX_PITCH as u32 + 4 * quad;
                // SAFETY: `row < 32`, `quad < 8`; multiples of 4 floats.
                unsafe {
                    copy::cp_async16(part.add(to as usize), record.solved().add(from as usize));
                    copy::cp_async16(part.add(to as usize + MATRIX), record.products().add(from as usize));
                }
            }
        }
    }

    /// v of the lane's tokens, counted from `first`, and columns; 0 behind the last token.
    ///
    /// # Safety
    /// `p` is a block's call, `column` the first of the block's columns of its head, counted over all heads.
    #[inline(always)]
    unsafe fn load_values(&self, p: &RecParams, first: u32, column: usize) -> [[f32; 2]; 2] {
        let values = p.qkv.wrapping_add(2 * p.key_heads as usize * HEAD_DIM + column + self.left[0]);
        let mut v = [[0.0f32; 2]; 2];
        for j in 0..2 {
            let token = first + self.token(j) as u32;
            if token < p.tokens {
                let row = at_token(values, token, p.qkv_stride);
                // SAFETY: the token is one of the sequence's, own columns are 4 apart.
                v[j] = unsafe { [global::load(row), global::load(row.add(4))] };
            }
        }
        v
    }

    /// S^T k and S^T q of the lane's own tokens and columns: `[token][column]`.
    ///
    /// # Safety
    /// `keys` is a landed buffer, the head's copy of the state whole, its parts without readers; all 128 threads of the head
    /// call it with the head's barrier.
    #[inline(always)]
    unsafe fn products<const STEP: usize>(
        &self,
        keys: *const f32,
        part: *mut f32,
        barrier: u32,
    ) -> ([[f32; 2]; 2], [[f32; 2]; 2]) {
        let (mut x, mut qs) = ([[0.0f32; 4]; 4], [[0.0f32; 4]; 4]);
        let rows = 32 * self.warp;
        // SAFETY: tokens are below 32, columns below 16; multiples of 4 floats, here and below.
        let (mut keys, mut columns) = unsafe {
            (
                [keys.add(self.near[0] * ROW_PITCH + rows), keys.add(self.near[1] * ROW_PITCH + rows)],
                [
                    part.cast_const().add(STATE_AT + self.left[0] * ROW_PITCH + rows),
                    part.cast_const().add(STATE_AT + self.left[1] * ROW_PITCH + rows),
                ],
            )
        };
        let mut steps = int::opaque(32 / STEP) as u32;
        while steps > 0 {
            for r in (0..STEP).step_by(4) {
                let mut s = [[0.0f32; 4]; 4];
                for c in 0..4 {
                    // SAFETY: `32 w + 32 <= 128` rows of the state, four of them from here on.
                    s[c] = unsafe { shared::load4(columns[c / 2].add(4 * (c % 2) * ROW_PITCH + r)) };
                }
                for t in 0..4 {
                    // Slots 0 and 3 start from the lane's first token, 1 and 2 from that of warp xor 1 (see `token`).
                    let (near, far) = ([0, 1, 1, 0][t], [0, 16, 0, 16][t]);
                    // SAFETY: as above; q rows follow the 32 k rows.
                    let (k, q) = unsafe {
                        let row = keys[near].add(far * ROW_PITCH + r);
                        (shared::load4(row), shared::load4(row.add(CHUNK * ROW_PITCH)))
                    };
                    for e in 0..4 {
                        for c in 0..4 {
                            x[t][c] = float::fma(k[e], s[c][e], x[t][c]);
                            qs[t][c] = float::fma(q[e], s[c][e], qs[t][c]);
                        }
                    }
                }
            }
            for i in 0..2 {
                // SAFETY: at most just behind the warp's rows.
                unsafe {
                    keys[i] = keys[i].add(STEP);
                    columns[i] = columns[i].add(STEP);
                }
            }
            steps -= 1;
        }
        // Part m - 1 of warp w goes to warp w xor m: bit 0 chooses tokens, bit 1 columns.
        for m in 1..4 {
            let (t, c) = (2 * (m % 2), 2 * (m / 2));
            // SAFETY: `3 * 4` parts of 8 f32 a lane; multiples of 4 floats.
            unsafe {
                let to = part.add(PARTS_AT + ((m - 1) * HEAD_WARPS + self.warp) * PART + 4 * self.id);
                shared::store4(to, [x[t][c], x[t][c + 1], x[t + 1][c], x[t + 1][c + 1]]);
                shared::store4(to.add(PART / 2), [qs[t][c], qs[t][c + 1], qs[t + 1][c], qs[t + 1][c + 1]]);
            }
        }
        // SAFETY: all 128 threads of the head, in whole warps.
        unsafe { sync_named(barrier, HEAD_THREADS) };
        let mut got = [[[0.0f32; 4]; 2]; 3];
        for m in 1..4 {
            // SAFETY: as above; the sender has written them before the barrier.
            unsafe {
                let from = part.add(PARTS_AT + ((m - 1) * HEAD_WARPS + (self.warp ^ m)) * PART + 4 * self.id);
                got[m - 1] = [shared::load4(from), shared::load4(from.add(PART / 2))];
            }
        }
        let (mut own_x, mut own_qs) = ([[0.0f32; 2]; 2], [[0.0f32; 2]; 2]);
        for j in 0..2 {
            for i in 0..2 {
                let e = 2 * j + i;
                own_x[j][i] = (x[j][i] + got[0][0][e]) + (got[1][0][e] + got[2][0][e]);
                own_qs[j][i] = (qs[j][i] + got[0][1][e]) + (got[1][1][e] + got[2][1][e]);
            }
        }
        (own_x, own_qs)
    }

    /// Rows of the lane's two tokens of the product of a lower triangular matrix and its two columns: `[token][column]`.
    ///
    /// # Safety
    /// `matrix` is T or P, whose 8 x 8 blocks above the diagonal are not read; `columns` is Y or D; nobody writes them.
    #[inline(always)]
    unsafe fn triangular(&self, matrix: *const f32, columns: *const f32) -> [[f32; 2]; 2] {
        // SAFETY: tokens and columns are below 32 and 16.
        let (rows, columns) = unsafe {
            (
                [matrix.add(self.token(0) * MATRIX_PITCH), matrix.add(self.token(1) * MATRIX_PITCH)],
                columns.add(self.column_at(0)),
            )
        };
        let mut sum = [[0.0f32; 2]; 2];
        // SAFETY: `i + 3 < 32`, below the end of the token's block on the diagonal; this function's contract.
        unsafe {
            both(&mut sum, rows, columns, 0);
            // Even warps have tokens 0 to 7 and 24 to 31, odd ones 8 to 15 and 16 to 23. No branch has an else: LLVM 22 would
            // merge the ends of both and split their loads.
            if !self.warp.is_multiple_of(2) {
                one(&mut sum[0], rows[0], columns, 8);
            }
            one(&mut sum[1], rows[1], columns, 8);
            one(&mut sum[1], rows[1], columns, 16);
            if self.warp.is_multiple_of(2) {
                one(&mut sum[1], rows[1], columns, 24);
            }
        }
        sum
    }

    /// S = whole * S + sum over tokens of k_t times the scaled D_t.
    ///
    /// # Safety
    /// `keys` is a landed buffer, `scaled` the scaled D, complete; nobody writes them.
    #[inline(always)]
    unsafe fn update<const STEP: usize>(
        &self,
        s: &mut [[f32; 4]; 4],
        whole: f32,
        keys: *const f32,
        scaled: *const f32,
    ) {
        let mut sum = [[0.0f32; 4]; 4];
        // SAFETY: row + 3 < 128, quad + 3 < 16; multiples of 4 floats, here and below.
        let (mut k_row, mut d_row) = unsafe { (keys.add(self.row), scaled.add(self.quad)) };
        let mut steps = int::opaque(CHUNK / STEP) as u32;
        while steps > 0 {
            for t in 0..STEP {
                // SAFETY: 32 tokens in all.
                let (k, d) =
                    unsafe { (shared::load4(k_row.add(t * ROW_PITCH)), shared::load4(d_row.add(t * TOKEN_PITCH))) };
                for r in 0..4 {
                    for c in 0..4 {
                        sum[r][c] = float::fma(k[r], d[c], sum[r][c]);
                    }
                }
            }
            // SAFETY: at most just behind the last token.
            unsafe {
                k_row = k_row.add(STEP * ROW_PITCH);
                d_row = d_row.add(STEP * TOKEN_PITCH);
            }
            steps -= 1;
        }
        for r in 0..4 {
            for c in 0..4 {
                s[r][c] = float::fma(whole, s[r][c], sum[r][c]);
            }
        }
    }
}

/// Adds the terms of tokens `first` to `first + 7` to both rows.
///
/// # Safety
/// As [`Lane::triangular`]; neither row's block on the diagonal ends before `first + 8`.
#[inline(always)]
unsafe fn both(sum: &mut [[f32; 2]; 2], rows: [*const f32; 2], columns: *const f32, first: usize) {
    for i in (first..first + 8).step_by(4) {
        // SAFETY: this function's contract; multiples of 4 floats.
        let (m, y) = unsafe {
            (
                [shared::load4(rows[0].add(i)), shared::load4(rows[1].add(i))],
                [shared::load4(columns.add(i)), shared::load4(columns.add(4 * COLUMN_PITCH + i))],
            )
        };
        for e in 0..4 {
            for j in 0..2 {
                for c in 0..2 {
                    sum[j][c] = float::fma(m[j][e], y[c][e], sum[j][c]);
                }
            }
        }
    }
}

/// Adds the terms of tokens `first` to `first + 7` to one row.
///
/// # Safety
/// As [`both`], for this row alone.
#[inline(always)]
unsafe fn one(sum: &mut [f32; 2], row: *const f32, columns: *const f32, first: usize) {
    for i in (first..first + 8).step_by(4) {
        // SAFETY: this function's contract; multiples of 4 floats.
        let (m, y) = unsafe {
            (
                shared::load4(row.add(i)),
                [shared::load4(columns.add(i)), shared::load4(columns.add(4 * COLUMN_PITCH + i))],
            )
        };
        for e in 0..4 {
            for c in 0..2 {
                sum[c] = float::fma(m[e], y[c][e], sum[c]);
            }
        }
    }
}
