//! The HTTP server: OpenAI's chat and completion routes, and a few of its own, over one [`Engine`].
//!
//! A request is received, authorised, parsed, rendered and tokenized, checked, and only then queued; the engine's thread
//! does the rest. Whatever drops the reply (a client that leaves, a timeout) drops the [`Generation`] and with it the
//! work. Errors are in `error.rs`, every limit in `limits.rs`.
//!
//! [`Generation`]: crate::engine::Generation

pub mod auth;
mod body;
mod connection;
mod error;
mod gate;
mod generation;
mod json;
pub mod limits;
mod log;
mod prompt;
mod reply;
mod request;
mod routes;
mod stream;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::engine::{Engine, Status};
use crate::model::tokenizer::Tokenizer;
use auth::{Keys, Names};
use error::ApiError;
use limits::Limits;

pub use prompt::Chat;

/// How often the server looks whether the device still answers.
const DEVICE_CHECK: Duration = Duration::from_millis(500);

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Keys that are accepted.
    pub keys: Keys,
    /// Names and origins that are accepted.
    pub names: Names,
    /// Limits that can be set.
    pub limits: Limits,
    /// Names of the model beside its own.
    pub aliases: Vec<String>,
    /// Lower `max_tokens` to what fits into the context, instead of refusing the request.
    pub fit_max_tokens: bool,
}

/// The model that is served, with all that its requests need.
#[derive(Debug)]
pub struct Served {
    /// The engine that runs it.
    pub engine: Engine,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Its chat template, if it has one.
    pub chat: Option<Chat>,
    /// Tokens that end a reply.
    pub stop_ids: Vec<u32>,
    /// What `/v1/models` says of it.
    pub info: ModelInfo,
}

/// What `/v1/models` says of a model.
#[derive(Clone, Debug, Default)]
pub struct ModelInfo {
    /// Its name.
    pub id: String,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// Its file format.
    pub format: String,
    /// Its number of weights.
    pub parameters: u64,
}

/// How a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to, and every reply was finished.
    Drained,
    /// It was asked to, and replies that took too long were cut off.
    Aborted,
    /// The device failed for good.
    DeviceLost(String),
}

/// A server's state, shared by its connections.
#[derive(Debug)]
pub struct App {
    config: Config,
    bound: SocketAddr,
    served: OnceLock<Arc<Served>>,
    draining: AtomicBool,
    /// Replies that are under way.
    replies: watch::Sender<usize>,
    /// Prompts that are read and tokenized at a time: cores for other work remain.
    tokenizing: Semaphore,
}

impl App {
    /// A server without a model, which `bound` belongs to.
    #[must_use]
    pub fn new(config: Config, bound: SocketAddr) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            config,
            bound,
            served: OnceLock::new(),
            draining: AtomicBool::new(false),
            replies: watch::Sender::new(0),
            tokenizing: Semaphore::new(cores),
        })
    }

    /// The model has loaded. A second one is not taken.
    pub fn ready(&self, served: Served) {
        if self.served.set(Arc::new(served)).is_err() {
            tracing::error!("a second model was given to the server");
        }
        if self.draining.load(Ordering::Acquire) {
            self.drain(); // the signal came while the model loaded
        }
    }

    /// The model, if requests can run now.
    fn served(&self) -> Result<&Arc<Served>, ApiError> {
        if self.draining.load(Ordering::Acquire) {
            return Err(ApiError::draining());
        }
        let served = self.served.get().ok_or_else(ApiError::loading)?;
        match served.engine.status() {
            Status::Running => Ok(served),
            Status::Draining => Err(ApiError::draining()),
            Status::DeviceLost(why) => Err(ApiError::device_lost(&why)),
            Status::Stopped => Err(ApiError::internal()),
        }
    }

    /// No further requests; those that wait are answered 503, the running one goes on.
    fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        if let Some(served) = self.served.get() {
            served.engine.drain();
        }
    }

    fn abort(&self) {
        if let Some(served) = self.served.get() {
            served.engine.abort();
        }
    }

    /// Counts a reply as under way until the guard is dropped.
    fn begin(self: &Arc<Self>) -> Replying {
        self.replies.send_modify(|replies| *replies += 1);
        Replying(Arc::clone(self))
    }

    async fn all_replied(&self, within: Duration) -> bool {
        let mut replies = self.replies.subscribe();
        tokio::time::timeout(within, replies.wait_for(|replies| *replies == 0)).await.is_ok()
    }

    /// Waits until the device is lost; for ever, if it never is.
    async fn device_lost(&self) -> String {
        loop {
            if let Some(Status::DeviceLost(why)) = self.served.get().map(|served| served.engine.status()) {
                return why;
            }
            tokio::time::sleep(DEVICE_CHECK).await;
        }
    }
}

/// A reply under way.
struct Replying(Arc<App>);

impl Drop for Replying {
    fn drop(&mut self) {
        self.0.replies.send_modify(|replies| *replies -= 1);
    }
}

/// The routes of a server.
fn router(app: &Arc<App>) -> Router {
    routes::router()
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), gate::pass))
        .with_state(Arc::clone(app))
}

/// Serves until `shutdown` completes or the device is lost; then finishes what runs, within the time for it.
///
/// While it finishes, connections are still accepted and told so: `/health` answers 503 `draining`.
pub async fn run(listener: TcpListener, app: Arc<App>, shutdown: impl Future<Output = ()>) -> Ended {
    let (close, closed) = watch::channel(false);
    let limits = app.config.limits.clone();
    let connections = tokio::spawn({
        let (router, limits) = (router(&app), limits.clone());
        async move { connection::accept(listener, router, &limits, closed).await }
    });
    let ended = tokio::select! {
        () = shutdown => {
            app.drain();
            if app.all_replied(limits.drain_time).await {
                Ended::Drained
            } else {
                app.abort();
                Ended::Aborted
            }
        }
        why = app.device_lost() => Ended::DeviceLost(why),
    };
    // Aborted replies still say so to their clients, and connections close in their own time.
    app.all_replied(limits::LINGER).await;
    close.send_replace(true);
    // The acceptor ends when every connection has; a client that keeps its open is not waited for.
    let _ = tokio::time::timeout(limits::LINGER, connections).await;
    ended
}
