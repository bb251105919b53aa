//! The emulator body: guarded host memory, streams that run at once, graphs that are lists of steps.

use super::caps::Caps;
use super::error::{BackendError, LaunchError, LaunchShape};
use super::occupancy::{Resources, estimate_blocks_per_sm};
use cuda_std::emulator::memory::{Allocation, MemoryError};
use cuda_std::emulator::{self, Limits, Options};
use cuda_std::launch::{Kernel, KernelInfo};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How an emulated device runs and what it claims to be.
#[derive(Clone, Debug, Default)]
pub struct EmulatorConfig {
    /// Order in which runnable threads and blocks take their turns: 0 is first come, first served; any other draws.
    pub seed: u64,
    /// Look for races in shared memory: slower by an order of magnitude.
    pub races: bool,
    /// OS threads to use; 0 is one for each thread of the rayon pool.
    pub workers: usize,
    /// The card whose figures dispatch sees, and whose shared memory limit holds; `None` for the emulator's own.
    pub caps: Option<Caps>,
    /// Resources of kernels by symbol, as ptxas reported them, for occupancy. Without an entry the launch bounds count.
    pub resources: HashMap<String, Resources>,
}

/// One emulated device.
#[derive(Debug)]
pub struct Machine {
    caps: Caps,
    options: Arc<Options>,
    resources: HashMap<String, Resources>,
}

impl Machine {
    /// A device as configured.
    pub fn new(config: EmulatorConfig) -> Self {
        let workers = if config.workers == 0 { rayon::current_num_threads() } else { config.workers };
        let own = || Caps::emulator(u32::try_from(workers).unwrap_or(u32::MAX));
        let caps = Caps { is_emulator: true, ..config.caps.unwrap_or_else(own) };
        let limits = Limits { shared_optin_bytes: caps.shared_optin_bytes, ..Limits::default() };
        let options =
            Options { seed: config.seed, races: config.races, workers: config.workers, limits, ..Options::default() };
        Self { caps, options: Arc::new(options), resources: config.resources }
    }

    /// What dispatch sees.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Estimated blocks on one SM of the card that the device claims to be.
    pub fn blocks_per_sm(&self, info: &KernelInfo, threads: u32, dynamic_shared: u32) -> u32 {
        let given = self.resources.get(info.symbol).copied();
        let resources = given.unwrap_or_else(|| Resources::from_bounds(&self.caps, info.bounds));
        estimate_blocks_per_sm(&self.caps, resources, threads, dynamic_shared)
    }

    /// Allocates guarded memory full of NaN.
    pub fn alloc(&self, bytes: usize) -> Result<Allocation, BackendError> {
        let none =
            |error: MemoryError| BackendError::OutOfMemory { spec: SPEC.into(), bytes, available: error.to_string() };
        emulator::memory::alloc(bytes).map_err(none)
    }
}

/// The device as messages name it.
pub const SPEC: &str = "emulator";

/// One step of a graph.
type Step = Box<dyn Fn() -> Result<(), LaunchError> + Send + Sync>;

/// A stream: what is enqueued runs before the call returns, or is noted while a graph is captured.
#[derive(Default)]
pub struct Stream {
    recording: Mutex<Option<Vec<Step>>>,
}

/// Parameters on their way to another thread.
struct Portable<P>(P);

// SAFETY: parameters are plain values; the addresses in them are device addresses, which belong to no thread. What a
// kernel may do with them is the contract of its launch.
unsafe impl<P> Send for Portable<P> {}
// SAFETY: as above; they are only copied.
unsafe impl<P> Sync for Portable<P> {}

impl<P: Copy> Portable<P> {
    fn get(&self) -> P {
        self.0
    }
}

impl Stream {
    /// Runs a step, or notes it.
    fn enqueue(&self, step: impl Fn() -> Result<(), LaunchError> + Send + Sync + 'static) -> Result<(), LaunchError> {
        if let Some(steps) = self.recording.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            steps.push(Box::new(step));
            return Ok(());
        }
        step() // without the lock: another thread's launches need not wait
    }

    /// Runs the kernel, or notes it.
    ///
    /// # Safety
    /// The kernel's own contract; under a capture, at each launch of the graph.
    pub unsafe fn launch<P: Copy + 'static>(
        &self,
        machine: &Machine,
        kernel: &'static Kernel<P>,
        shape: LaunchShape,
        params: P,
    ) -> Result<(), LaunchError> {
        let (params, options) = (Portable(params), machine.options.clone());
        self.enqueue(move || {
            // SAFETY: the caller's contract.
            let outcome = unsafe { emulator::run(kernel, &shape.launch, params.get(), &options) };
            match outcome {
                Ok(_) => Ok(()),
                Err(fault) => Err(LaunchError::Fault { shape, fault: Box::new(fault), spec: SPEC.into() }),
            }
        })
    }

    /// Copies within device memory, or notes the copy.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `from` and writable at `to`, disjoint, and nothing else uses them meanwhile.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<(), LaunchError> {
        let ends = Portable((to, from));
        self.enqueue(move || {
            let (to, from) = ends.get();
            // SAFETY: the caller's contract.
            unsafe { to.copy_from_nonoverlapping(from, bytes) };
            Ok(())
        })
    }

    /// Fills device memory, or notes the fill.
    ///
    /// # Safety
    /// `bytes` bytes are writable at `to`, and nothing else uses them meanwhile.
    pub unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<(), LaunchError> {
        let start = Portable(to);
        self.enqueue(move || {
            // SAFETY: the caller's contract.
            unsafe { start.get().write_bytes(byte, bytes) };
            Ok(())
        })
    }

    /// From here on steps are noted.
    pub fn begin_capture(&self) {
        *self.recording.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Ends that, with what was noted.
    pub fn end_capture(&self) -> Graph {
        Graph { steps: self.recording.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default() }
    }
}

/// Steps in order.
pub struct Graph {
    steps: Vec<Step>,
}

impl Graph {
    /// Runs the steps on the stream, up to the first that fails; notes them if the stream is being captured.
    pub fn launch(&self) -> Result<(), LaunchError> {
        self.steps.iter().try_for_each(|step| step())
    }
}

/// A moment.
#[derive(Debug, Default)]
pub struct Event(Mutex<Option<Instant>>);

impl Event {
    /// Sets the moment to now.
    pub fn record(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Microseconds from `start` to this event; `None` unless both were recorded. 0 if this one came first.
    pub fn microseconds_since(&self, start: &Self) -> Option<f64> {
        let moment = |event: &Self| *event.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = (moment(start)?, moment(self)?);
        Some(end.saturating_duration_since(start).as_secs_f64() * 1e6)
    }
}
