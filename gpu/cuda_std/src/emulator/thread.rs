//! Indices of the running thread.

use super::context;

macro_rules! index {
    ($($name:ident = $field:ident $axis:literal;)*) => {$(
        #[doc = concat!("Host body of [`thread::", stringify!($name), "`](crate::thread::", stringify!($name), ").")]
        #[inline(always)]
        #[must_use]
        pub(crate) fn $name() -> u32 {
            context::with(|c| c.$field[$axis].get())
        }
    )*};
}

index! {
    thread_idx_x = thread_idx 0;
    thread_idx_y = thread_idx 1;
    thread_idx_z = thread_idx 2;
    block_idx_x = block_idx 0;
    block_idx_y = block_idx 1;
    block_idx_z = block_idx 2;
    block_dim_x = block_dim 0;
    block_dim_y = block_dim 1;
    block_dim_z = block_dim 2;
    grid_dim_x = grid_dim 0;
    grid_dim_y = grid_dim 1;
    grid_dim_z = grid_dim 2;
}
