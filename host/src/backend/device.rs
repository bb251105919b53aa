//! Devices: opening one, what it is, its memory and streams.

use super::buffer::{Buffer, Memory};
use super::caps::Caps;
use super::cuda;
use super::emulator::{self, EmulatorConfig, Machine};
use super::error::BackendError;
use super::keep::Keep;
use super::stream::Stream;
use bytemuck::Pod;
use cuda_std::launch::Kernel;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Which device to use, as `--device` says it: `auto`, `cuda:N` or `emulator`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The first CUDA device if it can be used, else the emulator, with a line in the log that says why.
    #[default]
    Auto,
    /// The CUDA device of this number, or an error.
    Cuda(u32),
    /// The emulator.
    Emulator,
}

/// A device specification that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no device; use `auto`, `emulator`, or `cuda:N` with a number such as `cuda:0`")]
pub struct SpecError {
    text: String,
}

impl FromStr for DeviceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        match text {
            "auto" => Ok(Self::Auto),
            "emulator" => Ok(Self::Emulator),
            _ => match text.strip_prefix("cuda:").and_then(number) {
                Some(ordinal) => Ok(Self::Cuda(ordinal)),
                None => Err(SpecError { text: text.into() }),
            },
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Emulator => f.write_str(emulator::SPEC),
        }
    }
}

/// A device: a CUDA card or the emulator. Clones are the same device, and so is a card that is opened twice; an emulated
/// device is a new one each time.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

pub(super) struct Inner {
    pub body: Body,
    pub keep: Keep<Memory>,
    fallback: Option<String>,
}

