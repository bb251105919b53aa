//! Convergence: tells LLVM which calls must be run by all threads of a warp together.
//!
//! rustc marks nothing `convergent`. LLVM may then copy a barrier into both arms of a divergent branch or sink a
//! full-mask shuffle behind `if lane < 16`: seen with rustc 1.95.0, LLVM 22.1. As clang does for CUDA, every function
//! and every call that may reach a barrier is marked; LLVM takes the mark off again where it can prove it idle.
//! Intrinsics carry their own marks. This alone is not enough: see [`crate::Measures`].

use crate::llvm::{Callee, Module};

/// Marks all defined functions, all inline assembly, and all calls of anything but intrinsics.
pub(crate) fn run(module: &Module<'_>) {
    for function in module.functions() {
        if function.is_intrinsic() {
            continue;
        }
        function.set_convergent();
        function.set_calls_convergent(|callee| match callee {
            Callee::InlineAsm | Callee::Pointer => true,
            Callee::Function(f) => !f.is_intrinsic(),
        });
    }
}
