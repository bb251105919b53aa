//! Thread and block indices and extents.

use super::{BOUNDS, ProbeParams, put};
use cuda_std::{kernel, thread::*};

/// Words that [`probe_index`] writes for each thread.
pub const INDEX_RESULTS: usize = 12;

/// Writes, for each thread in the order of its linear index in the grid: thread index x y z, block index x y z, block
/// extents x y z, grid extents x y z.
///
/// # Safety
/// `output` holds `[threads of the grid][INDEX_RESULTS]`; `input` is not used.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_index(p: ProbeParams) {
    let block = (block_idx_z() * grid_dim_y() + block_idx_y()) * grid_dim_x() + block_idx_x();
    let within = (thread_idx_z() * block_dim_y() + thread_idx_y()) * block_dim_x() + thread_idx_x();
    let threads = block_dim_x() * block_dim_y() * block_dim_z();
    let results = [
        thread_idx_x(),
        thread_idx_y(),
        thread_idx_z(),
        block_idx_x(),
        block_idx_y(),
        block_idx_z(),
        block_dim_x(),
        block_dim_y(),
        block_dim_z(),
        grid_dim_x(),
        grid_dim_y(),
        grid_dim_z(),
    ];
    // SAFETY: a row for each thread, by contract.
    unsafe { put(p, (block * threads + within) as usize, results) }
}
