//! The driver functions that the CUDA body calls, with a result that can hold any code.
//!
//! `cust_raw` declares the result as a Rust enum of the codes known in 2022, which a newer driver may leave. Handles and
//! options are its types; the functions are those of `driver_slots.rs`.

use cust::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode,
    CUjit_option, CUmodule, CUstream, CUstreamCaptureMode,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

/// A result code of the driver; 0 is success.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Code(pub i32);

impl Code {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// Not enough device memory.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// The PTX cannot be compiled.
    pub const INVALID_PTX: Self = Self(218);
    /// The PTX is of a later version than the driver reads.
    pub const UNSUPPORTED_PTX_VERSION: Self = Self(222);
    /// A name that is not there.
    pub const NOT_FOUND: Self = Self(500);
    /// An event without a record, or another handle that does not fit the call.
    pub const INVALID_HANDLE: Self = Self(400);

    /// True for codes after which the context answers nothing but errors: a kernel trapped, touched a bad address, ran
    /// into the watchdog, or the memory failed.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719)
    }

    /// The driver's name of the code (`CUDA_ERROR_..`), where the driver knows it.
    #[must_use]
    pub fn name(self) -> Option<String> {
        // SAFETY: the function writes a pointer to a static string, or leaves null.
        self.text(|code, out| unsafe { cuGetErrorName(code, out) })
    }

    /// The driver's sentence about the code, where the driver knows it.
    #[must_use]
    pub fn sentence(self) -> Option<String> {
        // SAFETY: as above.
        self.text(|code, out| unsafe { cuGetErrorString(code, out) })
    }

    fn text(self, ask: impl Fn(Code, *mut *const c_char) -> Code) -> Option<String> {
        let mut text = std::ptr::null();
        if ask(self, &raw mut text) != Self::SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: the driver's strings are static and end in a zero byte.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.sentence()) {
            (Some(name), Some(sentence)) => write!(f, "{name} ({}): {}", self.0, sentence.trim_end_matches('.')),
            (Some(name), None) => write!(f, "{name} ({})", self.0),
            (None, _) => write!(f, "driver code {}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({})", self.0)
    }
}

#[allow(missing_docs)] // the driver's own documentation describes them
unsafe extern "C" {
    pub fn cuGetErrorName(code: Code, text: *mut *const c_char) -> Code;
    pub fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code;
    pub fn cuInit(flags: c_uint) -> Code;
    pub fn cuGetProcAddress(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64) -> Code;
    pub fn cuDriverGetVersion(version: *mut c_int) -> Code;
    pub fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice) -> Code;
    pub fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> Code;
    pub fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> Code;
    pub fn cuCtxSetCurrent(context: CUcontext) -> Code;
    pub fn cuCtxSynchronize() -> Code;
    pub fn cuCtxGetLimit(value: *mut usize, limit: c_int) -> Code;
    pub fn cuCtxSetLimit(limit: c_int, value: usize) -> Code;
    pub fn cuCtxResetPersistingL2Cache() -> Code;
    pub fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        n_options: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Code;
    pub fn cuModuleUnload(module: CUmodule) -> Code;
    pub fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> Code;
    pub fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction) -> Code;
    pub fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int) -> Code;
    pub fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: CUfunction,
        block_threads: c_int,
        dynamic_shared: usize,
    ) -> Code;
    pub fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        dynamic_shared: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Code;
    pub fn cuLaunchHostFunc(stream: CUstream, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> Code;
    pub fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> Code;
    pub fn cuMemFree_v2(address: CUdeviceptr) -> Code;
    pub fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code;
    pub fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> Code;
    pub fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> Code;
    pub fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> Code;
    pub fn cuMemsetD8Async(to: CUdeviceptr, byte: u8, bytes: usize, stream: CUstream) -> Code;
    pub fn cuMemsetD32Async(to: CUdeviceptr, word: c_uint, words: usize, stream: CUstream) -> Code;
    pub fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> Code;
    pub fn cuStreamDestroy_v2(stream: CUstream) -> Code;
    pub fn cuStreamSynchronize(stream: CUstream) -> Code;
    pub fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> Code;
    pub fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> Code;
    pub fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> Code;
    pub fn cuGraphInstantiate_v2(
        exec: *mut CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        log: *mut c_char,
        log_bytes: usize,
    ) -> Code;
    pub fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> Code;
    pub fn cuGraphExecDestroy(exec: CUgraphExec) -> Code;
    pub fn cuGraphDestroy(graph: CUgraph) -> Code;
    pub fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> Code;
    pub fn cuEventRecord(event: CUevent, stream: CUstream) -> Code;
    pub fn cuEventSynchronize(event: CUevent) -> Code;
    pub fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> Code;
    pub fn cuEventDestroy_v2(event: CUevent) -> Code;
}
