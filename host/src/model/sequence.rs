//! What one sequence keeps between passes.
//!
//! | what | of each | type and shape |
//! |---|---|---|
//! | recurrent state | Gated DeltaNet layer | f32 `[128][value heads][128]` |
//! | convolution window | Gated DeltaNet layer | f32 `[3][channels]` |
//! | keys and values | attention layer | f32 `[context][kv heads * head dim]`, twice |
//! | block keys | attention layer with QSA | f32 `[context / ratio][index dim]` |
//! | raw index keys | attention layer with QSA | f32 `[ratio - 1][index dim]`, and the dead key |
//! | n-gram window | layer with an n-gram embedding | f32 `[(taps - 1) * longest n-gram][streams * hidden]` |
//! | last tokens | sequence | as many ids as an n-gram reaches back |
//!
//! All are f32, so that a pass adds nothing to the rounding of its own products. The fixed part cannot be cut back to
//! an earlier token; keys and values can.

use super::config::{Config, LayerKind};
use super::layers::attention::AttentionState;
use super::layers::gdn::GdnState;
use super::layers::ple::PleState;
use super::made_up::Numbers;
use crate::backend::{BackendError, Device};
use crate::ops::qsa_cells::CellKind;

/// The state of a sequence.
pub struct Sequence {
    /// Tokens so far.
    pub(super) position: usize,
    /// The last tokens, as many as an n-gram reaches back, oldest first.
    pub(super) last: Vec<u32>,
    pub(super) mixers: Vec<MixerState>,
    pub(super) ple: Vec<PleState>,
}

/// Of the token mixer of a layer.
pub(super) enum MixerState {
    /// Gated DeltaNet.
    Gdn(GdnState),
    /// Attention.
    Attention(AttentionState),
}

impl Sequence {
    pub(super) fn new(device: &Device, config: &Config, cells: CellKind, context: usize) -> Result<Self, BackendError> {
        let mixer = |kind: &LayerKind| {
            Ok(match kind {
                LayerKind::Gdn => MixerState::Gdn(GdnState::new(device, &config.gdn)?),
                LayerKind::Attention => {
                    MixerState::Attention(AttentionState::new(device, &config.attention, cells, context)?)
                }
            })
        };
        let ple = |sizes| PleState::new(device, sizes, config.wide());
        let ple = config.ple.iter().flat_map(|sizes| sizes.layers.iter().map(move |_| ple(sizes)));
        Ok(Self {
            position: 0,
            last: Vec::new(),
            mixers: config.layers.iter().map(mixer).collect::<Result<_, BackendError>>()?,
            ple: ple.collect::<Result<_, _>>()?,
        })
    }

    /// Goes on behind `depth` tokens that nobody has seen: random numbers in all state.
    pub(super) fn make_up(&mut self, depth: usize) -> Result<(), BackendError> {
        let numbers = &mut Numbers::new();
        self.position = depth;
        for mixer in &mut self.mixers {
            match mixer {
                MixerState::Gdn(state) => {
                    numbers.fill(&mut state.state, |x| 0.1 * x)?;
                    numbers.fill_rows(&mut state.window)?;
                }
                MixerState::Attention(state) => state.make_up(numbers)?,
            }
        }
        self.ple.iter_mut().try_for_each(|state| numbers.fill_rows(&mut state.window))
    }

    /// Tokens so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}
