//! Global memory: accessors whose fast path compares with the range hit last.

use std::panic::Location;

use super::block::{Source, raise};
use super::context;
use super::fault::{Access, Fault, Space};
use crate::global::{Word, Word32};

/// Checks an access of `BYTES` bytes; ends the block with a fault where it is not allowed.
#[inline(always)]
pub(crate) fn check<const BYTES: usize>(address: usize, access: Access, source: Source) {
    let fine = context::with(|c| {
        let offset = address.wrapping_sub(c.range_base.get());
        offset <= c.range_len.get() - BYTES && address.is_multiple_of(BYTES)
    });
    if !fine {
        check_slow(address, BYTES, access, source);
    }
}

/// As [`check`], for `bytes` bytes at an address that must be a multiple of `align`. No bytes are never out of range.
pub(crate) fn check_bytes(address: usize, bytes: usize, align: usize, access: Access, source: Source) {
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    if !address.is_multiple_of(align) {
        let place = block.place(source);
        raise(Fault::Misaligned { place, space: Space::Global, access, address, bytes: align });
    }
    if bytes > 0 && !block.find_range(address, bytes) {
        raise(block.out_of_range(Space::Global, access, address, bytes, source));
    }
}

#[cold]
#[inline(never)]
fn check_slow(address: usize, bytes: usize, access: Access, source: Source) {
    check_bytes(address, bytes, bytes, access, source);
}

/// [`check`] for an access to a `V` of 1, 2, 4, 8 or 16 bytes.
#[inline(always)]
fn check_value<V>(address: usize, access: Access, source: Source) {
    match size_of::<V>() {
        1 => check::<1>(address, access, source),
        2 => check::<2>(address, access, source),
        4 => check::<4>(address, access, source),
        8 => check::<8>(address, access, source),
        _ => check::<16>(address, access, source),
    }
}

macro_rules! loads {
    ($($name:ident<$bound:ident> -> $value:ty;)*) => {$(
        /// Host body of the accessor of this name in [`global`](crate::global).
        ///
        /// # Safety
        /// Nothing races with the access; range and alignment are checked.
        #[inline(always)]
        #[track_caller]
        pub(crate) unsafe fn $name<T: $bound>(p: *const T) -> $value {
            check_value::<$value>(p as usize, Access::Read, Location::caller());
            // SAFETY: checked to be within a registered range and aligned to its own size.
            unsafe { p.cast::<$value>().read() }
        }
    )*};
}

loads! {
    load<Word> -> T;
    load2<Word32> -> [T; 2];
    load4<Word32> -> [T; 4];
    load_nc<Word> -> T;
    load2_nc<Word32> -> [T; 2];
    load4_nc<Word32> -> [T; 4];
}

macro_rules! stores {
    ($($name:ident<$bound:ident>($value:ty);)*) => {$(
        /// Host body of the accessor of this name in [`global`](crate::global).
        ///
        /// # Safety
        /// Nothing races with the access; range and alignment are checked.
        #[inline(always)]
        #[track_caller]
        pub(crate) unsafe fn $name<T: $bound>(p: *mut T, v: $value) {
            check_value::<$value>(p as usize, Access::Write, Location::caller());
            // SAFETY: checked to be within a registered range and aligned to its own size.
            unsafe { p.cast::<$value>().write(v) }
        }
    )*};
}

stores! {
    store<Word>(T);
    store2<Word32>([T; 2]);
    store4<Word32>([T; 4]);
}

/// Host body of [`global::prefetch_l2`](crate::global::prefetch_l2): a hint, so nothing.
///
/// # Safety
/// None on the host.
#[inline(always)]
pub(crate) unsafe fn prefetch_l2(_p: *const u8) {}
