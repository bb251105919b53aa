//! What the tensor-core forms share in a warp that scans chunks: its 16 columns of a head, held transposed, its values
//! and outputs, and the steps between the products.
//!
//! The warp holds the state S^T as 16 C tiles of m16n8: tile j has the warp's 16 columns as rows and state rows 8 j ..
//! as columns. Two neighbouring tiles are, register for register, the A fragment of one k-step of 16, so S, Y, D and
//! what is added to S go from product to product without leaving the lane's registers.

use cuda_std::{float, global, int, shared, warp};

use super::RecParams;
use super::chunk::{
    BETA, BETA_DECAY, CHUNK, CHUNK_SCALE, D_SHIFT, DECAY, key_scale, larger, power_of_two, scale_exponent, warp_largest,
};
use super::chunk_values::VALUE_PITCH;
use crate::geometry::{HEAD_DIM, OUTPUT_SCALE};

/// Columns of a warp.
pub const COLUMNS: usize = 16;
/// C tiles of the state: 8 rows each.
pub const STATE_TILES: usize = HEAD_DIM / 8;
/// C tiles of a chunk: 8 tokens each.
pub const TOKEN_TILES: usize = CHUNK / 8;

/// After every so many chunks of a sequence the state is scaled anew ([`Scaled::settle`]): what goes before leaves nothing
/// but the state then, so a call may be cut there without changing a bit.
pub const SETTLED: usize = 4;

/// The warp's part of the state.
pub type State = [f32; 4 * STATE_TILES];
/// A value for each of the warp's columns and the chunk's tokens.
pub type Tokens = [f32; 4 * TOKEN_TILES];

/// A scalar for each of the lane's tokens of a chunk: two of each tile.
pub type Scalars = [f32; 2 * TOKEN_TILES];

/// Where a lane's values lie in memory.
#[derive(Clone, Copy)]
pub struct Lane {
    /// State row 2 (l mod 4), the lane's first column.
    state: *mut f32,
    row_pitch: usize,
}

impl Lane {
    /// For columns `column .. + 16` of value head `head` of the state at `state`.
    #[inline(always)]
    pub fn new(p: &RecParams, state: *mut f32, head: usize, column: usize) -> Self {
        let lane = warp::lane_id() as usize;
        let (g, pair) = (lane / 4, lane % 4 * 2);
        let row_pitch = p.value_heads as usize * HEAD_DIM;
        let at = head * HEAD_DIM + column + g;
        Self { state: state.wrapping_add(pair * row_pitch + at), row_pitch }
    }

    /// Loads the state.
    #[inline(always)]
    pub fn load_state(&self) -> State {
        let mut s = [0.0f32; 4 * STATE_TILES];
        for j in 0..STATE_TILES {
            for i in 0..4 {
                let at = self.state.wrapping_add((8 * j + i % 2) * self.row_pitch + i / 2 * 8);
                // SAFETY: row 8 j + pair + i mod 2 < 128, columns of the head; only this lane touches them.
                s[4 * j + i] = unsafe { global::load(at) };
            }
        }
        s
    }

    /// Stores the state.
    #[inline(always)]
    pub fn store_state(&self, s: &State) {
        let row_pitch = int::opaque(self.row_pitch); // else 32 row addresses stay in registers from the load on
        for j in 0..STATE_TILES {
            for i in 0..4 {
                let at = self.state.wrapping_add((8 * j + i % 2) * row_pitch + i / 2 * 8);
                // SAFETY: as in `load_state`.
                unsafe { global::store(at, s[4 * j + i]) };
            }
        }
    }
}

/// The warp's part of the identity, for columns `column .. + 16`.
#[inline(always)]
pub fn identity(column: usize) -> State {
    let lane = warp::lane_id() as usize;
    let mut s = [0.0f32; 4 * STATE_TILES];
    for j in 0..STATE_TILES {
        for i in 0..4 {
            let (row, own) = (8 * j + lane % 4 * 2 + i % 2, column + lane / 4 + i / 2 * 8);
            s[4 * j + i] = if row == own { 1.0 } else { 0.0 };
        }
    }
    s
}

/// The state of the warp's columns: times `2^exponent`, so that it fits f16.
pub struct Scaled {
    /// The values, all below `2^15`.
    pub s: State,
    exponent: i32,
    /// No magnitude of `s` in the warp exceeds it.
    largest: f32,
}

impl Scaled {
    /// Scales the state `s` so that its largest magnitude in the warp is in `2^13 .. 2^14`.
    #[inline(always)]
    pub fn of(s: State) -> Self {
        let mut state = Self { s, exponent: 0, largest: 0.0 };
        state.settle();
        state
    }

