//! The state of one running block: its threads, warps, barriers, shared memory, and the fault that ended it.

use std::panic::Location;

use corosensei::Yielder;

use super::arena::Arena;
use super::bulk::Counter;
use super::context;
use super::copy::Copy;
use super::fault::{Access, Fault, Place, Space, Stuck};
use super::launch::Grid;
use super::memory;
use super::proxy::Proxy;
use super::race::Races;
use super::schedule::Ready;
use super::warp::Warp;
use super::wgmma::{Started, Warpgroup};

/// A line of a kernel's source.
pub(crate) type Source = &'static Location<'static>;

/// A primitive that threads wait at.
#[derive(Debug)]
pub(crate) struct Primitive {
    pub name: &'static str,
    /// All lanes of a warp must execute the same instruction, not just the same primitive.
    pub aligned: bool,
}

/// What a thread does while another one runs.
#[derive(Clone, Copy)]
pub(crate) enum Status {
    Runnable,
    Waiting(&'static Primitive, Source),
    Polling(Source),
    Exited,
}

/// One thread of the block.
pub(crate) struct Thread {
    pub status: Status,
    pub yielder: *const Yielder<(), ()>,
    /// Asynchronous copies under way, oldest first, and the number of groups committed.
    pub copies: Vec<Copy>,
    pub groups: u32,
    /// Products of its warpgroup under way.
    pub started: Started,
}

/// A barrier of the block: 0 is `sync_threads`.
#[derive(Default)]
pub(crate) struct Barrier {
    /// Threads that complete it; 0 while nobody has arrived.
    pub expected: u32,
    pub arrived: u32,
    pub waiting: Vec<u16>,
    /// How often it was completed.
    pub generation: u32,
}

/// Barriers that the hardware has.
pub(crate) const BARRIERS: usize = 16;

/// A range that was hit, by its first address and length.
#[derive(Clone, Copy)]
struct Hit {
    base: usize,
    len: usize,
}

/// The block.
pub(crate) struct Block {
    pub grid: *const Grid,
    pub index: [u32; 3],
    pub linear: u64,
    pub size: u32,
    pub live: u32,
    pub threads: Vec<Thread>,
    pub warps: Vec<Warp>,
    /// Whole warpgroups; none before the block's first product.
    pub warpgroups: Vec<Warpgroup>,
    pub barriers: [Barrier; BARRIERS],
    /// Landing counters of bulk copies.
    pub landings: Vec<Counter>,
    pub ready: Ready,
    pub arena: Arena,
    pub races: Option<Races>,
    pub proxy: Option<Proxy>,
    /// Polls of memory in this turn of the block.
    pub polls: u32,
    /// How often its cluster has gathered with it.
    pub gathered: u64,
    pub fault: Option<Fault>,
    /// Message and place of a panic under way.
    pub panic: Option<(String, String)>,
    hits: [Hit; 4],
    next_hit: usize,
}

impl Block {
    /// A block for `grid`, to be started with [`start`](Self::start).
    pub fn new(grid: &Grid) -> Self {
        let size = grid.launch.threads();
        let dynamic = grid.launch.dynamic_shared as usize;
        let thread = || Thread {
            status: Status::Runnable,
            yielder: std::ptr::null(),
            copies: Vec::new(),
            groups: 0,
            started: Started::default(),
        };
        let arena = Arena::new(dynamic, grid.options.races);
        Self {
            grid,
            index: [0; 3],
            linear: 0,
            size,
            live: 0,
            threads: (0..size).map(|_| thread()).collect(),
            warps: (0..size.div_ceil(32)).map(|w| Warp::new((size - 32 * w).min(32))).collect(),
            warpgroups: Vec::new(),
            barriers: Default::default(),
            landings: Vec::new(),
            ready: Ready::new(size as usize),
            races: grid.options.races.then(|| Races::new(size as usize)),
            proxy: grid.products.then(|| Proxy::new(size as usize, arena.len())),
            arena,
            polls: 0,
            gathered: 0,
            fault: None,
            panic: None,
            hits: [Hit { base: context::NO_RANGE, len: 16 }; 4],
            next_hit: 0,
        }
    }

    /// Makes this block number `linear` of the grid, none of whose threads has run. The one before has ended well.
    pub fn start(&mut self, linear: u64) {
        let grid = self.grid();
        let [x, y, _] = grid.launch.grid.map(u64::from);
        self.index = [linear % x, linear / x % y, linear / x / y].map(|i| i as u32);
        self.linear = linear;
        self.live = self.size;
        for thread in &mut self.threads {
            thread.status = Status::Runnable;
            thread.groups = 0;
            thread.started = Started::default();
        }
        for barrier in &mut self.barriers {
            barrier.expected = 0;
            barrier.arrived = 0;
            barrier.generation = barrier.generation.wrapping_add(1);
        }
        self.landings.clear();
        self.ready.start(self.size as usize, grid.options.seed, linear);
        self.arena.start(grid.launch.dynamic_shared as usize);
        if let Some(races) = &mut self.races {
            races.start();
        }
        if let Some(proxy) = &mut self.proxy {
            proxy.start();
        }
        self.polls = 0;
        self.gathered = 0;
    }

    /// The launch.
    pub fn grid(&self) -> &'static Grid {
        // SAFETY: the launch outlives its blocks; the reference is only used while the block exists.
        unsafe { &*self.grid }
    }

