//! `delta.rec/tc32`, second launch: the scan over chunks of 32 tokens on tensor cores.
//!
//! Math      the chunk form (docs/src/chunked_delta.md): X = K S, Y = beta (v - e^G X), D = T Y,
//!           y = (e^G Q S + P D) / sqrt(128), S = e^G_L S + K^T e^(G_L - G) D
//! Shapes    `RecParams` with scratch; any head counts with value_heads a multiple of key_heads, any token count, any batch
//! Mapping   block (head h, half c of its columns) = 2 h + c, y = sequence; warps 0 to 3 scan 16 columns each, their S^T in
//!           64 registers a lane; warps 4 to 7 fill stages and take outputs to memory
//! Products  `mma.sync` m16n8k16 on f16 pairs scaled by powers of two, lo hi + hi lo + hi hi, sums from 0 in f32; without
//!           `PAIRS` hi hi alone, but P D with both parts of D, whose sum may cancel
//! Barriers  none of the block after the start: two named ones a stage (`chunk_ring.rs`)
//! Budget    255 registers, 0 B shared but a ring of stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`: 5e-6, `tc32_fast` 2e-2, 2e-3 on ordinary inputs (docs/src/exactness.md)

use cuda_std::{kernel, mma};

use super::RecParams;
use super::chunk::{CHUNK, DECAY, KEYS, MatrixLane, P, REST, T, fragments, pairs, parts};
use super::chunk_ring::Stage;
use super::chunk_scan::{
    Given, STATE_TILES, Scaled, Steps, TOKEN_TILES, Tokens, outputs, read, whole_decay, write_outputs,
};
use super::chunk_walk::{Advance, BOUNDS, walk};
use crate::geometry::HEAD_DIM;

/// What stages are aligned to.
pub const ALIGN: usize = 128;
/// Stages of f16 pairs that fit 99 KiB.
pub const STAGES_PAIRS: usize = 2;
/// Stages of single f16 that fit 99 KiB.
pub const STAGES_FAST: usize = 3;

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, scratch as `delta_rec_tc32_prep` left it; grid `[value_heads * SPLIT,
/// sequences]`, block `THREADS`, dynamic shared memory `shared_bytes(true, ALIGN, STAGES_PAIRS)`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_tc32_scan(p: RecParams) {
    // SAFETY: same contract.
    unsafe { walk::<Mma, true, ALIGN, STAGES_PAIRS>(p) }
}

/// # Safety
/// As [`delta_rec_tc32_scan`], scratch as `delta_rec_tc32_fast_prep` left it, dynamic shared memory
/// `shared_bytes(false, ALIGN, STAGES_FAST)`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_tc32_fast_scan(p: RecParams) {
    // SAFETY: same contract.
    unsafe { walk::<Mma, false, ALIGN, STAGES_FAST>(p) }
}

/// Products by `mma.sync`.
struct Mma;

impl<const PAIRS: bool> Advance<PAIRS> for Mma {
    #[inline(always)]
    unsafe fn advance(stage: Stage, state: &mut Scaled, warp: usize) {
        let (plain, transposed) = (MatrixLane::columns_first(), MatrixLane::rows_first());
        // SAFETY: rows and columns of the stage's images throughout.
        unsafe {
            let mut xq = [0.0f32; 8 * TOKEN_TILES]; // X, then Q S
            for step in 0..HEAD_DIM / 16 {
                let a = fragments::<PAIRS>(&state.s[8 * step..8 * step + 4], &state.s[8 * step + 4..8 * step + 8]);
                let mut b = [[[[0u32; 2]; 2]; TOKEN_TILES]; 2];
                for part in 0..parts(PAIRS) {
                    for rows in 0..TOKEN_TILES {
                        b[part][rows] =
                            pairs(mma::ldmatrix_x4(stage.keys.add(KEYS[part] + plain.key(16 * rows, step))));
                    }
                }
                add_product::<PAIRS, PAIRS, TOKEN_TILES>(&mut xq, 0, a, &b);
            }
            let steps = Steps::new::<PAIRS>(&Given::read(stage.scalars, stage.values, warp), state);
            let right = steps.right_side(&xq[..4 * TOKEN_TILES]);
            let sums = chunk_product::<PAIRS, PAIRS>(stage.head, T, &plain, &right);
            let [d, mut kept] = steps.corrections(&read(stage.scalars, REST), &sums);
            let turn = steps.turn::<PAIRS>(whole_decay(stage.scalars), state, &mut kept);
            let mut added = [0.0f32; 4 * STATE_TILES];
            for step in 0..CHUNK / 16 {
                let a = fragments::<PAIRS>(&kept[8 * step..8 * step + 4], &kept[8 * step + 4..8 * step + 8]);
                for half in 0..2 {
                    let mut b = [[[[0u32; 2]; 2]; 4]; 2];
                    for part in 0..parts(PAIRS) {
                        for i in 0..4 {
                            let at = KEYS[part] + transposed.key(16 * step, 4 * half + i);
                            b[part][i] = pairs(mma::ldmatrix_x4_trans(stage.keys.add(at)));
                        }
                    }
                    add_product::<PAIRS, PAIRS, 4>(&mut added, 8 * half, a, &b);
                }
            }
            let pd = chunk_product::<true, PAIRS>(stage.head, P, &plain, &d);
            turn.carry(state);
            turn.add(state, &added);
            let carried = steps.carried(&read(stage.scalars, DECAY), &xq[4 * TOKEN_TILES..]);
            write_outputs(stage.values, warp, &outputs(&carried, &pd, steps.of_corrections()));
        }
    }

