//! `delta.rec/keyhead`: a thread holds 32 state rows of one column for all value heads of a key head.
//!
//! Math      the module's recurrence; k and q are read once for `VPK` heads
//! Shapes    `RecParams` with value_heads = VPK * key_heads, VPK = 1, 2, 3 or 4; any token count
//! Mapping   block (key head kh, column block cb of 32) = 4 kh + cb; thread (x, y): column 32 cb + x, rows 32 y .. + 31 of
//!           heads kh + j key_heads, j < VPK: 32 VPK state registers
//! Order     as `cols`: the same operations in the same order for each (head, column, row group)
//! Staging   8 tokens a buffer, two buffers, one cp.async group a buffer; tokens past the end are neither copied nor used;
//!           log decays become decays in place, before barrier 1 of the buffer's first token
//! Barriers  two a token and one more every 8 tokens, by all 128 threads. kv partials of token i are read before barrier
//!           2 of i and written again after it; o partials of i are read after barrier 2 of i and written after barrier 1
//!           of i + 1; the buffer refilled for block b + 1 was last read by block b - 1 before its last barrier 2
//! Budget    254 registers, 29,184 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `delta.rec/cols`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x, thread_idx_y};
use cuda_std::{copy, float, global, int, kernel, shared, shared_array};

use super::{RecParams, correction, group_sum, output, update_row};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, MAX_VPK, ROW_GROUPS};

/// 32 columns by 4 row groups; two blocks an SM keep the 64 blocks of 16 key heads resident on 32 SMs.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 2 };
/// Columns of a block.
pub const COLUMNS: usize = 32;
/// Tokens of a staging buffer.
const STAGE: usize = 8;
/// Heads that shared memory has room for.
const HEADS: usize = MAX_VPK as usize;
/// f32 of a token's q and k rows in a buffer: q at 0, k at 128.
const QK: usize = 2 * HEAD_DIM;

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, value_heads = key_heads; grid `key_heads * 4`, block 32 x 4.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_keyhead_vpk1(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<1>(p) }
}

/// # Safety
/// As [`delta_rec_keyhead_vpk1`] with value_heads = 2 key_heads.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_keyhead_vpk2(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<2>(p) }
}

/// # Safety
/// As [`delta_rec_keyhead_vpk1`] with value_heads = 3 key_heads.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_keyhead_vpk3(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<3>(p) }
}

/// # Safety
/// As [`delta_rec_keyhead_vpk1`] with value_heads = 4 key_heads.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_keyhead_vpk4(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<4>(p) }
}

