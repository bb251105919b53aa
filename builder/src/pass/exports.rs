//! Exports: the host calls kernels and nothing else, so all other definitions become private and unused ones go.

use crate::llvm::Module;

/// Names of the lists that keep unused symbols alive; a kernel needs no such help.
const KEEP_ALIVE: [&str; 2] = ["llvm.used", "llvm.compiler.used"];

/// Returns the names of the kernels, sorted.
pub(crate) fn run(module: &Module<'_>) -> Vec<String> {
    for global in module.globals() {
        if KEEP_ALIVE.contains(&global.name().as_str()) {
            global.delete();
        } else if !global.is_declaration() {
            global.internalise();
        }
    }
    let mut kernels = Vec::new();
    for function in module.functions() {
        if function.is_declaration() {
            continue;
        }
        if function.is_kernel() {
            kernels.push(function.name());
        } else {
            function.internalise();
        }
    }
    kernels.sort_unstable();
    kernels
}
