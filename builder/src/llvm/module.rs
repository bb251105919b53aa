//! A module and what is in it: functions, calls, global variables.

use std::ffi::{CStr, c_int, c_uint};
use std::ptr::null_mut;

use super::api::{Api, RawAttribute, RawModule, RawValue};
use super::owned::{Builder, Context, take_text};
use crate::error::BuildError;

/// `llvm::CallingConv::PTX_Kernel`, what rustc gives an `extern "ptx-kernel"` function.
const PTX_KERNEL: c_uint = 71;
/// `LLVMAttributeFunctionIndex`.
const ON_FUNCTION: c_uint = c_uint::MAX;
const LINKAGE_EXTERNAL: c_int = 0;
const LINKAGE_INTERNAL: c_int = 8;
/// `LLVMLShr`, `LLVMTrunc`, `LLVMExtractValue`, `LLVMFreeze`.
const SELECTS_BITS: [c_int; 4] = [21, 30, 53, 68];
const VISIBILITY_DEFAULT: c_int = 0;

/// One module of a context.
pub(crate) struct Module<'c> {
    pub(super) context: &'c Context,
    raw: *mut RawModule,
}

impl<'c> Module<'c> {
    /// Takes ownership of `raw`, a live module of `context`.
    pub(super) fn own(context: &'c Context, raw: *mut RawModule) -> Self {
        Self { context, raw }
    }
}

impl Module<'_> {
    pub(super) fn raw(&self) -> *mut RawModule {
        self.raw
    }

    pub(super) fn api(&self) -> &'static Api {
        self.context.api
    }

    /// All functions, declarations included.
    pub(crate) fn functions(&self) -> Vec<Function<'_>> {
        let api = self.api();
        // SAFETY: the module is live.
        let first = unsafe { (api.LLVMGetFirstFunction)(self.raw) };
        // SAFETY: the walk passes live functions of this module.
        let values = walk(first, |f| unsafe { (api.LLVMGetNextFunction)(f) });
        values.into_iter().map(|raw| Function { module: self, raw }).collect()
    }

    /// All global variables, declarations included.
    pub(crate) fn globals(&self) -> Vec<Global<'_>> {
        let api = self.api();
        // SAFETY: the module is live.
        let first = unsafe { (api.LLVMGetFirstGlobal)(self.raw) };
        // SAFETY: the walk passes live globals of this module.
        let values = walk(first, |g| unsafe { (api.LLVMGetNextGlobal)(g) });
        values.into_iter().map(|raw| Global { module: self, raw }).collect()
    }

    /// Removes debug information, so that PTX is the same whatever the profile says and wherever it was built.
    pub(crate) fn strip_debug_info(&self) {
        // SAFETY: the module is live.
        unsafe { (self.api().LLVMStripModuleDebugInfo)(self.raw) };
    }

    /// The module as LLVM's text form, for a reader who wants to see what the passes got.
    pub(crate) fn to_text(&self) -> String {
        // SAFETY: the module is live; the text is ours and take_text frees it.
        take_text(self.api(), unsafe { (self.api().LLVMPrintModuleToString)(self.raw) })
    }

    /// LLVM's own consistency check.
    pub(crate) fn verify(&self, after: &str) -> Result<(), BuildError> {
        const RETURN_STATUS: c_int = 2;
        let mut text = null_mut();
        // SAFETY: the module is live; the text is set in either case and freed below.
        let broken = unsafe { (self.api().LLVMVerifyModule)(self.raw, RETURN_STATUS, &raw mut text) };
        let text = take_text(self.api(), text);
        if broken == 0 { Ok(()) } else { Err(BuildError::Llvm(format!("broken module after {after}: {text}"))) }
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: owned by this value, disposed of once, before its context (borrowed).
        unsafe { (self.api().LLVMDisposeModule)(self.raw) };
    }
}

/// The elements of one of LLVM's null-terminated lists; `next` is called with live elements only.
fn walk<T>(first: *mut T, next: impl Fn(*mut T) -> *mut T) -> Vec<*mut T> {
    let (mut at, mut all) = (first, Vec::new());
    while !at.is_null() {
        all.push(at);
        at = next(at);
    }
    all
}

