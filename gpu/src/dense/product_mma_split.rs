//! `dense.product/mma` and `mma_narrow`, first launch: x in parts of 16 bits.
//!
//! Math      as `parts`
//! Shapes    `ProductParams` with scratch; n_in a multiple of 8
//! Mapping   block t = token t; thread i holds columns 4 i .. 4 i + 3 of every 1,024
//! Order     the largest magnitude of a token, in which no order shows
//! Barriers  one, by all 256 threads: the warps' largest are written before it, read after it; nothing returns early
//! Budget    40 registers, 32 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding, with the second launch (docs/src/exactness.md)

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{float, global, kernel, shared, shared_array, warp};

use super::ProductParams;
use super::parts::{Half, PARTS, exponent, part_bytes, scale, split};
use super::weight::{Bf16, F16};

/// A block a token.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 6 };
const WARPS: usize = BOUNDS.threads as usize / 32;
/// Columns of a step of the block.
const STEP: usize = 4 * BOUNDS.threads as usize;

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f16, scratch `scratch_bytes(tokens, n_in)`; grid `tokens`, block 256.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_split_f16(p: ProductParams) {
    let largest = shared_array![u32; WARPS];
    // SAFETY: same contract; a word a warp.
    unsafe { body::<F16>(p, largest) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights bf16, scratch `scratch_bytes(tokens, n_in)`; grid `tokens`, block 256.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_split_bf16(p: ProductParams) {
    let largest = shared_array![u32; WARPS];
    // SAFETY: same contract; a word a warp.
    unsafe { body::<Bf16>(p, largest) }
}

#[inline(always)]
unsafe fn body<W: Half>(p: ProductParams, largest: *mut u32) {
    let (t, token, n_in) = (thread_idx_x() as usize, block_idx_x() as usize, p.n_in as usize);
    // SAFETY: the grid has a block a token.
    let x = unsafe { p.x.add(token * p.x_stride as usize) };
    let mut magnitude = 0;
    let mut c = 4 * t;
    while c < n_in {
        // SAFETY: c + 3 < n_in, a multiple of 4; rows are aligned to four values.
        let v = unsafe { global::load4_nc(x.add(c)) };
        for j in 0..4 {
            magnitude = magnitude.max(float::abs(v[j]).to_bits());
        }
        c += STEP;
    }
    let of_warp = warp::redux_max_u32(magnitude);
    if t.is_multiple_of(32) {
        // SAFETY: t / 32 < WARPS; one writer, no reader before the barrier.
        unsafe { shared::store(largest.add(t / 32), of_warp) };
    }
    sync_threads();
    let mut of_token = 0u32;
    for w in 0..WARPS {
        // SAFETY: written before the barrier, not again after it.
        of_token = of_token.max(unsafe { shared::load(largest.add(w)) });
    }
    let e = exponent::<W>(of_token);
    let [s0, s1] = scale(e);
    let part = part_bytes(p.tokens as usize, n_in);
    if t == 0 {
        // SAFETY: behind the parts, one a token, a multiple of 4 since parts are.
        unsafe { global::store(p.scratch.add(PARTS * part).cast::<i32>().add(token), e) };
    }
    let mut c = 4 * t;
    while c < n_in {
        // SAFETY: as above.
        let v = unsafe { global::load4_nc(x.add(c)) }.map(|v| v * s0 * s1);
        let (ab, cd) = (split::<W>(v[0], v[1]), split::<W>(v[2], v[3]));
        // SAFETY: the token's row of part i; multiples of 8 bytes; one writer.
        let put = |i: usize, pairs: [u32; 2]| unsafe {
            let to = p.scratch.add(i * part + 2 * (token * n_in + c));
            global::store2(to.cast::<u32>(), pairs);
        };
        put(0, [ab[0], cd[0]]);
        put(1, [ab[1], cd[1]]);
        c += STEP;
    }
}
