//! A parameter struct that is not Copy.

use cuda_std::kernel;
use cuda_std::launch::Bounds;

pub struct Owned {
    values: Vec<u32>,
}

/// # Safety
/// None.
#[kernel]
#[launch_bounds(Bounds { threads: 32, min_blocks: 1 })]
pub unsafe fn owned(_p: Owned) {}

fn main() {}
