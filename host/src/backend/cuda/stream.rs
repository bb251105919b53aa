//! Streams and events.

use super::super::error::BackendError;
use super::api::{self, Code};
use super::context::Context;
use cust::sys::{CUevent, CUstream};
use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `CU_STREAM_NON_BLOCKING`: no hidden order with the legacy default stream.
const NON_BLOCKING: c_uint = 1;

/// A stream of its own, unordered with all others.
pub struct Stream {
    context: Arc<Context>,
    raw: CUstream,
    number: u64,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver orders concurrent calls.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream.
    pub fn new(context: &Arc<Context>) -> Result<Self, BackendError> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; destroyed in Drop.
        context.check("cuStreamCreate", unsafe { api::cuStreamCreate(&raw mut raw, NON_BLOCKING) })?;
        Ok(Self { context: context.clone(), raw, number: NUMBER.fetch_add(1, Ordering::Relaxed) })
    }

    /// The device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Number for messages, unique in the process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Waits for all work on the stream.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        self.context.bind()?;
        // SAFETY: the stream lives.
        self.context.check("cuStreamSynchronize", unsafe { api::cuStreamSynchronize(self.raw) })
    }

    /// Enqueues the event.
    pub fn record(&self, event: &Event) -> Result<(), BackendError> {
        self.context.enter()?;
        // SAFETY: both live, of one context.
        self.context.check("cuEventRecord", unsafe { api::cuEventRecord(event.raw, self.raw) })
    }

    /// Lets later work on the stream wait for the event.
    pub fn wait(&self, event: &Event) -> Result<(), BackendError> {
        self.context.bind()?;
        // SAFETY: both live, of one context.
        self.context.check("cuStreamWaitEvent", unsafe { api::cuStreamWaitEvent(self.raw, event.raw, 0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed only here; the driver finishes the stream's work first.
        let destroy = |()| self.context.check("cuStreamDestroy", unsafe { api::cuStreamDestroy_v2(self.raw) });
        self.context.closed("a stream", self.context.bind().and_then(destroy));
    }
}

/// An event with a time.
pub struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the driver orders concurrent calls.
unsafe impl Sync for Event {}

impl Event {
    /// A new event, not recorded.
    pub fn new(context: &Arc<Context>) -> Result<Self, BackendError> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; destroyed in Drop.
        context.check("cuEventCreate", unsafe { api::cuEventCreate(&raw mut raw, 0) })?;
        Ok(Self { context: context.clone(), raw })
    }

    /// Waits until the last recorded point is reached.
    pub fn synchronize(&self) -> Result<(), BackendError> {
        self.context.bind()?;
        // SAFETY: the event lives.
        self.context.check("cuEventSynchronize", unsafe { api::cuEventSynchronize(self.raw) })
    }

    /// Microseconds from `start` to this event, both recorded and reached.
    pub fn microseconds_since(&self, start: &Self) -> Result<f64, BackendError> {
        self.context.bind()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both live; writes one float.
        let code = unsafe { api::cuEventElapsedTime(&raw mut milliseconds, start.raw, self.raw) };
        match code {
            Code::INVALID_HANDLE => Err(BackendError::NotRecorded { call: "Event::elapsed_us" }),
            code => self.context.check("cuEventElapsedTime", code).map(|()| f64::from(milliseconds) * 1e3),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed only here; the driver keeps what pending work needs.
        let destroy = |()| self.context.check("cuEventDestroy", unsafe { api::cuEventDestroy_v2(self.raw) });
        self.context.closed("an event", self.context.bind().and_then(destroy));
    }
}
