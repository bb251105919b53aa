//! Graphs: a stream's work, captured once and launched as a whole.

use super::cuda;
use super::device::Device;
use super::emulator;
use super::error::BackendError;
use super::stream::{self, Stream};
use std::sync::{Mutex, PoisonError};

/// Captured work, made by [`Stream::capture`]. Memory of buffers alive at the capture lives as long as the graph, even
/// where the buffers are dropped; what a launch reads is what the memory holds then.
pub struct Graph {
    device: Device,
    /// Launches of one graph come one at a time.
    body: Mutex<Body>,
    steps: usize,
    /// For [`Keep::forget_graph`](super::keep::Keep::forget_graph).
    end: u64,
}

/// What was captured.
pub(super) enum Body {
    Cuda(cuda::Graph),
    Emulator(emulator::Graph),
    /// Only while the graph is dropped.
    Gone,
}

impl Graph {
    pub(super) fn new(device: &Device, body: Body, steps: usize, end: u64) -> Self {
        Self { device: device.clone(), body: Mutex::new(body), steps, end }
    }

    /// Captured launches, copies and fills.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Enqueues the whole graph.
    ///
    /// # Errors
    /// [`BackendError::OtherDevice`]; [`BackendError::Capturing`] within a capture of the stream: graphs do not nest;
    /// [`BackendError::Launch`] for a fault that the emulator found; else the driver's answer.
    pub fn launch(&self, s: &Stream) -> Result<(), BackendError> {
        s.device().expect("Graph::launch", &self.device)?;
        s.refuse_while_capturing("Graph::launch")?;
        let body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*body, s.body()) {
            (Body::Cuda(graph), stream::Body::Cuda(stream)) => graph.launch(stream, self.steps),
            (Body::Emulator(graph), _) => Ok(graph.launch()?),
            _ => unreachable!("the devices are the same"),
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // First the graph itself, then the memory that only it may have used.
        *self.body.get_mut().unwrap_or_else(PoisonError::into_inner) = Body::Gone;
        self.device.inner().keep.forget_graph(self.end);
    }
}
