//! Graphs: what a stream would do, captured once and launched as a whole.

use super::super::error::BackendError;
use super::super::history::Enqueued;
use super::api;
use super::context::Context;
use super::stream::Stream;
use cust::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};
use std::sync::Arc;

/// An executable graph.
pub struct Graph {
    context: Arc<Context>,
    exec: CUgraphExec,
}

// SAFETY: the handle may be used from any thread, one at a time; the face holds a lock around launches.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A captured graph, not yet executable.
struct Captured<'a>(&'a Context, CUgraph);

impl Drop for Captured<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the capture, destroyed only here; the executable form is independent of it.
        let destroyed = self.0.check("cuGraphDestroy", unsafe { api::cuGraphDestroy(self.1) });
        self.0.closed("a captured graph", destroyed);
    }
}

impl Stream {
    /// Starts to capture instead of running. Relaxed: allocations stay possible, other threads are not concerned.
    pub fn begin_capture(&self) -> Result<(), BackendError> {
        self.context().bind()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives.
        let code = unsafe { api::cuStreamBeginCapture_v2(self.raw(), mode) };
        self.context().check("cuStreamBeginCapture", code)
    }

    /// Ends the capture and throws it away.
    pub fn abandon_capture(&self) -> Result<(), BackendError> {
        self.end().map(drop)
    }

    fn end(&self) -> Result<Captured<'_>, BackendError> {
        self.context().bind()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream lives; writes one handle.
        let code = unsafe { api::cuStreamEndCapture(self.raw(), &raw mut graph) };
        self.context().check("cuStreamEndCapture", code)?;
        Ok(Captured(self.context(), graph))
    }

    /// Ends the capture and makes it executable.
    pub fn end_capture(&self) -> Result<Graph, BackendError> {
        let captured = self.end()?;
        let mut exec = std::ptr::null_mut();
        let (node, log) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the graph lives; writes one handle, no node and no log (of length 0).
        let code = unsafe { api::cuGraphInstantiate_v2(&raw mut exec, captured.1, node, log, 0) };
        self.context().check("cuGraphInstantiate", code)?;
        Ok(Graph { context: self.context().clone(), exec })
    }
}

impl Graph {
    /// Enqueues the whole graph of `steps` steps.
    pub fn launch(&self, stream: &Stream, steps: usize) -> Result<(), BackendError> {
        self.context.bind()?;
        // SAFETY: both live, of one context; the face keeps the memory of the captured launches alive.
        self.context.check("cuGraphLaunch", unsafe { api::cuGraphLaunch(self.exec, stream.raw()) })?;
        self.context.history.note(stream.number(), Enqueued::Graph(steps));
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated in `end_capture`, destroyed only here; the driver finishes launches under way first.
        let destroy = |()| self.context.check("cuGraphExecDestroy", unsafe { api::cuGraphExecDestroy(self.exec) });
        self.context.closed("a graph", self.context.bind().and_then(destroy));
    }
}
