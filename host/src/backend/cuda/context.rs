//! Opening a device: driver, primary context, properties, module.

use super::super::caps::Caps;
use super::super::driver_slots;
use super::super::error::BackendError;
use super::super::history::History;
use super::super::module::{Embedded, ModuleError, embedded_for};
use super::api::{self, Code};
use super::function::Function;
use super::hold::Hold;
use cust::device::{Device as Card, DeviceAttribute};
use cust::sys::{CUcontext, CUdevice, CUjit_option, CUmodule};
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::{Arc, RwLock};

/// Length of the JIT compiler's error log: its messages are a line each.
const LOG_BYTES: usize = 16 << 10;

/// One device: its primary context (retained), its properties, its module.
pub struct Context {
    pub(super) spec: String,
    pub(super) caps: Caps,
    pub(super) device: CUdevice,
    raw: CUcontext,
    module: Option<RawModule>,
    pub(super) module_sm: u32,
    pub(super) functions: RwLock<HashMap<&'static str, Arc<Function>>>,
    pub(super) history: History,
    pub(super) hold: Hold,
}

// SAFETY: the driver's handles may be used from any thread; what changes is behind locks.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A loaded module; unloaded by its context, which is current then.
struct RawModule(CUmodule);

/// Binds the driver and initialises it; the words are why that failed.
fn initialise() -> Result<(), String> {
    driver_slots::load()?;
    // SAFETY: the driver is bound; the call may be repeated.
    match unsafe { api::cuInit(0) } {
        Code::SUCCESS => Ok(()),
        code => Err(format!("the driver does not start: {code}")),
    }
}

/// Number of CUDA devices.
///
/// # Errors
/// Why there is no usable driver.
pub fn count() -> Result<u32, String> {
    initialise()?;
    Card::num_devices().map_err(|e| format!("the driver does not list its devices: {e}"))
}

impl Context {
    /// Opens device `ordinal` and loads the module of its compute capability.
    pub fn open(ordinal: u32) -> Result<Self, BackendError> {
        let spec = format!("cuda:{ordinal}");
        let no_device = |why: String| BackendError::NoDevice { spec: spec.clone(), why };
        match count().map_err(no_device)? {
            0 => return Err(no_device("the driver lists no device".into())),
            n if ordinal >= n => return Err(no_device(format!("the driver lists {n} device(s), counted from 0"))),
            _ => {}
        }
        let card = Card::get_device(ordinal).map_err(|e| no_device(e.to_string()))?;
        let caps = caps(card).map_err(|e| no_device(format!("its properties cannot be read: {e}")))?;
        let Some(embedded) = embedded_for(&caps) else {
            let cc = caps.cc_text();
            return Err(BackendError::TooOld { spec, name: caps.name, cc });
        };
        let device = card.as_raw();
        let mut raw = std::ptr::null_mut();
        // SAFETY: `device` is a device of this driver; released in Drop.
        let code = unsafe { api::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
        if code != Code::SUCCESS {
            return Err(no_device(format!("its context cannot be had: {code}")));
        }
        let mut context = Self {
            spec,
            caps,
            device,
            raw,
            module: None,
            module_sm: embedded.sm,
            functions: RwLock::default(),
            history: History::default(),
            hold: Hold::default(),
        };
        context.module = Some(context.load_embedded(embedded)?);
        Ok(context)
    }

    /// The device's properties.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The device as `cuda:0`.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Makes the context current on this thread, and lets a stream go on that is held: every driver call starts with it,
    /// but those that only enqueue.
    pub(super) fn bind(&self) -> Result<(), BackendError> {
        self.hold.let_go();
        self.enter()
    }

    /// [`bind`](Self::bind) for calls that enqueue a launch or a record: streams stay held.
    pub(super) fn enter(&self) -> Result<(), BackendError> {
        // SAFETY: the context lives as long as `self`.
        self.check("cuCtxSetCurrent", unsafe { api::cuCtxSetCurrent(self.raw) })
    }

    /// Turns a result code into an error, and notes when the device is lost.
    pub(super) fn check(&self, call: &'static str, code: Code) -> Result<(), BackendError> {
        match code {
            Code::SUCCESS => Ok(()),
            code if code.is_sticky() => Err(self.history.lose(&self.spec, call, code).into()),
            code => Err(BackendError::Driver { spec: self.spec.clone(), call, code }),
        }
    }

    /// Says what went wrong while something was given back. A lost device was reported where that was found.
    pub fn closed(&self, what: &str, outcome: Result<(), BackendError>) {
        match outcome {
            Ok(()) => {}
            Err(BackendError::Lost(_)) => tracing::debug!("{}: {what} left to a lost device", self.spec),
            Err(error) => tracing::warn!("while giving back {what}: {error}"),
        }
    }

    /// Waits for all work on the device.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: no arguments.
        self.check("cuCtxSynchronize", unsafe { api::cuCtxSynchronize() })
    }

