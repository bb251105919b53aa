//! How tokens are chosen, and the ranges of its settings.

/// How the next token is chosen. The default is greedy: the token with the largest logit.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this, 0 to 2; 0 is greedy.
    pub temperature: f32,
    /// Only this many tokens with the largest logits; 0 is off, at most the vocabulary.
    pub top_k: u32,
    /// Only the likeliest tokens that together have this probability, above 0, at most 1; 1 is off.
    pub top_p: f32,
    /// Only tokens with this fraction of the likeliest one's probability, 0 to 1; 0 is off.
    pub min_p: f32,
    /// Tokens of prompt and reply: positive logits are divided by this, negative ones multiplied, above 0, at most 2;
    /// 1 is off.
    pub repetition_penalty: f32,
    /// Taken off the logit of each token that the reply has, -2 to 2.
    pub presence_penalty: f32,
    /// Taken off the logit of each token as often as the reply has it, -2 to 2.
    pub frequency_penalty: f32,
    /// Added to the logits of these ids, -100 to 100; an id that comes twice gets both.
    pub logit_bias: Vec<(u32, f32)>,
    /// Start of the random numbers: the same seed and logits give the same tokens.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// A setting outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A number out of range, or none.
    #[error("`{field}` is {value}; it must be {range}")]
    Range {
        /// The setting.
        field: &'static str,
        /// What it was.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// More candidates than there are tokens.
    #[error("`top_k` is {value}; it must be from 0 (off) to {vocab}, the size of the vocabulary")]
    TopK {
        /// What it was.
        value: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A bias for a token that does not exist.
    #[error("`logit_bias` names token {id}; ids must be below {vocab}")]
    BiasToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A bias out of range.
    #[error("`logit_bias` of token {id} is {value}; it must be from -100 to 100")]
    BiasValue {
        /// The id.
        id: u32,
        /// The bias.
        value: f32,
    },
}

impl Sampling {
    /// Checks every setting against its range, for a vocabulary of `vocab` ids.
    ///
    /// # Errors
    /// [`SamplingError`] names the first setting that is out of range.
    pub fn check(&self, vocab: usize) -> Result<(), SamplingError> {
        let range = |field, value: f32, fits: bool, range| {
            if fits { Ok(()) } else { Err(SamplingError::Range { field, value: f64::from(value), range }) }
        };
        let above_zero = |value: f32, high: f32| value > 0.0 && value <= high;
        let (temperature, top_p, min_p) = (self.temperature, self.top_p, self.min_p);
        range("temperature", temperature, (0.0..=2.0).contains(&temperature), "from 0 (greedy) to 2")?;
        range("top_p", top_p, above_zero(top_p, 1.0), "above 0, at most 1 (off)")?;
        range("min_p", min_p, (0.0..=1.0).contains(&min_p), "from 0 (off) to 1")?;
        let repetition = self.repetition_penalty;
        range("repetition_penalty", repetition, above_zero(repetition, 2.0), "above 0, at most 2; 1 is off")?;
        for (field, value) in
            [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)]
        {
            range(field, value, (-2.0..=2.0).contains(&value), "from -2 to 2; 0 is off")?;
        }
        if self.top_k as usize > vocab {
            return Err(SamplingError::TopK { value: self.top_k, vocab });
        }
        for &(id, value) in &self.logit_bias {
            if id as usize >= vocab {
                return Err(SamplingError::BiasToken { id, vocab });
            }
            if !(-100.0..=100.0).contains(&value) {
                return Err(SamplingError::BiasValue { id, value });
            }
        }
        Ok(())
    }
}
