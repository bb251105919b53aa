//! The steps that every product shares: a lane's chains over its columns, and the sums over lanes.

use cuda_std::{float, shared, warp};

use super::weight::Weight;

/// Floats from one output's 32 partial sums to the next in shared memory: 33 keeps reads and writes free of conflicts.
pub const PITCH: usize = 33;
/// Columns of a lane in a step.
const WIDTH: u32 = 4;
/// Columns of a step of a warp.
const STEP: u32 = 128;

/// The lane's partial sums of `R` matrix rows with `T` x rows.
///
/// # Safety
/// `w` and `x` hold rows of `n_in` values, `n_in` a multiple of 4, aligned as `ProductParams` says.
#[inline(always)]
pub unsafe fn chains<W: Weight, const R: usize, const T: usize>(
    w: [*const u8; R],
    x: [*const f32; T],
    n_in: u32,
    lane: u32,
) -> [[f32; T]; R] {
    let mut acc = [[0.0f32; T]; R];
    let mut c = WIDTH * lane;
    while c < n_in {
        let (mut ws, mut xs) = ([[0.0f32; 4]; R], [[0.0f32; 4]; T]);
        for r in 0..R {
            // SAFETY: `c + 3 < n_in`, a multiple of 4.
            ws[r] = unsafe { W::load4(w[r], c as usize) };
        }
        for t in 0..T {
            // SAFETY: as above.
            xs[t] = unsafe { cuda_std::global::load4_nc(x[t].add(c as usize)) };
        }
        for r in 0..R {
            for t in 0..T {
                for j in 0..4 {
                    acc[r][t] = float::fma(ws[r][j], xs[t][j], acc[r][t]);
                }
            }
        }
        c += STEP;
    }
    acc
}

/// Puts the lane's partial sum of output `at` where [`quarter`] finds it.
///
/// # Safety
/// `sums` is this warp's shared memory for more than `at` outputs of [`PITCH`] floats.
#[inline(always)]
pub unsafe fn put(sums: *mut f32, at: usize, lane: u32, v: f32) {
    // SAFETY: lane < 32 < PITCH; each element has one writer.
    unsafe { shared::store(sums.add(at * PITCH + lane as usize), v) };
}

/// Sum of quarter `q` of an output's partial sums: eight lanes' in ascending order.
///
/// # Safety
/// As [`put`], which all lanes have done for this output, with a warp barrier since.
#[inline(always)]
unsafe fn quarter(sums: *const f32, at: usize, q: usize) -> f32 {
    let first = at * PITCH + 8 * q;
    // SAFETY: 8 q + 7 < 32.
    let mut s = unsafe { shared::load(sums.add(first)) };
    for i in 1..8 {
        // SAFETY: as above.
        s += unsafe { shared::load(sums.add(first + i)) };
    }
    s
}

/// The whole sum of output `at`, by one lane.
///
/// # Safety
/// As [`quarter`].
#[inline(always)]
pub unsafe fn whole(sums: *const f32, at: usize) -> f32 {
    // SAFETY: same contract.
    let s = [0, 1, 2, 3].map(|q| unsafe { quarter(sums, at, q) });
    (s[0] + s[1]) + (s[2] + s[3])
}

/// The whole sum of output `lane / 4`, in the four lanes that share it; the same bits as [`whole`].
///
/// # Safety
/// As [`quarter`], for outputs 0 to 7; all lanes call it together.
#[inline(always)]
pub unsafe fn by_four_lanes(sums: *const f32, lane: u32) -> f32 {
    // SAFETY: same contract.
    let s = unsafe { quarter(sums, lane as usize / 4, lane as usize % 4) };
    let pair = s + warp::shfl_xor(s, 1);
    pair + warp::shfl_xor(pair, 2)
}
