//! Every variant of every operation against its promise, on the emulator or on the card that `VARVE_DEVICE` names, and a
//! card's bits against the emulator's.
#![allow(clippy::unwrap_used, missing_docs)]

mod gpu_bits;
mod promises;

use varve::backend::{Device, DeviceSpec};
use varve::environment::Environment;

/// The device that `VARVE_DEVICE` names, else the emulator.
fn device() -> Device {
    Environment::read().unwrap().open(None, DeviceSpec::Emulator).unwrap()
}
