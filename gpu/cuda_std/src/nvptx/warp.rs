//! `shfl.sync`, `vote.sync`, `redux.sync`, `bar.warp.sync`.

use super::require_sm80;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn laneid() -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, v: u32, lane: u32, control: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_index(mask: u32, v: u32, lane: u32, control: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_upward(mask: u32, v: u32, delta: u32, control: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_downward(mask: u32, v: u32, delta: u32, control: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot(mask: u32, p: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any(mask: u32, p: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_all(mask: u32, p: bool) -> bool;
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_add(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn redux_umin(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn redux_umax(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    fn redux_smin(v: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    fn redux_smax(v: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    fn redux_and(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    fn redux_or(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    fn redux_xor(v: u32, mask: u32) -> u32;
}

#[inline(always)]
pub(crate) fn lane_id() -> u32 {
    // SAFETY: reading a special register has no precondition.
    unsafe { laneid() }
}

#[inline(always)]
pub(crate) fn sync_warp(mask: u32) {
    // SAFETY: the faces ask that the caller is in its mask and that all lanes of the mask come here.
    unsafe { bar_warp_sync(mask) }
}

/// The third operand of `shfl`: bits 8 to 12 hold the lane bits that stay within a segment, bits 0 to 4 the clamp.
#[inline(always)]
const fn control(width: u32, clamp: u32) -> u32 {
    ((32 - width) << 8) | clamp
}

macro_rules! shuffle {
    ($($name:ident = $intrinsic:ident, clamp $clamp:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(mask: u32, v: u32, operand: u32, width: u32) -> u32 {
            // SAFETY: as `sync_warp`; the width is a power of two up to 32.
            unsafe { $intrinsic(mask, v, operand, control(width, $clamp)) }
        }
    )*};
}

shuffle! {
    shfl_xor = shfl_bfly, clamp 31;
    shfl_idx = shfl_index, clamp 31;
    shfl_up = shfl_upward, clamp 0;
    shfl_down = shfl_downward, clamp 31;
}

macro_rules! vote {
    ($($name:ident = $intrinsic:ident -> $ty:ty;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(mask: u32, p: bool) -> $ty {
            // SAFETY: as `sync_warp`.
            unsafe { $intrinsic(mask, p) }
        }
    )*};
}

vote! {
    ballot = vote_ballot -> u32;
    any = vote_any -> bool;
    all = vote_all -> bool;
}

macro_rules! redux {
    ($($name:ident = $intrinsic:ident($ty:ty);)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(mask: u32, v: $ty) -> $ty {
            require_sm80::<()>();
            // SAFETY: as `sync_warp`.
            unsafe { $intrinsic(v, mask) }
        }
    )*};
}

redux! {
    redux_add_u32 = redux_add(u32);
    redux_min_u32 = redux_umin(u32);
    redux_max_u32 = redux_umax(u32);
    redux_min_i32 = redux_smin(i32);
    redux_max_i32 = redux_smax(i32);
    redux_and_u32 = redux_and(u32);
    redux_or_u32 = redux_or(u32);
    redux_xor_u32 = redux_xor(u32);
}

/// Wrapping addition is the same for both signs, and `redux.sync.add` has one form in LLVM.
#[inline(always)]
pub(crate) fn redux_add_i32(mask: u32, v: i32) -> i32 {
    redux_add_u32(mask, v.cast_unsigned()).cast_signed()
}