    /// Stores the state without the scale.
    #[inline(always)]
    pub fn store(&self, lane: &Lane) {
        let mut s = self.s;
        let unscale = power_of_two(-self.exponent);
        for i in 0..4 * STATE_TILES {
            s[i] *= unscale;
        }
        lane.store_state(&s);
    }
}

/// What a chunk's steps need besides the products, made before the first of them is done. Exponents come from bounds
/// instead of maxima, so that nothing waits for an exchange between lanes: `|X| <= sqrt(128) max |S|` by Cauchy and
/// Schwarz, so `|Y| <= max |beta v| + max (beta e^G) max |X|`, and `|D| <= 32 max |Y|` since no entry of T exceeds 1. What
/// is kept of D at the chunk's end may be far smaller than D: its scale comes from its largest magnitude.
pub struct Steps {
    /// Y is times `2^ey`.
    ey: i32,
    /// No magnitude of Y in the warp exceeds it.
    largest_y: f32,
    /// `beta v 2^ey`.
    value: Tokens,
    /// What X's sums are to be multiplied by.
    predicted: Scalars,
    /// What the sums of Q S are to be multiplied by, but for `e^G`.
    carried: f32,
}

/// What a chunk's steps begin with.
pub struct Given {
    v: Tokens,
    beta: Scalars,
    beta_decay: Scalars,
}

impl Given {
    /// Reads it from a stage, for scanning warp `warp`: early, since a reader of shared memory waits.
    ///
    /// # Safety
    /// The stage holds the chunk.
    #[inline(always)]
    pub unsafe fn read(scalars: *const f32, values: *const f32, warp: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Self { v: read_values(values, warp), beta: read(scalars, BETA), beta_decay: read(scalars, BETA_DECAY) }
        }
    }
}

impl Steps {
    /// From what the stage holds and the state before the chunk.
    #[inline(always)]
    pub fn new<const PAIRS: bool>(given: &Given, state: &Scaled) -> Self {
        let Given { v, beta, beta_decay } = given;
        let (mut value, mut predicted) = ([0.0f32; 4 * TOKEN_TILES], [0.0f32; 2 * TOKEN_TILES]);
        let (mut largest, mut share) = ([0.0f32; 2], [0.0f32; 2]);
        for j in 0..TOKEN_TILES {
            for e in 0..2 {
                predicted[2 * j + e] = beta_decay[2 * j + e];
                share[e] = float::max(share[e], beta_decay[2 * j + e]);
                for column in 0..2 {
                    let at = 4 * j + 2 * column + e;
                    value[at] = v[at] * beta[2 * j + e];
                    largest[e] = larger(largest[e], value[at]);
                }
            }
        }
        let of_state = 11.4 * state.largest * power_of_two(-state.exponent);
        let of_lane = float::fma(float::max(share[0], share[1]), of_state, float::max(largest[0], largest[1]));
        let largest_y = warp_largest(of_lane);
        let ey = scale_exponent(largest_y.to_bits());
        let unscale = power_of_two(-state.exponent - key_scale(PAIRS));
        // Below -126 v is so much larger than the state that X counts for nothing.
        let rescale = power_of_two((ey - state.exponent - key_scale(PAIRS)).clamp(-126, 126));
        let scale = power_of_two(ey);
        for x in &mut value {
            *x *= scale;
        }
        for x in &mut predicted {
            *x = -(*x * rescale);
        }
        Self { ey, largest_y, value, predicted, carried: unscale * OUTPUT_SCALE }
    }

    /// `Y = beta (v - e^G X)` times `2^ey`, from the sums of X.
    #[inline(always)]
    pub fn right_side(&self, x: &[f32]) -> Tokens {
        let mut y = [0.0f32; 4 * TOKEN_TILES];
        for j in 0..TOKEN_TILES {
            for i in 0..4 {
                y[4 * j + i] = float::fma(self.predicted[2 * j + i % 2], x[4 * j + i], self.value[4 * j + i]);
            }
        }
        y
    }

    /// D times `2^(ey - 5)`, and the kept part `e^(G_L - G) D` times the same, from the scalars `REST` and the sums of T Y.
    #[inline(always)]
    pub fn corrections(&self, rest: &Scalars, sums: &Tokens) -> [Tokens; 2] {
        let (mut d, mut kept) = ([0.0f32; 4 * TOKEN_TILES], [0.0f32; 4 * TOKEN_TILES]);
        for j in 0..TOKEN_TILES {
            for i in 0..4 {
                let at = 4 * j + i;
                d[at] = sums[at] * power_of_two(-D_SHIFT);
                kept[at] = sums[at] * rest[2 * j + i % 2];
            }
        }
        [d, kept]
    }

