//! The layers of a model in order, and one pass of tokens through them.

use super::config::{Config, FeedForward, LayerKind};
use super::layers::attention::{Attention, AttentionScratch};
use super::layers::experts::{ExpertScratch, Experts};
use super::layers::gdn::{Gdn, GdnScratch};
use super::layers::mixer::{Mixer, MixerNames, MixerScratch};
use super::layers::mlp::{Mlp, MlpScratch};
use super::layers::ple::{Ple, PleScratch};
use super::products::{Into, products};
use super::rows::Rows;
use super::run::{Probe, Run};
use super::sequence::{MixerState, Sequence};
use super::weights::{Matrix, Names, Reader, Scope, Segment};
use super::{ModelError, OpenError};
use crate::backend::{BackendError, Buffer, Device};
use crate::ops::dense_embed::embed;
use crate::ops::hyper_expand::{ExpandArgs, expand};
use crate::ops::norm_rms::rms;

/// All weights of a model.
pub struct Graph {
    embedding: Segment,
    /// None where the embedding is the head.
    head: Option<Matrix>,
    last: Last,
    layers: Vec<Layer>,
}

/// What comes between the last layer and the head.
enum Last {
    /// The final mixer, of several streams.
    Mixer(Box<Mixer>),
    /// The final norm.
    Norm(Buffer<f32>),
}

struct Layer {
    ple: Option<(usize, Ple)>,
    before_mixer: Before,
    mixer: TokenMixer,
    before_feed_forward: Before,
    feed_forward: Feed,
}

/// What gives half a layer its input.
enum Before {
    /// A mixer of several streams.
    Mixer(Box<Mixer>),
    /// A norm of the one residual stream.
    Norm(Buffer<f32>),
}

enum TokenMixer {
    Gdn(Box<Gdn>),
    Attention(Box<Attention>),
}

enum Feed {
    Mlp(Box<Mlp>),
    Experts(Box<Experts>),
}

/// Memory of a pass.
pub struct Scratch {
    ids: Rows<u32>,
    embedded: Rows<f32>,
    /// The residual: all streams side by side.
    residual: Rows<f32>,
    /// Input and output of half a layer.
    x: Rows<f32>,
    y: Rows<f32>,
    mixer: Option<MixerScratch>,
    gdn: GdnScratch,
    attention: AttentionScratch,
    mlp: Option<MlpScratch>,
    experts: Option<ExpertScratch>,
    ple: Option<PleScratch>,
    logits: Rows<f32>,
}

impl Scratch {
    /// For passes of up to `tokens` tokens in sequences of up to `context`, with logits for up to `logits` tokens.
    pub fn new(
        device: &Device,
        c: &Config,
        tokens: usize,
        context: usize,
        logits: usize,
    ) -> Result<Self, BackendError> {
        let rows = |width| Rows::new(device, tokens, width);
        let (mlp, experts) = match &c.feed_forward {
            FeedForward::Dense { inner } => (Some(MlpScratch::new(device, *inner, tokens)?), None),
            FeedForward::Experts(sizes) => (None, Some(ExpertScratch::new(device, sizes, c.hidden, tokens)?)),
        };
        let mixer = c.streams.as_ref().map(|sizes| MixerScratch::new(device, sizes, c.hidden, tokens));
        let ple = c.ple.as_ref().map(|sizes| PleScratch::new(device, sizes, c.wide(), c.hidden, tokens));
        Ok(Self {
            ids: Rows::new(device, tokens, 1)?,
            embedded: rows(c.hidden)?,
            residual: rows(c.wide())?,
            x: rows(c.hidden)?,
            y: rows(c.hidden)?,
            mixer: mixer.transpose()?,
            gdn: GdnScratch::new(device, &c.gdn, tokens)?,
            attention: AttentionScratch::new(device, &c.attention, tokens, context)?,
            mlp,
            experts,
            ple: ple.transpose()?,
            logits: Rows::new(device, logits, c.vocab)?,
        })
    }
}

/// For which tokens of a pass logits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// None: a prompt goes on.
    None,
    /// The last.
    Last,
    /// All.
    All,
}

/// Names of a layer's mixer, by half.
fn mixer_names(half: usize) -> MixerNames {
    let names: [[Names; 4]; 2] = [
        [
            ("attn_hyper_connection.hc_norm.weight", "hc_attn_norm.weight"),
            ("attn_hyper_connection.input_mix_weight_down.weight", "hc_attn_down.weight"),
            ("attn_hyper_connection.input_mix_weight_up.weight", "hc_attn_up.weight"),
            ("attn_hyper_connection.block_inject_weight.weight", "hc_attn_inject.weight"),
        ],
        [
            ("mlp_hyper_connection.hc_norm.weight", "hc_ffn_norm.weight"),
            ("mlp_hyper_connection.input_mix_weight_down.weight", "hc_ffn_down.weight"),
            ("mlp_hyper_connection.input_mix_weight_up.weight", "hc_ffn_up.weight"),
            ("mlp_hyper_connection.block_inject_weight.weight", "hc_ffn_inject.weight"),
        ],
    ];
    let [norm, down, up, inject] = names[half];
    MixerNames { norm, down, up, inject: Some(inject) }
}

