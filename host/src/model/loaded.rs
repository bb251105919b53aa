//! A model on a device, ready to run.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::config::Config;
use super::graph::{Graph, Logits, Scratch};
use super::products::ProductScratch;
use super::profiled::Profiled;
use super::rope::Rope;
use super::run::{Probe, Run};
use super::weights::Reader;
use super::{Checkpoint, LanguageModel, ModelError, OpenError, Sequence};
use crate::backend::{Device, Stream};
use crate::ops::dense_product::{DENSE_PRODUCT, MMA};
use crate::ops::dispatch::Dispatch;
use crate::ops::qsa_cells::CellKind;
use crate::ops::switches::Switches;

/// How a model is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Most tokens of a sequence; `None` is what the model was made for, or [`DEFAULT_CONTEXT`] if that is more.
    pub context: Option<usize>,
    /// Most tokens of a pass, up to [`MAX_CHUNK`]: a longer prompt takes several.
    pub chunk: usize,
    /// Which variants may run.
    pub switches: Switches,
    /// Products round neither vectors nor weights: the bits of a model whose weights are expanded to f32, but slow where a pass
    /// has few tokens, and without tensor cores where it has many.
    pub exact_products: bool,
    /// Format of keys and values in layers that choose cells. Other attention layers keep f32.
    pub cells: CellKind,
    /// Every sequence begins behind this many made-up tokens: to measure at a depth, not to read. The context may then be
    /// longer than the model was made for.
    pub made_up: usize,
}

/// Tokens of a sequence where nobody says otherwise: keys and values are allocated in full.
pub const DEFAULT_CONTEXT: usize = 4096;
/// Tokens of a pass where nobody says otherwise.
pub const DEFAULT_CHUNK: usize = 512;
/// Most tokens of a pass: with 31 experts a token their pairs still fit on one axis of a grid.
pub const MAX_CHUNK: usize = 2048;

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            context: None,
            chunk: DEFAULT_CHUNK,
            switches: Switches::default(),
            exact_products: false,
            cells: CellKind::F16,
            made_up: 0,
        }
    }
}

/// A model.
pub struct Model {
    config: Config,
    context: usize,
    chunk: usize,
    device: Device,
    stream: Stream,
    dispatch: Dispatch,
    rope: Rope,
    graph: Graph,
    /// `None` only while a pass uses it.
    scratch: Option<Scratch>,
    products: RefCell<ProductScratch>,
    matrix_bytes: u64,
    profiled: Option<Arc<Profiled>>,
    cells: CellKind,
    made_up: usize,
}

