//! A model as the command line names it: its files, its text side, and its weights on the device.

use std::path::PathBuf;
use std::sync::Arc;

use super::{CliError, Global, progress};
use crate::model::template::ChatTemplate;
use crate::model::tokenizer::Tokenizer;
use crate::model::{self, Checkpoint, LanguageModel, LoadOptions, Model};
use crate::ops::qsa_cells::CellKind;
use crate::server::Chat;

/// What commands that run a model take.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// A folder of safetensors, a .safetensors file, or a .gguf file; without it the small model in the program
    model: Option<PathBuf>,
    /// Most tokens of prompt and reply together; without it what the model was made for, up to 4096
    #[arg(long, value_name = "TOKENS")]
    ctx: Option<usize>,
    /// Tokens of a prompt that are computed in one pass, up to 2048
    #[arg(long, value_name = "TOKENS", default_value_t = model::DEFAULT_CHUNK)]
    pub chunk: usize,
    /// Multiply without rounding vectors to 8 bits or weights to f16, and without tensor cores: slower, and the same bits
    /// however a prompt is cut into passes
    #[arg(long)]
    exact_products: bool,
    /// Format of keys and values where attention chooses among the tokens (QSA); other layers keep f32
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Cells::F16)]
    kv: Cells,
}

/// Formats of keys and values.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Cells {
    /// 4 bytes a value: nothing is rounded
    F32,
    /// 2 bytes a value
    F16,
    /// 1 byte a value, and a scale for each 64
    Int8,
}

impl From<Cells> for CellKind {
    fn from(cells: Cells) -> Self {
        match cells {
            Cells::F32 => Self::F32,
            Cells::F16 => Self::F16,
            Cells::Int8 => Self::I8,
        }
    }
}

/// The text side of a model.
pub struct Text {
    pub tokenizer: Arc<Tokenizer>,
    pub chat: Option<Chat>,
    /// Tokens that end a reply.
    pub stop_ids: Vec<u32>,
}

impl ModelArgs {
    /// Opens and checks the files.
    pub fn checkpoint(&self) -> Result<Checkpoint, CliError> {
        if self.ctx == Some(0) {
            return Err(CliError::Usage("--ctx needs at least one token".into()));
        }
        if !(1..=model::MAX_CHUNK).contains(&self.chunk) {
            let most = model::MAX_CHUNK;
            return Err(CliError::Usage(format!("--chunk is {}; a pass has 1 to {most} tokens", self.chunk)));
        }
        match &self.model {
            Some(path) => Checkpoint::open(path).map_err(CliError::failed),
            None => model::boxed().map_err(CliError::failed),
        }
    }

    /// Copies the weights to the device that `global` names, with a bar, and reads the text side. Sequences begin behind
    /// `made_up` made-up tokens.
    pub fn load(&self, global: &Global, checkpoint: &Checkpoint, made_up: usize) -> Result<(Model, Text), CliError> {
        let device = global.open()?;
        let options = LoadOptions {
            context: self.ctx,
            chunk: self.chunk,
            switches: global.switches()?,
            exact_products: self.exact_products,
            cells: self.kv.into(),
            made_up,
        };
        let bar = progress::bytes(global.json);
        let mut told = |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        };
        let model = Model::load(checkpoint, &device, &options, &mut told).map_err(CliError::failed);
        bar.finish_and_clear();
        let model = model?;
        let text = text(checkpoint, model.vocab())?;
        Ok((model, text))
    }
}

fn text(checkpoint: &Checkpoint, vocab: usize) -> Result<Text, CliError> {
    let model::Text { tokenizer, template, stop_ids } =
        model::Text::load(checkpoint, vocab).map_err(CliError::failed)?;
    let template = template.map(|source| ChatTemplate::new(&source)).transpose();
    let template = template.map_err(|error| CliError::Failed(format!("{}: {error}", checkpoint.name())))?;
    let chat = template.map(|template| Chat::new(template, &tokenizer, None, stop_ids.first().copied()));
    Ok(Text { chat, tokenizer: Arc::new(tokenizer), stop_ids })
}

/// Number of weights.
pub fn parameters(checkpoint: &Checkpoint) -> u64 {
    checkpoint.tensors().map(|tensor| tensor.n_elements() as u64).sum()
}
