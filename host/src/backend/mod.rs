//! One face over the two things that run kernels: an NVIDIA card through its driver, and the emulator.
//!
//! Nothing above this module knows which one runs. A [`Device`] gives [`Buffer`]s and [`Stream`]s; a stream launches typed
//! kernels, records [`Event`]s, captures [`Graph`]s. Errors name the device, the call and, for launches, the kernel with
//! its grid, block and shared memory.
//!
//! ```
//! use varve::backend::{Device, DeviceSpec};
//!
//! let device = Device::open(&DeviceSpec::Emulator)?;
//! let mut x = device.upload(&[1.0f32, 2.0, 3.0])?;
//! let view = x.view([3, 1])?;
//! assert_eq!(view.dims, [3, 1]);
//! x.write_at(1, &[5.0])?;
//! assert_eq!(x.read()?, [1.0, 5.0, 3.0]);
//! # Ok::<(), varve::backend::BackendError>(())
//! ```

mod buffer;
mod caps;
mod cuda;
mod device;
pub mod driver_slots;
mod driver_symbols;
mod emulator;
mod error;
mod event;
mod graph;
mod history;
mod keep;
mod l2;
mod limits;
mod module;
mod occupancy;
mod profile;
mod scratch;
mod stream;
mod transfer;
mod view;

pub use buffer::Buffer;
pub use caps::{Caps, known_card, known_cards};
pub use cuda_std::emulator::Launch;
pub use device::{Device, DeviceSpec, SpecError};
pub use emulator::EmulatorConfig;
pub use error::{BackendError, Code, LaunchError, LaunchShape};
pub use event::Event;
pub use graph::Graph;
pub use history::{Enqueued, Lost, Record};
pub use l2::{SetAside, Window};
pub use module::{EMBEDDED, Embedded, ModuleError, PtxHead, embedded_for, entries};
pub use occupancy::{Resources, estimate_blocks_per_sm};
pub use profile::{Cost, Profile};
pub use stream::Stream;
pub use view::{ShapeError, View, ViewMut};
