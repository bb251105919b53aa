//! The threads of a block as coroutines, and the loop that gives them their turns.

use std::any::Any;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use corosensei::{Coroutine, CoroutineResult};

use super::block::{Block, Status};
use super::context;
use super::fault::Fault;
use super::launch::Grid;
use super::proxy::Proxy;
use super::stack::{Shifted, Stacks};

/// A thread of the block.
type Fiber = Coroutine<(), (), (), Shifted>;

/// How a block's turn ended.
pub(crate) enum Turn {
    /// All threads have exited.
    Done,
    /// Threads poll memory; other blocks should run.
    Polling,
    /// The block is over, with a fault.
    Failed(Fault),
}

/// A block and its coroutines.
pub(crate) struct Runner {
    // First, so that suspended threads are unwound before their block goes.
    coroutines: Vec<Option<Fiber>>,
    indices: Vec<[u32; 3]>,
    stacks: Stacks,
    block: *mut Block,
    resumes: u64,
}

impl Runner {
    pub fn new(grid: &Grid) -> Self {
        let block = Block::new(grid);
        let size = block.size;
        Self {
            coroutines: (0..size).map(|_| None).collect(),
            indices: (0..size).map(|t| block.thread_index(t)).collect(),
            stacks: Stacks::new(grid.options.stack_bytes),
            block: Box::into_raw(Box::new(block)),
            resumes: 0,
        }
    }

    fn block(&mut self) -> &mut Block {
        // SAFETY: made by `Box::into_raw`; no thread of the block runs while the caller holds the reference.
        unsafe { &mut *self.block }
    }

    /// Prepares block `linear` of the grid; the one before is done. Gives the address of its shared memory.
    pub fn start(&mut self, linear: u64) -> usize {
        let block = self.block();
        block.start(linear);
        block.arena.base() as usize
    }

    /// Number of the block in the grid.
    pub fn linear(&mut self) -> u64 {
        self.block().linear
    }

    /// Static shared memory that the block has placed, in bytes.
    pub fn static_shared(&mut self) -> usize {
        self.block().arena.static_bytes()
    }

    /// How often a thread was resumed since the last call.
    pub fn take_resumes(&mut self) -> u64 {
        std::mem::take(&mut self.resumes)
    }

    /// What the block's threads do, as a deadlock.
    pub fn deadlock(&mut self) -> Fault {
        self.block().stuck_fault()
    }

    /// Runs the block until it is done, fails, or only polls.
    pub fn turn(&mut self) -> Turn {
        self.enter();
        let turn = catch_unwind(AssertUnwindSafe(|| self.resume_threads()));
        let current = context::with(|c| c.linear.get());
        context::leave();
        turn.unwrap_or_else(|payload| Turn::Failed(self.panicked(current, payload.as_ref())))
    }

    /// Makes the block the one that this OS thread runs.
    fn enter(&mut self) {
        let pointer = self.block;
        let block = self.block();
        block.polls = 0;
        context::with(|c| {
            c.block.set(pointer);
            c.shared_base.set(block.arena.base() as usize);
            c.shared_len.set(block.arena.len());
            c.shadow.set(block.arena.shadow_ptr());
            c.stamps.set(block.proxy.as_mut().map_or(std::ptr::null_mut(), Proxy::stamps_ptr));
            for axis in 0..3 {
                c.block_idx[axis].set(block.index[axis]);
                c.block_dim[axis].set(block.grid().launch.block[axis]);
                c.grid_dim[axis].set(block.grid().launch.grid[axis]);
            }
        });
    }

    fn resume_threads(&mut self) -> Turn {
        loop {
            let block = self.block();
            let Some(thread) = block.ready.pop() else {
                return if block.live == 0 { Turn::Done } else { Turn::Failed(block.stuck_fault()) };
            };
            if block.polls > 4 * block.live + 64 {
                block.ready.push(thread);
                return Turn::Polling;
            }
            let thread = usize::from(thread);
            let stamp = block.proxy.as_ref().map_or(0, |proxy| proxy.stamp_of(thread));
            context::with(|c| {
                c.stamp.set(stamp);
                c.linear.set(thread as u32);
                for axis in 0..3 {
                    c.thread_idx[axis].set(self.indices[thread][axis]);
                }
            });
            if self.coroutines[thread].is_none() {
                match self.spawn(thread) {
                    Ok(coroutine) => self.coroutines[thread] = Some(coroutine),
                    Err(fault) => return Turn::Failed(fault),
                }
            }
            let Some(coroutine) = &mut self.coroutines[thread] else { continue };
            self.resumes += 1;
            match coroutine.resume(()) {
                CoroutineResult::Yield(()) => {}
                CoroutineResult::Return(()) => self.exit(thread),
            }
            if let Some(fault) = self.block().fault.take() {
                return Turn::Failed(fault);
            }
        }
    }

    /// A coroutine that runs the kernel as `thread`.
    fn spawn(&mut self, thread: usize) -> Result<Fiber, Fault> {
        let stack = self.stacks.take().map_err(|error| {
            let grid = self.block().grid();
            Fault::Resources {
                kernel: grid.kernel.clone(),
                what: format!("a stack of {} bytes", grid.options.stack_bytes),
                error: error.to_string(),
            }
        })?;
        let pointer = self.block;
        let body = self.block().grid().body;
        Ok(Coroutine::with_stack(Shifted::new(stack, thread), move |yielder, ()| {
            // SAFETY: the block outlives its coroutines, and nobody else holds a reference while this thread runs. The
            // body is the launch's own, which lives as long as the grid; its contract is the launch's caller's.
            unsafe {
                (&mut (*pointer).threads)[thread].yielder = yielder;
                (body.call)(body.data);
            }
        }))
    }

    /// Books the end of a thread.
    fn exit(&mut self, thread: usize) {
        if let Some(coroutine) = self.coroutines[thread].take() {
            self.stacks.give(coroutine.into_stack().into_inner());
        }
        let block = self.block();
        block.live -= 1;
        block.threads[thread].status = Status::Exited;
        if block.fault.is_none() {
            block.fault = block.unwaited(thread as u32);
        }
        if block.fault.is_none() && block.live == 0 {
            block.fault = block.unlanded();
        }
    }

    /// The fault of a thread that panicked.
    fn panicked(&mut self, thread: u32, payload: &(dyn Any + Send)) -> Fault {
        let block = self.block();
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let (message, source) = block.panic.take().unwrap_or_else(|| {
            (text.unwrap_or_else(|| "a panic payload that is no text".to_owned()), "an unknown place".to_owned())
        });
        Fault::Panic { place: block.place_of(thread, source), message }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Threads suspended by a fault are unwound here, with their block still in place.
        for mut coroutine in self.coroutines.drain(..).flatten() {
            coroutine.force_unwind();
            self.stacks.give(coroutine.into_stack().into_inner());
        }
        // SAFETY: made by `Box::into_raw` in `new`, and no coroutine is left that could use it.
        drop(unsafe { Box::from_raw(self.block) });
    }
}

/// Sees to it that a panic in a kernel is noted in its block instead of printed. Other panics go on to the hook that was
/// there before.
pub(crate) fn catch_kernel_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let other = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| if context::in_kernel() { note_panic(info) } else { other(info) }));
    });
}

fn note_panic(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("a panic payload that is no text").to_owned();
    let source = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    block.panic.get_or_insert((message, source));
}
