//! A model that follows a script: deterministic, as slow as a test wants, and able to fail on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use varve::model::tokenizer::{Tokenizer, Vocabulary};
use varve::model::{LanguageModel, ModelError};

/// Ids of the special tokens; every id below is the byte of that value.
pub const IM_START: u32 = 256;
pub const IM_END: u32 = 257;
pub const VOCAB: usize = 258;

/// What the model writes after a line break, token by token.
#[derive(Clone)]
pub enum Says {
    /// These bytes, then the end of the message.
    Text(&'static str),
    /// The alphabet, again and again.
    Alphabet,
}

/// The model. Prompts that contain `PANIC` or `NAN` make it fail.
#[derive(Clone)]
pub struct Script {
    pub says: Says,
    pub context: usize,
    /// Time that a call takes.
    pub delay: Duration,
    /// Calls so far.
    pub calls: Arc<AtomicUsize>,
}

impl Script {
    pub fn new(says: Says) -> Self {
        Self { says, context: 2_000, delay: Duration::ZERO, calls: Arc::default() }
    }

    pub fn slow(self, ms: u64) -> Self {
        Self { delay: Duration::from_millis(ms), ..self }
    }

    pub fn count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn next(&self, tokens: &[u32]) -> u32 {
        let written = tokens.iter().rev().take_while(|&&id| id != u32::from(b'\n')).count();
        match self.says {
            Says::Text(text) => text.as_bytes().get(written).map_or(IM_END, |&byte| byte.into()),
            Says::Alphabet => u32::from(b'a') + (written % 26) as u32,
        }
    }
}

impl LanguageModel for Script {
    type Sequence = Vec<u32>;

    fn context(&self) -> usize {
        self.context
    }

    fn vocab(&self) -> usize {
        VOCAB
    }

    fn sequence(&self) -> Result<Vec<u32>, ModelError> {
        Ok(Vec::new())
    }

    fn forward(&mut self, sequence: &mut Vec<u32>, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.delay);
        sequence.extend_from_slice(tokens);
        let contains =
            |word: &[u8]| sequence.windows(word.len()).any(|w| w.iter().zip(word).all(|(a, b)| *a == u32::from(*b)));
        assert!(!contains(b"PANIC"), "the script panics");
        if contains(b"NAN") {
            return Err(ModelError::NotFinite { position: sequence.len() - 1 });
        }
        let mut logits = vec![0.0; VOCAB];
        logits[self.next(sequence) as usize] = 10.0;
        Ok(logits)
    }
}

/// One token a byte, and the two tokens of chat templates.
pub fn tokenizer() -> Tokenizer {
    let mut next = 256;
    let mut tokens: Vec<String> = (0..=255u8)
        .map(|byte| {
            // The printable stand-ins of byte-level vocabularies: bytes without one are moved behind the last.
            let own = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
            let code = if own { u32::from(byte) } else { next };
            next += u32::from(!own);
            char::from_u32(code).unwrap().to_string()
        })
        .collect();
    tokens.extend(["<|im_start|>".to_owned(), "<|im_end|>".to_owned()]);
    let token_types = (0..VOCAB).map(|id| if id < 256 { 1 } else { 3 }).collect();
    let (model, pre) = ("gpt2".to_owned(), "qwen35".to_owned());
    Tokenizer::from_vocabulary(Vocabulary { model, pre, tokens, token_types, merges: Vec::new() }).unwrap()
}
