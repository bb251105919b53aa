//! What can go wrong below an operation: where, what was asked, and what to do.

use super::history::Lost;
use super::module::ModuleError;
use super::view::ShapeError;
use cuda_std::emulator::{Fault, Launch};
use std::fmt;

pub use super::cuda::api::Code;

/// Why a device could not be opened or did not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// No device can be used: no driver, no card, or none of this number.
    #[error("{spec}: {why}; `--device emulator` runs everything without a GPU")]
    NoDevice {
        /// The device as asked for.
        spec: String,
        /// The reason.
        why: String,
    },
    /// The card is older than the oldest embedded module.
    #[error("{spec}: {name} has compute capability {cc}; the kernels need 7.5 or later")]
    TooOld {
        /// The device as asked for.
        spec: String,
        /// The card.
        name: String,
        /// Its compute capability, as `6.1`.
        cc: String,
    },
    /// The kernels' PTX was not accepted.
    #[error(transparent)]
    Module(#[from] Box<ModuleError>),
    /// There is not as much memory.
    #[error("{spec}: {bytes} bytes of device memory asked for: {available}")]
    OutOfMemory {
        /// The device.
        spec: String,
        /// Bytes asked for.
        bytes: usize,
        /// What there is, in words.
        available: String,
    },
    /// A buffer of another length than the data.
    #[error("{call}: the buffer has {buffer} elements, the data {data}")]
    Length {
        /// What was called.
        call: &'static str,
        /// Elements of the buffer.
        buffer: usize,
        /// Elements of the data.
        data: usize,
    },
    /// A view that does not fit its buffer or an operand of another shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A launch that was not accepted or failed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A call that waits for the device, within the closure of [`Stream::capture`](super::Stream::capture).
    #[error("{call}: not possible while a graph is captured; do it before or after the capture")]
    Capturing {
        /// What was called.
        call: &'static str,
    },
    /// Things of different devices in one call.
    #[error("{call}: `{first}` and `{second}` are different devices")]
    OtherDevice {
        /// What was called.
        call: &'static str,
        /// Specification of the first.
        first: String,
        /// Specification of the second.
        second: String,
    },
    /// An event that was not recorded outside a capture.
    #[error("{call}: the event was never recorded, or only within a capture")]
    NotRecorded {
        /// What was called.
        call: &'static str,
    },
    /// Something that only one kind of device can do.
    #[error("{spec}: {call} needs a CUDA device")]
    NeedsCuda {
        /// The device.
        spec: String,
        /// What was called.
        call: &'static str,
    },
    /// Something that this card, or its driver, does not have.
    #[error("{spec}: {why}")]
    Lacks {
        /// The device.
        spec: String,
        /// What it lacks.
        why: String,
    },
    /// A kernel failed while it ran: the device answers nothing but this from then on.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Any other answer of the driver.
    #[error("{spec}: {call}: {code}")]
    Driver {
        /// The device.
        spec: String,
        /// The driver's function.
        call: &'static str,
        /// Its answer.
        code: Code,
    },
}

/// A launch as error messages show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Symbol of the kernel.
    pub kernel: &'static str,
    /// Grid, block and dynamic shared memory.
    pub launch: Launch,
}

impl fmt::Display for LaunchShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Launch { grid: [gx, gy, gz], block: [bx, by, bz], dynamic_shared } = self.launch;
        write!(f, "kernel `{}` (grid {gx} x {gy} x {gz}, block {bx} x {by} x {bz}, ", self.kernel)?;
        write!(f, "{dynamic_shared} B dynamic shared)")
    }
}

/// Why a kernel was not launched, or how it failed.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A quantity is beyond what the device or the kernel's bounds allow. Nothing was enqueued.
    #[error("{shape}: {what} is {got}, the limit is {limit} on {spec}")]
    Limit {
        /// The launch.
        shape: LaunchShape,
        /// The quantity.
        what: &'static str,
        /// What was asked for.
        got: u64,
        /// What is allowed (for a quantity of which at least one is needed: 1).
        limit: u64,
        /// The device.
        spec: String,
    },
    /// The kernel needs a later architecture than the module that this device runs. Nothing was enqueued.
    #[error(
        "{shape}: needs the module for sm_{needs}; {spec} has compute capability {cc} and runs the one for sm_{module}"
    )]
    NeedsNewer {
        /// The launch.
        shape: LaunchShape,
        /// Least architecture of the kernel.
        needs: u32,
        /// The device's compute capability, as `8.9`.
        cc: String,
        /// Architecture of the module that it runs.
        module: u32,
        /// The device.
        spec: String,
    },
    /// The grid's x cannot be cut into the kernel's clusters. Nothing was enqueued.
    #[error("{shape}: grid x is {}, no multiple of the {cluster} blocks of a cluster on {spec}", shape.launch.grid[0])]
    Cluster {
        /// The launch.
        shape: LaunchShape,
        /// Blocks of a cluster of the kernel.
        cluster: u32,
        /// The device.
        spec: String,
    },
    /// The kernel is not in the PTX that was built. Nothing was enqueued.
    #[error("{shape}: {spec}'s module for sm_{module} has no such entry; rebuild, and see `varve ptx --list`")]
    NotInModule {
        /// The launch.
        shape: LaunchShape,
        /// Architecture of the module.
        module: u32,
        /// The device.
        spec: String,
    },
    /// The driver refused the launch.
    #[error("{shape}: {call} on {spec}: {code}")]
    Driver {
        /// The launch.
        shape: LaunchShape,
        /// The driver's function.
        call: &'static str,
        /// Its answer.
        code: Code,
        /// The device.
        spec: String,
    },
    /// What comes before a launch (look-up, attributes) failed. Nothing was enqueued.
    #[error("{shape}: {error}")]
    Setup {
        /// The launch.
        shape: LaunchShape,
        /// What failed.
        #[source]
        error: Box<BackendError>,
    },
    /// An earlier kernel failed: the device answers nothing but this.
    #[error("{shape}: not launched: {lost}")]
    Lost {
        /// The launch.
        shape: LaunchShape,
        /// What happened before.
        lost: Lost,
    },
    /// The emulator found a fault in the kernel.
    #[error("{shape} on {spec}: {fault}")]
    Fault {
        /// The launch.
        shape: LaunchShape,
        /// What, in which block and thread.
        #[source]
        fault: Box<Fault>,
        /// The device.
        spec: String,
    },
}
