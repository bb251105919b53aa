//! The SIMT emulator: the host body of every primitive, and the launcher that runs kernels on it.
//!
//! [`run`] executes a kernel that `#[kernel]` made, [`launch()`] any closure. The blocks of a grid run on the rayon pool,
//! each on one OS thread; within a block every GPU thread is a stackful coroutine that yields at each synchronising
//! primitive. What a GPU punishes by silence is an error value here, with the kernel, the block, the thread and the
//! source line: see [`Fault`].
//!
//! Memory that kernels reach must be known: [`memory::alloc`] and [`memory::from_slice`] give guarded device memory,
//! [`memory::register`] lends a host range.
//!
//! **Schedules.** [`Options::seed`] 0 resumes runnable threads in order of arrival; any other seed draws the next thread
//! (and the order of blocks) from a generator. A kernel without races gives the same bits under each;
//! [`check_schedules`] compares them, and [`Options::races`] looks for missing barriers directly.

pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod bulk;
pub(crate) mod cluster;
pub(crate) mod copy;
pub(crate) mod float;
pub(crate) mod global;
pub(crate) mod grid;
pub(crate) mod int;
pub mod memory;
pub(crate) mod mma;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod warp;
pub(crate) mod wgmma;

mod accessors;
mod arena;
mod block;
mod context;
mod fault;
mod fiber;
mod launch;
mod proxy;
mod race;
mod schedule;
mod stack;
mod tile;

pub use fault::{Access, Fault, Place, Space, Stuck};
pub use launch::{Launch, Limits, Options, Stats, launch, run, wide_cpu};
pub use schedule::check_schedules;
#[doc(hidden)]
pub use shared::Site;
