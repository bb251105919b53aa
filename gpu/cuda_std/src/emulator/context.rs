//! What a primitive needs to know about the running thread, in thread-local cells.
//!
//! A block stays on one OS thread from its start to its end or to a yield of the whole block, so the cells are set when a
//! block is entered and, for the thread's own part, at each resume.

use std::cell::Cell;

use super::block::Block;

/// The running thread, its block, and the ranges of the fast paths. All zero outside a kernel.
pub(crate) struct Context {
    pub block: Cell<*mut Block>,
    /// Arena of shared memory: first address, and length (at least 16, so that `len - bytes` does not wrap).
    pub shared_base: Cell<usize>,
    pub shared_len: Cell<usize>,
    /// One byte for each 4 of the arena; 0 where a plain access is fine.
    pub shadow: Cell<*const u8>,
    /// Stamps of the words of the arena, null where none are kept, and what the thread's writes leave there (see `proxy`).
    pub stamps: Cell<*mut u32>,
    pub stamp: Cell<u32>,
    /// The global range hit last: first address, and length (at least 16).
    pub range_base: Cell<usize>,
    pub range_len: Cell<usize>,
    /// Linear index of the thread in its block.
    pub linear: Cell<u32>,
    pub thread_idx: [Cell<u32>; 3],
    pub block_idx: [Cell<u32>; 3],
    pub block_dim: [Cell<u32>; 3],
    pub grid_dim: [Cell<u32>; 3],
}

/// First address of a range that no access can be in.
pub(crate) const NO_RANGE: usize = usize::MAX - 64;

thread_local! {
    static CONTEXT: Context = const {
        Context {
            block: Cell::new(std::ptr::null_mut()),
            shared_base: Cell::new(NO_RANGE),
            shared_len: Cell::new(16),
            shadow: Cell::new(std::ptr::null()),
            stamps: Cell::new(std::ptr::null_mut()),
            stamp: Cell::new(0),
            range_base: Cell::new(NO_RANGE),
            range_len: Cell::new(16),
            linear: Cell::new(0),
            thread_idx: [const { Cell::new(0) }; 3],
            block_idx: [const { Cell::new(0) }; 3],
            block_dim: [const { Cell::new(0) }; 3],
            grid_dim: [const { Cell::new(0) }; 3],
        }
    };
}

/// Calls `f` with the context of this OS thread.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Context) -> R) -> R {
    CONTEXT.with(f)
}

/// The running block.
///
/// # Panics
/// Outside a kernel.
#[inline(always)]
#[track_caller]
pub(crate) fn block() -> *mut Block {
    let block = with(|c| c.block.get());
    assert!(!block.is_null(), "a cuda_std primitive was called outside a kernel launch");
    block
}

/// True while a kernel thread runs on this OS thread.
pub(crate) fn in_kernel() -> bool {
    with(|c| !c.block.get().is_null())
}

/// Forgets the block, at the end of its turn.
pub(crate) fn leave() {
    with(|c| {
        c.block.set(std::ptr::null_mut());
        c.shared_base.set(NO_RANGE);
        c.shared_len.set(16);
        c.stamps.set(std::ptr::null_mut());
        c.range_base.set(NO_RANGE);
        c.range_len.set(16);
    });
}