fn name_of(api: &Api, value: *mut RawValue) -> String {
    let mut len = 0;
    // SAFETY: `value` is live; the name belongs to it and is copied at once.
    let start = unsafe { (api.LLVMGetValueName2)(value, &raw mut len) };
    // SAFETY: LLVM returns `len` readable bytes (an unnamed value has 0 of them at a non-null address).
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }).into_owned()
}

/// Makes a definition private to its module, so that it goes when nothing uses it.
fn internalise(api: &Api, value: *mut RawValue) {
    // SAFETY: `value` is a live global value; internal ones must have default visibility.
    unsafe { (api.LLVMSetVisibility)(value, VISIBILITY_DEFAULT) };
    // SAFETY: as above.
    unsafe { (api.LLVMSetLinkage)(value, LINKAGE_INTERNAL) };
}

/// A function of a module.
#[derive(Clone, Copy)]
pub(crate) struct Function<'m> {
    pub(super) module: &'m Module<'m>,
    raw: *mut RawValue,
}

impl Function<'_> {
    pub(crate) fn name(&self) -> String {
        name_of(self.module.api(), self.raw)
    }

    /// Whether only the declaration is here.
    pub(crate) fn is_declaration(&self) -> bool {
        // SAFETY: the function is live.
        unsafe { (self.module.api().LLVMIsDeclaration)(self.raw) != 0 }
    }

    /// Whether this is an entry that the host can launch.
    pub(crate) fn is_kernel(&self) -> bool {
        // SAFETY: the function is live.
        unsafe { (self.module.api().LLVMGetFunctionCallConv)(self.raw) == PTX_KERNEL }
    }

    /// Whether LLVM knows the function's meaning by itself.
    pub(crate) fn is_intrinsic(&self) -> bool {
        // SAFETY: the function is live.
        unsafe { (self.module.api().LLVMGetIntrinsicID)(self.raw) != 0 }
    }

    pub(crate) fn internalise(&self) {
        internalise(self.module.api(), self.raw);
    }

    /// Sets a string attribute such as `"nvvm.maxntid"="128"`.
    pub(crate) fn set_attribute(&self, key: &str, value: &str) {
        let (api, context) = (self.module.api(), self.module.context.raw);
        let (key_start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: both ranges are readable and copied; the lengths are of short literals and decimal numbers.
        let attribute = unsafe {
            (api.LLVMCreateStringAttribute)(context, key_start, key.len() as c_uint, value_start, value.len() as c_uint)
        };
        // SAFETY: function and attribute are of the same context.
        unsafe { (api.LLVMAddAttributeAtIndex)(self.raw, ON_FUNCTION, attribute) };
    }

    /// Marks the function itself `convergent`.
    pub(crate) fn set_convergent(&self) {
        // SAFETY: function and attribute are of the same context.
        unsafe { (self.module.api().LLVMAddAttributeAtIndex)(self.raw, ON_FUNCTION, convergent(self.module)) };
    }

    /// Marks each call in this body `convergent` for which `wanted` says so.
    pub(crate) fn set_calls_convergent(&self, wanted: impl Fn(Callee<'_>) -> bool) {
        let api = self.module.api();
        let attribute = convergent(self.module);
        for call in self.calls() {
            // SAFETY: `call` is a live call instruction.
            let callee = unsafe { (api.LLVMGetCalledValue)(call) };
            if wanted(self.callee(callee)) {
                // SAFETY: call and attribute are of the same context.
                unsafe { (api.LLVMAddCallSiteAttribute)(call, ON_FUNCTION, attribute) };
            }
        }
    }

    pub(super) fn callee(&self, raw: *mut RawValue) -> Callee<'_> {
        let api = self.module.api();
        // SAFETY: `raw` is a live value.
        if !unsafe { (api.LLVMIsAInlineAsm)(raw) }.is_null() {
            return Callee::InlineAsm;
        }
        // SAFETY: `raw` is a live value.
        let function = unsafe { (api.LLVMIsAFunction)(raw) };
        if function.is_null() { Callee::Pointer } else { Callee::Function(Function { module: self.module, raw }) }
    }

    /// Rewrites each generic `inttoptr` of a part of a parameter into one to `address_space`, cast back to generic.
    pub(crate) fn cast_parameter_pointers(&self, address_space: c_uint) {
        let (api, context) = (self.module.api(), self.module.context);
        // SAFETY: the context is live.
        let in_space = unsafe { (api.LLVMPointerTypeInContext)(context.raw, address_space) };
        let builder = Builder::new(context);
        for cast in self.instructions() {
            // SAFETY: every instruction is live.
            if unsafe { (api.LLVMIsAIntToPtrInst)(cast) }.is_null() {
                continue;
            }
            // SAFETY: an inttoptr has one operand.
            let integer = unsafe { (api.LLVMGetOperand)(cast, 0) };
            // SAFETY: `cast` is live.
            let generic = unsafe { (api.LLVMTypeOf)(cast) };
            // SAFETY: an inttoptr has a pointer type.
            let is_generic = unsafe { (api.LLVMGetPointerAddressSpace)(generic) } == 0;
            if is_generic && self.is_part_of_parameter(integer) {
                let replacement = builder.int_to_ptr_in_space(cast, integer, in_space, generic);
                // SAFETY: both have the type `generic`.
                unsafe { (api.LLVMReplaceAllUsesWith)(cast, replacement) };
                // SAFETY: no use is left, and the list above was made before.
                unsafe { (api.LLVMInstructionEraseFromParent)(cast) };
            }
        }
    }

    /// Whether `value` is some bits of a parameter: one of its integers, or a half of one.
    fn is_part_of_parameter(&self, value: *mut RawValue) -> bool {
        let api = self.module.api();
        let mut value = value;
        // SAFETY: `value` is live, in each turn.
        while !unsafe { (api.LLVMIsAInstruction)(value) }.is_null() {
            // SAFETY: `value` is an instruction.
            if !SELECTS_BITS.contains(&unsafe { (api.LLVMGetInstructionOpcode)(value) }) {
                return false;
            }
            // SAFETY: each of these instructions has what it selects from as operand 0.
            value = unsafe { (api.LLVMGetOperand)(value, 0) };
        }
        // SAFETY: `value` is live.
        !unsafe { (api.LLVMIsAArgument)(value) }.is_null()
    }

    fn instructions(&self) -> Vec<*mut RawValue> {
        let api = self.module.api();
        // SAFETY: the function is live (and likewise each block and instruction below).
        let first = unsafe { (api.LLVMGetFirstBasicBlock)(self.raw) };
        // SAFETY: see above.
        let blocks = walk(first, |b| unsafe { (api.LLVMGetNextBasicBlock)(b) });
        let in_block = |block| {
            // SAFETY: see above.
            let first = unsafe { (api.LLVMGetFirstInstruction)(block) };
            // SAFETY: see above.
            walk(first, |i| unsafe { (api.LLVMGetNextInstruction)(i) })
        };
        blocks.into_iter().flat_map(in_block).collect()
    }

    pub(super) fn calls(&self) -> Vec<*mut RawValue> {
        let api = self.module.api();
        // SAFETY: each instruction is live.
        self.instructions().into_iter().filter(|&i| !unsafe { (api.LLVMIsACallInst)(i) }.is_null()).collect()
    }
}

