//! Matrix products of a warpgroup (Hopper, sm_90a): A in registers, B in shared memory, the sums in registers.
//!
//! A warpgroup is four consecutive warps of which the first is a multiple of four. All its 128 threads execute each
//! function here but [`Descriptor`]'s and [`hold`] together, by the same instruction. A is 64 x 16, B is 16 x N, C is 64 x N:
//!
//! | operand | where | element |
//! |---|---|---|
//! | A, f16 | registers, as A of m16n8k16 in [`mma`](crate::mma) | warp w of the group holds rows 16 w .. 16 w + 15 |
//! | B, f16 | shared memory, through a [`Descriptor`] | see there |
//! | C, f32 | `acc[4 j ..]`, as C of m16n8k16 | rows 16 w .., columns 8 j .. 8 j + 7 |
//!
//! Products run on their own: the order is [`fence`], products, [`commit`], [`wait`]. A [`fence`] is needed before the first
//! product and wherever registers that a product takes (A or C) were touched since the last one (the emulator wants one
//! after each wait). Between a product and its wait nothing may touch its registers or write its B; there is no barrier in
//! between either. B is read through the asynchronous proxy: after ordinary writes (and landed `cp.async`) each writer
//! executes [`barrier::fence_async_shared`](crate::barrier::fence_async_shared), then a barrier comes, then the product.
//!
//! ```
//! use cuda_std::wgmma::{self, Descriptor};
//!
//! /// A B of a K-major tile of 64 rows of B, visible to products.
//! unsafe fn product(a: &[[u32; 4]; 4], b: Descriptor) -> [f32; 32] {
//!     let mut acc = [0.0; 32];
//!     wgmma::fence();
//!     for k in 0..4 {
//!         // SAFETY: same contract.
//!         unsafe { wgmma::mma_m64n64k16_f16::<false>(&mut acc, a[k], b.advance(32 * k), k > 0) };
//!     }
//!     wgmma::commit();
//!     wgmma::wait::<0>();
//!     wgmma::hold(&mut acc);
//!     acc
//! }
//! ```
//!
//! ptxas 13 makes one chain of such products (no moves, one wait). Where a register of a product under way is touched it
//! waits for each product by itself, and says so (C7514); `cuda_builder` reports that.
//!
//! The sums on the GPU are rounded in an order that is not published; the emulator starts from C (or 0) and adds the
//! products with k ascending, each rounded to f32, each sum rounded to f32. The two are close, not equal.

use crate::imp;

/// Where a tile of B lies in shared memory, and how.
///
/// Tiles are made of swizzle atoms: 8 rows of `SWIZZLE` bytes, aligned to their size of `8 SWIZZLE` bytes. Within an atom
/// the index of a 16-byte unit in its row is xored with the row's number: address bits 4 to 6 with bits 7 to 9 for 128
/// bytes, bits 4 and 5 with bits 7 and 8 for 64. The atoms' addresses count from the start of shared memory, so tiles
/// belong into the dynamic area of a kernel without static arrays, which starts at a multiple of 1024 (static arrays come
/// before it on a GPU, at multiples of 16).
#[derive(Clone, Copy)]
pub struct Descriptor(imp::wgmma::Descriptor);

impl Descriptor {
    /// K-major B: element (k, n) is element k of row n. Rows of `SWIZZLE` bytes (128: 64 k's, 64: 32 k's) follow each other
    /// in groups of 8, an atom each; `group_stride_bytes` is the distance from 8 rows to the next 8. `tile` is the start of
    /// an atom; [`advance`](Self::advance) by 32 goes to the next 16 k's.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn k_major<const SWIZZLE: usize>(tile: *const impl Sized, group_stride_bytes: usize) -> Self {
        Self(imp::wgmma::Descriptor::k_major::<SWIZZLE>(tile.cast(), group_stride_bytes))
    }

    /// MN-major B, for `TRANS_B`: element (k, n) is element n % 64 of row k of the block n / 64. Rows of 128 bytes follow
    /// each other in groups of 8, an atom each. `block_stride_bytes` is the distance from 64 columns to the next 64 (unused
    /// up to N = 64), `group_stride_bytes` from 8 rows to the next 8. `tile` is the start of an atom.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn mn_major_128<T>(tile: *const T, block_stride_bytes: usize, group_stride_bytes: usize) -> Self {
        Self(imp::wgmma::Descriptor::mn_major_128(tile.cast(), block_stride_bytes, group_stride_bytes))
    }

    /// The same layout from `bytes` bytes further on, a multiple of 16.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn advance(self, bytes: usize) -> Self {
        Self(self.0.advance(bytes))
    }
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident, $regs:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `b` describes a tile of the block's shared memory that is written, and made visible, as the module says;
        /// nothing writes it, and nothing touches `acc` and the registers of `a`, until the wait.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<const TRANS_B: bool>(acc: &mut [f32; $regs], a: [u32; 4], b: Descriptor, accumulate: bool) {
            // SAFETY: same contract.
            unsafe { imp::wgmma::$name::<TRANS_B>(acc, a, b.0, accumulate) }
        }
    )*};
}

products! {
    /// Starts `acc = A * B`, plus `acc` if `accumulate`; N is 32. `TRANS_B` says that B is MN-major.
    mma_m64n32k16_f16, 16;
    /// Starts `acc = A * B`, plus `acc` if `accumulate`; N is 64. `TRANS_B` says that B is MN-major.
    mma_m64n64k16_f16, 32;
    /// Starts `acc = A * B`, plus `acc` if `accumulate`; N is 128. `TRANS_B` says that B is MN-major.
    mma_m64n128k16_f16, 64;
}

/// Orders the warpgroup's register accesses before it with the products after it.
#[inline(always)]
#[track_caller]
pub fn fence() {
    imp::wgmma::fence();
}

/// Closes the group of the products started since the last one.
#[inline(always)]
#[track_caller]
pub fn commit() {
    imp::wgmma::commit();
}

/// Waits until at most the newest `N` committed groups still run.
#[inline(always)]
#[track_caller]
pub fn wait<const N: u32>() {
    imp::wgmma::wait::<N>();
}

/// Keeps the compiler from moving arithmetic on `acc` across this point: it knows nothing of products that run on their
/// own. Belongs before [`fence`] where `acc` was computed just there, and after the [`wait`] that `acc` is read behind.
#[inline(always)]
pub fn hold<const N: usize>(acc: &mut [f32; N]) {
    imp::wgmma::hold(acc);
}
