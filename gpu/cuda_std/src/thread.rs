//! Who the running thread is: indices within the block and the grid, and their extents, all in threads or blocks.

use crate::imp;

pub use crate::barrier::sync_threads;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            imp::thread::$name()
        }
    )*};
}

index! {
    /// Index of the thread within its block along x.
    thread_idx_x;
    /// Index of the thread within its block along y.
    thread_idx_y;
    /// Index of the thread within its block along z.
    thread_idx_z;
    /// Index of the block within the grid along x.
    block_idx_x;
    /// Index of the block within the grid along y.
    block_idx_y;
    /// Index of the block within the grid along z.
    block_idx_z;
    /// Threads of a block along x.
    block_dim_x;
    /// Threads of a block along y.
    block_dim_y;
    /// Threads of a block along z.
    block_dim_z;
    /// Blocks of the grid along x.
    grid_dim_x;
    /// Blocks of the grid along y.
    grid_dim_y;
    /// Blocks of the grid along z.
    grid_dim_z;
}
