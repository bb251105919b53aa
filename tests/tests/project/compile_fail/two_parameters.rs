//! A kernel with two parameters.

use cuda_std::kernel;

/// # Safety
/// None.
#[kernel]
#[launch_bounds(cuda_std::launch::Bounds { threads: 32, min_blocks: 1 })]
pub unsafe fn two(_a: u32, _b: u32) {}

fn main() {}
