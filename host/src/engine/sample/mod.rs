//! The next token from the logits.
//!
//! Steps, each on what the one before left: repetition penalty, frequency and presence penalty, logit bias, temperature,
//! top-k, top-p, min-p, draw. Temperature, then the filters in this order, is what Hugging Face Transformers does; vLLM
//! has min-p before top-k, and llama.cpp divides by the temperature last. The repetition penalty counts prompt and reply,
//! the other two the reply alone, as in vLLM.
//!
//! With temperature 0 the token with the largest logit is taken, of equals the one with the lowest id, and no random
//! number is used. The same holds where a logit is infinite. A logit that is not a number is never chosen; if no logit
//! is above minus infinity, token 0 is.

mod candidates;
mod random;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{Sampling, SamplingError};

use candidates::{Candidate, collect_top_k, keep_top_p, pick};
use random::Random;
use std::collections::HashMap;

/// Chooses the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Random,
    /// How often the reply has a token; 0 where only the prompt has it. Empty while no penalty is on.
    counts: HashMap<u32, u32>,
    candidates: Vec<Candidate>, // kept for its memory
}

impl Sampler {
    /// A sampler for a vocabulary of `vocab` ids.
    ///
    /// # Errors
    /// [`SamplingError`] where a setting is out of its range.
    pub fn new(sampling: &Sampling, vocab: usize) -> Result<Self, SamplingError> {
        sampling.check(vocab)?;
        let random = Random::new(sampling.seed);
        Ok(Self { sampling: sampling.clone(), random, counts: HashMap::new(), candidates: Vec::new() })
    }

    /// Notes the prompt's tokens, for the repetition penalty.
    pub fn prompt(&mut self, ids: &[u32]) {
        if self.sampling.repetition_penalty != 1.0 {
            self.counts.reserve(ids.len().min(1 << 16));
            for &id in ids {
                self.counts.entry(id).or_insert(0);
            }
        }
    }

    /// Notes that `id` is now part of the reply, for the penalties.
    pub fn accept(&mut self, id: u32) {
        let s = &self.sampling;
        if s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0 {
            let count = self.counts.entry(id).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    /// The next token. `logits` are those of every id, `[vocab]`; penalties and bias are left in them.
    pub fn next(&mut self, logits: &mut [f32]) -> u32 {
        self.penalise(logits);
        let (best, largest) = argmax(logits);
        if self.sampling.temperature == 0.0 || !largest.is_finite() {
            return best;
        }
        self.collect(logits, largest);
        pick(&self.candidates, self.random.unit()).unwrap_or(best)
    }

    fn penalise(&self, logits: &mut [f32]) {
        let s = &self.sampling;
        for (&id, &count) in &self.counts {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            if *logit > 0.0 {
                *logit /= s.repetition_penalty;
            } else {
                *logit *= s.repetition_penalty;
            }
            if count > 0 {
                *logit -= s.frequency_penalty * count as f32 + s.presence_penalty;
            }
        }
        for &(id, bias) in &s.logit_bias {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit += bias;
            }
        }
    }

    /// Fills `candidates` with the tokens that pass top-k, top-p and min-p.
    fn collect(&mut self, logits: &[f32], largest: f32) {
        let s = &self.sampling;
        let all = (0..).zip(logits).map(|(id, &logit)| {
            let weight = if logit.is_nan() { 0.0 } else { ((logit - largest) / s.temperature).exp() };
            Candidate { id, weight }
        });
        self.candidates.clear();
        let top_k = s.top_k as usize;
        if top_k != 0 && top_k < logits.len() {
            collect_top_k(all, top_k, &mut self.candidates);
        } else {
            self.candidates.extend(all);
        }
        if s.top_p < 1.0 {
            keep_top_p(&mut self.candidates, s.top_p);
        }
        if s.min_p > 0.0 {
            self.candidates.retain(|c| c.weight >= s.min_p); // the likeliest has weight 1
        }
    }
}

/// The lowest id among the largest logits, and that logit; 0 and minus infinity if none is above it.
fn argmax(logits: &[f32]) -> (u32, f32) {
    let best = (0, f32::NEG_INFINITY);
    (0..).zip(logits).fold(best, |best, (id, &logit)| if logit > best.1 { (id, logit) } else { best })
}
