//! A part of a card's L2 in which chosen memory stays, whatever other launches read.

use super::cuda;
use super::device::Device;
use super::error::BackendError;
use super::view::View;

/// Addresses of which a share stays in the L2. It keeps no memory alive: addresses without memory mean nothing to a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub(super) address: usize,
    pub(super) bytes: usize,
    /// From 0 to 1: so much of the window fits what was set aside.
    pub(super) share: f32,
}

/// A part of the L2 that is set aside. When this is dropped the card is as it was: as much set aside as before, all lines
/// ordinary ones.
#[derive(Debug)]
pub struct SetAside {
    device: Device,
    bytes: usize,
    most_window: usize,
    before: usize,
}

impl SetAside {
    /// Sets `bytes` of the device's L2 aside, or as much as it allows.
    ///
    /// # Errors
    /// [`BackendError::NeedsCuda`] on the emulator; [`BackendError::Lacks`] where card or driver have no such thing or do
    /// not let this process do it.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, BackendError> {
        let context = device.context("SetAside::new")?;
        let lacks = |why: String| BackendError::Lacks { spec: device.spec().into(), why };
        let [most, most_window] = context.most_set_aside()?;
        if most == 0 || most_window == 0 {
            return Err(lacks("no part of its L2 can be set aside".into()));
        }
        if !cuda::launches_with_attributes() {
            return Err(lacks("its driver has no launches with a window of addresses".into()));
        }
        let before = context.set_aside()?;
        let refused = |error: BackendError| match error {
            BackendError::Driver { call, code, .. } => {
                lacks(format!("no part of its L2 is set aside ({call}: {code})"))
            }
            error => error,
        };
        context.set_set_aside(bytes.min(most)).map_err(refused)?;
        let bytes = context.set_aside()?;
        let this = Self { device: device.clone(), bytes, most_window, before };
        if bytes == 0 { Err(lacks("its driver sets nothing of the L2 aside".into())) } else { Ok(this) }
    }

    /// Bytes that are set aside.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The window over the memory, of which as large a share stays as there is room for; for
    /// [`Stream::keeping`](super::Stream::keeping).
    #[must_use]
    pub fn window<T>(&self, memory: &View<'_, T, 1>) -> Window {
        window(memory.ptr().addr(), memory.dims[0] * size_of::<T>(), [self.bytes, self.most_window])
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        if let Ok(context) = self.device.context("SetAside::drop") {
            context.closed("lines kept in the L2", context.let_lines_go());
            context.closed("the L2's part for them", context.set_set_aside(self.before));
        }
    }
}

fn window(address: usize, bytes: usize, [room, most]: [usize; 2]) -> Window {
    let bytes = bytes.min(most);
    Window { address, bytes, share: (room as f64 / bytes.max(1) as f64).min(1.0) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatorConfig;

    #[test]
    fn a_window_keeps_what_there_is_room_for() {
        assert_eq!(window(256, 40, [20, 100]), Window { address: 256, bytes: 40, share: 0.5 });
        assert_eq!(window(256, 40, [60, 100]).share, 1.0);
        assert_eq!(window(256, 400, [50, 100]), Window { address: 256, bytes: 100, share: 0.5 });
    }

    #[test]
    fn the_emulator_has_no_l2_to_set_aside() {
        let error = SetAside::new(&Device::emulator(EmulatorConfig::default()), 1 << 20).expect_err("no card");
        assert!(error.to_string().contains("needs a CUDA device"), "{error}");
    }
}