/// Names of a layer's norm where there is one stream, by half.
const NORMS: [Names; 2] =
    [("input_layernorm.weight", "attn_norm.weight"), ("post_attention_layernorm.weight", "post_attention_norm.weight")];

const MLP: [Names; 3] = [
    ("mlp.gate_proj.weight", "ffn_gate.weight"),
    ("mlp.up_proj.weight", "ffn_up.weight"),
    ("mlp.down_proj.weight", "ffn_down.weight"),
];

impl Graph {
    /// Reads all weights.
    pub fn load(reader: &Reader<'_>, config: &Config) -> Result<Self, OpenError> {
        let (top, hidden) = (reader.top(), config.hidden);
        let vocab = [config.vocab, hidden];
        let head = ("lm_head.weight", "output.weight");
        let last = match &config.streams {
            Some(sizes) => {
                let names = MixerNames {
                    norm: ("hyper_connection_mixer.hc_norm.weight", "output_hc_norm.weight"),
                    down: ("hyper_connection_mixer.input_mix_weight_down.weight", "output_hc_down.weight"),
                    up: ("hyper_connection_mixer.input_mix_weight_up.weight", "output_hc_up.weight"),
                    inject: None,
                };
                Last::Mixer(Box::new(Mixer::load(&top, &names, sizes, hidden)?))
            }
            None => Last::Norm(top.gain(("norm.weight", "output_norm.weight"), hidden)?),
        };
        Ok(Self {
            embedding: top.table(("embed_tokens.weight", "token_embd.weight"), vocab)?,
            head: if config.tied { None } else { Some(reader.bare().matrix(head, vocab)?) },
            last,
            layers: (0..config.layers.len()).map(|n| Layer::load(reader, config, n)).collect::<Result<_, _>>()?,
        })
    }

    /// Appends `tokens` to the sequence. Afterwards the first rows of the logits are those wanted.
    pub fn pass(
        &self,
        run: &Run<'_>,
        tokens: &[u32],
        sequence: &mut Sequence,
        s: &mut Scratch,
        (logits, probe): (Logits, &mut Probe),
    ) -> Result<(), ModelError> {
        let (n, pick, stream) = (run.tokens, run.pick(), run.stream);
        s.ids.write(tokens)?;
        s.attention.begin(run.rope.first, n)?;
        embed(pick, stream, &self.embedding.stored()?, &s.ids.line(n)?, &mut s.embedded.first_mut(n)?)?;
        probe.note_top("embed", &s.embedded, n)?;
        let streams = s.residual.width() / s.embedded.width();
        expand(pick, stream, ExpandArgs { h: s.embedded.first(n)?, streams, s: s.residual.first_mut(n)? })?;
        for (number, layer) in self.layers.iter().enumerate() {
            layer.forward(run, tokens, sequence, s, (number, probe))?;
            probe.note(number, "", &s.residual, n)?;
        }
        if logits != Logits::None {
            self.finish(run, s, logits, probe)?;
        }
        Ok(())
    }

    fn finish(&self, run: &Run<'_>, s: &mut Scratch, logits: Logits, probe: &mut Probe) -> Result<(), ModelError> {
        let n = run.tokens;
        match (&self.last, &mut s.mixer) {
            (Last::Mixer(mixer), Some(scratch)) => mixer.read(run, &s.residual, scratch, &mut s.x)?,
            (Last::Norm(gain), _) => norm(run, gain, &s.residual, &mut s.x)?,
            (Last::Mixer(_), None) => unreachable!("scratch memory was made for the same configuration"),
        }
        probe.note_top("final", &s.x, n)?;
        let head = self.head.as_ref().map_or(std::slice::from_ref(&self.embedding), Matrix::segments);
        let x = if logits == Logits::All { s.x.first(n)? } else { s.x.row(n - 1)? };
        let rows = if logits == Logits::All { n } else { 1 };
        products(run, &x, [(head, Into::Fresh, s.logits.first_mut(rows)?)])
    }

    /// The first rows of the logits, `[rows, vocab]`.
    pub fn logits(s: &Scratch, rows: usize) -> Result<Vec<f32>, BackendError> {
        s.logits.read(rows)
    }
}

fn norm(run: &Run<'_>, gain: &Buffer<f32>, x: &Rows<f32>, y: &mut Rows<f32>) -> Result<(), ModelError> {
    let (n, width) = (run.tokens, x.width());
    rms(run.pick(), run.stream, &x.first(n)?, &gain.view([width])?, (width, run.eps), &mut y.first_mut(n)?)?;
    Ok(())
}

