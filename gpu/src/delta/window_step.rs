//! `delta.rec/window`: 1 to 8 tokens of a decode window, a warp for 16 columns of a head, no barrier.
//!
//! Math      the module's recurrence
//! Shapes    `RecParams` with tokens <= 8; any head counts with value_heads a multiple of key_heads
//! Mapping   block of one warp: block b = head b / 8, columns 16 (b mod 8) ..; lane l: rows 32 (l / 8) .. + 31 of columns
//!           2 (l mod 8) and the next: 64 state registers, loaded once, stored once
//! Order     as `cols`; sums cross lanes by shuffles and are added p0, p1, p2, p3
//! Staging   q and k rows of all tokens by cp.async while the state loads, 36 f32 a row group (different banks)
//! Budget    168 registers, 9,216 B shared, 0 B local (tests/tests/ptx/budgets.rs)
//! Promise   Bitwise against `delta.rec/cols`

use cuda_std::launch::Bounds;
use cuda_std::thread::block_idx_x;
use cuda_std::{copy, float, global, kernel, shared, shared_array, warp};

use super::row_group::{HeadRows, PITCH, PLACES, Place, ROW, StatePart, kv_partial, read_row};
use super::{RecParams, update_row};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, WINDOW_TOKENS};

/// One warp a block: the 384 warps of 48 heads spread over all SMs.
pub const BOUNDS: Bounds = Bounds { threads: 32, min_blocks: 1 };
/// Columns of a lane.
pub(super) const C: usize = 2;
/// Columns of a block.
pub const COLUMNS: usize = PLACES * C;
/// Blocks of a head.
pub const BLOCKS: usize = HEAD_DIM / COLUMNS;
/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, tokens <= 8; grid `value_heads * 8`, block 32.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_window(p: RecParams) {
    let place = Place::here();
    let (head, column) = (block_idx_x() as usize / BLOCKS, block_idx_x() as usize % BLOCKS * COLUMNS);
    let rows = HeadRows::new(p.key_heads, head);
    let tokens = p.tokens as usize;
    let q_rows = shared_array![f32; WINDOW_TOKENS * ROW];
    let k_rows = shared_array![f32; WINDOW_TOKENS * ROW];
    // SAFETY: `tokens <= 8` rows of the token's q, k, v row; the destinations hold 8 rows.
    unsafe {
        stage_rows(q_rows, p.qkv.add(rows.q), p.qkv_stride, tokens);
        stage_rows(k_rows, p.qkv.add(rows.k), p.qkv_stride, tokens);
    }
    // SAFETY: the grid has 8 blocks a head; only this lane touches its part.
    let part = unsafe { StatePart::new::<C>(p.state, p.value_heads, head, column, place) };
    let mut s = part.load::<C>();
    // SAFETY: `tokens >= 1`, all addresses inside the token's rows.
    let mut ahead = unsafe { Token::load(&p, rows, head, column, place, 0) };
    copy::cp_async_wait_all();
    warp::sync_warp(u32::MAX);

    for t in 0..tokens {
        let now = ahead;
        if t + 1 < tokens {
            // SAFETY: as above.
            ahead = unsafe { Token::load(&p, rows, head, column, place, t + 1) };
        }
        // SAFETY: `t < tokens`, staged and waited for.
        let k = unsafe { read_row(k_rows.add(t * ROW), place) };
        let d = now.corrections(place, kv_partial(&s, &k));
        let mut o = [0.0f32; C];
        for r in (0..GROUP_ROWS).step_by(4) {
            // SAFETY: as for k; `36 group + r + 3 < 144`, a multiple of 4.
            let q = unsafe { shared::load4(q_rows.add(t * ROW + place.group * PITCH + r)) };
            for i in 0..4 {
                for c in 0..C {
                    update_row(&mut s[c][r + i], &mut o[c], now.g, d[c], k[r + i], q[i]);
                }
            }
        }
        // SAFETY: `t < tokens`; the head's columns are inside the row.
        unsafe { place.store_one(p.y.add(t * p.y_stride as usize + head * HEAD_DIM + column), o) };
    }
    if p.keep_state == 0 {
        part.store(&s);
    }
}

/// A token's decay, beta and the lane's two values.
#[derive(Clone, Copy)]
pub(super) struct Token {
    pub g: f32,
    beta: f32,
    v: [f32; C],
}

impl Token {
    /// Loads token `t`.
    ///
    /// # Safety
    /// `t` is a token of the call; head and columns are inside the rows.
    #[inline(always)]
    unsafe fn load(p: &RecParams, rows: HeadRows, head: usize, column: usize, place: Place, t: usize) -> Self {
        // SAFETY: this function's contract.
        unsafe {
            let v = p.qkv.add(t * p.qkv_stride as usize + rows.v + column + C * place.place);
            let gate = p.gate.add(t * p.gate_stride as usize + head);
            Self::read(v, gate, p.beta.add(t * p.beta_stride as usize + head))
        }
    }

    /// Reads the two values at `v`, the log decay and beta.
    ///
    /// # Safety
    /// All readable, `v` a multiple of 8 bytes.
    #[inline(always)]
    pub unsafe fn read(v: *const f32, gate: *const f32, beta: *const f32) -> Self {
        // SAFETY: this function's contract.
        unsafe { Self { g: float::exp(global::load(gate)), beta: global::load(beta), v: global::load2(v) } }
    }

    /// The corrections of the lane's columns from their kv partials.
    #[inline(always)]
    pub fn corrections(self, place: Place, kv: [f32; C]) -> [f32; C] {
        place.corrections(kv, self.g, self.beta, self.v)
    }
}

/// Starts the copies of `tokens` rows of 128 f32 to shared memory, a 16-byte piece a lane and row.
///
/// # Safety
/// `tokens <= 8`; `from` has that many rows, `stride` apart, multiples of 16 bytes; `to` holds 8 staged rows.
#[inline(always)]
pub(super) unsafe fn stage_rows(to: *mut f32, from: *const f32, stride: u32, tokens: usize) {
    let lane = warp::lane_id() as usize;
    for t in 0..tokens {
        // SAFETY: this function's contract; 32 lanes cover a row of 32 pieces.
        unsafe {
            let to = to.add(t * ROW + lane / 8 * PITCH + lane % 8 * 4);
            copy::cp_async16(to, from.add(t * stride as usize + lane * 4));
        }
    }
    copy::cp_async_commit();
}