    fn load_embedded(&self, embedded: &Embedded) -> Result<RawModule, BackendError> {
        if embedded.ptx.is_empty() {
            return Err(Box::new(ModuleError::empty(&self.spec, &self.caps, embedded.file)).into());
        }
        self.load_ptx(embedded.file, embedded.ptx)
    }

    /// Compiles PTX for this device and drops the result: for the errors alone.
    pub fn try_ptx(&self, file: &str, ptx: &str) -> Result<(), BackendError> {
        let module = self.load_ptx(file, ptx)?;
        self.unload(module)
    }

    fn unload(&self, module: RawModule) -> Result<(), BackendError> {
        // SAFETY: loaded in this context, and its functions are not used any more.
        self.check("cuModuleUnload", unsafe { api::cuModuleUnload(module.0) })
    }

    fn load_ptx(&self, file: &str, ptx: &str) -> Result<RawModule, BackendError> {
        self.bind()?;
        let refused = |code, log: &str| ModuleError::refused(&self.spec, &self.caps, file, ptx, code, log);
        let Ok(image) = CString::new(ptx) else {
            return Err(Box::new(refused(Code::INVALID_PTX, "the text holds a zero byte")).into());
        };
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // This one function takes its option values in place of pointers to them.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG_BYTES)];
        let mut module = std::ptr::null_mut();
        // SAFETY: the image ends in a zero byte; the options and their values are two each; the log outlives the call.
        let code = unsafe {
            api::cuModuleLoadDataEx(
                &raw mut module,
                image.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code == Code::SUCCESS {
            return Ok(RawModule(module));
        }
        if code.is_sticky() {
            return Err(self.history.lose(&self.spec, "cuModuleLoadDataEx", code).into());
        }
        let end = log.iter().position(|&b| b == 0).unwrap_or(LOG_BYTES);
        Err(Box::new(refused(code, &String::from_utf8_lossy(&log[..end]))).into())
    }

    pub(super) fn raw_module(&self) -> Option<CUmodule> {
        self.module.as_ref().map(|m| m.0)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            self.closed("a module", self.bind().and_then(|()| self.unload(module)));
        }
        // SAFETY: retained once in `open`.
        let code = unsafe { api::cuDevicePrimaryCtxRelease_v2(self.device) };
        self.closed("the context", self.check("cuDevicePrimaryCtxRelease", code));
    }
}

/// Attributes that `cust` has no name for, by the driver's numbers.
const SHARED_OPTIN: c_int = 97;
const MAX_BLOCKS_PER_SM: c_int = 106;

fn raw_attribute(card: Card, attribute: c_int) -> Result<u32, String> {
    let mut value = 0;
    // SAFETY: `card` is a device of this driver.
    match unsafe { api::cuDeviceGetAttribute(&raw mut value, attribute, card.as_raw()) } {
        Code::SUCCESS => u32::try_from(value).map_err(|_| format!("attribute {attribute} is {value}")),
        code => Err(format!("attribute {attribute}: {code}")),
    }
}

fn caps(card: Card) -> Result<Caps, String> {
    let get = |attribute: DeviceAttribute| raw_attribute(card, attribute as c_int);
    let (major, minor) = (get(DeviceAttribute::ComputeCapabilityMajor)?, get(DeviceAttribute::ComputeCapabilityMinor)?);
    Ok(Caps {
        name: card.name().map_err(|e| e.to_string())?,
        cc: 10 * major + minor,
        sms: get(DeviceAttribute::MultiprocessorCount)?,
        shared_optin_bytes: raw_attribute(card, SHARED_OPTIN)?,
        shared_per_sm_bytes: get(DeviceAttribute::MaxSharedMemoryPerMultiprocessor)?,
        regs_per_sm: get(DeviceAttribute::MaxRegistersPerMultiprocessor)?,
        max_threads_per_sm: get(DeviceAttribute::MaxThreadsPerMultiprocessor)?,
        max_blocks_per_sm: raw_attribute(card, MAX_BLOCKS_PER_SM)?,
        l2_bytes: u64::from(get(DeviceAttribute::L2CacheSize)?),
        driver: driver_version(),
        is_emulator: false,
    })
}

/// `580.82.07 (CUDA 13.0)`: the kernel module's version where the system tells it, and the CUDA version of the library.
fn driver_version() -> String {
    let mut version = 0;
    // SAFETY: writes one integer.
    let code = unsafe { api::cuDriverGetVersion(&raw mut version) };
    let cuda = match code {
        Code::SUCCESS => format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
        code => format!("CUDA version unknown: {code}"),
    };
    let kernel_module = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let release =
        kernel_module.split_whitespace().find(|w| w.split('.').count() >= 2 && w.starts_with(char::is_numeric));
    release.map_or_else(|| cuda.clone(), |release| format!("{release} ({cuda})"))
}