/// The kernel for `VPK` heads. Statics cannot depend on `VPK`, so shared memory is laid out for the most heads.
#[inline(always)]
unsafe fn body<const VPK: usize>(p: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let part = unsafe { p.part() };
    if part.tokens == 0 {
        return;
    }
    let (x, group) = (thread_idx_x() as usize, thread_idx_y() as usize);
    let (key_head, column_block) = (block_idx_x() as usize / ROW_GROUPS, block_idx_x() as usize % ROW_GROUPS);
    let thread = group * COLUMNS + x;
    let key_heads = p.key_heads as usize;
    let key_width = key_heads * HEAD_DIM;
    let row_pitch = p.value_heads as usize * HEAD_DIM;
    let column = column_block * COLUMNS;
    let tokens = part.tokens as usize;
    let qk = shared_array![f32; 2 * STAGE * QK];
    let v = shared_array![f32; 2 * STAGE * HEADS * COLUMNS];
    let gates = shared_array![f32; 2 * STAGE * HEADS * 2];
    let kv_partial = shared_array![f32; HEADS * HEAD_DIM];
    let o_partial = shared_array![f32; HEADS * HEAD_DIM];

    // Starts the copies of the tokens from `first` on into buffer `buffer`; one group, empty past the end.
    let stage = |first: usize, buffer: usize| {
        let n = tokens.saturating_sub(first).min(STAGE);
        // SAFETY: every token copied is one of the part's; sources stay in their token's rows, destinations in their buffer;
        // all addresses are multiples of 16 bytes (of 4 for gates). The buffer has no reader left (see Barriers).
        unsafe {
            for i in 0..STAGE * 2 * HEAD_DIM / 4 / 128 {
                let piece = thread + 128 * i;
                let (t, quad) = (piece / 64, piece % 64);
                if t < n {
                    let from =
                        (part.first + first + t) * p.qkv_stride as usize + quad / 32 * key_width + key_head * HEAD_DIM;
                    let to = (buffer * STAGE + t) * QK + quad * 4;
                    copy::cp_async16(qk.add(to), p.qkv.add(from + quad % 32 * 4));
                }
            }
            for i in 0..(STAGE * VPK * COLUMNS / 4).div_ceil(128) {
                let piece = thread + 128 * i;
                let (t, j, quad) = (piece / (VPK * 8), piece / 8 % VPK, piece % 8);
                if t < n {
                    let head = key_head + j * key_heads;
                    let from =
                        (part.first + first + t) * p.qkv_stride as usize + 2 * key_width + head * HEAD_DIM + column;
                    let to = ((buffer * STAGE + t) * VPK + j) * COLUMNS + quad * 4;
                    copy::cp_async16(v.add(to), p.qkv.add(from + quad * 4));
                }
            }
            let (t, j, which) = (thread / (2 * VPK), thread / 2 % VPK, thread % 2);
            if t < n {
                let (source, stride) = if which == 0 { (p.gate, p.gate_stride) } else { (p.beta, p.beta_stride) };
                let from = source.add((part.first + first + t) * stride as usize + key_head + j * key_heads);
                copy::cp_async4(gates.add((buffer * STAGE + t) * 2 * VPK + 2 * j + which), from);
            }
        }
        copy::cp_async_commit();
    };

    // SAFETY: the grid has 4 blocks a key head, so all rows, heads and columns below are inside the state; only this
    // thread touches these elements.
    let state = unsafe { part.state.add(GROUP_ROWS * group * row_pitch + key_head * HEAD_DIM + column + x) };
    stage(0, 0);
    let mut s = [[0.0f32; GROUP_ROWS]; VPK];
    for j in 0..VPK {
        for r in 0..GROUP_ROWS {
            // SAFETY: as above.
            s[j][r] = unsafe { global::load(state.add(r * row_pitch + j * key_width)) };
        }
    }
    // SAFETY: `j < VPK`, `i < 4`, `x < 32` stay in the partial arrays; the barriers order writers and readers.
    let gather = |part: *mut f32, j: usize| unsafe {
        [0, 1, 2, 3].map(|i| shared::load(part.add((j * ROW_GROUPS + i) * COLUMNS + x)))
    };

    let mut first = 0;
    while first < tokens {
        let buffer = first / STAGE % 2;
        stage(first + STAGE, 1 - buffer);
        copy::cp_async_wait_group::<1>();
        sync_threads();
        if thread < STAGE * VPK {
            // SAFETY: inside the buffer, which has landed; only this thread touches the element before barrier 1 of the
            // buffer's first token. Past the last token it holds anything, and nothing uses it.
            unsafe {
                let gate = gates.add((buffer * STAGE * VPK + thread) * 2);
                shared::store(gate, float::exp(shared::load(gate)));
            }
        }
        for t in 0..(tokens - first).min(STAGE) {
            let slot = buffer * STAGE + t;
            let mut k = [0.0f32; GROUP_ROWS];
            let mut kv = [0.0f32; VPK];
            for r in (0..GROUP_ROWS).step_by(4) {
                // SAFETY: `128 + 32 group + r + 3 < 256`, a multiple of 4; the buffer has landed.
                let four = unsafe { shared::load4(qk.add(slot * QK + HEAD_DIM + GROUP_ROWS * group + r)) };
                for i in 0..4 {
                    k[r + i] = four[i];
                    for j in 0..VPK {
                        kv[j] = float::fma(s[j][r + i], four[i], kv[j]);
                    }
                }
            }
            for j in 0..VPK {
                // SAFETY: own element of each head's partials.
                unsafe { shared::store(kv_partial.add(j * HEAD_DIM + thread), kv[j]) };
            }
            sync_threads();
            let (mut g, mut d, mut o) = ([0.0f32; VPK], [0.0f32; VPK], [0.0f32; VPK]);
            for j in 0..VPK {
                // SAFETY: `slot < 16`, `j < VPK`, `x < 32`; the buffer has landed.
                let ([decay, beta], v) = unsafe {
                    (
                        shared::load2(gates.add((slot * VPK + j) * 2)),
                        shared::load(v.add((slot * VPK + j) * COLUMNS + x)),
                    )
                };
                g[j] = decay;
                d[j] = correction(decay, group_sum(gather(kv_partial, j)), v, beta);
            }
            for r in (0..GROUP_ROWS).step_by(4) {
                // SAFETY: as for k.
                let q = unsafe { shared::load4(qk.add(slot * QK + GROUP_ROWS * group + r)) };
                for i in 0..4 {
                    for j in 0..VPK {
                        update_row(&mut s[j][r + i], &mut o[j], g[j], d[j], k[r + i], q[i]);
                    }
                }
            }
            for j in 0..VPK {
                // SAFETY: own element of each head's partials.
                unsafe { shared::store(o_partial.add(j * HEAD_DIM + thread), o[j]) };
            }
            sync_threads();
            if group < VPK {
                let y = (part.first + first + t) * p.y_stride as usize
                    + (key_head + group * key_heads) * HEAD_DIM
                    + column
                    + x;
                // SAFETY: the token is below `tokens`, head and column inside the row; one writer an element.
                unsafe { global::store(p.y.add(y), output(gather(o_partial, group))) };
            }
        }
        first += STAGE;
    }
    copy::cp_async_wait_all();
    if p.keep_state == 0 {
        let row_pitch = int::opaque(row_pitch); // else 32 VPK addresses stay in registers from the loads on
        for j in 0..VPK {
            for r in 0..GROUP_ROWS {
                // SAFETY: as for the loads of the state.
                unsafe { global::store(state.add(r * row_pitch + j * key_width), s[j][r]) };
            }
        }
    }
}
