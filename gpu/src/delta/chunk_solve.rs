//! How the prep of the tensor-core forms inverts I + A for a head: by halves of 16, `T = [T1, 0; -T2 A21 T1, T2]`. The
//! diagonal halves by substitution, a column a lane in f32; the lower left by two products of f16 pairs.

use cuda_std::{float, mma, shared};

use super::chunk::{CHUNK, CHUNK_SCALE, MatrixLane, P, T, chunk_at, fragments, pairs, parts, power_of_two, split};

/// Half of a chunk: rows of an m-tile.
pub const HALF: usize = CHUNK / 2;

/// Byte of unit `unit` (4 f32) of row `row` of a diagonal half of A: `[16][16]` f32 lie where P (half 1) and T (half 0) are
/// 0 in the end, the upper right.
#[inline(always)]
pub fn half_at(half: usize, row: usize, unit: usize) -> usize {
    let image = if half == 0 { T } else { P };
    image[0] + unit / 2 * (image[1] - image[0]) + chunk_at(row, 2 + unit % 2)
}

/// Splits two neighbouring values into an image.
///
/// # Safety
/// `at` is a multiple of 4 inside the image, which is the warp's to write.
#[inline(always)]
pub unsafe fn store_pair<const PAIRS: bool>(images: *mut u8, image: [usize; 2], at: usize, a: f32, b: f32) {
    let pair = split::<PAIRS>(a, b);
    // SAFETY: the caller's.
    unsafe {
        shared::store(images.add(image[0] + at).cast::<u32>(), pair[0]);
        if PAIRS {
            shared::store(images.add(image[1] + at).cast::<u32>(), pair[1]);
        }
    }
}

/// Column `lane mod 16` of the inverse of I + A's diagonal half `lane / 16`.
///
/// # Safety
/// The halves are complete, and the warp has met since.
#[inline(always)]
pub unsafe fn invert_halves(images: *const u8, lane: usize) -> [f32; HALF] {
    let (half, column) = (lane / HALF, lane % HALF);
    let from = images.wrapping_add(half * (P[0] - T[0])); // P's images lie as T's, that much behind them
    let mut x = [0.0f32; HALF];
    for t in 0..HALF {
        let mut sums = [if t == column { 1.0f32 } else { 0.0 }, 0.0, 0.0, 0.0];
        for unit in 0..t.div_ceil(4) {
            // SAFETY: row t < 16, unit < 4 of the half.
            let row = unsafe { shared::load4(from.wrapping_add(half_at(0, t, unit)).cast::<f32>()) };
            for c in 0..4 {
                if 4 * unit + c < t {
                    sums[c] = float::fma(-row[c], x[4 * unit + c], sums[c]);
                }
            }
        }
        x[t] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    x
}

/// Writes the lane's column of a diagonal half of T.
///
/// # Safety
/// The diagonal halves of the T image are the warp's to write.
#[inline(always)]
pub unsafe fn store_halves<const PAIRS: bool>(images: *mut u8, lane: usize, column: &[f32; HALF]) {
    let scale = power_of_two(CHUNK_SCALE);
    let half = lane / HALF;
    let to = images.wrapping_add(half * HALF * 64 + lane % 8 * 2);
    for t in (0..HALF).step_by(2) {
        let pair = split::<PAIRS>(column[t] * scale, column[t + 1] * scale);
        for r in 0..2 {
            let at = chunk_at(t + r, lane / 8);
            // SAFETY: row < 32, unit < 4; multiples of 2 bytes.
            unsafe {
                shared::store(to.add(T[0] + at).cast::<u16>(), (pair[0] >> (16 * r)) as u16);
                if PAIRS {
                    shared::store(to.add(T[1] + at).cast::<u16>(), (pair[1] >> (16 * r)) as u16);
                }
            }
        }
    }
}

/// Puts zeros where A's halves were: tokens 0..16 do not see tokens 16..32.
///
/// # Safety
/// Nobody reads A's halves any more.
#[inline(always)]
pub unsafe fn clear_upper_right(images: *mut u8, lane: usize) {
    let at = chunk_at(lane / 2, 2 + lane % 2);
    for part in 0..2 {
        // SAFETY: rows 0..16, units 2 and 3 of each image.
        unsafe {
            shared::store4(images.add(P[part] + at).cast::<u32>(), [0; 4]);
            shared::store4(images.add(T[part] + at).cast::<u32>(), [0; 4]);
        }
    }
}

/// `T2 A21 T1`, times `2^(2 CHUNK_SCALE)`: two tiles.
///
/// # Safety
/// T's diagonal halves and A21 are in the T image, and the warp has met since.
#[inline(always)]
pub unsafe fn lower_left<const PAIRS: bool>(images: *const u8) -> [f32; 8] {
    let matrix = MatrixLane::rows_first();
    let (mut t2, mut a21, mut t1) = ([[0u32; 4]; 2], [[[0u32; 2]; 2]; 2], [[[0u32; 2]; 2]; 2]);
    for part in 0..parts(PAIRS) {
        // SAFETY: rows and columns of the image.
        unsafe {
            t2[part] = mma::ldmatrix_x4(images.add(T[part] + matrix.chunk(HALF, 1)));
            a21[part] = pairs(mma::ldmatrix_x4_trans(images.add(T[part] + matrix.chunk(HALF, 0))));
            t1[part] = pairs(mma::ldmatrix_x4_trans(images.add(T[part] + matrix.chunk(0, 0))));
        }
    }
    let u = small_product::<PAIRS>(t2, a21);
    let mut scaled = [0.0f32; 8];
    for i in 0..8 {
        scaled[i] = u[i] * power_of_two(-CHUNK_SCALE);
    }
    small_product::<PAIRS>(fragments::<PAIRS>(&scaled[..4], &scaled[4..]), t1)
}

/// A product of 16 x 16 by 16 x 16 in f16 pairs.
#[inline(always)]
#[track_caller]
fn small_product<const PAIRS: bool>(a: [[u32; 4]; 2], b: [[[u32; 2]; 2]; 2]) -> [f32; 8] {
    let mut sums = [0.0f32; 8];
    for n in 0..2 {
        let mut c = [0.0f32; 4];
        if PAIRS {
            c = mma::mma_m16n8k16_f16(a[1], b[0][n], c);
            c = mma::mma_m16n8k16_f16(a[0], b[1][n], c);
        }
        c = mma::mma_m16n8k16_f16(a[0], b[0][n], c);
        for e in 0..4 {
            sums[4 * n + e] = c[e];
        }
    }
    sums
}

/// Writes `-T2 A21 T1` into the T image.
///
/// # Safety
/// Nobody reads A21 any more.
#[inline(always)]
pub unsafe fn store_lower_left<const PAIRS: bool>(images: *mut u8, lane: usize, below: &[f32; 8]) {
    let unscale = -power_of_two(-CHUNK_SCALE);
    let (g, pair) = (lane / 4, lane % 4 * 2);
    for n in 0..2 {
        for half in 0..2 {
            let at = chunk_at(HALF + 8 * half + g, n) + pair * 2;
            let i = 4 * n + 2 * half;
            // SAFETY: rows 16..32, units 0 and 1.
            unsafe { store_pair::<PAIRS>(images, T, at, below[i] * unscale, below[i + 1] * unscale) };
        }
    }
}
