//! Barriers: threads gather, the last one to arrive releases the others.

use std::panic::Location;

use super::block::{BARRIERS, Block, Primitive, Source, Status, raise, suspend};
use super::context;
use super::fault::Fault;

static SYNC_THREADS: Primitive = Primitive { name: "sync_threads", aligned: true };
static SYNC_NAMED: Primitive = Primitive { name: "sync_named", aligned: true };
static ARRIVE_NAMED: Primitive = Primitive { name: "arrive_named", aligned: true };

/// Host body of [`barrier::sync_threads`](crate::barrier::sync_threads).
#[inline(always)]
#[track_caller]
pub(crate) fn sync_threads() {
    if arrive(&SYNC_THREADS, 0, None, true, Location::caller()) {
        suspend();
    }
}

/// Host body of [`barrier::sync_named`](crate::barrier::sync_named).
///
/// # Safety
/// None on the host: breaches are faults.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn sync_named(id: u32, threads: u32) {
    if arrive(&SYNC_NAMED, id, Some(threads), true, Location::caller()) {
        suspend();
    }
}

/// Host body of [`barrier::arrive_named`](crate::barrier::arrive_named).
///
/// # Safety
/// None on the host: breaches are faults.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn arrive_named(id: u32, threads: u32) {
    arrive(&ARRIVE_NAMED, id, Some(threads), false, Location::caller());
}

/// Host body of [`barrier::fence_block`](crate::barrier::fence_block): threads of a block share an OS thread.
#[inline(always)]
pub(crate) fn fence_block() {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// Host body of [`barrier::fence_device`](crate::barrier::fence_device).
#[inline(always)]
pub(crate) fn fence_device() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

pub(crate) use super::proxy::fence_async_shared;

/// Counts the running thread at barrier `id`; true where it must be suspended now. `threads` is `None` for the whole block.
///
/// The callers suspend it themselves, inlined into the kernel: were the switch in here, each resumed thread would leave
/// this function by a return that the CPU predicts wrongly (66 ns a barrier and thread instead of 39, Zen 3).
#[inline(never)]
pub(super) fn arrive(primitive: &'static Primitive, id: u32, threads: Option<u32>, wait: bool, source: Source) -> bool {
    let block = context::block();
    let linear = context::with(|c| c.linear.get());
    // SAFETY: the running block; this exclusive reference ends before the thread is suspended.
    unsafe { (*block).arrive(linear, primitive, id, threads, wait, source) }.unwrap_or_else(|fault| raise(fault))
}

impl Block {
    /// True where the thread must be suspended.
    #[inline]
    fn arrive(
        &mut self,
        linear: u32,
        primitive: &'static Primitive,
        id: u32,
        threads: Option<u32>,
        wait: bool,
        source: Source,
    ) -> Result<bool, Fault> {
        if !self.threads[linear as usize].started.none()
            && let Some(fault) = self.under_way(linear, "reaches a barrier", source.to_string())
        {
            return Err(fault);
        }
        let expected = match threads {
            None => self.size,
            Some(threads) => self.named_count(primitive, id, threads, source)?,
        };
        let slot = id as usize;
        let barrier = &mut self.barriers[slot];
        if barrier.arrived == 0 {
            barrier.expected = expected;
        } else if barrier.expected != expected {
            let problem = format!("{expected} threads, but others at barrier {id} say {}", barrier.expected);
            return Err(Fault::BadOperand { place: self.place(source), primitive: primitive.name, problem });
        }
        let generation = barrier.generation;
        if !self.warps[linear as usize / 32].same_source(slot, generation, source) {
            self.threads[linear as usize].status = Status::Waiting(primitive, source);
            return Err(self.scattered(linear, primitive));
        }
        let barrier = &mut self.barriers[slot];
        // A named barrier counts warps, the last and shorter one as 32 threads; its last lane stands for the missing.
        let missing =
            if threads.is_some() && linear == self.size - 1 { self.size.next_multiple_of(32) - self.size } else { 0 };
        barrier.arrived += 1 + missing;
        if let Some(races) = &mut self.races {
            races.arrive(slot, linear);
        }
        if let Some(proxy) = &mut self.proxy {
            proxy.arrive(linear);
        }
        if barrier.arrived < expected {
            if wait {
                barrier.waiting.push(linear as u16);
                self.threads[linear as usize].status = Status::Waiting(primitive, source);
            }
            return Ok(wait);
        }
        if barrier.arrived > expected {
            let problem = format!("more than {expected} threads arrived at barrier {id}");
            return Err(Fault::BadOperand { place: self.place(source), primitive: primitive.name, problem });
        }
        if let Some(races) = &mut self.races {
            let waiting = barrier.waiting.iter().map(|&t| u32::from(t));
            races.release(slot, waiting.chain(wait.then_some(linear)));
        }
        barrier.arrived = 0;
        barrier.generation = barrier.generation.wrapping_add(1);
        for &t in &barrier.waiting {
            self.threads[usize::from(t)].status = Status::Runnable;
        }
        self.ready.extend(&barrier.waiting);
        barrier.waiting.clear();
        let draws = wait && self.ready.draws();
        if draws {
            self.ready.push(linear as u16);
        }
        Ok(draws)
    }

    /// The thread count of a named barrier, checked.
    fn named_count(&self, primitive: &'static Primitive, id: u32, threads: u32, source: Source) -> Result<u32, Fault> {
        let problem = if !(1..BARRIERS as u32).contains(&id) {
            format!("barrier {id}: ids are 1 to 15 (0 is sync_threads)")
        } else if threads == 0 || !threads.is_multiple_of(32) {
            format!("{threads} threads at barrier {id}: a positive multiple of 32 is needed")
        } else if threads > self.size.next_multiple_of(32) {
            format!("{threads} threads at barrier {id}, the block has {}", self.size)
        } else {
            return Ok(threads);
        };
        Err(Fault::BadOperand { place: self.place(source), primitive: primitive.name, problem })
    }

    /// The fault of a warp whose lanes reach one barrier from different lines.
    pub(crate) fn scattered(&self, linear: u32, primitive: &'static Primitive) -> Fault {
        let first = linear / 32 * 32;
        Fault::Divergence {
            kernel: self.grid().kernel.to_owned(),
            block: self.index,
            primitive: primitive.name,
            threads: (first..self.size.min(first + 32)).map(|t| self.stuck(t)).collect(),
        }
    }
}
