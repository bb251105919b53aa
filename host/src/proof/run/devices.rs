//! The devices of a run: one for each seed on the emulator, the same card for each on a GPU.

use crate::backend::{BackendError, Buffer, Device, EmulatorConfig, Stream, known_card};

/// Devices by seed.
pub struct Devices {
    devices: Vec<Device>,
    seeds: usize,
}

impl Devices {
    /// `seeds` runs of each variant (at least one) on `device`: on a card as it is, on the emulator with schedules
    /// `first_seed` and following. The emulator gets an H200's figures, so that dispatch chooses as it would there.
    #[must_use]
    pub fn new(device: Device, seeds: usize, first_seed: u64) -> Self {
        let seeds = seeds.max(1);
        if !device.caps().is_emulator {
            return Self { devices: vec![device], seeds };
        }
        let emulator = |i: usize| {
            let seed = first_seed.wrapping_add(i as u64);
            Device::emulator(EmulatorConfig { seed, caps: known_card("H200"), ..EmulatorConfig::default() })
        };
        Self { devices: (0..seeds).map(emulator).collect(), seeds }
    }

    /// Runs of each variant.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.seeds
    }

    /// The device of the first seed.
    #[must_use]
    pub fn first(&self) -> &Device {
        &self.devices[0]
    }

    /// Something on each device, so that seed `i` finds its own at `i` modulo the length.
    pub(super) fn each<T, E>(&self, make: impl FnMut(&Device) -> Result<T, E>) -> Result<Vec<T>, E> {
        self.devices.iter().map(make).collect()
    }
}

/// Copies on a stream of their own, which run beside kernels on a card: a kernel that relies on an idle memory system
/// shows it. The emulator runs one thing at a time and has none.
pub(super) struct Neighbour {
    stream: Stream,
    from: Buffer<u8>,
    to: Buffer<u8>,
}

impl Neighbour {
    const BYTES: usize = 64 << 20;
    const COPIES: usize = 8;

    pub fn new(device: &Device) -> Result<Option<Self>, BackendError> {
        if device.caps().is_emulator {
            return Ok(None);
        }
        let (from, to) = (device.alloc(Self::BYTES)?, device.alloc(Self::BYTES)?);
        Ok(Some(Self { stream: device.stream()?, from, to }))
    }

    pub fn start(&mut self) -> Result<(), BackendError> {
        (0..Self::COPIES).try_for_each(|_| self.to.copy_from_on(&self.stream, &self.from))
    }
}
