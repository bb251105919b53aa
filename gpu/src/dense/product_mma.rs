//! `dense.product/mma`, second launch: 128 matrix rows by 128 tokens on tensor cores.
//!
//! Math      y[t][n] = 2^-E_t sum over c of W[n][c] (lo[t][c] + hi[t][c]), plus add[t][n]; parts and E as `parts`
//! Shapes    `ProductParams` with scratch as the first launch left it; n_in a multiple of 8, w 16-byte aligned
//! Mapping   grid (ceil(tokens / 128), ceil(n_out / 128)), so that neighbours share matrix rows; eight warps of 64 rows and 32 tokens
//! Memory    four stages of 32 columns (`mma_tile`)
//! Order     `mma_tile`'s. A token's bits depend neither on its place in a block nor on the other tokens
//! Barriers  one a stage, by all 256 threads (`mma_tile`); no early return
//! Budget    255 registers, 0 B shared but the stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `dense.product/rows2` (docs/src/exactness.md)

use cuda_std::kernel;
use cuda_std::launch::Bounds;

use super::ProductParams;
use super::mma_tile::{body, shared_bytes};
use super::weight::{Bf16, F16};

/// A block an SM: 64 sums of a slice and 64 of all a thread.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 1 };
/// Matrix rows of a block.
pub const ROWS: usize = 128;
/// Tokens of a block.
pub const TOKENS: usize = 128;
/// Stages that stay under way while one is waited for and one is multiplied.
const AHEAD: u32 = 2;
/// Dynamic shared memory of a block in bytes: what cards of 8.6 and 8.9 give one block is 101,376.
pub const SHARED_BYTES: usize = shared_bytes(ROWS, TOKENS, AHEAD);
const _: () = assert!(SHARED_BYTES <= 101_376);
/// Rows that the threads copy at a time.
const PITCH: usize = BOUNDS.threads as usize / 4;

/// # Safety
/// Shapes and alignment as the header says, weights f16; block 256, dynamic shared memory `SHARED_BYTES`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_f16(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { body::<F16, 4, 4, { ROWS / PITCH }, { TOKENS / PITCH }, PITCH, AHEAD>(p) }
}

/// # Safety
/// Shapes and alignment as the header says, weights bf16; block 256, dynamic shared memory `SHARED_BYTES`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_bf16(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { body::<Bf16, 4, 4, { ROWS / PITCH }, { TOKENS / PITCH }, PITCH, AHEAD>(p) }
}