/// What a call instruction calls.
pub(crate) enum Callee<'m> {
    /// An `asm!` block.
    InlineAsm,
    /// A function known by name.
    Function(Function<'m>),
    /// An address computed at run time.
    Pointer,
}

fn convergent(module: &Module<'_>) -> *mut RawAttribute {
    const NAME: &str = "convergent";
    // SAFETY: the range is readable.
    let kind = unsafe { (module.api().LLVMGetEnumAttributeKindForName)(NAME.as_ptr().cast(), NAME.len()) };
    // SAFETY: the context is live and `kind` is a known kind.
    unsafe { (module.api().LLVMCreateEnumAttribute)(module.context.raw, kind, 0) }
}

/// A global variable of a module.
pub(crate) struct Global<'m> {
    module: &'m Module<'m>,
    raw: *mut RawValue,
}

impl Global<'_> {
    pub(crate) fn name(&self) -> String {
        name_of(self.module.api(), self.raw)
    }

    /// The value of `#[link_section]`, empty without one.
    pub(crate) fn section(&self) -> String {
        // SAFETY: the global is live.
        let text = unsafe { (self.module.api().LLVMGetSection)(self.raw) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: LLVM keeps section names with a final NUL.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Whether the variable is declared only.
    pub(crate) fn is_declaration(&self) -> bool {
        // SAFETY: the global is live.
        unsafe { (self.module.api().LLVMIsDeclaration)(self.raw) != 0 }
    }

    pub(crate) fn internalise(&self) {
        internalise(self.module.api(), self.raw);
    }

    /// The initial value as bytes in memory order, or None when it is not a plain byte string.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let api = self.module.api();
        // SAFETY: the global is live; null without an initialiser.
        let initial = unsafe { (api.LLVMGetInitializer)(self.raw) };
        if initial.is_null() {
            return None;
        }
        // SAFETY: `initial` is a live constant; null when it is of another kind.
        let mut value = unsafe { (api.LLVMIsAConstantDataSequential)(initial) };
        if value.is_null() {
            // rustc wraps some constants in a packed struct of one byte array.
            // SAFETY: as above; null when there is no element 0.
            let element = unsafe { (api.LLVMGetAggregateElement)(initial, 0) };
            if element.is_null() {
                return None;
            }
            // SAFETY: `element` is a live constant.
            value = unsafe { (api.LLVMIsAConstantDataSequential)(element) };
        }
        // SAFETY: a live ConstantDataSequential, the only kind that the function may be asked about.
        if value.is_null() || unsafe { (api.LLVMIsConstantString)(value) } == 0 {
            return None;
        }
        let mut len = 0;
        // SAFETY: `value` is a constant string.
        let start = unsafe { (api.LLVMGetAsString)(value, &raw mut len) };
        // SAFETY: `len` bytes that belong to the constant, copied at once.
        Some(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec())
    }

    /// Replaces the variable by one of the same type and name in `address_space`, at least `alignment` bytes aligned
    /// and without initial value; every use sees it through a cast to the generic address space.
    pub(crate) fn move_to_address_space(self, address_space: c_uint, alignment: c_uint) {
        let api = self.module.api();
        let (name, declared) = (self.name(), self.is_declaration());
        // SAFETY: the global is live.
        let value_type = unsafe { (api.LLVMGlobalGetValueType)(self.raw) };
        // SAFETY: the global is live.
        let pointer_type = unsafe { (api.LLVMTypeOf)(self.raw) };
        // SAFETY: the global is live.
        let alignment = alignment.max(unsafe { (api.LLVMGetAlignment)(self.raw) });
        // SAFETY: module and type are live; the name is copied.
        let moved =
            unsafe { (api.LLVMAddGlobalInAddressSpace)(self.module.raw, value_type, c"".as_ptr(), address_space) };
        // SAFETY: `moved` is live, the alignment a power of two (both operands of max are).
        unsafe { (api.LLVMSetAlignment)(moved, alignment) };
        if declared {
            // SAFETY: `moved` is live; without an initialiser it must be external.
            unsafe { (api.LLVMSetLinkage)(moved, LINKAGE_EXTERNAL) };
        } else {
            // SAFETY: the type is live.
            let undef = unsafe { (api.LLVMGetUndef)(value_type) };
            // SAFETY: the constant has the global's value type.
            unsafe { (api.LLVMSetInitializer)(moved, undef) };
            internalise(api, moved);
        }
        // SAFETY: a cast between pointer types of one context.
        let generic = unsafe { (api.LLVMConstAddrSpaceCast)(moved, pointer_type) };
        // SAFETY: both have the type `pointer_type`.
        unsafe { (api.LLVMReplaceAllUsesWith)(self.raw, generic) };
        // SAFETY: no use is left; `self` is consumed, so nothing refers to it again.
        unsafe { (api.LLVMDeleteGlobal)(self.raw) };
        // SAFETY: `moved` is live; the old bearer of the name is gone.
        unsafe { (api.LLVMSetValueName2)(moved, name.as_ptr().cast(), name.len()) };
    }

    /// Removes the variable; nothing may use it any more.
    pub(crate) fn delete(self) {
        // SAFETY: the global is live; callers delete the list of used symbols first, so no use is left.
        unsafe { (self.module.api().LLVMDeleteGlobal)(self.raw) };
    }
}