impl Layer {
    fn load(reader: &Reader<'_>, config: &Config, number: usize) -> Result<Self, OpenError> {
        let (scope, hidden) = (reader.layer(number), config.hidden);
        let before = |half: usize| {
            Ok::<_, OpenError>(match &config.streams {
                Some(sizes) => Before::Mixer(Box::new(Mixer::load(&scope, &mixer_names(half), sizes, hidden)?)),
                None => Before::Norm(scope.gain(NORMS[half], hidden)?),
            })
        };
        Ok(Self {
            ple: Self::load_ple(&scope, config, number)?,
            before_mixer: before(0)?,
            mixer: match config.layers[number] {
                LayerKind::Gdn => TokenMixer::Gdn(Box::new(Gdn::load(&scope, &config.gdn, hidden)?)),
                LayerKind::Attention => {
                    TokenMixer::Attention(Box::new(Attention::load(&scope, &config.attention, hidden)?))
                }
            },
            before_feed_forward: before(1)?,
            feed_forward: match &config.feed_forward {
                FeedForward::Dense { inner } => Feed::Mlp(Box::new(Mlp::load(&scope, MLP, hidden, *inner)?)),
                FeedForward::Experts(sizes) => Feed::Experts(Box::new(Experts::load(&scope, sizes, hidden)?)),
            },
        })
    }

    fn load_ple(scope: &Scope<'_>, config: &Config, number: usize) -> Result<Option<(usize, Ple)>, OpenError> {
        let (Some(sizes), Some(streams)) = (&config.ple, &config.streams) else { return Ok(None) };
        let Some(index) = sizes.layers.iter().position(|&layer| layer == number) else { return Ok(None) };
        Ok(Some((index, Ple::load(scope, (config, sizes, streams), index)?)))
    }

    fn forward(
        &self,
        run: &Run<'_>,
        tokens: &[u32],
        sequence: &mut Sequence,
        s: &mut Scratch,
        (number, probe): (usize, &mut Probe),
    ) -> Result<(), ModelError> {
        let n = run.tokens;
        if let (Some((index, ple)), Some(scratch)) = (&self.ple, &mut s.ple) {
            probe.note(number, "ple.before", &s.residual, n)?;
            let state = &mut sequence.ple[*index];
            ple.forward(run, (&sequence.last, tokens), state, scratch, &mut s.residual)?;
            probe.note(number, "ple.after", &s.residual, n)?;
        }
        let into = self.before_mixer.read(run, s)?;
        probe.note(number, "mixed", &s.x, n)?;
        if let Some(mixer) = &s.mixer {
            probe.note(number, "low", &mixer.low, n)?;
        }
        let y = if into == Into::Residual { &mut s.residual } else { &mut s.y };
        match (&self.mixer, &mut sequence.mixers[number]) {
            (TokenMixer::Gdn(gdn), MixerState::Gdn(state)) => {
                gdn.forward(run, &s.x, state, &mut s.gdn, (into, y), (number, probe))?;
            }
            (TokenMixer::Attention(attention), MixerState::Attention(state)) => {
                attention.forward(run, &s.x, state, &mut s.attention, (into, y), (number, probe))?;
            }
            _ => unreachable!("the sequence was made for the same configuration"),
        }
        probe.note(number, "mixer", y, n)?;
        self.before_mixer.write_back(run, s)?;
        let into = self.before_feed_forward.read(run, s)?;
        match (&self.feed_forward, &mut s.mlp, &mut s.experts) {
            (Feed::Mlp(mlp), Some(scratch), _) => {
                let y = if into == Into::Residual { &mut s.residual } else { &mut s.y };
                mlp.forward(run, &s.x, scratch, (into, y))?;
            }
            (Feed::Experts(experts), _, Some(scratch)) => {
                experts.forward(run, &s.x, scratch, &mut s.y, (number, probe))?;
            }
            _ => unreachable!("scratch memory was made for the same configuration"),
        }
        self.before_feed_forward.write_back(run, s)
    }
}

impl Before {
    /// Fills the input of half a layer, and says where its output goes.
    fn read(&self, run: &Run<'_>, s: &mut Scratch) -> Result<Into, ModelError> {
        match (self, &mut s.mixer) {
            (Self::Mixer(mixer), Some(scratch)) => {
                mixer.read(run, &s.residual, scratch, &mut s.x)?;
                Ok(Into::Fresh)
            }
            (Self::Norm(gain), _) => {
                norm(run, gain, &s.residual, &mut s.x)?;
                Ok(Into::Residual)
            }
            (Self::Mixer(_), None) => unreachable!("scratch memory was made for the same configuration"),
        }
    }

    /// Brings a fresh output back to the streams; one that went into the residual is there already.
    fn write_back(&self, run: &Run<'_>, s: &mut Scratch) -> Result<(), ModelError> {
        match (self, &s.mixer) {
            (Self::Mixer(mixer), Some(scratch)) => mixer.write_back(run, &s.y, scratch, &mut s.residual),
            _ => Ok(()),
        }
    }
}
