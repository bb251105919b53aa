//! The backend's one face, tested on the device that `VARVE_DEVICE` names: the emulator unless it says `cuda:0`.
//!
//! What only a card or only the emulator can show says so on stderr where it is not run. Tests that need another
//! environment, or that break their device, run themselves again in a process of their own (`child.rs`).
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod child;
mod events;
mod graphs;
mod jit;
mod launches;
mod link_stub;
mod memory;
mod no_driver;
mod scratch;
mod sticky;
mod symbols;

use varve::backend::{Device, DeviceSpec};
use varve::environment::Environment;

/// The device under test.
fn device() -> Device {
    let environment = Environment::read().expect("VARVE_DEVICE and VARVE_EMU_SEED");
    environment.open(None, DeviceSpec::Emulator).expect("the device that VARVE_DEVICE names")
}

/// The device under test if it is a card; says so if not.
fn card(test: &str) -> Option<Device> {
    let device = device();
    if device.caps().is_emulator {
        eprintln!("skipped: {test} needs a card (VARVE_DEVICE=cuda:0)");
        return None;
    }
    Some(device)
}
