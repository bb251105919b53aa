//! Warp collectives: shuffles, votes, reductions. A warp is 32 threads with consecutive linear index
//! `x + block_dim_x * (y + block_dim_y * z)`.
//!
//! Functions without `_masked` name all 32 lanes; the others name the lanes of `mask`. Every named lane that exists must
//! execute the same primitive with the same mask, and the caller must be in its mask. In a block whose size is no
//! multiple of 32 the last warp's missing lanes count as present; a value read from one of them is undefined (the
//! emulator gives a signalling NaN).

use crate::{global::Word32, imp};

/// All 32 lanes.
pub const FULL_MASK: u32 = u32::MAX;
/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;

/// A 32-bit value that a shuffle can move: `f32`, `u32`, `i32`.
pub trait Shuffle: Word32 {}
impl Shuffle for f32 {}
impl Shuffle for u32 {}
impl Shuffle for i32 {}

/// Index of the thread within its warp, 0 to 31.
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    imp::warp::lane_id()
}

/// Waits until all lanes of `mask` are here; orders their memory accesses, as `__syncwarp`.
#[inline(always)]
#[track_caller]
pub fn sync_warp(mask: u32) {
    imp::warp::sync_warp(mask);
}

macro_rules! shuffle {
    ($($(#[$doc:meta])* $name:ident, $width:ident, $masked:ident, $operand:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Where that lane is outside the warp, the lane's own value, as PTX.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub fn $name<T: Shuffle>(v: T, $operand: u32) -> T {
            T::from_u32(imp::warp::$name(FULL_MASK, v.to_u32(), $operand, WARP_SIZE))
        }

        $(#[$doc])*
        ///
        /// The warp is cut into segments of `width` lanes (1, 2, 4, 8, 16 or 32); where the lane read is outside the
        /// caller's segment, the lane's own value, as PTX.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub fn $width<T: Shuffle>(v: T, $operand: u32, width: u32) -> T {
            T::from_u32(imp::warp::$name(FULL_MASK, v.to_u32(), $operand, width))
        }

        $(#[$doc])*
        ///
        /// Only lanes of `mask` take part; a value read from another lane is undefined.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub fn $masked<T: Shuffle>(mask: u32, v: T, $operand: u32) -> T {
            T::from_u32(imp::warp::$name(mask, v.to_u32(), $operand, WARP_SIZE))
        }
    )*};
}

shuffle! {
    /// The value of lane `lane_id ^ lane_mask`.
    shfl_xor, shfl_xor_width, shfl_xor_masked, lane_mask;
    /// The value of lane `src_lane`, counted from the segment's first lane, modulo its width.
    shfl_idx, shfl_idx_width, shfl_idx_masked, src_lane;
    /// The value of lane `lane_id - delta`.
    shfl_up, shfl_up_width, shfl_up_masked, delta;
    /// The value of lane `lane_id + delta`.
    shfl_down, shfl_down_width, shfl_down_masked, delta;
}

/// Bit i is set where lane i's `p` is true.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn ballot(p: bool) -> u32 {
    imp::warp::ballot(FULL_MASK, p)
}

/// [`ballot`] among the lanes of `mask`; the other bits are 0.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn ballot_masked(mask: u32, p: bool) -> u32 {
    imp::warp::ballot(mask, p)
}

/// True where some lane's `p` is true.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn any(p: bool) -> bool {
    imp::warp::any(FULL_MASK, p)
}

/// [`any`] among the lanes of `mask`.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn any_masked(mask: u32, p: bool) -> bool {
    imp::warp::any(mask, p)
}

/// True where every lane's `p` is true.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn all(p: bool) -> bool {
    imp::warp::all(FULL_MASK, p)
}

/// [`all`] among the lanes of `mask`.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn all_masked(mask: u32, p: bool) -> bool {
    imp::warp::all(mask, p)
}

macro_rules! redux {
    ($($(#[$doc:meta])* $name:ident: $ty:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// Needs sm_80.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub fn $name(v: $ty) -> $ty {
            imp::warp::$name(FULL_MASK, v)
        }
    )*};
}

redux! {
    /// Sum over the warp, modulo 2^32.
    redux_add_u32: u32;
    /// Smallest value of the warp.
    redux_min_u32: u32;
    /// Largest value of the warp.
    redux_max_u32: u32;
    /// Sum over the warp, modulo 2^32.
    redux_add_i32: i32;
    /// Smallest value of the warp.
    redux_min_i32: i32;
    /// Largest value of the warp.
    redux_max_i32: i32;
    /// Bitwise and over the warp.
    redux_and_u32: u32;
    /// Bitwise or over the warp.
    redux_or_u32: u32;
    /// Bitwise exclusive or over the warp.
    redux_xor_u32: u32;
}

