//! A grid of blocks on the rayon pool: launch limits, workers, the first fault, canaries.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::context;
use super::fault::Fault;
use super::fiber::{Runner, Turn, catch_kernel_panics};
use super::memory::{self, Range};
use super::schedule::BlockOrder;
use super::stack::DEFAULT_STACK;
use crate::launch::Kernel;

/// Extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks of the grid along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared: u32,
}

impl Launch {
    /// `blocks` blocks of `threads` threads along x, without dynamic shared memory.
    #[must_use]
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared: 0 }
    }

    /// Threads of a block. Only for checked launches: the product fits.
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    fn blocks(&self) -> u64 {
        self.grid.map(u64::from).iter().product()
    }
}

/// What a launch may ask for; the default is the hardware's (an H200's, as for shared memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Threads of a block.
    pub block_threads: u32,
    /// Static and dynamic shared memory of a block in bytes. (Static alone: 48 KiB.)
    pub shared_optin_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            grid: [i32::MAX as u32, 65_535, 65_535],
            block: [1024, 1024, 64],
            block_threads: 1024,
            shared_optin_bytes: 232_448,
        }
    }
}

/// How to run a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Order of threads and blocks: 0 is first come, first served, any other value draws.
    pub seed: u64,
    /// Launch limits.
    pub limits: Limits,
    /// Look for races in shared memory ([`Fault::Race`]). Slower by an order of magnitude.
    pub races: bool,
    /// OS threads to use; 0 is one for each thread of the rayon pool.
    pub workers: usize,
    /// Stack of an emulated thread in bytes (256 KiB; a page below it is a guard).
    pub stack_bytes: usize,
    /// A launch whose blocks only poll memory, and of which no block ends for this long, is a deadlock (60 s).
    pub poll_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            limits: Limits::default(),
            races: false,
            workers: 0,
            stack_bytes: DEFAULT_STACK,
            poll_limit: Duration::from_secs(60),
        }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks run.
    pub blocks: u64,
    /// Threads run.
    pub threads: u64,
    /// How often a thread was given its turn.
    pub resumes: u64,
    /// Static shared memory of a block in bytes, the most that one block placed.
    pub static_shared: u64,
}

/// The function that every thread runs.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    pub data: *const (),
    pub call: unsafe fn(*const ()),
}

/// A launch under way.
pub(crate) struct Grid {
    pub kernel: String,
    pub launch: Launch,
    pub options: Options,
    pub ranges: Arc<Vec<Range>>,
    pub body: Body,
    /// Products of warpgroups may occur: writes to shared memory are remembered for them.
    pub products: bool,
    /// Blocks that start together.
    pub cluster: u32,
    /// Clusters in the order of their blocks; empty where a block is one.
    pub clusters: Vec<Cluster>,
    /// A bit for each range that was touched.
    touched: Vec<AtomicU64>,
    order: BlockOrder,
    next: AtomicU64,
    done: AtomicU64,
    resumes: AtomicU64,
    static_shared: AtomicU64,
    stop: AtomicBool,
    fault: Mutex<Option<(u64, Fault)>>,
}

// SAFETY: all but `body` is Sync by itself; `body` is called from several OS threads under the launch's contract.
unsafe impl Sync for Grid {}

/// Runs a kernel on the emulator, to its end.
///
/// # Errors
/// The [`Fault`] of the block with the lowest index among those that failed; memory may have been written.
///
/// # Safety
/// The kernel's own contract holds for `params` and `launch`, except for what a [`Fault`] reports: range and alignment of
/// accessors, launch limits, barriers and waits.
pub unsafe fn run<P: Copy>(kernel: &Kernel<P>, launch: &Launch, params: P, options: &Options) -> Result<Stats, Fault> {
    let symbol = kernel.symbol();
    check_limits(symbol, launch, &options.limits)?;
    check(symbol, "threads of a block (the kernel's bounds)", launch.threads(), kernel.bounds().threads)?;
    unsafe fn call<P: Copy>(data: *const ()) {
        // SAFETY: `data` is the pair below, which outlives the launch; the kernel's contract is the caller's.
        unsafe {
            let (entry, params) = *data.cast::<(unsafe fn(P), P)>();
            entry(params);
        }
    }
    let data = (kernel.entry(), params);
    let body = Body { data: (&raw const data).cast(), call: call::<P> };
    let cluster = kernel.info().cluster;
    if !launch.grid[0].is_multiple_of(cluster) {
        let (what, value) = ("blocks along x beyond whole clusters", (launch.grid[0] % cluster).into());
        return Err(Fault::LaunchLimit { kernel: symbol.to_owned(), what, value, limit: 0 });
    }
    run_grid(symbol, launch, options, body, (kernel.sm() >= 90, cluster))
}