    /// What an output carries from the state, `e^G Q S / sqrt(128)`, from the scalars `DECAY` and the sums of Q S.
    #[inline(always)]
    pub fn carried(&self, decay: &Scalars, qs: &[f32]) -> Tokens {
        let mut y = [0.0f32; 4 * TOKEN_TILES];
        for j in 0..TOKEN_TILES {
            let factor = [decay[2 * j] * self.carried, decay[2 * j + 1] * self.carried];
            for i in 0..4 {
                y[4 * j + i] = factor[i % 2] * qs[4 * j + i];
            }
        }
        y
    }

    /// What the sums of P D are to be multiplied by.
    #[inline(always)]
    pub fn of_corrections(&self) -> f32 {
        power_of_two(5 - self.ey - CHUNK_SCALE) * OUTPUT_SCALE
    }

    /// How the state of single f16 goes on, before anything of D is known: its product adds to it on the tensor cores, so both
    /// have one scale. Its exponent comes from `max |S| <= e^G_L max |S| + 32 max |D| <= e^G_L max |S| + 1024 max |Y|`, no
    /// entry of k or T exceeding 1. Makes `e^G_L S` in that scale.
    /// `whole` is e^G_L.
    #[inline(always)]
    pub fn turn_ahead(&self, whole: f32, state: &mut Scaled) -> TurnAhead {
        let old = whole * (state.largest * power_of_two(-state.exponent));
        let exponent = scale_exponent(float::fma(1024.0, self.largest_y, old).to_bits());
        let shift = exponent - state.exponent;
        let factor = whole * power_of_two(shift / 2) * power_of_two(shift - shift / 2);
        for x in &mut state.s {
            *x *= factor;
        }
        state.exponent = exponent;
        let kept = power_of_two((exponent - key_scale(false) - (self.ey - 5)).clamp(-126, 126));
        TurnAhead { kept, old: old * power_of_two(exponent) }
    }

    /// How the state goes on, before the sums that are added are known: its new exponent comes from
    /// `max |S| <= e^G_L max |S| + 32 max |e^(G_L - G) D|`. Scales `kept` for its product.
    /// `whole` is e^G_L.
    #[inline(always)]
    pub fn turn<const PAIRS: bool>(&self, whole: f32, state: &Scaled, kept: &mut Tokens) -> Turn {
        let kept_largest = largest_of_tokens(kept);
        let ek = scale_exponent(kept_largest.to_bits());
        let scale = power_of_two(ek);
        for x in kept {
            *x *= scale;
        }
        let old = whole * (state.largest * power_of_two(-state.exponent));
        let bound = float::fma(32.0 * kept_largest, power_of_two(5 - self.ey), old);
        let exponent = scale_exponent(bound.to_bits());
        let shift = exponent - state.exponent;
        Turn {
            exponent,
            largest: bound * power_of_two(exponent),
            old: whole * power_of_two(shift / 2) * power_of_two(shift - shift / 2),
            added: power_of_two((exponent - (self.ey - 5 + ek) - key_scale(PAIRS)).clamp(-126, 126)),
        }
    }
}

/// The warp's largest magnitude of a value for each column and token.
#[inline(always)]
fn largest_of_tokens(values: &Tokens) -> f32 {
    let mut largest = [0.0f32; 2];
    for i in 0..4 * TOKEN_TILES {
        largest[i % 2] = larger(largest[i % 2], values[i]);
    }
    warp_largest(float::max(largest[0], largest[1]))
}

/// `y = (e^G Q S + P D) / sqrt(128)` from [`Steps::carried`], the sums of P D and [`Steps::of_corrections`].
#[inline(always)]
pub fn outputs(carried: &Tokens, pd: &Tokens, of_corrections: f32) -> Tokens {
    let mut y = [0.0f32; 4 * TOKEN_TILES];
    for i in 0..4 * TOKEN_TILES {
        y[i] = float::fma(pd[i], of_corrections, carried[i]);
    }
    y
}

/// See [`Steps::turn`].
pub struct Turn {
    exponent: i32,
    /// The bound on the new state.
    largest: f32,
    /// What the state is multiplied by.
    old: f32,
    /// What the sums are multiplied by.
    added: f32,
}

impl Turn {
    /// `e^G_L S`, in the new scale, while the sums are on their way.
    #[inline(always)]
    pub fn carry(&self, state: &mut Scaled) {
        for x in &mut state.s {
            *x *= self.old;
        }
    }