/// Sum over the warp in every lane: a butterfly, `v += shfl_xor(v, m)` for m = 16, 8, 4, 2, 1, each addition rounded.
///
/// Every lane gets the same bits, since each step adds the same two numbers in both lanes of a pair.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn sum_xor(v: f32) -> f32 {
    let v = v + shfl_xor(v, 16);
    let v = v + shfl_xor(v, 8);
    let v = v + shfl_xor(v, 4);
    let v = v + shfl_xor(v, 2);
    v + shfl_xor(v, 1)
}

/// Maximum over the warp in every lane, by the butterfly of [`sum_xor`]; a NaN loses against a number
/// ([`float::max`](crate::float::max)).
#[inline(always)]
#[track_caller]
#[must_use]
pub fn max_xor(v: f32) -> f32 {
    let v = crate::float::max(v, shfl_xor(v, 16));
    let v = crate::float::max(v, shfl_xor(v, 8));
    let v = crate::float::max(v, shfl_xor(v, 4));
    let v = crate::float::max(v, shfl_xor(v, 2));
    crate::float::max(v, shfl_xor(v, 1))
}

/// Which of `NV` values [`scatter_sum`] leaves in the calling lane: the upper bits of the lane's index.
///
/// `NV` is a power of two up to 32.
#[inline(always)]
#[must_use]
pub fn scatter_index<const NV: usize>() -> u32 {
    const { assert!(NV.is_power_of_two() && NV <= 32) };
    lane_id() >> (5 - NV.ilog2())
}

/// Sums of `NV` values over the warp, each in the lanes whose [`scatter_index`] is its number, by far fewer shuffles than
/// `NV` times [`sum_xor`] and with its bits.
///
/// A lane keeps half of its values at each level and gives its partner the others; when one is left, the butterfly goes on.
/// Each addition has the two operands that the butterfly has there: own and partner's partial sum of the same value.
///
/// | values | 1 | 2 | 4 | 8 | 16 | 32 |
/// |---|---|---|---|---|---|---|
/// | shuffles | 5 | 5 | 6 | 9 | 16 | 31 |
#[inline(always)]
#[track_caller]
#[must_use]
pub fn scatter_sum<const NV: usize>(mut v: [f32; NV]) -> f32 {
    const { assert!(NV.is_power_of_two() && NV <= 32) };
    let lane = lane_id();
    own_half::<NV, 0>(&mut v, lane);
    scatter_level::<NV, 0>(&mut v);
    own_half::<NV, 1>(&mut v, lane);
    scatter_level::<NV, 1>(&mut v);
    own_half::<NV, 2>(&mut v, lane);
    scatter_level::<NV, 2>(&mut v);
    own_half::<NV, 3>(&mut v, lane);
    scatter_level::<NV, 3>(&mut v);
    own_half::<NV, 4>(&mut v, lane);
    scatter_level::<NV, 4>(&mut v);
    v[0]
}

/// [`scatter_sum`] of values that every lane has in an order of its own: `v[s]` is value number `s ^ scatter_index::<NV>()`,
/// so that those it keeps come first and nothing is selected.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn scatter_sum_own_first<const NV: usize>(mut v: [f32; NV]) -> f32 {
    const { assert!(NV.is_power_of_two() && NV <= 32) };
    scatter_level::<NV, 0>(&mut v);
    scatter_level::<NV, 1>(&mut v);
    scatter_level::<NV, 2>(&mut v);
    scatter_level::<NV, 3>(&mut v);
    scatter_level::<NV, 4>(&mut v);
    v[0]
}

/// Brings the half that the lane keeps at a level to the front.
#[inline(always)]
fn own_half<const NV: usize, const LEVEL: u32>(v: &mut [f32; NV], lane: u32) {
    let (half, upper) = (NV >> LEVEL >> 1, lane & (16 >> LEVEL) != 0);
    for i in 0..half {
        let [front, back] = [v[i], v[half + i]];
        v[i] = if upper { back } else { front };
        v[half + i] = if upper { front } else { back };
    }
}

/// One level: of more than one value the back half goes to the partner and what it sends is added to the front.
#[inline(always)]
#[track_caller]
fn scatter_level<const NV: usize, const LEVEL: u32>(v: &mut [f32; NV]) {
    let (half, step) = (NV >> LEVEL >> 1, 16 >> LEVEL);
    if half == 0 {
        v[0] += shfl_xor(v[0], step);
    }
    for i in 0..half {
        v[i] += shfl_xor(v[half + i], step);
    }
}