/// Runs `body` as every thread of a launch, to its end; `name` stands for the kernel in faults.
///
/// # Errors
/// As [`run`].
///
/// # Safety
/// As [`run`]: what `body` does from many threads at once is sound but for what a [`Fault`] reports.
pub unsafe fn launch(name: &str, launch: &Launch, options: &Options, body: impl Fn() + Sync) -> Result<Stats, Fault> {
    check_limits(name, launch, &options.limits)?;
    unsafe fn call<F: Fn()>(data: *const ()) {
        // SAFETY: `data` is `body` below, which outlives the launch.
        unsafe { (*data.cast::<F>())() }
    }
    fn caller<F: Fn()>(_: &F) -> unsafe fn(*const ()) {
        call::<F>
    }
    run_grid(name, launch, options, Body { data: (&raw const body).cast(), call: caller(&body) }, (true, 1))
}

/// True where this CPU has AVX2 and FMA, so that kernels run in their wide form.
#[inline]
#[must_use]
pub fn wide_cpu() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn check(kernel: &str, what: &'static str, value: u32, limit: u32) -> Result<(), Fault> {
    if (1..=limit).contains(&value) {
        return Ok(());
    }
    let limit = if value == 0 { 1 } else { limit };
    Err(Fault::LaunchLimit { kernel: kernel.to_owned(), what, value: value.into(), limit: limit.into() })
}

fn check_limits(kernel: &str, launch: &Launch, limits: &Limits) -> Result<(), Fault> {
    let grid_axes = ["grid x", "grid y", "grid z"];
    let block_axes = ["block x", "block y", "block z"];
    for axis in 0..3 {
        check(kernel, grid_axes[axis], launch.grid[axis], limits.grid[axis])?;
        check(kernel, block_axes[axis], launch.block[axis], limits.block[axis])?;
    }
    let threads = launch.block.iter().fold(1u32, |product, &n| product.saturating_mul(n));
    check(kernel, "threads of a block", threads, limits.block_threads)?;
    if launch.dynamic_shared > 0 {
        check(kernel, "dynamic shared memory in bytes", launch.dynamic_shared, limits.shared_optin_bytes)?;
    }
    Ok(())
}

/// Emulated threads that may be alive at once: each has two memory mappings, and Linux allows 65,530.
const ALIVE_MAX: u64 = 16_384;

/// Runs `body`; `products` and `cluster` as in [`Grid`].
fn run_grid(
    kernel: &str,
    launch: &Launch,
    options: &Options,
    body: Body,
    (products, cluster): (bool, u32),
) -> Result<Stats, Fault> {
    assert!(!context::in_kernel(), "a kernel cannot launch a kernel on the emulator");
    catch_kernel_panics();
    let ranges = memory::snapshot();
    let blocks = launch.blocks();
    let grid = Grid {
        kernel: kernel.to_owned(),
        launch: *launch,
        options: options.clone(),
        touched: (0..ranges.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        ranges,
        body,
        products,
        cluster,
        clusters: Cluster::all(blocks, cluster),
        order: BlockOrder::new(blocks / u64::from(cluster), options.seed),
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        resumes: AtomicU64::new(0),
        static_shared: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
    };
    let wanted = if options.workers == 0 { rayon::current_num_threads() } else { options.workers };
    let workers = (wanted as u64).min(blocks).min((ALIVE_MAX / u64::from(launch.threads() * cluster)).max(1));
    if workers == 1 {
        grid.work();
    } else {
        rayon::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| grid.work());
            }
        });
    }
    grid.finish(blocks)
}