    /// Index (x, y, z) of a thread.
    pub fn thread_index(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.grid().launch.block;
        [linear % x, linear / x % y, linear / x / y]
    }

    /// The running thread at `source`.
    pub fn place(&self, source: Source) -> Place {
        self.place_of(context::with(|c| c.linear.get()), source.to_string())
    }

    /// Thread `linear` at `source`.
    pub fn place_of(&self, linear: u32, source: String) -> Place {
        Place { kernel: self.grid().kernel.to_owned(), block: self.index, thread: self.thread_index(linear), source }
    }

    /// What thread `linear` does.
    pub fn stuck(&self, linear: u32) -> Stuck {
        let doing = match self.threads[linear as usize].status {
            Status::Runnable => "runs".to_owned(),
            Status::Waiting(primitive, source) => format!("waits at {} ({source})", primitive.name),
            Status::Polling(source) => format!("polls memory ({source})"),
            Status::Exited => "has exited".to_owned(),
        };
        Stuck { thread: self.thread_index(linear), doing }
    }

    /// Names what is wrong when no thread can run and some have not exited.
    pub fn stuck_fault(&self) -> Fault {
        let (kernel, block) = (self.grid().kernel.to_owned(), self.index);
        for (w, warp) in self.warps.iter().enumerate() {
            if let Some(primitive) = warp.waits_for() {
                let lanes = (32 * w as u32..self.size.min(32 * w as u32 + 32)).map(|t| self.stuck(t));
                return Fault::Divergence { kernel, block, primitive: primitive.name, threads: lanes.collect() };
            }
        }
        for (g, group) in self.warpgroups.iter().enumerate() {
            if let Some(primitive) = group.waits_for() {
                return self.apart(g, primitive);
            }
        }
        Fault::Deadlock { kernel, block, threads: (0..self.size).map(|t| self.stuck(t)).collect() }
    }

    /// The slow path of a global access: finds its range among those of the launch and remembers it.
    pub fn find_range(&mut self, address: usize, bytes: usize) -> bool {
        let fits = |hit: &Hit| {
            let offset = address.wrapping_sub(hit.base);
            offset < hit.len && hit.len - offset >= bytes
        };
        if let Some(hit) = self.hits.iter().copied().find(fits) {
            Self::remember(hit);
            return true;
        }
        let grid = self.grid();
        let Some(at) = memory::find(&grid.ranges, address, bytes) else { return false };
        grid.touch(at);
        let hit = Hit { base: grid.ranges[at].base, len: grid.ranges[at].len };
        self.hits[self.next_hit] = hit;
        self.next_hit = (self.next_hit + 1) % self.hits.len();
        Self::remember(hit);
        true
    }

    fn remember(hit: Hit) {
        if hit.len >= 16 {
            context::with(|c| {
                c.range_base.set(hit.base);
                c.range_len.set(hit.len);
            });
        }
    }

    /// Offset of `address` in the shared arena.
    pub fn shared_offset(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.arena.base() as usize);
        (offset < self.arena.len()).then_some(offset)
    }

    /// The fault of an access outside its space.
    pub fn out_of_range(&self, space: Space, access: Access, address: usize, bytes: usize, source: Source) -> Fault {
        let hint = match (space, self.shared_offset(address)) {
            (Space::Global, Some(offset)) => format!("this is offset {offset} of the block's shared memory"),
            (Space::Shared, Some(offset)) => format!(
                "offset {offset} of the block's arena is in no array ({} bytes dynamic, {} bytes static so far)",
                self.grid().launch.dynamic_shared,
                self.arena.static_bytes()
            ),
            (Space::Shared, None) => "the address is not in the block's shared memory".to_owned(),
            (Space::Global, None) => {
                let below = self.grid().ranges.iter().rev().find(|r| r.base <= address);
                let above = self.grid().ranges.iter().find(|r| r.base > address);
                let below = below.map(|r| (address - r.base, r)).map(|(offset, r)| {
                    format!("offset {offset} of the allocation of {} bytes at {:#x}", r.len, r.base)
                });
                let above = above.map(|r| {
                    format!("{} bytes before the allocation of {} bytes at {:#x}", r.base - address, r.len, r.base)
                });
                match (below, above) {
                    (None, None) => "no device memory is allocated".to_owned(),
                    (below, above) => [below, above].into_iter().flatten().collect::<Vec<_>>().join(", "),
                }
            }
        };
        Fault::OutOfRange { place: self.place(source), space, access, address, bytes, hint }
    }
}

/// Ends the block with a fault of the running thread.
#[cold]
#[inline(never)]
pub(crate) fn raise(fault: Fault) -> ! {
    let block = context::block();
    // SAFETY: the running block; no reference into it is held by this thread while it is suspended.
    unsafe { (*block).fault.get_or_insert(fault) };
    loop {
        suspend(); // never resumed: the scheduler unwinds the thread
    }
}

/// Lets the scheduler run another thread. The thread's status says when it is to be resumed.
#[inline(always)]
pub(crate) fn suspend() {
    let block = context::block();
    let linear = context::with(|c| c.linear.get()) as usize;
    // SAFETY: the running block; the yielder lives on this thread's stack for as long as the thread exists.
    unsafe {
        let yielder = (&(*block).threads)[linear].yielder;
        (*yielder).suspend(());
    }
}
