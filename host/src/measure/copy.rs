//! The copy bandwidth of the device, the yardstick for everything that moves bytes.

use super::case::{MeasureError, between_events};
use super::paired::alternate;
use crate::backend::Device;

/// Bytes a second that a device-to-device copy moves, read and written bytes counted: median of nine copies of a buffer
/// that is several times the L2 (1 GiB on a card, 16 MiB on the emulator).
///
/// # Errors
/// What the device said.
pub fn copy_bandwidth(device: &Device) -> Result<f64, MeasureError> {
    let words = if device.caps().is_emulator { 4 << 20 } else { 256 << 20 };
    let stream = device.stream()?;
    let mut source = device.alloc::<u32>(words)?;
    source.fill_bytes(0x5a)?;
    let mut target = device.alloc::<u32>(words)?;
    let times = alternate(1, 2, 9, |_| between_events(&stream, || Ok(target.copy_from_on(&stream, &source)?)))?;
    Ok(8.0 * words as f64 / (times[0].median() * 1e-6))
}
