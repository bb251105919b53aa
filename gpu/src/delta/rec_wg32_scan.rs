//! `delta.rec/wg32`, second launch: the scan over chunks of 32 tokens on the tensor cores of Hopper.
//!
//! Math      as `delta.rec/tc32`
//! Shapes    `RecParams` with scratch; any head counts with value_heads a multiple of key_heads, any token count, any batch
//! Mapping   as `delta.rec/tc32`: the four scanning warps are a warpgroup of 64 columns
//! Products  `wgmma` m64nNk16 on f16 pairs scaled by powers of two: S, Y, D from registers, k, q, P, T from shared memory
//!           as the stage holds them (k also transposed); X and Q S are one product of N = 64. lo hi + hi lo + hi hi, sums
//!           from 0 in f32
//! Order     lets the next launch start when all blocks run: it prepares the next pass on SMs that are left
//! Barriers  none of the block after the start: two named ones a stage (`chunk_ring.rs`)
//! Budget    255 registers, 0 B shared but a ring of stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`: 5e-6 (docs/src/exactness.md)

use cuda_std::barrier::fence_async_shared;
use cuda_std::wgmma::{self, Descriptor};
use cuda_std::{grid, kernel};

use super::RecParams;
use super::chunk::{CHUNK, COLUMN_BLOCK, DECAY, KEYS, P, REST, T, fragments};
use super::chunk_ring::Stage;
use super::chunk_scan::{
    Given, STATE_TILES, Scaled, Steps, TOKEN_TILES, Tokens, outputs, read, whole_decay, write_outputs,
};
use super::chunk_walk::{Advance, BOUNDS, walk};
use crate::geometry::HEAD_DIM;

/// What stages are aligned to: the swizzle of `wgmma` counts from multiples of it.
pub const ALIGN: usize = 1024;
/// Stages of the ring.
pub const STAGES: usize = 3;

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, scratch as `delta_rec_wg32_prep` left it; grid `[value_heads * SPLIT,
/// sequences]`, block `THREADS`, dynamic shared memory `shared_bytes(true, ALIGN, STAGES)`.
#[kernel(sm = 90, cluster = 2)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_scan(p: RecParams) {
    grid::let_next_start();
    // SAFETY: same contract.
    unsafe { walk::<Wgmma, true, ALIGN, STAGES>(p) }
}

/// Products by `wgmma`.
pub(super) struct Wgmma;

impl Advance<true> for Wgmma {
    #[inline(always)]
    unsafe fn advance(stage: Stage, state: &mut Scaled, warp: usize) {
        // SAFETY: the stage holds the chunk; registers of products are left alone until the wait.
        unsafe {
            let given = Given::read(stage.scalars, stage.values, warp);
            let mut xq = [0.0f32; 8 * TOKEN_TILES]; // X, then Q S
            let keys = KEYS.map(|at| Descriptor::k_major::<128>(stage.keys.add(at), 1024));
            for step in 0..HEAD_DIM / 16 {
                start_state_product(&mut xq, state, keys, step);
            }
            wgmma::commit();
            // While these run.
            let steps = Steps::new::<true>(&given, state);
            wgmma::wait::<0>();
            wgmma::hold(&mut xq);

            let right = steps.right_side(&xq[..4 * TOKEN_TILES]);
            let mut sums = [0.0f32; 4 * TOKEN_TILES];
            start_chunk_product::<true, true>(stage.head, T, &right, &mut sums);
            let (rest, whole) = (read(stage.scalars, REST), whole_decay(stage.scalars));
            wgmma::wait::<0>();
            wgmma::hold(&mut sums);

            let [d, mut kept] = steps.corrections(&rest, &sums);
            let mut pd = [0.0f32; 4 * TOKEN_TILES];
            start_chunk_product::<true, true>(stage.head, P, &d, &mut pd);
            let turn = steps.turn::<true>(whole, state, &mut kept);
            let mut added = [0.0f32; 4 * STATE_TILES];
            start_update::<true>(stage.keys, &kept, &mut added, false);
            // While these run.
            let carried = steps.carried(&read(stage.scalars, DECAY), &xq[4 * TOKEN_TILES..]);
            turn.carry(state);
            wgmma::wait::<1>();
            wgmma::hold(&mut pd);
            write_outputs(stage.values, warp, &outputs(&carried, &pd, steps.of_corrections()));
            wgmma::wait::<0>();
            wgmma::hold(&mut added);
            turn.add(state, &added);
        }
    }

