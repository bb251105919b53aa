//! The asynchronous proxy: ordinary writes to shared memory that products of a warpgroup may not see yet.
//!
//! Each word remembers its last writer, and how many proxy fences that thread had executed by then. A product may read the
//! word once the writer has executed another one and has then reached a barrier. Which barrier is not looked at (the race
//! detector knows who was ordered before whom), and atomic operations are not remembered, so a missing fence can escape,
//! but none is invented. Kept only where products can be: in kernels that need sm_90, and in closures.

use super::block::Block;
use super::context;

/// Bits of a stamp that name the thread; the others count its fences.
const THREAD_BITS: u32 = 10;
/// Fences of a thread from which on its writes are no longer remembered.
const FENCES_MAX: u32 = (1 << (32 - THREAD_BITS)) - 1;

/// Fences of a thread: executed, and executed before its last barrier.
#[derive(Clone, Copy, Default)]
struct Writer {
    fences: u32,
    published: u32,
}

/// The stamps of a block's shared memory: 0, or one more than fences and thread.
pub(crate) struct Proxy {
    stamps: Vec<u32>,
    writers: Vec<Writer>,
}

impl Proxy {
    pub fn new(threads: usize, shared_bytes: usize) -> Self {
        Self { stamps: vec![0; shared_bytes / 4], writers: vec![Writer::default(); threads] }
    }

    pub fn start(&mut self) {
        self.stamps.fill(0);
        self.writers.fill(Writer::default());
    }

    /// The stamps, for the accessors.
    pub fn stamps_ptr(&mut self) -> *mut u32 {
        self.stamps.as_mut_ptr()
    }

    /// What the thread's writes leave now.
    #[inline]
    pub fn stamp_of(&self, thread: usize) -> u32 {
        let fences = self.writers[thread].fences;
        if fences < FENCES_MAX { (fences << THREAD_BITS | thread as u32) + 1 } else { 0 }
    }

    /// The thread reaches a barrier.
    #[inline]
    pub fn arrive(&mut self, thread: u32) {
        let writer = &mut self.writers[thread as usize];
        writer.published = writer.fences;
    }

    /// The thread whose write to one of the words at `offset` a product cannot see yet.
    pub fn hidden(&mut self, offset: usize, bytes: usize) -> Option<u32> {
        let words = &mut self.stamps[offset / 4..(offset + bytes) / 4];
        for stamp in words.iter_mut().filter(|stamp| **stamp != 0) {
            let (fences, thread) = ((*stamp - 1) >> THREAD_BITS, (*stamp - 1) & ((1 << THREAD_BITS) - 1));
            if self.writers[thread as usize].published <= fences {
                return Some(thread);
            }
            *stamp = 0; // seen once, seen by all later products
        }
        None
    }
}

impl Block {
    /// Remembers a write of thread `linear` by other means than an accessor.
    pub(crate) fn wrote(&mut self, linear: u32, offset: usize, bytes: usize) {
        if let Some(proxy) = &mut self.proxy {
            let stamp = proxy.stamp_of(linear as usize);
            proxy.stamps[offset / 4..(offset + bytes).div_ceil(4)].fill(stamp);
        }
    }
}

/// Remembers a checked write of the running thread.
#[inline(always)]
pub(crate) fn remember<const BYTES: usize>(address: usize) {
    context::with(|c| {
        let stamps = c.stamps.get();
        if !stamps.is_null() {
            let first = stamps.wrapping_add(address.wrapping_sub(c.shared_base.get()) / 4);
            for word in 0..BYTES.div_ceil(4) {
                // SAFETY: there is a stamp for each word of the arena, in which the access lies; the running block's.
                unsafe { first.add(word).write(c.stamp.get()) };
            }
        }
    });
}

/// Host body of [`barrier::fence_async_shared`](crate::barrier::fence_async_shared).
#[inline(never)]
pub(crate) fn fence_async_shared() {
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    if let Some(proxy) = &mut block.proxy {
        context::with(|c| {
            let thread = c.linear.get() as usize;
            proxy.writers[thread].fences = (proxy.writers[thread].fences + 1).min(FENCES_MAX);
            c.stamp.set(proxy.stamp_of(thread));
        });
    }
}