    #[inline(always)]
    fn make_visible() {
        // `mma.sync` reads what any thread of the block wrote.
    }
}

/// The warp's columns of a product with a lower triangular image (T or P), whose tiles above the diagonal are skipped.
///
/// # Safety
/// The stage holds the image.
#[inline(always)]
unsafe fn chunk_product<const RIGHT_PAIRS: bool, const IMAGE_PAIRS: bool>(
    images: *const u8,
    image: [usize; 2],
    matrix: &MatrixLane,
    right: &Tokens,
) -> Tokens {
    let mut sums = [0.0f32; 4 * TOKEN_TILES];
    for step in (0..CHUNK / 16).rev() {
        let a = fragments::<RIGHT_PAIRS>(&right[8 * step..8 * step + 4], &right[8 * step + 4..8 * step + 8]);
        let mut b = [[[[0u32; 2]; 2]; 2]; 2];
        for part in 0..parts(IMAGE_PAIRS) {
            for rows in step..2 {
                // SAFETY: rows and columns of the image.
                b[part][rows] =
                    unsafe { pairs(mma::ldmatrix_x4(images.add(image[part] + matrix.chunk(16 * rows, step)))) };
            }
        }
        if step == 0 {
            add_product::<RIGHT_PAIRS, IMAGE_PAIRS, 2>(&mut sums, 0, a, &b);
        } else {
            add_product::<RIGHT_PAIRS, IMAGE_PAIRS, 1>(&mut sums, 2, a, &[[b[0][1]], [b[1][1]]]);
        }
    }
    sums
}

/// Adds `a` times `2 N` B fragments to the tiles from `tile` on, small products first; neighbouring instructions add to
/// different tiles.
#[inline(always)]
#[track_caller]
fn add_product<const A_PAIRS: bool, const B_PAIRS: bool, const N: usize>(
    sums: &mut [f32],
    tile: usize,
    a: [[u32; 4]; 2],
    b: &[[[[u32; 2]; 2]; N]; 2],
) {
    if A_PAIRS {
        add_tiles::<N>(sums, tile, a[1], &b[0]);
    }
    if B_PAIRS {
        add_tiles::<N>(sums, tile, a[0], &b[1]);
    }
    add_tiles::<N>(sums, tile, a[0], &b[0]);
}

#[inline(always)]
#[track_caller]
fn add_tiles<const N: usize>(sums: &mut [f32], tile: usize, a: [u32; 4], b: &[[[u32; 2]; 2]; N]) {
    for i in 0..N {
        for half in 0..2 {
            let at = 4 * (tile + 2 * i + half);
            let c = mma::mma_m16n8k16_f16(a, b[i][half], [sums[at], sums[at + 1], sums[at + 2], sums[at + 3]]);
            (sums[at], sums[at + 1], sums[at + 2], sums[at + 3]) = (c[0], c[1], c[2], c[3]);
        }
    }
}
