//! A parameter struct with more than 16 bytes of alignment, which the device compiler cannot pass.

use cuda_std::kernel;
use cuda_std::launch::Bounds;

#[repr(C, align(32))]
#[derive(Clone, Copy)]
pub struct Wide {
    value: u32,
}

/// # Safety
/// None.
#[kernel]
#[launch_bounds(Bounds { threads: 32, min_blocks: 1 })]
pub unsafe fn wide(_p: Wide) {}

fn main() {}
