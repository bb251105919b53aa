//! Scratch of a stream: memory that a launch writes for a later launch of the same call, kept from call to call.
//!
//! Work on a stream is in order, so one allocation serves all its calls; each stream has its own, hence no two calls that
//! may run at the same time share one. A captured graph may be launched on any stream, so a capture allocates scratch of
//! its own, which lives as long as the graph (`keep.rs`).

use super::buffer::Buffer;
use super::device::Device;
use super::error::BackendError;
use std::sync::{Mutex, PoisonError};

/// The scratch of one stream; empty until something asks.
#[derive(Default)]
pub struct Scratch(Mutex<Option<Buffer<f32>>>);

impl Scratch {
    /// Runs `work` with the address of at least `len` elements, which stay this call's until it returns. Grows what there
    /// is where that is too small.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`]; what there was is still there then.
    pub fn with<R>(&self, device: &Device, len: usize, work: impl FnOnce(*mut f32) -> R) -> Result<R, BackendError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outgrown = None;
        let address = match &mut *kept {
            Some(buffer) if buffer.len() >= len => buffer.as_mut_ptr(),
            kept => {
                let mut larger = device.alloc(len)?;
                let address = larger.as_mut_ptr();
                outgrown = kept.replace(larger);
                address
            }
        };
        let done = work(address);
        drop(kept);
        drop(outgrown); // waits for the device, so not under the lock
        Ok(done)
    }

    /// Fills what there is with NaN, after all work on the device.
    ///
    /// # Errors
    /// As [`Buffer::poison`].
    pub fn poison(&self) -> Result<(), BackendError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_mut().map_or(Ok(()), Buffer::poison)
    }

    /// Gives back what there is.
    pub fn release(&self) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(kept);
    }

    /// Elements that there are.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Buffer::len)
    }
}