    /// `S = e^G_L S + sum`, of which [`carry`](Self::carry) made the first term: two roundings a chunk, since the sums on tensor
    /// cores start from 0.
    #[inline(always)]
    pub fn add(&self, state: &mut Scaled, sums: &[f32; 4 * STATE_TILES]) {
        for i in 0..4 * STATE_TILES {
            state.s[i] = float::fma(self.added, sums[i], state.s[i]);
        }
        (state.exponent, state.largest) = (self.exponent, self.largest);
    }
}

/// See [`Steps::turn_ahead`].
pub struct TurnAhead {
    /// What the kept part of D is to be multiplied by, besides the scalars `REST`.
    kept: f32,
    /// The bound on `e^G_L S` in the new scale.
    old: f32,
}

impl TurnAhead {
    /// Scales the scalars `REST` so that [`Steps::corrections`] gives the kept part of D in the state's scale.
    #[inline(always)]
    #[must_use]
    pub fn scale_rest(&self, rest: Scalars) -> Scalars {
        rest.map(|r| r * self.kept)
    }

    /// Bounds the state after the product from the largest magnitude of `kept`.
    #[inline(always)]
    pub fn bound(&self, kept: &Tokens, state: &mut Scaled) {
        state.largest = float::fma(32.0, largest_of_tokens(kept), self.old);
    }
}

impl Scaled {
    /// Scales the state by its largest magnitude, as [`of`](Self::of) does. In between the scale comes from bounds,
    /// which are up to 2^6 times too large after a chunk and grow with the number of chunks.
    #[inline(always)]
    pub fn settle(&mut self) {
        let largest = warp_largest(largest_of(&self.s)) * power_of_two(-self.exponent);
        let exponent = scale_exponent(largest.to_bits());
        // In two steps, as a store and a load do it: an element below 2^-126 is rounded by both or by neither.
        let (unscale, scale) = (power_of_two(-self.exponent), power_of_two(exponent));
        for i in 0..4 * STATE_TILES {
            self.s[i] = self.s[i] * unscale * scale;
        }
        (self.exponent, self.largest) = (exponent, largest * power_of_two(exponent));
    }
}

/// Where the lane's value `i` of tile `j` lies in a stage's values, for scanning warp `warp`.
#[inline(always)]
fn value_at(warp: usize, j: usize, i: usize) -> usize {
    let lane = warp::lane_id() as usize;
    (8 * j + lane % 4 * 2 + i % 2) * VALUE_PITCH + warp * COLUMNS + lane / 4 + i / 2 * 8
}

/// The lane's values of v of the chunk.
///
/// # Safety
/// `values` are those of a stage that holds the chunk.
#[inline(always)]
unsafe fn read_values(values: *const f32, warp: usize) -> Tokens {
    let mut v = [0.0f32; 4 * TOKEN_TILES];
    for j in 0..TOKEN_TILES {
        for i in 0..4 {
            // SAFETY: a token of the chunk, a column of the warp.
            v[4 * j + i] = unsafe { shared::load(values.add(value_at(warp, j, i))) };
        }
    }
    v
}

/// Writes the lane's outputs of the chunk in place of v.
///
/// # Safety
/// As for [`read_values`].
#[inline(always)]
pub unsafe fn write_outputs(values: *mut f32, warp: usize, y: &Tokens) {
    for j in 0..TOKEN_TILES {
        for i in 0..4 {
            // SAFETY: a token of the chunk, a column of the warp; the lane read v there.
            unsafe { shared::store(values.add(value_at(warp, j, i)), y[4 * j + i]) };
        }
    }
}

/// The scalars of kind `kind` for the lane's two tokens of each tile.
///
/// # Safety
/// `scalars` are those of a stage.
#[inline(always)]
pub unsafe fn read(scalars: *const f32, kind: usize) -> Scalars {
    let mut found = [0.0f32; 2 * TOKEN_TILES];
    for j in 0..TOKEN_TILES {
        // SAFETY: `8 j + pair + 1 < 32`; a multiple of 8 bytes.
        let two = unsafe { shared::load2(scalars.add(kind + 8 * j + warp::lane_id() as usize % 4 * 2)) };
        (found[2 * j], found[2 * j + 1]) = (two[0], two[1]);
    }
    found
}

/// e^G of the chunk's last token.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub unsafe fn whole_decay(scalars: *const f32) -> f32 {
    // SAFETY: one of the scalars.
    unsafe { shared::load(scalars.add(DECAY + CHUNK - 1)) }
}

/// The lane's largest magnitude of the state.
#[inline(always)]
fn largest_of(s: &State) -> f32 {
    let mut largest = [0.0f32; 4];
    for i in 0..4 * STATE_TILES {
        largest[i % 4] = larger(largest[i % 4], s[i]);
    }
    float::max(float::max(largest[0], largest[1]), float::max(largest[2], largest[3]))
}
