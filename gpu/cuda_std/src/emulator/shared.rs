//! Shared memory: accessors whose fast path is a range check and a look at the shadow, and static array sites.

use std::panic::Location;

use super::accessors::accessors;
use super::arena::{PENDING, STATIC_LIMIT, TRACKED, UNALLOCATED};
use super::block::{Block, Source, raise};
use super::context;
use super::fault::{Access, Fault, Index, Space};
use super::proxy;
use crate::global::{Word, Word32};

/// A static shared array: one for each place where [`shared_array!`](crate::shared_array) stands.
#[derive(Debug)]
pub struct Site {
    bytes: usize,
}

impl Site {
    /// The site of an array of `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self { bytes }
    }

    /// Where the array is in the running block's shared memory, 16-byte aligned. All sites together, each rounded up to
    /// 16, may take 48 KiB, and with the dynamic area as much as the launch's limits say.
    #[inline(never)]
    #[must_use]
    pub fn place(&'static self) -> *mut u8 {
        // SAFETY: the running block; the reference ends with this function.
        let block = unsafe { &mut *context::block() };
        let limit_fault = |block: &Block, what, value: usize, limit: usize| Fault::LaunchLimit {
            kernel: block.grid().kernel.clone(),
            what,
            value: value as u64,
            limit: limit as u64,
        };
        let offset = match block.arena.place(std::ptr::from_ref(self) as usize, self.bytes) {
            Ok(offset) => offset,
            Err(total) => raise(limit_fault(block, "static shared memory in bytes", total, STATIC_LIMIT)),
        };
        let grid = block.grid();
        let total = block.arena.static_bytes() + grid.launch.dynamic_shared as usize;
        let limit = grid.options.limits.shared_optin_bytes as usize;
        if total > limit {
            raise(limit_fault(block, "shared memory (static and dynamic) in bytes", total, limit));
        }
        block.arena.base().wrapping_add(offset)
    }
}

/// Host body of [`shared::dynamic_shared`](crate::shared::dynamic_shared).
#[inline(always)]
#[must_use]
pub(crate) fn dynamic_shared() -> *mut u8 {
    context::with(|c| c.shared_base.get()) as *mut u8
}

/// Checks an access of `BYTES` bytes; ends the block with a fault where it is not allowed. A write is remembered for the
/// asynchronous proxy.
#[inline(always)]
pub(crate) fn check<const BYTES: usize>(address: usize, access: Access, source: Source) {
    let fine = context::with(|c| {
        let offset = address.wrapping_sub(c.shared_base.get());
        offset <= c.shared_len.get() - BYTES && address.is_multiple_of(BYTES) && {
            let shadow = c.shadow.get().wrapping_add(offset / 4);
            // SAFETY: the arena has one shadow byte for each 4 bytes, and the access lies in the arena and is aligned.
            unsafe {
                match BYTES {
                    16 => shadow.cast::<u32>().read_unaligned() == 0,
                    8 => shadow.cast::<u16>().read_unaligned() == 0,
                    _ => shadow.read() == 0,
                }
            }
        }
    });
    if !fine {
        check_slow(address, BYTES, access, source);
    }
    if matches!(access, Access::Write) {
        proxy::remember::<BYTES>(address);
    }
}

#[cold]
#[inline(never)]
fn check_slow(address: usize, bytes: usize, access: Access, source: Source) {
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    if let Err(fault) = block.check_shared(address, bytes, access, source) {
        raise(fault);
    }
}

impl Block {
    /// Checks an access of the running thread to shared memory, and records it for the race detector.
    pub(crate) fn check_shared(
        &mut self,
        address: usize,
        bytes: usize,
        access: Access,
        source: Source,
    ) -> Result<(), Fault> {
        let Some(offset) = self.shared_offset(address) else {
            return Err(self.out_of_range(Space::Shared, access, address, bytes, source));
        };
        if !address.is_multiple_of(bytes) {
            return Err(Fault::Misaligned { place: self.place(source), space: Space::Shared, access, address, bytes });
        }
        let shadow = self.arena.shadow(offset, bytes);
        if shadow & UNALLOCATED != 0 {
            return Err(self.out_of_range(Space::Shared, access, address, bytes, source));
        }
        if shadow & PENDING != 0 {
            let place = self.place(source);
            let problem = match self.issuer_of(address, bytes) {
                Some((thread, issued)) => format!(
                    "{access} of {bytes} bytes at shared offset {offset}, to which thread {} has an asynchronous copy under way (issued at {issued})",
                    Index(thread)
                ),
                None => {
                    format!("{access} of {bytes} bytes at shared offset {offset} before an asynchronous copy landed")
                }
            };
            return Err(Fault::MissingWait { place, problem });
        }
        let recorded = matches!(access, Access::Read | Access::Write);
        if shadow & TRACKED != 0 && recorded {
            let linear = context::with(|c| c.linear.get());
            return self.check_race(linear, offset, bytes, access, source);
        }
        Ok(())
    }
}

accessors! {
    loads {
        load<Word> -> T;
        load2<Word32> -> [T; 2];
        load4<Word32> -> [T; 4];
    }
    stores {
        store<Word>(T);
        store2<Word32>([T; 2]);
        store4<Word32>([T; 4]);
    }
}