impl Grid {
    /// Notes that a kernel touched range `at`.
    pub fn touch(&self, at: usize) {
        self.touched[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    /// Runs blocks until none is left.
    fn work(&self) {
        let blocks = self.launch.blocks();
        let mut idle: Vec<Runner> = Vec::new();
        let mut parked: VecDeque<Runner> = VecDeque::new();
        let mut prefer_parked = false;
        let mut quiet = (self.done.load(Ordering::Relaxed), Instant::now());
        while !self.stop.load(Ordering::Relaxed) {
            let resumed = if prefer_parked { parked.pop_front() } else { None };
            // Of a cluster all blocks must start, but one after the other is enough: each has many threads.
            let may_begin = self.cluster == 1 || parked.is_empty();
            let started = resumed.or_else(|| self.start_next(blocks, may_begin, &mut idle));
            let Some(mut runner) = started.or_else(|| parked.pop_front()) else { break };
            match runner.turn() {
                Turn::Done => {
                    self.leave(&mut runner);
                    self.done.fetch_add(1, Ordering::Relaxed);
                    self.static_shared.fetch_max(runner.static_shared() as u64, Ordering::Relaxed);
                    self.resumes.fetch_add(runner.take_resumes(), Ordering::Relaxed);
                    idle.push(runner);
                    prefer_parked = true;
                }
                Turn::Polling => {
                    prefer_parked = false;
                    let done = self.done.load(Ordering::Relaxed);
                    if done != quiet.0 {
                        quiet = (done, Instant::now());
                    } else if quiet.1.elapsed() > self.options.poll_limit {
                        let fault = runner.deadlock();
                        self.fail(runner.linear(), fault);
                    } else {
                        std::thread::yield_now();
                    }
                    parked.push_back(runner);
                }
                Turn::Failed(fault) => {
                    self.leave(&mut runner);
                    self.fail(runner.linear(), fault);
                }
            }
        }
        parked.iter_mut().for_each(|runner| self.leave(runner));
    }

    /// Prepares the next block that nobody has started; the first one of a cluster only if it `may_begin`.
    fn start_next(&self, blocks: u64, may_begin: bool, idle: &mut Vec<Runner>) -> Option<Runner> {
        let cluster = u64::from(self.cluster);
        let next = |k: u64| (k < blocks && (may_begin || !k.is_multiple_of(cluster))).then_some(k + 1);
        let k = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let mut runner = idle.pop().unwrap_or_else(|| Runner::new(self));
        let linear = self.order.at(k / cluster) * cluster + k % cluster;
        let shared = runner.start(linear);
        if let Some(cluster) = self.cluster_of(linear) {
            cluster.enter((linear % u64::from(self.cluster)) as usize, shared);
        }
        Some(runner)
    }

    /// The cluster of a block, if there are any.
    pub fn cluster_of(&self, linear: u64) -> Option<&Cluster> {
        self.clusters.get((linear / u64::from(self.cluster)) as usize)
    }

    /// Notes that a block's shared memory is about to go.
    fn leave(&self, runner: &mut Runner) {
        let linear = runner.linear();
        if let Some(cluster) = self.cluster_of(linear) {
            cluster.leave((linear % u64::from(self.cluster)) as usize);
        }
    }

    /// Notes a fault; the one of the lowest block is kept. No further block starts.
    fn fail(&self, block: u64, fault: Fault) {
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(lowest, _)| block < *lowest) {
            *first = Some((block, fault));
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The launch's outcome, after the canaries of what it touched were looked at.
    fn finish(self, blocks: u64) -> Result<Stats, Fault> {
        if let Some((_, fault)) = self.fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(fault);
        }
        for (at, range) in self.ranges.iter().enumerate() {
            let touched = self.touched[at / 64].load(Ordering::Relaxed) >> (at % 64) & 1 == 1;
            if !(touched && range.guarded) {
                continue;
            }
            // SAFETY: what a launch touches stays allocated until it ends, by the contract of `run`.
            if let Some(offset) = unsafe { range.damage() } {
                return Err(Fault::Canary { kernel: self.kernel, base: range.base, len: range.len, offset });
            }
        }
        Ok(Stats {
            blocks,
            threads: blocks * u64::from(self.launch.threads()),
            resumes: self.resumes.into_inner(),
            static_shared: self.static_shared.into_inner(),
        })
    }
}
