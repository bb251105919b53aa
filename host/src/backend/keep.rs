//! Memory that captured graphs may still use, and who may touch the device from the host during a capture.
//!
//! A graph holds plain addresses. So the memory of a buffer that was alive when a graph was captured is not freed while
//! that graph lives: it is kept here and freed with the last such graph. That is what makes launching a graph safe.

use super::error::BackendError;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::ThreadId;

/// Stands in [`State::live`] for a capture under way: it may come to use everything.
const UNDER_WAY: u64 = u64::MAX;

/// The book of one device, over memory of type `M`.
pub struct Keep<M> {
    state: Mutex<State<M>>,
    /// Held for writing during a capture, for reading by calls that wait for the device.
    gate: RwLock<()>,
    capturing: Mutex<Option<ThreadId>>,
}

struct State<M> {
    /// Number of the next allocation.
    next: u64,
    /// Graphs by the number of the first allocation that they cannot know, with how many there are.
    live: BTreeMap<u64, usize>,
    /// Memory given back that a graph may still use, by its number.
    held: Vec<(u64, M)>,
}

/// A capture under way; it is over when this is dropped.
pub struct Capture<'a, M> {
    keep: &'a Keep<M>,
    _gate: RwLockWriteGuard<'a, ()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // every change under these locks is complete in itself
}

impl<M> Default for Keep<M> {
    fn default() -> Self {
        let state = State { next: 0, live: BTreeMap::new(), held: Vec::new() };
        Self { state: Mutex::new(state), gate: RwLock::default(), capturing: Mutex::default() }
    }
}

impl<M> Keep<M> {
    /// The number of a new allocation.
    pub fn number(&self) -> u64 {
        let mut state = lock(&self.state);
        state.next += 1;
        state.next - 1
    }

    /// Takes back the memory of allocation `number`: it is dropped now, or with the last graph that may use it.
    pub fn give_back(&self, number: u64, memory: M) {
        let _gate = self.settle();
        let mut state = lock(&self.state);
        if state.live.range(number + 1..).next().is_some() {
            state.held.push((number, memory));
            return;
        }
        drop(state); // freeing may wait for the device
        drop(memory);
    }

    /// Keeps captures away while memory is freed. Within a capture of this thread nothing is: it may use everything.
    fn settle(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.host_call("free").ok()
    }

    /// Allocations held for graphs.
    pub fn held(&self) -> usize {
        lock(&self.state).held.len()
    }

    /// Asks to wait for the device from this thread: waits itself for a capture of another thread to end.
    ///
    /// # Errors
    /// [`BackendError::Capturing`] within a capture of this thread.
    pub fn host_call(&self, call: &'static str) -> Result<RwLockReadGuard<'_, ()>, BackendError> {
        self.refuse_within_capture(call)?;
        Ok(self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn refuse_within_capture(&self, call: &'static str) -> Result<(), BackendError> {
        match *lock(&self.capturing) {
            Some(thread) if thread == std::thread::current().id() => Err(BackendError::Capturing { call }),
            _ => Ok(()),
        }
    }

    /// Starts a capture.
    ///
    /// # Errors
    /// [`BackendError::Capturing`] within another one of this thread.
    pub fn begin_capture(&self) -> Result<Capture<'_, M>, BackendError> {
        self.refuse_within_capture("Stream::capture")?;
        let gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        *lock(&self.capturing) = Some(std::thread::current().id());
        lock(&self.state).enter(UNDER_WAY);
        Ok(Capture { keep: self, _gate: gate })
    }

    /// Says that the graph which [`Capture::finish`] gave `end` for is gone.
    pub fn forget_graph(&self, end: u64) {
        let _gate = self.settle();
        let freed = lock(&self.state).leave(end);
        drop(freed);
    }
}

impl<M> Capture<'_, M> {
    /// Registers the graph that was captured; the answer goes to [`Keep::forget_graph`].
    pub fn finish(self) -> u64 {
        let mut state = lock(&self.keep.state);
        let end = state.next;
        state.enter(end);
        end
    }
}

impl<M> Drop for Capture<'_, M> {
    fn drop(&mut self) {
        *lock(&self.keep.capturing) = None;
        let freed = lock(&self.keep.state).leave(UNDER_WAY);
        drop(freed);
    }
}

impl<M> State<M> {
    fn enter(&mut self, end: u64) {
        *self.live.entry(end).or_default() += 1;
    }

    /// Removes one graph and returns the memory that nothing can use any more.
    fn leave(&mut self, end: u64) -> Vec<M> {
        if let Some(n) = self.live.get_mut(&end) {
            *n -= 1;
            if *n == 0 {
                self.live.remove(&end);
            }
        }
        let known = self.live.last_key_value().map_or(0, |(&end, _)| end);
        let (held, free): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().partition(|&(n, _)| n < known);
        self.held = held;
        free.into_iter().map(|(_, memory)| memory).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn memory_outlives_the_graphs_that_know_it() {
        let keep = Keep::default();
        let (before, after) = (Rc::new(()), Rc::new(()));
        let first = keep.number();
        let capture = keep.begin_capture().expect("free");
        let graph = capture.finish();
        let second = keep.number();

        keep.give_back(first, before.clone());
        keep.give_back(second, after.clone());
        assert_eq!((Rc::strong_count(&before), Rc::strong_count(&after)), (2, 1));
        keep.forget_graph(graph);
        assert_eq!((Rc::strong_count(&before), keep.held()), (1, 0));
    }

    #[test]
    fn a_capture_that_fails_holds_nothing() {
        let keep = Keep::default();
        let memory = Rc::new(());
        let number = keep.number();
        let capture = keep.begin_capture().expect("free");
        keep.give_back(number, memory.clone());
        assert_eq!(keep.held(), 1);
        assert!(matches!(keep.host_call("read"), Err(BackendError::Capturing { call: "read" })));
        assert!(keep.begin_capture().is_err());
        drop(capture);
        assert_eq!((Rc::strong_count(&memory), keep.held()), (1, 0));
        assert!(keep.host_call("read").is_ok());
    }
}
