//! `dense.product/mma`, second launch for few tokens: 64 matrix rows by 32 tokens on tensor cores.
//!
//! Math      as `product_mma`
//! Shapes    as `product_mma`
//! Mapping   grid (ceil(tokens / 32), ceil(n_out / 64)); four warps of 16 rows and 32 tokens
//! Memory    eight stages of 32 columns (`mma_tile`), most of them rows of W: reading those is what the time goes into
//! Order     `mma_tile`'s: the bits of `product_mma`
//! Barriers  one a stage, by all 128 threads (`mma_tile`); no early return
//! Budget    168 registers, 0 B shared but the stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `dense.product/rows2` (docs/src/exactness.md)

use cuda_std::kernel;
use cuda_std::launch::Bounds;

use super::ProductParams;
use super::mma_tile::{body, shared_bytes};
use super::weight::{Bf16, F16};

/// Three blocks an SM, as the stages allow.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 3 };
/// Matrix rows of a block.
pub const ROWS: usize = 64;
/// Tokens of a block.
pub const TOKENS: usize = 32;
/// Stages that stay under way while one is waited for and one is multiplied.
const AHEAD: u32 = 6;
/// Dynamic shared memory of a block in bytes.
pub const SHARED_BYTES: usize = shared_bytes(ROWS, TOKENS, AHEAD);
const _: () = assert!(SHARED_BYTES == 65_536);
/// Rows that the threads copy at a time.
const PITCH: usize = BOUNDS.threads as usize / 4;

/// # Safety
/// Shapes and alignment as the header says, weights f16; block 128, dynamic shared memory `SHARED_BYTES`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_narrow_f16(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { body::<F16, 1, 1, { ROWS / PITCH }, { TOKENS / PITCH }, PITCH, AHEAD>(p) }
}

/// # Safety
/// Shapes and alignment as the header says, weights bf16; block 128, dynamic shared memory `SHARED_BYTES`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_narrow_bf16(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { body::<Bf16, 1, 1, { ROWS / PITCH }, { TOKENS / PITCH }, PITCH, AHEAD>(p) }
}
