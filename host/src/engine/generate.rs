//! The engine's thread: takes requests in turn and generates for one sequence at a time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::backend::{BackendError, LaunchError};
use crate::model::tokenizer::{Detokenizer, Tokenizer};
use crate::model::{LanguageModel, ModelError};
use crate::ops::dispatch::OpError;

use super::Status;
use super::queue::{Job, Queue, StopReason};
use super::request::{Event, Failure, Finish, Timings, Usage};
use super::sample::Sampler;
use super::stop::StopMatcher;

/// Serves until the last handle is gone or the device is lost.
pub fn serve<M: LanguageModel>(mut model: M, tokenizer: &Tokenizer, chunk: usize, queue: &Queue) {
    let _closer = Closer(queue);
    while let Some(job) = queue.take() {
        // The sequence is dropped by the unwinding, and the next request starts with a new one.
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut model, tokenizer, chunk, &job)));
        let outcome = outcome.unwrap_or_else(|payload| Err(End::Failed(Failure::Panicked(message(&*payload)))));
        if let Err(End::Failed(Failure::DeviceLost(why))) = &outcome {
            queue.close(Status::DeviceLost(why.clone()));
        }
        // The place is free before the client learns of the end: its next request does not find it taken.
        queue.done();
        match outcome {
            Ok(event) => drop(job.events.send(event)),
            Err(End::Failed(failure)) => job.fail(failure),
            Err(End::Dropped) => {}
        }
        if matches!(queue.status(), Status::DeviceLost(_)) {
            return;
        }
    }
}

/// Closes the queue however the thread ends.
struct Closer<'a>(&'a Queue);

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        self.0.close(Status::Stopped);
    }
}

/// An end without a result.
enum End {
    Failed(Failure),
    Dropped,
}

impl From<ModelError> for End {
    fn from(error: ModelError) -> Self {
        let text = error.to_string();
        Self::Failed(match error {
            ModelError::NotFinite { .. } => Failure::Numeric(text),
            error if is_lost(&error) => Failure::DeviceLost(text),
            _ => Failure::Model(text),
        })
    }
}

/// Whether the device answers nothing any more.
fn is_lost(error: &ModelError) -> bool {
    let launch = match error {
        ModelError::Backend(BackendError::Lost(_)) => return true,
        ModelError::Backend(BackendError::Launch(launch)) => launch,
        ModelError::Op(OpError::Launch(launch)) => launch.as_ref(),
        _ => return false,
    };
    matches!(launch, LaunchError::Lost { .. })
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

fn check(job: &Job) -> Result<(), End> {
    match job.stop.asked() {
        None => Ok(()),
        Some(StopReason::Dropped) => Err(End::Dropped),
        Some(StopReason::Draining) => Err(End::Failed(Failure::Draining)),
    }
}

/// Sends an event; an event that nobody can receive means that nobody wants the result.
fn send(job: &Job, event: Event) -> Result<(), End> {
    job.events.send(event).map_err(|_| End::Dropped)
}

/// Generates for one request; the answer is its last event.
fn run<M: LanguageModel>(model: &mut M, tokenizer: &Tokenizer, chunk: usize, job: &Job) -> Result<Event, End> {
    let (request, total) = (&job.request, job.request.prompt.len());
    let started = Instant::now();
    let mut timings = Timings { queue: started - job.submitted, ..Timings::default() };
    check(job)?;
    send(job, Event::Started { queued: timings.queue })?;
    let sampler = Sampler::new(&request.sampling, model.vocab());
    let mut sampler = sampler.map_err(|error| End::Failed(Failure::Model(error.to_string())))?;
    sampler.prompt(&request.prompt);
    let mut sequence = model.sequence()?;
    let mut logits = read_prompt(model, &mut sequence, chunk, job)?;
    timings.prompt = started.elapsed();

    let mut reply = Reply::new(tokenizer, job);
    let room = request.max_tokens.min(model.context().saturating_sub(total));
    let (mut generated, mut reason) = (0, Finish::Length);
    while generated < room {
        check(job)?;
        if generated > 0 {
            logits = model.forward(&mut sequence, &reply.last)?;
        }
        let id = sampler.next(&mut logits);
        generated += 1;
        if generated == 1 {
            timings.first_token = started.elapsed();
        }
        timings.decode = started.elapsed() - timings.first_token;
        let ends = !request.ignore_eos && request.stop_ids.contains(&id);
        if ends || reply.push(id, &mut sampler)? {
            reason = Finish::Stop;
            break;
        }
    }
    reply.finish()?;
    let usage = Usage { prompt: total, cached: 0, generated };
    Ok(Event::Finished { reason, usage, timings })
}

/// Reads the prompt in chunks; the logits after its last token.
fn read_prompt<M: LanguageModel>(
    model: &mut M,
    sequence: &mut M::Sequence,
    chunk: usize,
    job: &Job,
) -> Result<Vec<f32>, End> {
    let total = job.request.prompt.len();
    let (mut logits, mut done) = (Vec::new(), 0);
    for tokens in job.request.prompt.chunks(chunk) {
        check(job)?;
        logits = model.forward(sequence, tokens)?;
        done += tokens.len();
        send(job, Event::Prompt { done, total })?;
    }
    Ok(logits)
}

/// Text of the reply on its way out.
struct Reply<'a> {
    job: &'a Job,
    text: Detokenizer,
    stop: StopMatcher,
    unsent: Vec<u32>,
    last: [u32; 1],
    /// A stop text is complete: what follows is not part of the reply.
    cut: bool,
}

impl<'a> Reply<'a> {
    fn new(tokenizer: &'a Tokenizer, job: &'a Job) -> Self {
        let stop = StopMatcher::new(&job.request.stop);
        Self { job, text: tokenizer.detokenizer(), stop, unsent: Vec::new(), last: [0], cut: false }
    }

    /// Appends a token; whether a stop text is complete.
    fn push(&mut self, id: u32, sampler: &mut Sampler) -> Result<bool, End> {
        sampler.accept(id);
        self.last = [id];
        self.unsent.push(id);
        let text = self.text.push(id);
        let (text, matched) = self.stop.push(&text);
        self.cut = matched.is_some();
        self.send(text, false)?;
        Ok(self.cut)
    }

    /// Sends what was held back, unless a stop text cut it off.
    fn finish(mut self) -> Result<(), End> {
        let mut held = String::new();
        if !self.cut {
            let (text, matched) = self.stop.push(&self.text.finish());
            held = text;
            if matched.is_none() {
                held.push_str(&self.stop.finish());
            }
        }
        self.send(held, true)
    }

    fn send(&mut self, text: String, last: bool) -> Result<(), End> {
        let tokens_left = last && !self.unsent.is_empty();
        if text.is_empty() && !tokens_left {
            return Ok(());
        }
        send(self.job, Event::Piece { text, ids: std::mem::take(&mut self.unsent) })
    }
}
