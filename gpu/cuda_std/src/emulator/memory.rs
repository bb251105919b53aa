//! Device memory of the emulator: guarded allocations, and the registry of ranges that kernels may touch.
//!
//! An allocation starts as NaN bytes and has guard bytes at both ends, which are checked after each launch that touched
//! it. A launch sees the registry as it was at its start.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::global::Word;

/// What fresh memory holds: a NaN as f32 (signalling), f16 and bf16.
pub const POISON: u32 = 0x7fa1_7fa1;
/// Alignment of allocations, and length of the guard at each end.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xc5;

/// Why memory was not given or registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The host has no such amount.
    #[error("the emulator could not allocate {bytes} bytes of device memory")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The range touches one that is registered already.
    #[error("the range of {len} bytes at {base:#x} overlaps one that is registered already")]
    Overlap {
        /// First address.
        base: usize,
        /// Length in bytes.
        len: usize,
    },
}

/// A range that kernels may touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub base: usize,
    pub len: usize,
    pub guarded: bool,
}

impl Range {
    /// Offset from `base` of the first guard byte that changed.
    ///
    /// # Safety
    /// The range is guarded and still allocated.
    pub unsafe fn damage(&self) -> Option<isize> {
        debug_assert!(self.guarded);
        let at = |offset: isize| {
            let p = (self.base as *const u8).wrapping_offset(offset);
            // SAFETY: the guards belong to the allocation; volatile, since a kernel may have written them.
            unsafe { p.read_volatile() }
        };
        let guard = GUARD as isize;
        let len = self.len as isize;
        (-guard..0).chain(len..len + guard).find(|&offset| at(offset) != GUARD_BYTE)
    }
}

/// All ranges, by address; `None` until the first. A launch takes the `Arc`; a change copies the list if one holds it.
static REGISTRY: Mutex<Option<Arc<Vec<Range>>>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<Arc<Vec<Range>>>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner) // every change is a single call, so the list is whole
}

/// The ranges as they are now.
pub(crate) fn snapshot() -> Arc<Vec<Range>> {
    registry().get_or_insert_default().clone()
}

/// Index in `ranges` of the range that holds `bytes` bytes at `address`.
pub(crate) fn find(ranges: &[Range], address: usize, bytes: usize) -> Option<usize> {
    let at = ranges.partition_point(|r| r.base <= address).checked_sub(1)?;
    let range = &ranges[at];
    let offset = address - range.base;
    (offset < range.len && range.len - offset >= bytes).then_some(at)
}

fn insert(range: Range) -> Result<(), MemoryError> {
    let mut registry = registry();
    let ranges = registry.get_or_insert_default();
    let at = ranges.partition_point(|r| r.base < range.base);
    let clear_below = at == 0 || ranges[at - 1].base + ranges[at - 1].len <= range.base;
    let clear_above = at == ranges.len() || range.base + range.len <= ranges[at].base;
    if !(clear_below && clear_above) {
        return Err(MemoryError::Overlap { base: range.base, len: range.len });
    }
    Arc::make_mut(ranges).insert(at, range);
    Ok(())
}

fn remove(base: usize, len: usize) {
    let mut registry = registry();
    let ranges = registry.get_or_insert_default();
    if let Some(at) = ranges.iter().position(|r| (r.base, r.len) == (base, len)) {
        Arc::make_mut(ranges).remove(at);
    }
}

/// Guarded device memory of the emulator; freed on drop, which must not happen while a kernel uses it.
#[derive(Debug)]
pub struct Allocation {
    base: *mut u8,
    len: usize,
    block: *mut u8,
    layout: Layout,
}

// SAFETY: the allocation owns its memory; it is plain bytes.
unsafe impl Send for Allocation {}
// SAFETY: shared access only reads, or hands out raw pointers.
unsafe impl Sync for Allocation {}

/// Allocates `bytes` bytes (0 is allowed), aligned to 256, filled with [`POISON`].
///
/// # Errors
/// [`MemoryError::OutOfMemory`].
pub fn alloc(bytes: usize) -> Result<Allocation, MemoryError> {
    let out_of_memory = MemoryError::OutOfMemory { bytes };
    let total = bytes.checked_add(2 * GUARD).ok_or(out_of_memory)?;
    let layout = Layout::from_size_align(total, GUARD).map_err(|_| out_of_memory)?;
    // SAFETY: the layout has a size of at least two guards.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return Err(out_of_memory);
    }
    // SAFETY: offset and lengths are within the block just allocated.
    let base = unsafe {
        block.write_bytes(GUARD_BYTE, GUARD);
        let base = block.add(GUARD);
        fill_poison(base, bytes);
        base.add(bytes).write_bytes(GUARD_BYTE, GUARD);
        base
    };
    let allocation = Allocation { base, len: bytes, block, layout };
    insert(Range { base: base as usize, len: bytes, guarded: true })?;
    Ok(allocation)
}

/// Fills memory with [`POISON`] words; a tail of fewer than 4 bytes gets the word's first bytes.
///
/// # Safety
/// `base` is a multiple of 4 and starts `bytes` writable bytes.
pub(crate) unsafe fn fill_poison(base: *mut u8, bytes: usize) {
    let words = base.cast::<u32>();
    for i in 0..bytes / 4 {
        // SAFETY: within the range.
        unsafe { words.add(i).write(POISON) };
    }
    for i in bytes / 4 * 4..bytes {
        // SAFETY: within the range.
        unsafe { base.add(i).write(POISON.to_le_bytes()[i % 4]) };
    }
}

