//! Which cases a family is measured on: small ones on the emulator, the model's on a card.

use super::case::{MeasureError, Prepared};
use super::{commit::Commit, out_norm::OutNorm, prompt::Prompt, window::Window};
use crate::backend::Device;
use crate::ops::DeltaSizes;
use crate::ops::delta_commit::DELTA_COMMIT;
use crate::ops::delta_out_norm::DELTA_OUT_NORM;
use crate::ops::delta_rec::{DELTA_REC, StateAfter};

/// Copies of the state that the L2 of no card holds: 40 times 3.1 MB.
const ROTATING: usize = 40;

/// A case that is not set up yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Planned {
    /// `delta.rec` over a prompt.
    Prompt(DeltaSizes),
    /// `delta.rec` over a window: states in rotation, and whether they are written.
    Window(DeltaSizes, usize, StateAfter),
    /// `delta.commit`: states in rotation.
    Commit(DeltaSizes, usize),
    /// `delta.out_norm`: value heads, tokens.
    OutNorm(usize, usize),
}

impl Planned {
    /// Operation.
    pub fn op(&self) -> &'static str {
        match self {
            Self::Prompt(_) | Self::Window(..) => DELTA_REC.op,
            Self::Commit(..) => DELTA_COMMIT.op,
            Self::OutNorm(..) => DELTA_OUT_NORM.op,
        }
    }

    /// Base variant of the operation.
    pub fn base(&self) -> &'static str {
        match self {
            Self::Prompt(_) | Self::Window(..) => DELTA_REC.base().name,
            Self::Commit(..) => DELTA_COMMIT.base().name,
            Self::OutNorm(..) => DELTA_OUT_NORM.base().name,
        }
    }

    /// Sets the case up with the variants that `wanted` names, all if empty.
    ///
    /// # Errors
    /// [`MeasureError`] of the case.
    pub fn prepare(self, device: &Device, wanted: &[String]) -> Result<Box<dyn Prepared>, MeasureError> {
        Ok(match self {
            Self::Prompt(sizes) => Box::new(Prompt::new(device, sizes, wanted)?),
            Self::Window(sizes, states, after) => Box::new(Window::new(device, sizes, states, after, wanted)?),
            Self::Commit(sizes, states) => Box::new(Commit::new(device, sizes, states)?),
            Self::OutNorm(heads, tokens) => Box::new(OutNorm::new(device, heads, tokens, wanted)?),
        })
    }
}

/// The plan of family `delta`; `tokens` replaces its token counts where it is not empty.
pub fn delta(device: &Device, tokens: &[usize]) -> Vec<Planned> {
    let emulated = device.caps().is_emulator;
    let (key_heads, value_heads) = if emulated { (1, 3) } else { (16, 48) };
    let rotating = if emulated { 2 } else { ROTATING };
    let sizes = |tokens| DeltaSizes { key_heads, value_heads, tokens };
    let chosen = |all: &[usize]| if tokens.is_empty() { all.to_vec() } else { tokens.to_vec() };
    let prompts: &[usize] = if emulated { &[33] } else { &[32, 64, 96, 128, 192, 256, 512, 1024, 2048, 8192, 32768] };
    let windows: &[usize] = if emulated { &[1, 8] } else { &[1, 2, 3, 4, 6, 8] };
    let norms: &[usize] = if emulated { &[8] } else { &[1, 8, 2048, 8192] };
    let mut plan: Vec<_> = chosen(prompts).into_iter().filter(|&n| n > 8).map(|n| Planned::Prompt(sizes(n))).collect();
    for n in chosen(windows).into_iter().filter(|n| (1..=8).contains(n)) {
        for (states, after) in [(1, StateAfter::Updated), (rotating, StateAfter::Updated), (rotating, StateAfter::Kept)]
        {
            plan.push(Planned::Window(sizes(n), states, after));
        }
        plan.push(Planned::Commit(sizes(n), rotating));
    }
    plan.extend(chosen(norms).into_iter().filter(|&n| n > 0).map(|n| Planned::OutNorm(value_heads, n)));
    plan
}
