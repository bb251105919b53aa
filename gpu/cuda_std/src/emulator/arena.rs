//! Shared memory of one block: the dynamic area, the static arrays by site, and a shadow byte for each 4 bytes.

use std::alloc::{Layout, handle_alloc_error};

use super::memory::fill_poison;

/// Shadow bit: an asynchronous copy to the word is under way.
pub(crate) const PENDING: u8 = 1;
/// Shadow bit: the word belongs to no array.
pub(crate) const UNALLOCATED: u8 = 2;
/// Shadow bit: each access is recorded by the race detector.
pub(crate) const TRACKED: u8 = 4;

/// Static shared memory that a kernel may declare, in bytes (ptxas refuses more).
pub(crate) const STATIC_LIMIT: usize = 48 * 1024;
/// Unallocated bytes behind each array, so that running off its end is noticed.
const GAP: usize = 16;
/// Most arrays: each takes at least 16 bytes of the static limit.
const SITES_MAX: usize = STATIC_LIMIT / 16;

/// What the arena is made of: addresses are aligned as the largest swizzle atom is.
#[repr(align(1024))]
struct Line(#[expect(dead_code, reason = "only its layout is used")] [u8; 1024]);

/// A static array that was placed.
struct Placed {
    site: usize,
    offset: usize,
}

/// The memory. Offsets count from `base`: the dynamic area first, then static arrays in the order of their first use.
pub(crate) struct Arena {
    base: *mut u8,
    layout: Layout,
    shadow: Vec<u8>,
    placed: Vec<Placed>,
    next: usize,
    static_bytes: usize,
    tracked: bool,
}

impl Arena {
    /// An arena for launches with `dynamic` bytes of dynamic shared memory.
    pub fn new(dynamic: usize, tracked: bool) -> Self {
        let capacity = dynamic.next_multiple_of(16) + GAP + STATIC_LIMIT + GAP * SITES_MAX;
        let layout = Layout::array::<Line>(capacity.div_ceil(1024)).expect("launch limits bound the size");
        // SAFETY: the size is not zero.
        let base = unsafe { std::alloc::alloc(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Self {
            base,
            layout,
            shadow: vec![UNALLOCATED; layout.size() / 4],
            placed: Vec::new(),
            next: 0,
            static_bytes: 0,
            tracked,
        }
    }

    /// Makes the arena fresh for a block: the dynamic area is poisoned, no static array is placed.
    pub fn start(&mut self, dynamic: usize) {
        self.shadow.fill(UNALLOCATED);
        self.placed.clear();
        self.next = GAP; // so that a pointer to a dynamic area of no bytes points into no array
        self.static_bytes = 0;
        if dynamic > 0 {
            self.next = 0;
            self.take(dynamic);
        }
    }

    /// The next `bytes` bytes, poisoned and accessible.
    fn take(&mut self, bytes: usize) -> usize {
        let offset = self.next;
        let rounded = bytes.next_multiple_of(16);
        assert!(offset + rounded + GAP <= self.layout.size(), "the arena is planned for every legal use");
        // SAFETY: within the arena, as just checked; offsets are multiples of 16.
        unsafe { fill_poison(self.base.add(offset), rounded) };
        self.shadow[offset / 4..(offset + bytes).div_ceil(4)].fill(if self.tracked { TRACKED } else { 0 });
        self.next = offset + rounded + GAP;
        offset
    }

    /// Offset of the static array of `site` (`bytes` long), placed now if this is its first use in the block.
    ///
    /// # Errors
    /// The static bytes there would be, where they exceed the limit.
    pub fn place(&mut self, site: usize, bytes: usize) -> Result<usize, usize> {
        if let Some(placed) = self.placed.iter().find(|p| p.site == site) {
            return Ok(placed.offset);
        }
        let total = self.static_bytes + bytes.next_multiple_of(16);
        if total > STATIC_LIMIT {
            return Err(total);
        }
        self.static_bytes = total;
        let offset = self.take(bytes);
        self.placed.push(Placed { site, offset });
        Ok(offset)
    }

    /// Bytes of static arrays placed so far, each rounded up to 16.
    pub fn static_bytes(&self) -> usize {
        self.static_bytes
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }

    /// Shadow bytes, for the fast path.
    pub fn shadow_ptr(&self) -> *const u8 {
        self.shadow.as_ptr()
    }

    /// All shadow bits of the words that `offset..offset + bytes` touches.
    pub fn shadow(&self, offset: usize, bytes: usize) -> u8 {
        self.shadow[offset / 4..(offset + bytes).div_ceil(4)].iter().fold(0, |all, s| all | s)
    }

    /// Sets or clears [`PENDING`] in the words of a copy's destination.
    pub fn set_pending(&mut self, offset: usize, bytes: usize, pending: bool) {
        for s in &mut self.shadow[offset / 4..(offset + bytes).div_ceil(4)] {
            *s = if pending { *s | PENDING } else { *s & !PENDING };
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { std::alloc::dealloc(self.base, self.layout) };
    }
}
