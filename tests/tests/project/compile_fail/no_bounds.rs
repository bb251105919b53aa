//! A kernel without launch bounds.

use cuda_std::kernel;

#[derive(Clone, Copy)]
pub struct Params {
    value: u32,
}

/// # Safety
/// None.
#[kernel]
pub unsafe fn unbounded(_p: Params) {}

fn main() {}
