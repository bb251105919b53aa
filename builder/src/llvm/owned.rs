//! Context, buffer and code generator: one owner each, one `Drop` each; raw pointers never leave `llvm/`.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use super::api::{self, Api, RawBuffer, RawBuilder, RawContext, RawDiagnostic, RawTargetMachine, RawType, RawValue};
use super::module::Module;
use crate::error::BuildError;

const SEVERITY_ERROR: c_int = 0;

/// Reports an LLVM error that cannot be returned (an instruction the chosen card lacks, for one), then ends the
/// process.
pub(super) unsafe extern "C" fn fatal(message: *const c_char) {
    // SAFETY: LLVM passes a string that ends in NUL and lives for this call.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    eprintln!("error: LLVM cannot turn this module into PTX: {text}");
    eprintln!(
        "  if an instruction cannot be selected, the module's architecture lacks it: mark its kernel #[kernel(sm = ..)]"
    );
    std::process::exit(1);
}

unsafe extern "C" fn collect(diagnostic: *mut RawDiagnostic, sink: *mut c_void) {
    // SAFETY: `sink` is the pointer that Context::new registered: a Sink that lives as long as the context.
    let sink = unsafe { &*sink.cast::<Sink>() };
    // SAFETY: LLVM passes a live diagnostic.
    let severity = unsafe { (sink.api.LLVMGetDiagInfoSeverity)(diagnostic) };
    if severity == SEVERITY_ERROR {
        // SAFETY: as above; the text is ours to dispose of, which take_text does.
        let text = unsafe { (sink.api.LLVMGetDiagInfoDescription)(diagnostic) };
        sink.errors.borrow_mut().push(take_text(sink.api, text));
    }
}

/// Copies a text that LLVM allocated and frees it.
pub(super) fn take_text(api: &Api, text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null; LLVM's messages end in NUL.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: allocated by LLVM, not used again.
    unsafe { (api.LLVMDisposeMessage)(text) };
    copy
}

struct Sink {
    api: &'static Api,
    errors: RefCell<Vec<String>>,
}

/// An LLVM context: owns every type, constant and attribute of its modules, and collects their diagnostics.
pub(crate) struct Context {
    pub(super) api: &'static Api,
    pub(super) raw: *mut RawContext,
    sink: Box<Sink>,
}

impl Context {
    /// Loads rustc's LLVM from `sysroot` when needed and opens a context; `options` count at the first call only.
    pub(crate) fn new(sysroot: &Path, options: &[&CStr]) -> Result<Self, BuildError> {
        let api = api::load(sysroot, options)?;
        // SAFETY: no preconditions.
        let raw = unsafe { (api.LLVMContextCreate)() };
        let sink = Box::new(Sink { api, errors: RefCell::new(Vec::new()) });
        let data = (&raw const *sink).cast_mut().cast::<c_void>();
        // SAFETY: `raw` is live; the sink's address is stable (boxed) and outlives the context (see Drop).
        unsafe { (api.LLVMContextSetDiagnosticHandler)(raw, collect, data) };
        Ok(Self { api, raw, sink })
    }

    /// Parses a bitcode file's bytes.
    pub(crate) fn parse(&self, bitcode: &[u8]) -> Result<Module<'_>, BuildError> {
        let start = bitcode.as_ptr().cast();
        // SAFETY: the range is readable and is copied, name included.
        let raw =
            unsafe { (self.api.LLVMCreateMemoryBufferWithMemoryRangeCopy)(start, bitcode.len(), c"bitcode".as_ptr()) };
        let buffer = Buffer { api: self.api, raw };
        let mut module = null_mut();
        // SAFETY: context and buffer are live; the function does not take the buffer.
        let failed = unsafe { (self.api.LLVMParseBitcodeInContext2)(self.raw, buffer.raw, &raw mut module) };
        if failed != 0 {
            return Err(self.error("cannot read the bitcode that rustc wrote"));
        }
        Ok(Module::own(self, module))
    }

    /// An error that carries the diagnostics collected so far.
    fn error(&self, what: &str) -> BuildError {
        let texts = self.sink.errors.borrow_mut().split_off(0);
        BuildError::Llvm(if texts.is_empty() { what.to_owned() } else { format!("{what}: {}", texts.join("; ")) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: created in `new`, disposed of once; modules borrow the context, so none is left.
        unsafe { (self.api.LLVMContextDispose)(self.raw) };
    }
}

struct Buffer {
    api: &'static Api,
    raw: *mut RawBuffer,
}

impl Buffer {
    fn to_vec(&self) -> Vec<u8> {
        // SAFETY: the buffer is live.
        let start = unsafe { (self.api.LLVMGetBufferStart)(self.raw) };
        // SAFETY: the buffer is live.
        let len = unsafe { (self.api.LLVMGetBufferSize)(self.raw) };
        // SAFETY: LLVM's buffers are `len` readable bytes from `start`, never null.
        unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: owned by this value, disposed of once.
        unsafe { (self.api.LLVMDisposeMemoryBuffer)(self.raw) };
    }
}

/// Inserts instructions.
pub(super) struct Builder<'c> {
    context: &'c Context,
    raw: *mut RawBuilder,
}