/// Allocates memory that holds a copy of `data`.
///
/// # Errors
/// [`MemoryError::OutOfMemory`].
pub fn from_slice<T: Word>(data: &[T]) -> Result<Allocation, MemoryError> {
    let mut allocation = alloc(size_of_val(data))?;
    allocation.write(0, data);
    Ok(allocation)
}

impl Allocation {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where the allocation has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First address, to read from.
    #[must_use]
    pub fn as_ptr<T>(&self) -> *const T {
        self.base.cast()
    }

    /// First address, to write to.
    #[must_use]
    pub fn as_mut_ptr<T>(&mut self) -> *mut T {
        self.base.cast()
    }

    /// Overwrites elements `offset..` with `data`.
    ///
    /// # Panics
    /// If the elements are not within the allocation.
    pub fn write<T: Word>(&mut self, offset: usize, data: &[T]) {
        let start = offset * size_of::<T>();
        assert!(start + size_of_val(data) <= self.len, "write past the end of an allocation of {} bytes", self.len);
        // SAFETY: the range was checked; `data` cannot overlap memory that is borrowed exclusively.
        unsafe { data.as_ptr().cast::<u8>().copy_to_nonoverlapping(self.base.add(start), size_of_val(data)) };
    }

    /// The contents as values of `T`; a rest of fewer bytes than one `T` is left out.
    #[must_use]
    pub fn to_vec<T: Word>(&self) -> Vec<T> {
        let p = self.base.cast::<T>();
        // SAFETY: within the allocation, which is aligned to 256 and always initialised; any bits are a `Word`.
        (0..self.len / size_of::<T>()).map(|i| unsafe { p.add(i).read() }).collect()
    }

    /// Offset of the first guard byte that something overwrote: negative, or at least [`len`](Self::len).
    #[must_use]
    pub fn damage(&self) -> Option<isize> {
        // SAFETY: the allocation lives.
        unsafe { Range { base: self.base as usize, len: self.len, guarded: true }.damage() }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        remove(self.base as usize, self.len);
        // SAFETY: allocated in `alloc` with this layout, freed only here.
        unsafe { std::alloc::dealloc(self.block, self.layout) };
    }
}

/// A host range that kernels may touch for as long as this lives.
#[derive(Debug)]
pub struct Registration {
    base: usize,
    len: usize,
}

/// Lets kernels touch `len` bytes at `p`. There are no guards; the range ends with the returned value.
///
/// # Safety
/// The bytes are initialised and stay allocated, and nothing else uses them against the kernels' accesses, for as long
/// as the registration lives.
///
/// # Errors
/// [`MemoryError::Overlap`] where the range touches another.
pub unsafe fn register(p: *mut u8, len: usize) -> Result<Registration, MemoryError> {
    insert(Range { base: p as usize, len, guarded: false })?;
    Ok(Registration { base: p as usize, len })
}

impl Drop for Registration {
    fn drop(&mut self) {
        remove(self.base, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_any_address_inside() {
        let ranges = [(100, 10), (200, 1), (300, 0), (400, 64)];
        let ranges = ranges.map(|(base, len)| Range { base, len, guarded: false });
        let found = |address, bytes| find(&ranges, address, bytes);
        assert_eq!(found(100, 10), Some(0));
        assert_eq!(found(109, 1), Some(0));
        assert_eq!(found(200, 1), Some(1));
        assert_eq!(found(448, 16), Some(3));
        for (address, bytes) in [(99, 1), (100, 11), (110, 1), (300, 1), (449, 16), (usize::MAX, 4), (0, 4)] {
            assert_eq!(found(address, bytes), None, "{address}, {bytes}");
        }
    }

    #[test]
    fn overlapping_registrations_are_refused() -> Result<(), MemoryError> {
        let mut host = [0u8; 64];
        let p = host.as_mut_ptr();
        // SAFETY: `host` outlives the registrations and nothing else uses it.
        unsafe {
            let first = register(p.add(16), 16)?;
            assert!(matches!(register(p.add(8), 9), Err(MemoryError::Overlap { .. })));
            assert!(matches!(register(p.add(31), 9), Err(MemoryError::Overlap { .. })));
            let _below = register(p, 16)?;
            let _above = register(p.add(32), 16)?;
            drop(first);
            let _again = register(p.add(16), 16)?;
        }
        Ok(())
    }

    #[test]
    fn fresh_memory_is_nan_and_guarded() -> Result<(), MemoryError> {
        let mut memory = alloc(70)?;
        assert!(memory.to_vec::<f32>().iter().all(|v| v.is_nan()));
        assert_eq!(memory.damage(), None);
        let p = memory.as_mut_ptr::<u8>();
        // SAFETY: the guards belong to the allocation.
        unsafe { p.add(75).write(0) };
        assert_eq!(memory.damage(), Some(75));
        // SAFETY: as above.
        unsafe { p.sub(3).write(0) };
        assert_eq!(memory.damage(), Some(-3));
        Ok(())
    }
}
