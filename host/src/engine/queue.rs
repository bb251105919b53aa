//! Admission: which requests wait, which one runs, and what the handles may still ask for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::request::{Event, Failure, Request};
use super::{Status, SubmitError};

/// Whether a generation should go on; shared by its handle, the queue and the engine's thread.
#[derive(Debug, Default)]
pub struct Stop(AtomicU8);

/// Why a generation should not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Nobody wants its result.
    Dropped,
    /// The engine is shutting down.
    Draining,
}

impl Stop {
    /// Asks for the end; the first reason stays.
    pub fn ask(&self, reason: StopReason) {
        let code = match reason {
            StopReason::Dropped => 1,
            StopReason::Draining => 2,
        };
        // Whoever lost the race had nothing to add.
        let _ = self.0.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The reason, if the end was asked for.
    pub fn asked(&self) -> Option<StopReason> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            1 => Some(StopReason::Dropped),
            _ => Some(StopReason::Draining),
        }
    }
}

/// A request with all that its generation needs.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    pub request: Request,
    pub events: UnboundedSender<Event>,
    pub stop: Arc<Stop>,
    pub submitted: Instant,
}

impl Job {
    /// Sends the last event; whoever left needs none.
    pub fn fail(&self, failure: Failure) {
        let _ = self.events.send(Event::Failed(failure));
    }
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests.
    pub requests: usize,
    /// Prompt tokens of all of them together.
    pub tokens: usize,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Job>,
    running: Option<(u64, Arc<Stop>)>,
    next_id: u64,
    status: Status,
    handles: usize,
}

/// The queue between handles and the engine's thread.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    bounds: Bounds,
}

impl Queue {
    pub fn new(bounds: Bounds) -> Self {
        let state = State { waiting: VecDeque::new(), running: None, next_id: 0, status: Status::Running, handles: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), bounds }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a request; answers its id.
    pub fn push(&self, request: Request, events: UnboundedSender<Event>, stop: Arc<Stop>) -> Result<u64, SubmitError> {
        let mut state = self.lock();
        match &state.status {
            Status::Running => {}
            Status::Draining => return Err(SubmitError::Draining),
            Status::DeviceLost(why) => return Err(SubmitError::DeviceLost(why.clone())),
            Status::Stopped => return Err(SubmitError::Stopped),
        }
        // An idle engine takes the request at once: the bound is on those that wait behind another.
        let busy = state.running.is_some() || !state.waiting.is_empty();
        let (queued, limit) = (state.waiting.len(), self.bounds.requests);
        if busy && queued >= limit {
            return Err(SubmitError::QueueFull { queued, limit });
        }
        let tokens: usize = state.waiting.iter().map(|job| job.request.prompt.len()).sum();
        if queued > 0 && tokens + request.prompt.len() > self.bounds.tokens {
            return Err(SubmitError::TokensQueued { queued: tokens, limit: self.bounds.tokens });
        }
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.push_back(Job { id, request, events, stop, submitted: Instant::now() });
        self.changed.notify_all();
        Ok(id)
    }

    /// The next request, first come first served; waits for one. `None` when there will be none any more.
    pub fn take(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.running = Some((job.id, Arc::clone(&job.stop)));
                return Some(job);
            }
            if state.handles == 0 || matches!(state.status, Status::Stopped) {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The request that was taken has ended.
    pub fn done(&self) {
        self.lock().running = None;
        self.changed.notify_all();
    }

    /// Removes a request that still waits. One that runs ends at its next token.
    pub fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.waiting.retain(|job| job.id != id);
        self.changed.notify_all();
    }

    /// Takes no further requests; those that wait fail.
    pub fn drain(&self) {
        let mut state = self.lock();
        if matches!(state.status, Status::Running) {
            state.status = Status::Draining;
        }
        state.waiting.drain(..).for_each(|job| job.fail(Failure::Draining));
        self.changed.notify_all();
    }

    /// Ends the running request with [`Failure::Draining`].
    pub fn abort(&self) {
        if let Some((_, stop)) = &self.lock().running {
            stop.ask(StopReason::Draining);
        }
    }

    /// From now on everything fails.
    pub fn close(&self, status: Status) {
        let failure = match &status {
            Status::DeviceLost(why) => Failure::DeviceLost(why.clone()),
            _ => Failure::Stopped,
        };
        let mut state = self.lock();
        // The reason that came first is the one that helps.
        if !matches!(state.status, Status::DeviceLost(_)) {
            state.status = status;
        }
        state.waiting.drain(..).for_each(|job| job.fail(failure.clone()));
        self.changed.notify_all();
    }

    pub fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// Requests that wait, and whether one runs.
    pub fn load(&self) -> (usize, bool) {
        let state = self.lock();
        (state.waiting.len(), state.running.is_some())
    }

    pub fn add_handle(&self) {
        self.lock().handles += 1;
    }

    /// Without handles nobody can ask for anything: the thread ends after what was asked for.
    pub fn drop_handle(&self) {
        self.lock().handles -= 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn push(queue: &Queue) -> Result<UnboundedReceiver<Event>, SubmitError> {
        let (sender, events) = unbounded_channel();
        let request = Request { prompt: vec![1], max_tokens: 1, ..Request::default() };
        queue.push(request, sender, Arc::default()).map(|_| events)
    }

    #[test]
    fn a_lost_device_is_told_to_everyone_and_stays_the_reason() {
        let queue = Queue::new(Bounds { requests: 4, tokens: 100 });
        queue.add_handle();
        let mut waiting = [push(&queue).expect("room"), push(&queue).expect("room")];
        queue.close(Status::DeviceLost("no answer".into()));
        queue.close(Status::Stopped);
        queue.drain();
        for events in &mut waiting {
            let event = events.try_recv().expect("a last event");
            assert!(matches!(event, Event::Failed(Failure::DeviceLost(why)) if why == "no answer"));
        }
        assert_eq!(push(&queue).err(), Some(SubmitError::DeviceLost("no answer".into())));
        assert_eq!(queue.status(), Status::DeviceLost("no answer".into()));
    }

    #[test]
    fn the_first_reason_to_stop_stays() {
        let stop = Stop::default();
        assert_eq!(stop.asked(), None);
        stop.ask(StopReason::Draining);
        stop.ask(StopReason::Dropped);
        assert_eq!(stop.asked(), Some(StopReason::Draining));
    }

    #[test]
    fn an_idle_engine_takes_a_request_without_a_queue() {
        let queue = Queue::new(Bounds { requests: 0, tokens: 100 });
        queue.add_handle();
        let _first = push(&queue).expect("nothing runs");
        assert_eq!(push(&queue).err(), Some(SubmitError::QueueFull { queued: 1, limit: 0 }));
        assert_eq!(queue.take().map(|job| job.id), Some(0));
        assert_eq!(push(&queue).err(), Some(SubmitError::QueueFull { queued: 0, limit: 0 }));
        queue.done();
        assert!(push(&queue).is_ok());
    }
}
