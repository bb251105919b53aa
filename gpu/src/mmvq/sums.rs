//! The end of a row: slots to a lane's sum, lanes to the row's, what is added, the store.

use cuda_std::int::opaque;
use cuda_std::{global, warp};

use super::ProductParams;
use super::pick;

/// Sums of `R` rows and `P` times `T` columns.
pub(super) type Rows<const R: usize, const P: usize, const T: usize> = [[[f32; T]; P]; R];

/// As [`finish`], for rows that come from where `pick` says.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn finish_picked<const R: usize, const P: usize, const T: usize>(
    p: &ProductParams,
    first: usize,
    lane: usize,
    a: &[Rows<R, P, T>; 4],
    slots: usize,
) {
    let (y, first) = pick::results(p, first);
    // SAFETY: same contract.
    unsafe { finish_from::<R, P, T, true>(p, y, [first, lane], a, slots) };
}

/// Finishes `R` rows from `first` on: adds the slots in order, `((a_0 + a_1) + a_2) + a_3`, then the lanes, then
/// what is to be added, and stores.
///
/// # Safety
/// `p` is as `ProductParams` says; no other warp has these rows; all lanes call it together. `R`, `P` and `T` are powers of
/// two with a product of at most 32.
#[inline(always)]
pub(super) unsafe fn finish<const R: usize, const P: usize, const T: usize>(
    p: &ProductParams,
    first: usize,
    lane: usize,
    a: &[Rows<R, P, T>; 4],
    slots: usize,
) {
    // SAFETY: same contract.
    unsafe { finish_from::<R, P, T, false>(p, p.y, [first, lane], a, slots) };
}

/// Both of them.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn finish_from<const R: usize, const P: usize, const T: usize, const PICKED: bool>(
    p: &ProductParams,
    y: *mut f32,
    [first, lane]: [usize; 2],
    a: &[Rows<R, P, T>; 4],
    slots: usize,
) {
    let mut s = a[0];
    for v in 1..slots {
        for r in 0..R {
            for part in 0..P {
                for c in 0..T {
                    s[r][part][c] += a[v][r][part][c];
                }
            }
        }
    }
    let mut sum = over_lanes(s, lane);
    let of_a_sum = 32 / (R * P * T);
    let i = lane / of_a_sum;
    let (row, column) = (first + i / (P * T), i % (P * T));
    if lane.is_multiple_of(of_a_sum) && row < p.n_out as usize && column < p.columns as usize {
        // Opaque, so that the test for null stays here: before the loops it would cost kernels of 96 registers a spill.
        let add = p.add.with_addr(opaque(p.add.addr()));
        if !add.is_null() {
            // SAFETY: row and column exist; `add` may be `y`, whose element only this lane touches.
            sum += unsafe { global::load(add.add(column * p.add_stride as usize + row)) };
        }
        // SAFETY: the row exists.
        if PICKED && unsafe { !pick::is_there(p, row) } {
            sum = f32::NAN;
        }
        // SAFETY: row and column exist; one lane a sum.
        unsafe { global::store_named(y.add(column * p.y_stride as usize + row), sum) };
    }
}

/// Sums over the warp of N = `R P T` values: lane l gets sum `l / (32 / N)`, each addition the one of the tree
/// `s[l] + s[l xor off]`, off = 16, 8, 4, 2, 1.
///
/// At each of the first levels a lane keeps half of the sums that it has and gives the other half to its partner, which
/// keeps those: both add the two numbers of the whole tree. That is some N + 4 shuffles instead of 5 N.
#[inline(always)]
fn over_lanes<const R: usize, const P: usize, const T: usize>(mut s: Rows<R, P, T>, lane: usize) -> f32 {
    for level in 0..5 {
        let off = 16 >> level;
        let upper = lane & off != 0;
        let sums = (R * P * T) >> level;
        if sums > 1 {
            for i in 0..sums / 2 {
                let (lower, higher) = (s[i / T / P][i / T % P][i % T], {
                    let i = sums / 2 + i;
                    s[i / T / P][i / T % P][i % T]
                });
                let (keep, give) = if upper { (higher, lower) } else { (lower, higher) };
                s[i / T / P][i / T % P][i % T] = keep + warp::shfl_xor(give, off as u32);
            }
        } else {
            s[0][0][0] += warp::shfl_xor(s[0][0][0], off as u32);
        }
    }
    s[0][0][0]
}
