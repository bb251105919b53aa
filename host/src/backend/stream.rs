//! Streams: the order of launches, and the only place where kernels are launched.

use super::cuda;
use super::device::{self, Device};
use super::emulator;
use super::error::{BackendError, LaunchError, LaunchShape};
use super::event::{self, Event};
use super::graph::Graph;
use super::l2::Window;
use super::limits;
use super::profile::Profile;
use super::scratch::Scratch;
use cuda_std::emulator::Launch;
use cuda_std::launch::Kernel;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Work in order. The emulator's streams run everything at once, so that they are in order with each other too.
pub struct Stream {
    device: Device,
    body: Body,
    /// 0 outside a capture; within one, one more than the steps captured so far.
    capturing: AtomicUsize,
    scratch: Scratch,
    /// In use within a capture, empty outside.
    captured_scratch: Scratch,
    /// Who is told how long launches take.
    profile: Option<Arc<Profile>>,
    /// What launches keep in the L2.
    window: Mutex<Option<Window>>,
}

/// How a launch is enqueued.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// It may start before the one ahead has ended.
    pub early: bool,
    /// Memory that it keeps in the L2.
    pub window: Option<Window>,
}

/// What carries the work.
pub(super) enum Body {
    Cuda(cuda::Stream),
    Emulator(emulator::Stream),
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self, BackendError> {
        let body = match &device.inner().body {
            device::Body::Cuda { context, .. } => Body::Cuda(cuda::Stream::new(context)?),
            device::Body::Emulator(_) => Body::Emulator(emulator::Stream::default()),
        };
        Ok(Self {
            device: device.clone(),
            body,
            capturing: AtomicUsize::new(0),
            scratch: Scratch::default(),
            captured_scratch: Scratch::default(),
            profile: None,
            window: Mutex::default(),
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    /// Times every launch from now on, those within captures apart.
    pub fn set_profile(&mut self, profile: Arc<Profile>) {
        self.profile = Some(profile);
    }

    /// Holds what is enqueued from here on until the host asks the device for anything but launches and records, or holds the
    /// stream again. The emulator's work has run by then anyway.
    pub(super) fn hold(&self) -> Result<(), BackendError> {
        match &self.body {
            Body::Cuda(stream) => stream.hold(),
            Body::Emulator(_) => Ok(()),
        }
    }

    /// Whether the newest hold lasts.
    pub(super) fn is_held(&self) -> bool {
        match &self.body {
            Body::Cuda(stream) => stream.is_held(),
            Body::Emulator(_) => false,
        }
    }

    /// Enqueues a kernel.
    ///
    /// The launch is checked first, in the same way on every device: architecture, grid, block, the kernel's launch
    /// bounds, shared memory. On the emulator it has run when this returns.
    ///
    /// # Errors
    /// [`LaunchError`]; each names kernel, grid, block and dynamic shared memory. An error of the kernel itself comes from
    /// the emulator here, from a card at a later call that waits, as [`BackendError::Lost`].
    ///
    /// # Safety
    /// What the kernel's header asks of `params`, grid and block holds; the memory that it uses is that of buffers of
    /// this device, or views of them, and nothing else writes there (or reads what it writes) at the same time: work on
    /// other streams is ordered by events, host code touches it through the buffers. Buffers need only outlive this call.
    /// All that holds for each launch of a graph that captures this one, too.
    pub unsafe fn launch<P: Copy + 'static>(
        &self,
        kernel: &'static Kernel<P>,
        launch: Launch,
        params: P,
    ) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract.
        unsafe { self.enqueue(kernel, launch, params, false) }
    }

    /// As [`launch`](Self::launch), but the kernel may start as soon as every block of the launch ahead in the stream has
    /// let it (`cuda_std::grid`), on devices from compute capability 9.0 on; elsewhere it is in order like any other.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), the launch ahead being one that runs at the same time until the kernel waits for it.
    pub unsafe fn launch_early<P: Copy + 'static>(
        &self,
        kernel: &'static Kernel<P>,
        launch: Launch,
        params: P,
    ) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract.
        unsafe { self.enqueue(kernel, launch, params, true) }
    }

    /// # Safety
    /// As for [`launch`](Self::launch), or if `early` for [`launch_early`](Self::launch_early).
    unsafe fn enqueue<P: Copy + 'static>(
        &self,
        kernel: &'static Kernel<P>,
        launch: Launch,
        params: P,
        early: bool,
    ) -> Result<(), LaunchError> {
        let info = kernel.info();
        let shape = LaunchShape { kernel: info.symbol, launch };
        limits::check(self.device.spec(), self.device.caps(), &info, shape)?;
        let launch = || match (&self.body, &self.device.inner().body) {
            // SAFETY: `params` is the kernel's parameter struct; the rest is the caller's contract.
            (Body::Cuda(stream), _) => unsafe {
                let how = How { early, window: *self.window() };
                stream.context().launch(stream, &info, shape, how, (&raw const params).cast())
            },
            // SAFETY: the caller's contract.
            (Body::Emulator(stream), device::Body::Emulator(machine)) => unsafe {
                stream.launch(machine, kernel, shape, params)
            },
            (Body::Emulator(_), device::Body::Cuda { .. }) => unreachable!("a stream is of its device's kind"),
        };
        match &self.profile {
            Some(profile) if !self.is_capturing() => {
                if let Body::Cuda(stream) = &self.body {
                    stream.context().prepare(&info, shape)?; // not in the launch's time
                }
                profile.around(self, info.symbol, launch)?;
            }
            _ => launch()?,
        }
        self.count_step();
        Ok(())
    }

    /// Runs `work`; what launches that it enqueues on this stream touch within `window` stays in the part of the L2 that was
    /// set aside, as far as there is room.
    pub fn keeping<R>(&self, window: Window, work: impl FnOnce() -> R) -> R {
        *self.window() = Some(window);
        let _ending = NoWindow(self);
        work()
    }

    fn window(&self) -> std::sync::MutexGuard<'_, Option<Window>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, which enqueues launches on this stream, with the address of at least `len` f32 of scratch. The content
    /// is whatever an earlier call left; the memory stays for the next call. Within a capture it is the graph's own.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`] where there is not as much; `work` has not run then.
    pub fn with_scratch<R>(&self, len: usize, work: impl FnOnce(*mut f32) -> R) -> Result<R, BackendError> {
        let scratch = if self.is_capturing() { &self.captured_scratch } else { &self.scratch };
        scratch.with(&self.device, len, work)
    }

    /// Fills the scratch with NaN: a test that does so before a call finds reads of what the call did not write.
    ///
    /// # Errors
    /// As [`Buffer::poison`](super::Buffer::poison).
    pub fn poison_scratch(&self) -> Result<(), BackendError> {
        self.scratch.poison()
    }

    /// f32 elements of scratch that the stream holds, captures aside.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.scratch.len()
    }

    /// Waits for all work on the stream.
    ///
    /// # Errors
    /// [`BackendError::Lost`] if a kernel failed, with the launches before; [`BackendError::Capturing`].
    pub fn synchronize(&self) -> Result<(), BackendError> {
        self.refuse_while_capturing("Stream::synchronize")?;
        match &self.body {
            Body::Cuda(stream) => stream.synchronize(),
            Body::Emulator(_) => Ok(()),
        }
    }

    /// Marks this point of the stream. Within a capture the event orders streams, but has no time.
    ///
    /// # Errors
    /// [`BackendError::OtherDevice`], or the driver's answer.
    pub fn record(&self, event: &Event) -> Result<(), BackendError> {
        self.device.expect("Stream::record", event.device())?;
        match (&self.body, event.body()) {
            (Body::Cuda(stream), event::Body::Cuda(event)) => stream.record(event)?,
            (_, event::Body::Emulator(event)) if !self.is_capturing() => event.record(),
            _ => {} // the emulator's steps are in order anyway
        }
        Ok(())
    }

    /// Lets later work on this stream wait until the event's point is reached.
    ///
    /// # Errors
    /// [`BackendError::OtherDevice`], or the driver's answer.
    pub fn wait(&self, event: &Event) -> Result<(), BackendError> {
        self.device.expect("Stream::wait", event.device())?;
        match (&self.body, event.body()) {
            (Body::Cuda(stream), event::Body::Cuda(event)) => stream.wait(event),
            _ => Ok(()), // the emulator's work has happened already
        }
    }

    /// Captures what `work` enqueues on this stream, instead of running it.
    ///
    /// # Errors
    /// Those of `work`, and [`BackendError`]s of the capture; nothing is left of it then.
    pub fn capture<E: From<BackendError>>(&self, work: impl FnOnce(&Self) -> Result<(), E>) -> Result<Graph, E> {
        let capture = self.device.inner().keep.begin_capture()?;
        match &self.body {
            Body::Cuda(stream) => stream.begin_capture()?,
            Body::Emulator(stream) => stream.begin_capture(),
        }
        self.capturing.store(1, Ordering::Relaxed);
        let ending = AbandonCapture(self);
        work(self)?;
        std::mem::forget(ending);
        self.captured_scratch.release(); // before the capture is over: then it is kept for the graph
        let steps = self.capturing.swap(0, Ordering::Relaxed) - 1;
        let body = match &self.body {
            Body::Cuda(stream) => super::graph::Body::Cuda(stream.end_capture()?),
            Body::Emulator(stream) => super::graph::Body::Emulator(stream.end_capture()),
        };
        Ok(Graph::new(&self.device, body, steps, capture.finish()))
    }

    fn is_capturing(&self) -> bool {
        self.capturing.load(Ordering::Relaxed) != 0
    }

    pub(super) fn refuse_while_capturing(&self, call: &'static str) -> Result<(), BackendError> {
        if self.is_capturing() { Err(BackendError::Capturing { call }) } else { Ok(()) }
    }

    /// Counts a captured step.
    pub(super) fn count_step(&self) {
        if self.is_capturing() {
            self.capturing.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends [`Stream::keeping`], even where its work panicked.
struct NoWindow<'a>(&'a Stream);

impl Drop for NoWindow<'_> {
    fn drop(&mut self) {
        *self.0.window() = None;
    }
}

/// Ends a capture whose work failed or panicked.
struct AbandonCapture<'a>(&'a Stream);

impl Drop for AbandonCapture<'_> {
    fn drop(&mut self) {
        self.0.capturing.store(0, Ordering::Relaxed);
        self.0.captured_scratch.release();
        match &self.0.body {
            Body::Cuda(stream) => {
                if let Err(error) = stream.abandon_capture() {
                    tracing::debug!("the capture that failed: {error}");
                }
            }
            Body::Emulator(stream) => drop(stream.end_capture()),
        }
    }
}
