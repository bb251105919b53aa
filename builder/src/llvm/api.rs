//! The LLVM C functions that the link step calls, bound by name from rustc's own LLVM library.
//!
//! Types are opaque pointers and stay inside `llvm/`; [`super::owned`] wraps them. Signatures are those of LLVM 22's
//! `llvm-c` headers, which rustc 1.95.0 ships as `libLLVM.so.22.1-rust-1.95.0-stable`.
#![allow(non_snake_case)] // fields carry the C names, so that a search for one finds its use

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::error::BuildError;

macro_rules! opaque { ($($name:ident),*) => { $(#[repr(C)] pub(super) struct $name { _opaque: [u8; 0] })* } }
opaque!(RawContext, RawModule, RawValue, RawType, RawBlock, RawAttribute, RawBuffer, RawTarget, RawTargetMachine);
opaque!(RawBuilder, RawPassOptions, RawError, RawDiagnostic);

/// What LLVM calls for each diagnostic of a context: the diagnostic and the pointer given at registration.
pub(super) type DiagnosticHandler = unsafe extern "C" fn(*mut RawDiagnostic, *mut c_void);
/// What LLVM calls before it ends the process over an error it cannot report otherwise.
pub(super) type FatalHandler = unsafe extern "C" fn(*const c_char);

macro_rules! bind {
    ($(fn $name:ident($($ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        /// Addresses of the bound functions; they stay valid because the library is never unloaded.
        pub(super) struct Api { $(pub(super) $name: unsafe extern "C" fn($($ty),*) $(-> $ret)?,)* }

        impl Api {
            fn resolve(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self { $(
                    // SAFETY: the type is the function's in LLVM 22's headers; `get` reads it as a plain address.
                    $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,
                )* })
            }
        }
    };
}

bind! {
    fn LLVMContextCreate() -> *mut RawContext;
    fn LLVMContextDispose(*mut RawContext);
    fn LLVMContextSetDiagnosticHandler(*mut RawContext, DiagnosticHandler, *mut c_void);
    fn LLVMGetDiagInfoDescription(*mut RawDiagnostic) -> *mut c_char;
    fn LLVMGetDiagInfoSeverity(*mut RawDiagnostic) -> c_int;
    fn LLVMInstallFatalErrorHandler(FatalHandler);
    fn LLVMDisposeMessage(*mut c_char);
    fn LLVMCreateMemoryBufferWithMemoryRangeCopy(*const c_char, usize, *const c_char) -> *mut RawBuffer;
    fn LLVMDisposeMemoryBuffer(*mut RawBuffer);
    fn LLVMGetBufferStart(*mut RawBuffer) -> *const c_char;
    fn LLVMGetBufferSize(*mut RawBuffer) -> usize;
    fn LLVMParseBitcodeInContext2(*mut RawContext, *mut RawBuffer, *mut *mut RawModule) -> c_int;
    fn LLVMDisposeModule(*mut RawModule);
    fn LLVMVerifyModule(*mut RawModule, c_int, *mut *mut c_char) -> c_int;
    fn LLVMPrintModuleToString(*mut RawModule) -> *mut c_char;
    fn LLVMStripModuleDebugInfo(*mut RawModule) -> c_int;
    fn LLVMGetFirstFunction(*mut RawModule) -> *mut RawValue;
    fn LLVMGetNextFunction(*mut RawValue) -> *mut RawValue;
    fn LLVMGetFirstGlobal(*mut RawModule) -> *mut RawValue;
    fn LLVMGetNextGlobal(*mut RawValue) -> *mut RawValue;
    fn LLVMGetFirstBasicBlock(*mut RawValue) -> *mut RawBlock;
    fn LLVMGetNextBasicBlock(*mut RawBlock) -> *mut RawBlock;
    fn LLVMGetFirstInstruction(*mut RawBlock) -> *mut RawValue;
    fn LLVMGetNextInstruction(*mut RawValue) -> *mut RawValue;
    fn LLVMIsACallInst(*mut RawValue) -> *mut RawValue;
    fn LLVMIsAInlineAsm(*mut RawValue) -> *mut RawValue;
    fn LLVMIsAIntToPtrInst(*mut RawValue) -> *mut RawValue;
    fn LLVMGetInstructionOpcode(*mut RawValue) -> c_int;
    fn LLVMIsAInstruction(*mut RawValue) -> *mut RawValue;
    fn LLVMIsAArgument(*mut RawValue) -> *mut RawValue;
    fn LLVMIsAFunction(*mut RawValue) -> *mut RawValue;
    fn LLVMGetCalledValue(*mut RawValue) -> *mut RawValue;
    fn LLVMGetIntrinsicID(*mut RawValue) -> c_uint;
    fn LLVMGetOperand(*mut RawValue, c_uint) -> *mut RawValue;
    fn LLVMInstructionEraseFromParent(*mut RawValue);
    fn LLVMPointerTypeInContext(*mut RawContext, c_uint) -> *mut RawType;
    fn LLVMGetPointerAddressSpace(*mut RawType) -> c_uint;
    fn LLVMCreateBuilderInContext(*mut RawContext) -> *mut RawBuilder;
    fn LLVMDisposeBuilder(*mut RawBuilder);
    fn LLVMPositionBuilderBefore(*mut RawBuilder, *mut RawValue);
    fn LLVMBuildIntToPtr(*mut RawBuilder, *mut RawValue, *mut RawType, *const c_char) -> *mut RawValue;
    fn LLVMBuildPtrToInt(*mut RawBuilder, *mut RawValue, *mut RawType, *const c_char) -> *mut RawValue;
    fn LLVMBuildAddrSpaceCast(*mut RawBuilder, *mut RawValue, *mut RawType, *const c_char) -> *mut RawValue;
    fn LLVMGetValueName2(*mut RawValue, *mut usize) -> *const c_char;
    fn LLVMSetValueName2(*mut RawValue, *const c_char, usize);
    fn LLVMTypeOf(*mut RawValue) -> *mut RawType;
    fn LLVMIsDeclaration(*mut RawValue) -> c_int;
    fn LLVMSetLinkage(*mut RawValue, c_int);
    fn LLVMSetVisibility(*mut RawValue, c_int);
    fn LLVMGetSection(*mut RawValue) -> *const c_char;
    fn LLVMGetAlignment(*mut RawValue) -> c_uint;
    fn LLVMSetAlignment(*mut RawValue, c_uint);
    fn LLVMGetFunctionCallConv(*mut RawValue) -> c_uint;
    fn LLVMGlobalGetValueType(*mut RawValue) -> *mut RawType;
    fn LLVMAddGlobalInAddressSpace(*mut RawModule, *mut RawType, *const c_char, c_uint) -> *mut RawValue;
    fn LLVMGetInitializer(*mut RawValue) -> *mut RawValue;
    fn LLVMSetInitializer(*mut RawValue, *mut RawValue);
    fn LLVMGetUndef(*mut RawType) -> *mut RawValue;
    fn LLVMConstAddrSpaceCast(*mut RawValue, *mut RawType) -> *mut RawValue;
    fn LLVMReplaceAllUsesWith(*mut RawValue, *mut RawValue);
    fn LLVMDeleteGlobal(*mut RawValue);
    fn LLVMGetAggregateElement(*mut RawValue, c_uint) -> *mut RawValue;
    fn LLVMIsAConstantDataSequential(*mut RawValue) -> *mut RawValue;
    fn LLVMIsConstantString(*mut RawValue) -> c_int;
    fn LLVMGetAsString(*mut RawValue, *mut usize) -> *const c_char;
    fn LLVMGetEnumAttributeKindForName(*const c_char, usize) -> c_uint;
    fn LLVMCreateEnumAttribute(*mut RawContext, c_uint, u64) -> *mut RawAttribute;
    fn LLVMCreateStringAttribute(*mut RawContext, *const c_char, c_uint, *const c_char, c_uint) -> *mut RawAttribute;
    fn LLVMAddAttributeAtIndex(*mut RawValue, c_uint, *mut RawAttribute);
    fn LLVMAddCallSiteAttribute(*mut RawValue, c_uint, *mut RawAttribute);
    fn LLVMParseCommandLineOptions(c_int, *const *const c_char, *const c_char);
    fn LLVMInitializeNVPTXTargetInfo();
    fn LLVMInitializeNVPTXTarget();
    fn LLVMInitializeNVPTXTargetMC();
    fn LLVMInitializeNVPTXAsmPrinter();
    fn LLVMGetTargetFromTriple(*const c_char, *mut *mut RawTarget, *mut *mut c_char) -> c_int;
    fn LLVMCreateTargetMachine(
        *mut RawTarget, *const c_char, *const c_char, *const c_char, c_int, c_int, c_int,
    ) -> *mut RawTargetMachine;
    fn LLVMDisposeTargetMachine(*mut RawTargetMachine);
    fn LLVMTargetMachineEmitToMemoryBuffer(
        *mut RawTargetMachine, *mut RawModule, c_int, *mut *mut c_char, *mut *mut RawBuffer,
    ) -> c_int;
    fn LLVMCreatePassBuilderOptions() -> *mut RawPassOptions;
    fn LLVMDisposePassBuilderOptions(*mut RawPassOptions);
    fn LLVMRunPasses(*mut RawModule, *const c_char, *mut RawTargetMachine, *mut RawPassOptions) -> *mut RawError;
    fn LLVMGetErrorMessage(*mut RawError) -> *mut c_char;
    fn LLVMDisposeErrorMessage(*mut c_char);
}

/// LLVM is one per process: its command line options and target registry are global and can be set up only once, and
/// unloading a C++ library with static destructors is not safe. Hence a process-wide cell.
static LLVM: OnceLock<Result<(Api, PathBuf), String>> = OnceLock::new();

/// Loads LLVM from `sysroot/lib`, sets `options` and registers the NVPTX target; later calls return the first result.
///
/// # Errors
/// [`BuildError::Llvm`] when no library is there, a function is missing, or another sysroot's LLVM is loaded already.
pub(super) fn load(sysroot: &Path, options: &[&std::ffi::CStr]) -> Result<&'static Api, BuildError> {
    let wanted = find(sysroot)?;
    let loaded = LLVM.get_or_init(|| {
        let api = open(&wanted).map_err(|e| format!("cannot load {}: {e}", wanted.display()))?;
        initialise(&api, options);
        Ok((api, wanted.clone()))
    });
    match loaded {
        Ok((api, path)) if *path == wanted => Ok(api),
        Ok((_, path)) => Err(BuildError::Llvm(format!(
            "this process has loaded {} already and cannot load {} too",
            path.display(),
            wanted.display()
        ))),
        Err(e) => Err(BuildError::Llvm(e.clone())),
    }
}

/// `sysroot/lib/libLLVM.so.<version>-rust-<release>`, the library that rustc itself is linked with.
fn find(sysroot: &Path) -> Result<PathBuf, BuildError> {
    let lib = sysroot.join("lib");
    let entries = std::fs::read_dir(&lib).map_err(|e| BuildError::io("read", &lib, e))?;
    let is_llvm =
        |name: &str| name.starts_with("libLLVM.so.") || (name.starts_with("libLLVM") && name.ends_with(".dylib"));
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_llvm)).map(|e| e.path()).collect();
    found.sort();
    found.pop().ok_or_else(|| {
        BuildError::Llvm(format!(
            "no libLLVM.so.* in {}: this rustc was built without a shared LLVM; use a rustup toolchain",
            lib.display()
        ))
    })
}

fn open(path: &Path) -> Result<Api, libloading::Error> {
    // SAFETY: rustc's own library; its static constructors only fill LLVM's registries.
    let library = unsafe { Library::new(path) }?;
    let api = Api::resolve(&library)?;
    std::mem::forget(library); // never unloaded: see LLVM
    Ok(api)
}

fn initialise(api: &Api, options: &[&std::ffi::CStr]) {
    let mut argv = vec![c"cuda_builder".as_ptr()];
    argv.extend(options.iter().map(|o| o.as_ptr()));
    let argc = c_int::try_from(argv.len()).unwrap_or(c_int::MAX);
    // SAFETY: argv holds argc strings that end in NUL and outlive the call. Called once in a process (OnceLock), as
    // LLVM demands. An unknown option ends the process with LLVM's own message.
    unsafe { (api.LLVMParseCommandLineOptions)(argc, argv.as_ptr(), c"".as_ptr()) };
    // SAFETY: no preconditions; filled in once, before any other use of the library.
    unsafe { (api.LLVMInitializeNVPTXTargetInfo)() };
    // SAFETY: as above.
    unsafe { (api.LLVMInitializeNVPTXTarget)() };
    // SAFETY: as above.
    unsafe { (api.LLVMInitializeNVPTXTargetMC)() };
    // SAFETY: as above.
    unsafe { (api.LLVMInitializeNVPTXAsmPrinter)() };
    // SAFETY: the handler is a plain function that only reads its NUL-terminated message.
    unsafe { (api.LLVMInstallFatalErrorHandler)(super::owned::fatal) };
}