impl Model {
    /// Checks the checkpoint against its configuration, then copies its weights to the device. `progress` is told the
    /// bytes read so far and in all.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was copied unless the device failed.
    pub fn load(
        checkpoint: &Checkpoint,
        device: &Device,
        options: &LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, OpenError> {
        let config = Config::read(checkpoint)?;
        let usual = || config.context.min(DEFAULT_CONTEXT) + options.made_up;
        let context = options.context.unwrap_or_else(usual);
        if options.made_up == 0 && !(1..=config.context).contains(&context) {
            let (got, rule) = (context.to_string(), format!("the model was made for 1 to {}", config.context));
            return Err(OpenError::Config { file: checkpoint.name(), key: "context".into(), got, rule });
        }
        let dry = Reader::new(checkpoint, device, true, &|_| ());
        Graph::load(&dry, &config)?;
        dry.finish(config.layers.len())?;
        let total = checkpoint.tensors().map(|tensor| tensor.n_bytes() as u64).sum();
        let (done, progress) = (Cell::new(0u64), RefCell::new(progress));
        let count = |bytes: u64| {
            done.set(done.get() + bytes);
            (progress.borrow_mut())(done.get(), total);
        };
        let reader = Reader::new(checkpoint, device, false, &count);
        let graph = Graph::load(&reader, &config)?;
        let products = ProductScratch::new(device, reader.extent(), options.exact_products)?;
        let matrix_bytes = reader.bytes();
        let mut switches = options.switches.clone();
        if options.exact_products {
            switches = switches.without(DENSE_PRODUCT.op, MMA);
        }
        let chunk = options.chunk.clamp(1, context.min(MAX_CHUNK));
        Ok(Self {
            rope: Rope::new(device, &config.attention, context)?,
            scratch: Some(Scratch::new(device, &config, chunk, context, 1)?),
            stream: device.stream()?,
            dispatch: Dispatch::new(switches),
            device: device.clone(),
            config,
            context,
            chunk,
            graph,
            products: RefCell::new(products),
            matrix_bytes,
            profiled: None,
            cells: options.cells,
            made_up: options.made_up,
        })
    }

    /// Sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Times the launches of every pass from now on.
    pub fn profile(&mut self) -> Arc<Profiled> {
        let profiled = Arc::new(Profiled::new(&self.device));
        self.stream.set_profile(profiled.profile());
        self.profiled = Some(profiled.clone());
        profiled
    }

    /// Memory of its matrices and tables on the device.
    #[must_use]
    pub fn matrix_bytes(&self) -> u64 {
        self.matrix_bytes
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Appends `tokens` and returns the logits after each, `[tokens, vocab]`, while `probe` watches.
    ///
    /// # Errors
    /// As [`LanguageModel::forward`].
    pub fn forward_all(
        &mut self,
        sequence: &mut Sequence,
        tokens: &[u32],
        probe: &mut Probe,
    ) -> Result<Vec<f32>, ModelError> {
        self.check(sequence, tokens)?;
        let mut scratch = Scratch::new(&self.device, &self.config, self.chunk, self.context, self.chunk)?;
        let mut logits = Vec::with_capacity(tokens.len() * self.config.vocab);
        for chunk in tokens.chunks(self.chunk) {
            self.pass(sequence, chunk, &mut scratch, (Logits::All, probe))?;
            logits.extend(Graph::logits(&scratch, chunk.len())?);
        }
        Ok(logits)
    }

    fn check(&self, sequence: &Sequence, tokens: &[u32]) -> Result<(), ModelError> {
        if tokens.is_empty() {
            return Err(ModelError::Empty);
        }
        let asked = sequence.position + tokens.len();
        if asked > self.context {
            return Err(ModelError::Context { asked, limit: self.context });
        }
        let vocab = self.config.vocab;
        match tokens.iter().find(|&&id| id as usize >= vocab) {
            Some(&id) => Err(ModelError::Token { id, vocab }),
            None => Ok(()),
        }
    }

    fn pass(
        &self,
        sequence: &mut Sequence,
        tokens: &[u32],
        scratch: &mut Scratch,
        (logits, probe): (Logits, &mut Probe),
    ) -> Result<(), ModelError> {
        let run = Run {
            stream: &self.stream,
            dispatch: &self.dispatch,
            tokens: tokens.len(),
            rope: self.rope.from(sequence.position)?,
            eps: self.config.eps,
            products: &self.products,
        };
        self.graph.pass(&run, tokens, sequence, scratch, (logits, probe))?;
        if let Some(profiled) = &self.profiled {
            profiled.end_pass(tokens.len())?;
        }
        sequence.position += tokens.len();
        let reach = self.config.ple.as_ref().map_or(0, |ple| ple.ngram - 1);
        sequence.last.extend(tokens);
        let older = sequence.last.len().saturating_sub(reach);
        sequence.last.drain(..older);
        Ok(())
    }
}

impl LanguageModel for Model {
    type Sequence = Sequence;

    fn context(&self) -> usize {
        self.context
    }

    fn vocab(&self) -> usize {
        self.config.vocab
    }

    fn sequence(&self) -> Result<Sequence, ModelError> {
        let mut sequence = Sequence::new(&self.device, &self.config, self.cells, self.context)?;
        if self.made_up > 0 {
            sequence.make_up(self.made_up)?;
        }
        Ok(sequence)
    }

    fn forward(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.check(sequence, tokens)?;
        let mut scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::new(&self.device, &self.config, self.chunk, self.context, 1)?,
        };
        let chunks = tokens.len().div_ceil(self.chunk);
        let passes = tokens.chunks(self.chunk).enumerate().try_for_each(|(i, chunk)| {
            let logits = if i + 1 == chunks { Logits::Last } else { Logits::None };
            self.pass(sequence, chunk, &mut scratch, (logits, &mut Probe::none()))
        });
        let logits = passes.and_then(|()| Ok(Graph::logits(&scratch, 1)?));
        self.scratch = Some(scratch);
        let logits = logits?;
        if logits.iter().any(|v| !v.is_finite()) {
            return Err(ModelError::NotFinite { position: sequence.position - 1 });
        }
        Ok(logits)
    }
}
