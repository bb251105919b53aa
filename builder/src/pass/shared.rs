//! Shared memory: statics that `cuda_std` placed in the section `.shared` move to NVPTX address space 3.
//!
//! rustc can only make globals in the generic address space. Once the global itself is in address space 3, LLVM's
//! address space inference turns the accesses into `ld.shared` and `st.shared`, and 16-byte ones stay 16 bytes wide.

use crate::llvm::Module;

const SECTION: &str = ".shared";
/// The start of the dynamic part, declared by `cuda_std` and sized by the launch.
const DYNAMIC: &str = "__dynamic_shared";
const ADDRESS_SPACE: u32 = 3;
/// Declared by `cuda_std`: the address within shared memory of a generic pointer, which `cp.async` and `ldmatrix` take.
const ADDRESS_OF: &str = "__shared_address";
/// cp.async, ldmatrix and 16-byte loads want it.
const MIN_ALIGNMENT: u32 = 16;

/// Moves the statics; shared memory cannot be initialised, so an initial value is dropped (`cuda_std` gives none).
/// Where an instruction wants an address within the space, a cast gives it, which folds with the one that made the
/// pointer generic; `cvta.to.shared` in assembly would not, and cost 64-bit arithmetic for each address (LLVM 22.1,
/// ptxas 13).
pub(crate) fn run(module: &Module<'_>) {
    for function in module.functions() {
        function.replace_calls_by_address(ADDRESS_OF, ADDRESS_SPACE);
    }
    for global in module.globals() {
        if global.section() == SECTION || (global.is_declaration() && global.name() == DYNAMIC) {
            global.move_to_address_space(ADDRESS_SPACE, MIN_ALIGNMENT);
        }
    }
}
