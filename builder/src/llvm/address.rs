//! Addresses within an address space.

use std::ffi::c_uint;

use super::module::{Callee, Function};
use super::owned::Builder;

impl Function<'_> {
    /// Replaces each call of `name`, which takes a generic pointer and returns an integer, by the pointer's address
    /// within `address_space`.
    pub(crate) fn replace_calls_by_address(&self, name: &str, address_space: c_uint) {
        let (api, context) = (self.module.api(), self.module.context);
        // SAFETY: the context is live.
        let in_space = unsafe { (api.LLVMPointerTypeInContext)(context.raw, address_space) };
        let builder = Builder::new(context);
        for call in self.calls() {
            // SAFETY: `call` is a live call instruction, here and below.
            let callee = unsafe { (api.LLVMGetCalledValue)(call) };
            if matches!(self.callee(callee), Callee::Function(f) if f.name() == name) {
                // SAFETY: the function takes one argument.
                let pointer = unsafe { (api.LLVMGetOperand)(call, 0) };
                // SAFETY: see above.
                let integer = unsafe { (api.LLVMTypeOf)(call) };
                let address = builder.ptr_in_space_to_int(call, pointer, in_space, integer);
                // SAFETY: both have the type `integer`.
                unsafe { (api.LLVMReplaceAllUsesWith)(call, address) };
                // SAFETY: no use is left, and the list above was made before.
                unsafe { (api.LLVMInstructionEraseFromParent)(call) };
            }
        }
    }
}
