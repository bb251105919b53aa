//! The engine: one thread that owns the model and serves requests in turn.
//!
//! An [`Engine`] is a handle; clones of it submit [`Request`]s from any thread and get a [`Generation`] each, a stream of
//! [`Event`]s. Nothing outside knows how requests are scheduled. Dropping a generation cancels it: at once while it waits,
//! at the next chunk or token while it runs. The thread ends when the last handle is dropped.

mod generate;
mod queue;
mod request;
pub mod sample;
pub mod stop;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::model::LanguageModel;
use crate::model::tokenizer::Tokenizer;
use queue::{Bounds, Queue, Stop, StopReason};
use sample::SamplingError;

pub use request::{Event, Failure, Finish, Request, Timings, Usage};

/// What an engine is started with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Requests that may wait while one runs.
    pub queue: usize,
    /// Tokens of a prompt that are computed in one call: a request can be cancelled in between.
    pub chunk: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { queue: 64, chunk: 512 }
    }
}

/// Why a request was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Nothing is to be generated.
    #[error("max_tokens is 0; ask for at least 1")]
    NoTokens,
    /// A stop text that would match before the first token.
    #[error("a stop text is empty")]
    EmptyStop,
    /// A sampling setting is out of its range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// No token would fit behind the prompt.
    #[error("the prompt has {prompt} tokens; with one to generate it exceeds the context of {context}")]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is not in the vocabulary of {vocab} ids")]
    Token {
        /// The id.
        id: u32,
        /// Ids of the model.
        vocab: usize,
    },
    /// As many requests wait as may.
    #[error("{queued} requests are waiting and the limit is {limit}; try again later")]
    QueueFull {
        /// Requests that wait.
        queued: usize,
        /// Requests that may.
        limit: usize,
    },
    /// As many prompt tokens wait as may.
    #[error("prompts of {queued} tokens are waiting and the limit is {limit}; try again later")]
    TokensQueued {
        /// Tokens that wait.
        queued: usize,
        /// Tokens that may.
        limit: usize,
    },
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    Draining,
    /// The device answers nothing any more.
    #[error("the device is lost: {0}")]
    DeviceLost(String),
    /// The engine's thread ended.
    #[error("the engine has stopped")]
    Stopped,
}

/// What an engine is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It accepts requests.
    Running,
    /// It ends what runs and accepts nothing.
    Draining,
    /// The device failed for good, with its message.
    DeviceLost(String),
    /// Its thread ended.
    Stopped,
}

/// A handle to an engine; see the module's documentation.
#[derive(Debug)]
pub struct Engine {
    queue: Arc<Queue>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    context: usize,
    vocab: usize,
}

impl Clone for Engine {
    fn clone(&self) -> Self {
        self.queue.add_handle();
        Self { queue: Arc::clone(&self.queue), thread: Arc::clone(&self.thread), ..*self }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.queue.drop_handle();
    }
}

impl Engine {
    /// Starts the thread that owns `model` from now on.
    ///
    /// # Errors
    /// Where the operating system starts no thread.
    pub fn start<M>(model: M, tokenizer: Arc<Tokenizer>, options: Options) -> std::io::Result<Self>
    where
        M: LanguageModel + 'static,
    {
        let (context, vocab) = (model.context(), model.vocab());
        let bounds = Bounds { requests: options.queue, tokens: context.saturating_mul(4) };
        let queue = Arc::new(Queue::new(bounds));
        queue.add_handle();
        let handle = Self { queue: Arc::clone(&queue), thread: Arc::default(), context, vocab };
        let thread = std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || generate::serve(model, &tokenizer, options.chunk.max(1), &queue))?;
        *handle.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(handle)
    }

    /// Most tokens of prompt and reply together.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// Number of token ids.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    /// [`SubmitError`] says what is wrong with the request, or why the engine takes none.
    pub fn submit(&self, request: Request) -> Result<Generation, SubmitError> {
        self.check(&request)?;
        let (sender, events) = unbounded_channel();
        let stop = Arc::new(Stop::default());
        let id = self.queue.push(request, sender, Arc::clone(&stop))?;
        Ok(Generation { id, events, stop, queue: Arc::clone(&self.queue), ended: false })
    }

    fn check(&self, request: &Request) -> Result<(), SubmitError> {
        let (prompt, context, vocab) = (request.prompt.len(), self.context, self.vocab);
        if prompt == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if request.max_tokens == 0 {
            return Err(SubmitError::NoTokens);
        }
        if request.stop.iter().any(String::is_empty) {
            return Err(SubmitError::EmptyStop);
        }
        if prompt >= context {
            return Err(SubmitError::TooLong { prompt, context });
        }
        request.sampling.check(vocab)?;
        match request.prompt.iter().find(|&&id| id as usize >= vocab) {
            Some(&id) => Err(SubmitError::Token { id, vocab }),
            None => Ok(()),
        }
    }

    /// What the engine is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.queue.status()
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.load().0
    }

    /// Whether nothing runs and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.load() == (0, false)
    }

    /// Accepts no further requests and fails those that wait; the running one goes on.
    pub fn drain(&self) {
        self.queue.drain();
    }

    /// Ends the running request, too, with [`Failure::Draining`].
    pub fn abort(&self) {
        self.queue.drain();
        self.queue.abort();
    }

    /// Ends everything and waits until the thread has, and the model with it. Other handles get [`SubmitError::Stopped`].
    pub fn close(self) {
        self.abort();
        self.queue.close(Status::Stopped);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the engine's thread panicked");
        }
    }
}

/// The events of one request. Dropping it cancels the request.
#[derive(Debug)]
pub struct Generation {
    id: u64,
    events: UnboundedReceiver<Event>,
    stop: Arc<Stop>,
    queue: Arc<Queue>,
    ended: bool,
}

impl Generation {
    /// The next event; `None` after [`Event::Finished`] or [`Event::Failed`].
    pub async fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let event = self.events.recv().await;
        Some(self.seen(event))
    }

    /// As [`Generation::next`], for threads outside an asynchronous runtime (within one it panics).
    pub fn next_blocking(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let event = self.events.blocking_recv();
        Some(self.seen(event))
    }

    /// A channel that closed without a last event belonged to a thread that is gone.
    fn seen(&mut self, event: Option<Event>) -> Event {
        let event = event.unwrap_or(Event::Failed(Failure::Stopped));
        self.ended = matches!(event, Event::Finished { .. } | Event::Failed(_));
        event
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.stop.ask(StopReason::Dropped);
        self.queue.forget(self.id);
    }
}
