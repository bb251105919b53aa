//! The four row groups of a column in four lanes of one warp: what `lanes` and the window kernels share.
//!
//! Lane l holds rows 32 g .. + 31 of row group g = l / 8, for columns 2 p and 2 p + 1 of place p = l mod 8; a warp covers
//! 16 columns. Partial sums cross lanes by shuffles, so no barrier is needed, and are added in the order of the contract.

use cuda_std::{float, global, int, shared, warp};

use super::{correction, group_sum, output, update_row};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, ROW_GROUPS};

/// Lanes of a row group: places in a warp's column range.
const PLACES: usize = 8;
/// Columns of a warp, two a place.
pub const COLUMNS: usize = 2 * PLACES;
/// Column blocks of a head.
pub const BLOCKS: usize = HEAD_DIM / COLUMNS;
/// f32 from a row group's values to the next in a staged row: 4 more than 32, so that the groups use different banks.
pub const PITCH: usize = GROUP_ROWS + 4;
/// f32 of a staged q or k row.
pub const ROW: usize = ROW_GROUPS * PITCH;

/// A lane's part of a head's columns.
#[derive(Clone, Copy)]
pub struct Place {
    /// Row group, 0 to 3.
    pub group: usize,
    /// Place in the warp's columns, 0 to 7.
    pub place: usize,
}

impl Place {
    /// The calling lane's place.
    #[inline(always)]
    pub fn here() -> Self {
        let lane = warp::lane_id() as usize;
        Self { group: lane / PLACES, place: lane % PLACES }
    }

    /// Corrections of the lane's columns from the kv partials of all row groups. All lanes of the warp must call it.
    #[inline(always)]
    pub fn corrections(self, kv: [f32; 2], g: f32, beta: f32, v: [f32; 2]) -> [f32; 2] {
        let mut d = [0.0; 2];
        for c in 0..2 {
            let partials = [0, 1, 2, 3].map(|j| warp::shfl_idx(kv[c], (PLACES * j + self.place) as u32));
            d[c] = correction(g, group_sum(partials), v[c], beta);
        }
        d
    }

    /// Writes one token's outputs of the warp's 16 columns, which start at `y`: group 0 writes column 0 of each place,
    /// group 2 column 1. All lanes must call it.
    ///
    /// # Safety
    /// `y .. y + 16` is part of the token's output row.
    #[inline(always)]
    pub unsafe fn store_one(self, y: *mut f32, o: [f32; 2]) {
        let upper = self.group >= 2;
        let (keep, send) = if upper { (o[1], o[0]) } else { (o[0], o[1]) };
        let received = warp::shfl_xor(send, 16);
        let (low, high) = if upper { (received, keep) } else { (keep, received) };
        let value = output([low, warp::shfl_xor(low, 8), high, warp::shfl_xor(high, 8)]);
        if self.group.is_multiple_of(2) {
            // SAFETY: `2 place + 1 < 16`; one lane writes an element.
            unsafe { global::store(y.add(2 * self.place + self.group / 2), value) };
        }
    }

    /// Writes two tokens' outputs, `stride` apart, of the warp's 16 columns: group g writes column g mod 2 of token g / 2.
    /// A 4 x 4 transpose over the groups, two shuffles a token. All lanes must call it.
    ///
    /// # Safety
    /// `y .. y + 16` and `y + stride .. y + stride + 16` are parts of two output rows.
    #[inline(always)]
    pub unsafe fn store_two(self, y: *mut f32, stride: usize, first: [f32; 2], second: [f32; 2]) {
        let (upper, odd) = (self.group >= 2, self.group % 2 == 1);
        // Groups 0 and 1 keep the first token, 2 and 3 the second; the other half's partials come from group xor 2.
        let (keep, send) = if upper { (second, first) } else { (first, second) };
        let received = send.map(|o| warp::shfl_xor(o, 16));
        // Partials of this half's token by column: from groups 0 or 1 (low) and from groups 2 or 3 (high).
        let (low, high) = if upper { (received, keep) } else { (keep, received) };
        // Even groups keep column 0 and get its partials of the odd groups, and the other way round.
        let (own, other) =
            if odd { ([low[1], high[1]], [low[0], high[0]]) } else { ([low[0], high[0]], [low[1], high[1]]) };
        let got = other.map(|o| warp::shfl_xor(o, 8));
        let value = output(if odd { [got[0], own[0], got[1], own[1]] } else { [own[0], got[0], own[1], got[1]] });
        let at = 2 * self.place + self.group % 2 + if upper { stride } else { 0 };
        // SAFETY: `2 place + 1 < 16`; one lane writes an element.
        unsafe { global::store(y.add(at), value) };
    }
}

/// State rows of a lane's columns, and the kv partials of the coming token.
pub struct Carried {
    /// `s[c][r]`.
    pub s: [[f32; GROUP_ROWS]; 2],
    /// kv partials of the coming token.
    pub kv: [f32; 2],
}