    #[inline(always)]
    fn make_visible() {
        fence_async_shared();
    }
}

/// Starts step `step` of the product of the state with the k, q images.
///
/// # Safety
/// The stage holds the images; `sums` is left alone until the wait.
#[inline(always)]
unsafe fn start_state_product(sums: &mut [f32; 8 * TOKEN_TILES], state: &Scaled, keys: [Descriptor; 2], step: usize) {
    let a = fragments::<true>(&state.s[8 * step..8 * step + 4], &state.s[8 * step + 4..8 * step + 8]);
    let at = step / 4 * COLUMN_BLOCK + step % 4 * 32;
    // SAFETY: the caller's.
    unsafe {
        wgmma::fence();
        wgmma::mma_m64n64k16_f16::<false>(sums, a[1], keys[0].advance(at), step > 0);
        wgmma::mma_m64n64k16_f16::<false>(sums, a[0], keys[1].advance(at), true);
        wgmma::mma_m64n64k16_f16::<false>(sums, a[0], keys[0].advance(at), true);
    }
}

/// Starts the product of the columns' `right` with a chunk image (T or P), a group of its own.
///
/// # Safety
/// The stage holds the image; `sums` is left alone until the wait.
#[inline(always)]
pub(super) unsafe fn start_chunk_product<const RIGHT_PAIRS: bool, const IMAGE_PAIRS: bool>(
    images: *const u8,
    image: [usize; 2],
    right: &Tokens,
    sums: &mut Tokens,
) {
    // SAFETY: the caller's.
    unsafe {
        let b = image.map(|at| Descriptor::k_major::<64>(images.add(at), 512));
        for step in 0..CHUNK / 16 {
            let a = fragments::<RIGHT_PAIRS>(&right[8 * step..8 * step + 4], &right[8 * step + 4..8 * step + 8]);
            wgmma::fence();
            if RIGHT_PAIRS {
                wgmma::mma_m64n32k16_f16::<false>(sums, a[1], b[0].advance(32 * step), step > 0);
            }
            if IMAGE_PAIRS {
                wgmma::mma_m64n32k16_f16::<false>(sums, a[0], b[1].advance(32 * step), true);
            }
            wgmma::mma_m64n32k16_f16::<false>(sums, a[0], b[0].advance(32 * step), RIGHT_PAIRS || step > 0);
        }
        wgmma::commit();
    }
}

/// Starts the product of the kept part of D with the keys, a group of its own.
///
/// # Safety
/// The stage holds the images at `keys`; `sums` is left alone until the wait.
#[inline(always)]
pub(super) unsafe fn start_update<const PAIRS: bool>(
    images: *const u8,
    kept: &Tokens,
    sums: &mut [f32; 4 * STATE_TILES],
    accumulate: bool,
) {
    // SAFETY: the caller's.
    unsafe {
        let keys = KEYS.map(|at| Descriptor::mn_major_128(images.add(at), COLUMN_BLOCK, 1024));
        for step in 0..CHUNK / 16 {
            let a = fragments::<PAIRS>(&kept[8 * step..8 * step + 4], &kept[8 * step + 4..8 * step + 8]);
            let at = step * 2048;
            wgmma::fence();
            if PAIRS {
                wgmma::mma_m64n128k16_f16::<true>(sums, a[1], keys[0].advance(at), accumulate || step > 0);
                wgmma::mma_m64n128k16_f16::<true>(sums, a[0], keys[1].advance(at), true);
            }
            wgmma::mma_m64n128k16_f16::<true>(sums, a[0], keys[0].advance(at), PAIRS || accumulate || step > 0);
        }
    }
    wgmma::commit();
}
