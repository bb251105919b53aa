//! The builder's own module passes, run before LLVM's: they say what rustc has no words for.

pub(crate) mod bounds;
pub(crate) mod convergent;
pub(crate) mod exports;
pub(crate) mod global;
pub(crate) mod shared;
