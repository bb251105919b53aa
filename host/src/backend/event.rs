//! Events: points in a stream's order, with a time.

use super::cuda;
use super::device::{self, Device};
use super::emulator;
use super::error::BackendError;

/// A point that a stream reaches. [`Stream::record`](super::Stream::record) sets it, again and again.
pub struct Event {
    device: Device,
    body: Body,
}

/// What marks the point.
pub(super) enum Body {
    Cuda(cuda::Event),
    Emulator(emulator::Event),
}

impl Event {
    /// An event that is not recorded yet.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn new(device: &Device) -> Result<Self, BackendError> {
        let body = match &device.inner().body {
            device::Body::Cuda { context, .. } => Body::Cuda(cuda::Event::new(context)?),
            device::Body::Emulator(_) => Body::Emulator(emulator::Event::default()),
        };
        Ok(Self { device: device.clone(), body })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    /// Waits until the point recorded last is reached; at once if there is none.
    ///
    /// # Errors
    /// [`BackendError::Lost`] if a kernel failed.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        match &self.body {
            Body::Cuda(event) => event.synchronize(),
            Body::Emulator(_) => Ok(()),
        }
    }

    /// Microseconds from `start` to `end`; waits for `end`. A card resolves about half a microsecond, the emulator gives
    /// the host's wall time.
    ///
    /// # Errors
    /// [`BackendError::NotRecorded`], [`BackendError::OtherDevice`], or [`BackendError::Lost`].
    pub fn elapsed_us(start: &Self, end: &Self) -> Result<f64, BackendError> {
        const CALL: &str = "Event::elapsed_us";
        start.device.expect(CALL, &end.device)?;
        end.synchronize()?;
        match (&start.body, &end.body) {
            (Body::Cuda(start), Body::Cuda(end)) => end.microseconds_since(start),
            (Body::Emulator(start), Body::Emulator(end)) => {
                end.microseconds_since(start).ok_or(BackendError::NotRecorded { call: CALL })
            }
            _ => unreachable!("the devices are the same"),
        }
    }
}
