//! Bitcode to PTX: the builder's own passes, LLVM's O3, code generation.

use std::ffi::CStr;
use std::path::Path;

use crate::arch::Arch;
use crate::error::BuildError;
use crate::llvm::{Context, TargetMachine};
use crate::{Measures, pass};

/// All optimisation happens here, since rustc runs no LLVM pass.
const OPTIMISE: &CStr = c"default<O3>";

/// After O3, what brings 16-byte accesses back: with rustc's own passes off, loop strength reduction hides alignments
/// before the vectoriser runs (89 scalar shared loads instead of 16 wide ones in the prototype, LLVM 22.1). A pass
/// named in text checks that instcombine reaches its fixpoint and ends the process if not, unless told otherwise.
const WIDEN: &CStr = c"function(infer-address-spaces,sroa,early-cse,instcombine<no-verify-fixpoint>,infer-alignment,\
separate-const-offset-from-gep,load-store-vectorizer)";

/// Loops over register arrays must unroll completely, or the array lives in local memory: 3 x 32 state values need it.
const OPTIONS: [&CStr; 1] = [c"-unroll-threshold=6000"];

/// PTX and the kernels in it.
pub(crate) struct Emitted {
    pub(crate) ptx: String,
    pub(crate) kernels: Vec<String>,
}

/// Receives a stage's name and the module as LLVM text.
pub(crate) type Dump<'a> = &'a mut dyn FnMut(&str, String) -> Result<(), BuildError>;

/// Turns the bytes of one bitcode file into PTX with rustc's own LLVM, found in `sysroot`. `dump` is called
/// before and after optimisation.
pub(crate) fn emit(
    sysroot: &Path,
    bitcode: &[u8],
    arch: Arch,
    measures: Measures,
    mut dump: Option<Dump<'_>>,
) -> Result<Emitted, BuildError> {
    let context = Context::new(sysroot, &OPTIONS)?;
    let module = context.parse(bitcode)?;
    module.strip_debug_info();
    pass::bounds::run(&module)?;
    let kernels = pass::exports::run(&module);
    pass::shared::run(&module);
    if measures.convergent_calls {
        pass::convergent::run(&module);
    }
    module.verify("the builder's own passes")?;
    if let Some(dump) = &mut dump {
        dump("before", module.to_text())?;
    }
    let machine = TargetMachine::new(&context, arch.name, &format!("+ptx{}", arch.ptx))?;
    machine.run_passes(&module, pass::global::PREPARE)?;
    pass::global::run(&module);
    machine.run_passes(&module, OPTIMISE)?;
    pass::global::run(&module); // once more: a pointer may have come out of an array that is gone only now
    module.verify("the pass over parameter pointers")?;
    machine.run_passes(&module, WIDEN)?;
    if let Some(dump) = &mut dump {
        dump("after", module.to_text())?;
    }
    Ok(Emitted { ptx: machine.emit(&module)?, kernels })
}