impl<'c> Builder<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        // SAFETY: the context is live.
        Self { context, raw: unsafe { (context.api.LLVMCreateBuilderInContext)(context.raw) } }
    }

    /// Before `at`: `integer` as a pointer of type `in_space`, cast to the pointer type `generic`.
    pub(super) fn int_to_ptr_in_space(
        &self,
        at: *mut RawValue,
        integer: *mut RawValue,
        in_space: *mut RawType,
        generic: *mut RawType,
    ) -> *mut RawValue {
        let api = self.context.api;
        // SAFETY: `at` is an instruction of a module of this context.
        unsafe { (api.LLVMPositionBuilderBefore)(self.raw, at) };
        // SAFETY: an integer and a pointer type of this context.
        let pointer = unsafe { (api.LLVMBuildIntToPtr)(self.raw, integer, in_space, c"".as_ptr()) };
        // SAFETY: two pointer types of this context.
        unsafe { (api.LLVMBuildAddrSpaceCast)(self.raw, pointer, generic, c"".as_ptr()) }
    }

    /// Before `at`: the address, of type `integer`, that the generic `pointer` has within the space of type `in_space`.
    pub(super) fn ptr_in_space_to_int(
        &self,
        at: *mut RawValue,
        pointer: *mut RawValue,
        in_space: *mut RawType,
        integer: *mut RawType,
    ) -> *mut RawValue {
        let api = self.context.api;
        // SAFETY: `at` is an instruction of a module of this context.
        unsafe { (api.LLVMPositionBuilderBefore)(self.raw, at) };
        // SAFETY: two pointer types of this context.
        let within = unsafe { (api.LLVMBuildAddrSpaceCast)(self.raw, pointer, in_space, c"".as_ptr()) };
        // SAFETY: a pointer and an integer type of this context.
        unsafe { (api.LLVMBuildPtrToInt)(self.raw, within, integer, c"".as_ptr()) }
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `new`, disposed of once.
        unsafe { (self.context.api.LLVMDisposeBuilder)(self.raw) };
    }
}

/// An NVPTX code generator for one architecture.
pub(crate) struct TargetMachine<'c> {
    context: &'c Context,
    raw: *mut RawTargetMachine,
}

impl<'c> TargetMachine<'c> {
    /// `cpu` as in `sm_80`, `features` as in `+ptx78`.
    pub(crate) fn new(context: &'c Context, cpu: &str, features: &str) -> Result<Self, BuildError> {
        const TRIPLE: &CStr = c"nvptx64-nvidia-cuda";
        const LEVEL_AGGRESSIVE: c_int = 3;
        const RELOC_DEFAULT: c_int = 0;
        const CODE_MODEL_DEFAULT: c_int = 0;
        let api = context.api;
        let c_text = |s: &str| CString::new(s).map_err(|_| BuildError::Llvm(format!("NUL in `{s}`")));
        let (cpu, features) = (c_text(cpu)?, c_text(features)?);
        let (mut target, mut text) = (null_mut(), null_mut());
        // SAFETY: the triple ends in NUL; the text is set on failure only and freed below.
        let failed = unsafe { (api.LLVMGetTargetFromTriple)(TRIPLE.as_ptr(), &raw mut target, &raw mut text) };
        if failed != 0 {
            return Err(BuildError::Llvm(format!("no NVPTX target in this LLVM: {}", take_text(api, text))));
        }
        // SAFETY: `target` is live; all texts end in NUL and are copied.
        let raw = unsafe {
            (api.LLVMCreateTargetMachine)(
                target,
                TRIPLE.as_ptr(),
                cpu.as_ptr(),
                features.as_ptr(),
                LEVEL_AGGRESSIVE,
                RELOC_DEFAULT,
                CODE_MODEL_DEFAULT,
            )
        };
        if raw.is_null() {
            return Err(BuildError::Llvm(format!("no code generator for {cpu:?} {features:?}")));
        }
        Ok(Self { context, raw })
    }

    /// Runs a pass pipeline in the text form of `opt -passes=`.
    pub(crate) fn run_passes(&self, module: &Module<'_>, passes: &CStr) -> Result<(), BuildError> {
        let api = self.context.api;
        // SAFETY: no preconditions.
        let options = unsafe { (api.LLVMCreatePassBuilderOptions)() };
        // SAFETY: all four are live; the text ends in NUL.
        let error = unsafe { (api.LLVMRunPasses)(module.raw(), passes.as_ptr(), self.raw, options) };
        // SAFETY: created above, disposed of once.
        unsafe { (api.LLVMDisposePassBuilderOptions)(options) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the error is live and consumed here.
        let text = unsafe { (api.LLVMGetErrorMessage)(error) };
        // SAFETY: an error's message ends in NUL.
        let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: from LLVMGetErrorMessage, disposed of once.
        unsafe { (api.LLVMDisposeErrorMessage)(text) };
        Err(BuildError::Llvm(format!("pass pipeline {passes:?}: {copy}")))
    }

    /// Generates code: the PTX text.
    pub(crate) fn emit(&self, module: &Module<'_>) -> Result<String, BuildError> {
        const ASSEMBLY: c_int = 0;
        let api = self.context.api;
        let (mut text, mut buffer) = (null_mut(), null_mut());
        // SAFETY: machine and module are live; on success a buffer is set, on failure the text, each ours to free.
        let failed = unsafe {
            (api.LLVMTargetMachineEmitToMemoryBuffer)(self.raw, module.raw(), ASSEMBLY, &raw mut text, &raw mut buffer)
        };
        if failed != 0 {
            return Err(self.context.error(&format!("no PTX: {}", take_text(api, text))));
        }
        let ptx = Buffer { api, raw: buffer }.to_vec();
        if !self.context.sink.errors.borrow().is_empty() {
            return Err(self.context.error("errors while writing PTX"));
        }
        String::from_utf8(ptx).map_err(|_| BuildError::Llvm("PTX is not UTF-8".into()))
    }
}

impl Drop for TargetMachine<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `new`, disposed of once.
        unsafe { (self.context.api.LLVMDisposeTargetMachine)(self.raw) };
    }
}
