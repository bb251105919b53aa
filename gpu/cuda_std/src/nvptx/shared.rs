//! `ld.shared`, `st.shared` and the dynamic area.
//!
//! The accesses are plain ones through generic pointers: the builder moves the arrays to address space 3, and LLVM infers
//! the space of every access from there.

unsafe extern "C" {
    /// Start of the dynamic area; the builder moves the declaration to address space 3, the launch gives the size.
    static mut __dynamic_shared: [u128; 0];
}

#[inline(always)]
pub(crate) fn dynamic_shared() -> *mut u8 {
    (&raw mut __dynamic_shared).cast()
}

// The same plain accesses as to global memory: only the space that LLVM infers differs.
pub(crate) use super::global::{load, load2, load4, store, store2, store4};
