//! Global memory: accessors whose fast path compares with the range hit last.

use std::panic::Location;

use super::accessors::accessors;
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

accessors! {
    loads {
        load<Word> -> T;
        load2<Word32> -> [T; 2];
        load4<Word32> -> [T; 4];
        load_nc<Word> -> T;
        load2_nc<Word32> -> [T; 2];
        load4_nc<Word32> -> [T; 4];
        load_nc_ordered<Word> -> T;
        load2_nc_ordered<Word32> -> [T; 2];
        load4_nc_ordered<Word32> -> [T; 4];
    }
    stores {
        store<Word>(T);
        store_named<Word32>(T);
        store2<Word32>([T; 2]);
        store4<Word32>([T; 4]);
    }
}

/// Host body of [`global::prefetch_l2`](crate::global::prefetch_l2): a hint, so nothing.
///
/// # Safety
/// None on the host.
#[inline(always)]
pub(crate) unsafe fn prefetch_l2(_p: *const u8) {}
