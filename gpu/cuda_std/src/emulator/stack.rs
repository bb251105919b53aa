//! Stacks of emulated threads: mapped memory with a guard page, pooled, and shifted against each other.

use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Stacks that no block uses, all of [`DEFAULT_STACK`] bytes.
static POOL: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());
/// Stack of a thread, in bytes, if the options do not say otherwise. Pages are mapped when they are touched.
pub(crate) const DEFAULT_STACK: usize = 256 * 1024;
/// Stacks that the pool keeps.
const POOL_MAX: usize = 4096;

/// A stack that starts some cache lines below its mapping's end. All mappings end at the same offset in a page: without
/// the shift the live frames of all threads of a block would fall into the same few sets of the cache.
pub(crate) struct Shifted {
    inner: DefaultStack,
    shift: usize,
}

impl Shifted {
    /// The stack, for thread `thread` of a block.
    pub fn new(inner: DefaultStack, thread: usize) -> Self {
        // 64 lines of a page; neighbours in time are neighbours in number, so they are put 5 lines apart.
        Self { inner, shift: thread * 5 % 64 * 64 }
    }

    pub fn into_inner(self) -> DefaultStack {
        self.inner
    }
}

// SAFETY: the base moves down by less than a page, in steps of 64 bytes: it stays aligned and far above the limit, since
// `DefaultStack` has at least a page beside its guard. The rest is the inner stack's.
unsafe impl Stack for Shifted {
    #[inline]
    fn base(&self) -> StackPointer {
        let base = self.inner.base();
        StackPointer::new(base.get() - self.shift).unwrap_or(base)
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.inner.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.inner.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.inner.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// Stacks of one size, which a worker takes from the pool and gives back on drop.
pub(crate) struct Stacks {
    bytes: usize,
    free: Vec<DefaultStack>,
}

impl Stacks {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, free: Vec::new() }
    }

    /// A stack that nobody uses.
    pub fn take(&mut self) -> std::io::Result<DefaultStack> {
        if self.free.is_empty() && self.bytes == DEFAULT_STACK {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = pool.len().saturating_sub(32);
            self.free.extend(pool.drain(rest..));
        }
        self.free.pop().map_or_else(|| DefaultStack::new(self.bytes), Ok)
    }

    /// Takes a stack back.
    pub fn give(&mut self, stack: DefaultStack) {
        self.free.push(stack);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        if self.bytes == DEFAULT_STACK {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let room = POOL_MAX.saturating_sub(pool.len()).min(self.free.len());
            pool.extend(self.free.drain(..room));
        }
    }
}