/// What runs the kernels.
pub(super) enum Body {
    Cuda {
        context: Arc<cuda::Context>,
        /// For copies that have happened when they return.
        copies: cuda::Stream,
    },
    Emulator(Machine),
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.spec(), self.caps().name)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl Device {
    /// Opens a device; an emulated one with default settings.
    ///
    /// # Errors
    /// For `cuda:N`: why it cannot be used (no driver, no such card, too old, its driver refuses the PTX).
    pub fn open(spec: &DeviceSpec) -> Result<Self, BackendError> {
        Self::open_with(spec, EmulatorConfig::default())
    }

    /// Opens a device; an emulated one with these settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(spec: &DeviceSpec, config: EmulatorConfig) -> Result<Self, BackendError> {
        match spec {
            DeviceSpec::Cuda(ordinal) => Self::cuda(*ordinal),
            DeviceSpec::Emulator => Ok(Self::emulator(config)),
            DeviceSpec::Auto => Ok(match Self::cuda(0) {
                Ok(device) => {
                    tracing::info!("--device auto: using cuda:0 ({}, {})", device.caps().name, device.caps().driver);
                    device
                }
                Err(why) => {
                    tracing::warn!("--device auto: using the emulator, which is far slower than a GPU, because {why}");
                    Self::emulated(config, Some(why.to_string()))
                }
            }),
        }
    }

    fn cuda(ordinal: u32) -> Result<Self, BackendError> {
        /// The cards that are open. A card's primary context is one for the whole process, and a call that waits for it
        /// breaks any capture under way in it; so all who open the card share one `Keep`, which keeps the two apart.
        static OPEN: Mutex<BTreeMap<u32, Weak<Inner>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = open.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(Self(inner));
        }
        let device = Self::cuda_anew(ordinal)?;
        open.insert(ordinal, Arc::downgrade(&device.0));
        Ok(device)
    }

    fn cuda_anew(ordinal: u32) -> Result<Self, BackendError> {
        let context = Arc::new(cuda::Context::open(ordinal)?);
        let copies = cuda::Stream::new(&context)?;
        let body = Body::Cuda { context, copies };
        Ok(Self(Arc::new(Inner { body, keep: Keep::default(), fallback: None })))
    }

    /// An emulated device.
    #[must_use]
    pub fn emulator(config: EmulatorConfig) -> Self {
        Self::emulated(config, None)
    }

    fn emulated(config: EmulatorConfig, fallback: Option<String>) -> Self {
        Self(Arc::new(Inner { body: Body::Emulator(Machine::new(config)), keep: Keep::default(), fallback }))
    }

    /// Number of CUDA devices.
    ///
    /// # Errors
    /// Why there is no usable driver.
    pub fn cuda_count() -> Result<u32, String> {
        cuda::count()
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// What choices may depend on.
    #[must_use]
    pub fn caps(&self) -> &Caps {
        match &self.0.body {
            Body::Cuda { context, .. } => context.caps(),
            Body::Emulator(machine) => machine.caps(),
        }
    }

    /// The device as `cuda:0` or `emulator`.
    #[must_use]
    pub fn spec(&self) -> &str {
        match &self.0.body {
            Body::Cuda { context, .. } => context.spec(),
            Body::Emulator(_) => emulator::SPEC,
        }
    }

    /// Why `auto` did not give a GPU; `None` where it did, or where the device was asked for by name.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.0.fallback.as_deref()
    }

    /// A new stream, unordered with all others.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn stream(&self) -> Result<Stream, BackendError> {
        Stream::new(self)
    }

    /// Allocates `len` elements, 256-byte aligned. The emulator fills them with NaN; on a card they are whatever was there.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`].
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>, BackendError> {
        Buffer::alloc(self, len)
    }

    /// Allocates a copy of `data`.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`], or [`BackendError::Capturing`] within a capture.
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer<T>, BackendError> {
        Buffer::upload(self, data)
    }

    /// Waits for all work on all streams.
    ///
    /// # Errors
    /// [`BackendError::Lost`] if a kernel failed, [`BackendError::Capturing`] within a capture.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        let _gate = self.0.keep.host_call("Device::synchronize")?;
        match &self.0.body {
            Body::Cuda { context, .. } => context.synchronize(),
            Body::Emulator(_) => Ok(()),
        }
    }

    /// Blocks of `block_threads` threads of a kernel that one SM holds at a time; 0 if not even one fits.
    ///
    /// A card's driver answers (once for each kernel, block and dynamic shared memory); for the emulator it is an estimate
    /// for the card that it claims to be, see [`estimate_blocks_per_sm`](super::estimate_blocks_per_sm). A kernel that the
    /// device's module lacks has 0.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn blocks_per_sm<P: Copy + 'static>(
        &self,
        kernel: &Kernel<P>,
        block_threads: u32,
        dynamic_shared: u32,
    ) -> Result<u32, BackendError> {
        let info = kernel.info();
        let module = self.caps().module_sm().unwrap_or(0);
        if block_threads == 0 || block_threads > info.bounds.threads || info.sm > module {
            return Ok(0);
        }
        match &self.0.body {
            Body::Cuda { context, .. } => match context.function(info.symbol)? {
                Some(function) => context.blocks_per_sm(&function, block_threads, dynamic_shared),
                None => Ok(0),
            },
            Body::Emulator(machine) => Ok(machine.blocks_per_sm(&info, block_threads, dynamic_shared)),
        }
    }

    /// Free and total bytes of a card's memory.
    ///
    /// # Errors
    /// [`BackendError::NeedsCuda`] on the emulator, else the driver's answer.
    pub fn memory_info(&self) -> Result<(usize, usize), BackendError> {
        self.context("Device::memory_info")?.memory_info()
    }

    /// Offers PTX to the card's driver and drops what it makes of it; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`BackendError::Module`] with the JIT compiler's log; [`BackendError::NeedsCuda`] on the emulator.
    pub fn try_ptx(&self, name: &str, ptx: &str) -> Result<(), BackendError> {
        self.context("Device::try_ptx")?.try_ptx(name, ptx)
    }

    pub(super) fn context(&self, call: &'static str) -> Result<&Arc<cuda::Context>, BackendError> {
        match &self.0.body {
            Body::Cuda { context, .. } => Ok(context),
            Body::Emulator(_) => Err(BackendError::NeedsCuda { spec: self.spec().into(), call }),
        }
    }

    /// Allocations that were dropped but may still be used by a captured graph; freed with the graph.
    #[must_use]
    pub fn allocations_held_by_graphs(&self) -> usize {
        self.0.keep.held()
    }

    /// Checks that `other` is this device.
    pub(super) fn expect(&self, call: &'static str, other: &Self) -> Result<(), BackendError> {
        if self == other {
            return Ok(());
        }
        Err(BackendError::OtherDevice { call, first: self.spec().into(), second: other.spec().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_and_written() {
        for (text, spec) in
            [("auto", DeviceSpec::Auto), ("cuda:12", DeviceSpec::Cuda(12)), ("emulator", DeviceSpec::Emulator)]
        {
            assert_eq!(text.parse(), Ok(spec));
            assert_eq!(spec.to_string(), text);
        }
        for text in ["", "cuda", "cuda:", "cuda:-1", "cuda:+1", "cuda:4294967296", "gpu", "Auto", "cuda:0 "] {
            let error = text.parse::<DeviceSpec>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("cuda:0"), "{error}");
        }
    }
}
