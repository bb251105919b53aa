//! Every primitive of `cuda_std` against a plain definition, through the probe kernels of `varve_gpu::probe`.
//!
//! The kernels run on the emulator under several schedules, or on the card that `VARVE_DEVICE` names (`cuda:0`): same
//! kernels, same expectations. Except for the float products of `mma` the expectations are bits, so a card that passes
//! has the emulator's bits. NaN results compare as NaN: the two make different ones.
#![allow(clippy::unwrap_used, missing_docs)]

mod accuracy;
mod atomics;
mod barriers;
mod convert;
mod copies;
mod floats;
mod indices;
mod instructions;
mod ints;
mod memory;
mod mma;
mod panics;
mod rig;
mod warps;
mod wgmma;