impl Carried {
    /// Updates the state with key row `k` and corrections `d`; returns the output partials, forms the kv partials with
    /// the next token's key row, and leaves that row in `k_next`.
    ///
    /// # Safety
    /// `q_row` and `k_row` are the lane's 32 values in shared memory, 16-byte aligned.
    #[inline(always)]
    pub unsafe fn advance(
        &mut self,
        g: f32,
        d: [f32; 2],
        k: &[f32; GROUP_ROWS],
        q_row: *const f32,
        k_row: *const f32,
        k_next: &mut [f32; GROUP_ROWS],
    ) -> [f32; 2] {
        let mut o = [0.0f32; 2];
        self.kv = [0.0; 2];
        for r in (0..GROUP_ROWS).step_by(4) {
            // SAFETY: `r + 3 < 32`; this function's contract.
            let (q, next) = unsafe { (shared::load4(q_row.add(r)), shared::load4(k_row.add(r))) };
            for i in 0..4 {
                for c in 0..2 {
                    update_row(&mut self.s[c][r + i], &mut o[c], g, d[c], k[r + i], q[i]);
                    self.kv[c] = float::fma(self.s[c][r + i], next[i], self.kv[c]);
                }
                k_next[r + i] = next[i];
            }
        }
        o
    }

    /// As [`Self::advance`] for the last token: no kv partials.
    ///
    /// # Safety
    /// `q_row` is the lane's 32 values in shared memory, 16-byte aligned.
    #[inline(always)]
    pub unsafe fn finish(&mut self, g: f32, d: [f32; 2], k: &[f32; GROUP_ROWS], q_row: *const f32) -> [f32; 2] {
        let mut o = [0.0f32; 2];
        for r in (0..GROUP_ROWS).step_by(4) {
            // SAFETY: `r + 3 < 32`; this function's contract.
            let q = unsafe { shared::load4(q_row.add(r)) };
            for i in 0..4 {
                for c in 0..2 {
                    update_row(&mut self.s[c][r + i], &mut o[c], g, d[c], k[r + i], q[i]);
                }
            }
        }
        o
    }
}

/// The lane's 32 values of a staged row.
///
/// # Safety
/// `row` is the lane's row group in shared memory, which has landed.
#[inline(always)]
pub unsafe fn read_row(row: *const f32) -> [f32; GROUP_ROWS] {
    let mut k = [0.0; GROUP_ROWS];
    for r in (0..GROUP_ROWS).step_by(4) {
        // SAFETY: `r + 3 < 32`, a multiple of 4.
        k[r..r + 4].copy_from_slice(&unsafe { shared::load4(row.add(r)) });
    }
    k
}

/// Where a lane's part of the state lies: element (row r, column c) at `base + r * pitch + c`.
#[derive(Clone, Copy)]
pub struct StatePart {
    base: *mut f32,
    pitch: usize,
}

impl StatePart {
    /// The part of `place` for the 16 columns from `column` on of head `head`.
    ///
    /// # Safety
    /// `head < value_heads`, `column` one of 0, 16 .. 112; nobody else touches the part.
    #[inline(always)]
    pub unsafe fn new(state: *mut f32, value_heads: u32, head: usize, column: usize, place: Place) -> Self {
        let pitch = value_heads as usize * HEAD_DIM;
        let offset = place.group * GROUP_ROWS * pitch + head * HEAD_DIM + column + 2 * place.place;
        // SAFETY: inside the state by this function's contract.
        Self { base: unsafe { state.add(offset) }, pitch }
    }

    /// Reads the part: `s[c][r]`.
    #[inline(always)]
    pub fn load(self) -> [[f32; GROUP_ROWS]; 2] {
        let mut s = [[0.0; GROUP_ROWS]; 2];
        for r in 0..GROUP_ROWS {
            // SAFETY: 32 rows and two columns from `base` on, by the contract of `new`; multiples of 8 bytes.
            [s[0][r], s[1][r]] = unsafe { global::load2(self.base.add(r * self.pitch)) };
        }
        s
    }

    /// Writes the part back.
    #[inline(always)]
    pub fn store(self, s: &[[f32; GROUP_ROWS]; 2]) {
        let pitch = int::opaque(self.pitch); // else 32 addresses stay in registers from the loads on
        for r in 0..GROUP_ROWS {
            // SAFETY: as in `load`.
            unsafe { global::store2(self.base.add(r * pitch), [s[0][r], s[1][r]]) };
        }
    }
}

/// kv partials of a token: `p[c] = fma(s[c][r], k[r], p[c])`, r ascending.
#[inline(always)]
pub fn kv_partial(s: &[[f32; GROUP_ROWS]; 2], k: &[f32; GROUP_ROWS]) -> [f32; 2] {
    let mut p = [0.0; 2];
    for r in 0..GROUP_ROWS {
        for c in 0..2 {
            p[c] = float::fma(s[c][r], k[r], p[c]);
        }
    }
    p
}

/// Offsets of a head's rows in a token's q, k, v row, in elements.
#[derive(Clone, Copy)]
pub struct HeadRows {
    /// q row of the key head.
    pub q: usize,
    /// k row of the key head.
    pub k: usize,
    /// v row of the value head.
    pub v: usize,
}

impl HeadRows {
    /// Rows of value head `head`, which reads key head `head mod key_heads`.
    #[inline(always)]
    pub fn new(key_heads: u32, head: usize) -> Self {
        let key_width = key_heads as usize * HEAD_DIM;
        let q = head % key_heads as usize * HEAD_DIM;
        Self { q, k: key_width + q, v: 2 * key_width + head * HEAD_DIM }
    }
}
