//! Global memory: a pointer that a kernel takes from its parameters points to global memory, and LLVM is told so.
//!
//! rustc hands the parameter struct over as an array of integers, so each pointer field is an `inttoptr`, of which LLVM
//! can say nothing: every access would be generic, slower, and could alias shared memory. The host only ever passes
//! addresses of device allocations, as in CUDA C.

use crate::llvm::Module;

const ADDRESS_SPACE: u32 = 1;

/// What must have run for the `inttoptr`s to stand in the kernels themselves: bodies inlined, parameters in registers.
pub(crate) const PREPARE: &std::ffi::CStr =
    c"globaldce,always-inline,globaldce,function(sroa,early-cse,instcombine<no-verify-fixpoint>)";

/// Casts each parameter pointer of each kernel to the global address space and back.
pub(crate) fn run(module: &Module<'_>) {
    for kernel in module.functions().into_iter().filter(|f| f.is_kernel()) {
        kernel.cast_parameter_pointers(ADDRESS_SPACE);
    }
}
