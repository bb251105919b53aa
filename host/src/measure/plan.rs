//! Which cases a family is measured on: small ones on the emulator, the model's on a card.

use varve_gpu::mmvq::Format;

use super::attend::{Attend, AttendCase};
use super::case::{MeasureError, Prepared};
use super::dequantize::{Dequantize, DequantizeCase};
use super::mmvq::{InL2, Mmvq, MmvqCase};
use super::product::{Product, ProductCase};
use super::scores::{Scores, ScoresCase};
use super::topk::{Topk, TopkCase};
use super::{commit::Commit, out_norm::OutNorm, plan_qsa, prompt::Prompt, window::Window};
use crate::backend::Device;
use crate::ops::DeltaSizes;
use crate::ops::delta_commit::DELTA_COMMIT;
use crate::ops::delta_out_norm::DELTA_OUT_NORM;
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::dense_dequantize::DENSE_DEQUANTIZE;
use crate::ops::dense_product::DENSE_PRODUCT;
use crate::ops::mmvq_product::MMVQ_PRODUCT;
use crate::ops::qsa_attend::QSA_ATTEND;
use crate::ops::qsa_scores::QSA_SCORES;
use crate::ops::qsa_topk::QSA_TOPK;
use crate::ops::weights::Kind;

/// Copies of the state that the L2 of no card holds: 40 times 3.1 MB.
const ROTATING: usize = 40;

/// A case that is not set up yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Planned {
    /// `delta.rec` over a prompt.
    Prompt(DeltaSizes),
    /// `delta.rec` over several sequences at once: key heads and value heads, tokens of each.
    Batch([usize; 2], &'static [usize]),
    /// `delta.rec` over a window: states in rotation, and whether they are written.
    Window(DeltaSizes, usize, StateAfter),
    /// `delta.commit`: states in rotation.
    Commit(DeltaSizes, usize),
    /// `delta.out_norm`: value heads, tokens.
    OutNorm(usize, usize),
    /// `dense.product`.
    Product(ProductCase),
    /// `dense.dequantize`.
    Dequantize(DequantizeCase),
    /// `mmvq.product`.
    Mmvq(MmvqCase),
    /// `qsa.topk`.
    Topk(TopkCase),
    /// `qsa.attend`.
    Attend(AttendCase),
    /// `qsa.scores`.
    Scores(ScoresCase),
}

impl Planned {
    /// Operation.
    pub fn op(&self) -> &'static str {
        match self {
            Self::Prompt(_) | Self::Batch(..) | Self::Window(..) => DELTA_REC.op,
            Self::Commit(..) => DELTA_COMMIT.op,
            Self::OutNorm(..) => DELTA_OUT_NORM.op,
            Self::Product(_) => DENSE_PRODUCT.op,
            Self::Dequantize(_) => DENSE_DEQUANTIZE.op,
            Self::Mmvq(_) => MMVQ_PRODUCT.op,
            Self::Topk(_) => QSA_TOPK.op,
            Self::Attend(_) => QSA_ATTEND.op,
            Self::Scores(_) => QSA_SCORES.op,
        }
    }

    /// Base variant of the operation.
    pub fn base(&self) -> &'static str {
        match self {
            Self::Prompt(_) | Self::Batch(..) | Self::Window(..) => DELTA_REC.base().name,
            Self::Commit(..) => DELTA_COMMIT.base().name,
            Self::OutNorm(..) => DELTA_OUT_NORM.base().name,
            Self::Product(_) => DENSE_PRODUCT.base().name,
            Self::Dequantize(_) => DENSE_DEQUANTIZE.base().name,
            Self::Mmvq(_) => MMVQ_PRODUCT.base().name,
            Self::Topk(_) => QSA_TOPK.base().name,
            Self::Attend(_) => QSA_ATTEND.base().name,
            Self::Scores(_) => QSA_SCORES.base().name,
        }
    }

    /// Sets the case up with the variants that `wanted` names, all if empty.
    ///
    /// # Errors
    /// [`MeasureError`] of the case.
    pub fn prepare(self, device: &Device, wanted: &[String]) -> Result<Box<dyn Prepared>, MeasureError> {
        Ok(match self {
            Self::Prompt(sizes) => Box::new(Prompt::new(device, sizes, wanted)?),
            Self::Batch(heads, lengths) => Box::new(Prompt::batch(device, heads, lengths, wanted)?),
            Self::Window(sizes, states, after) => Box::new(Window::new(device, sizes, states, after, wanted)?),
            Self::Commit(sizes, states) => Box::new(Commit::new(device, sizes, states)?),
            Self::OutNorm(heads, tokens) => Box::new(OutNorm::new(device, heads, tokens, wanted)?),
            Self::Product(sizes) => Box::new(Product::new(device, sizes, wanted)?),
            Self::Dequantize(sizes) => Box::new(Dequantize::new(device, sizes, wanted)?),
            Self::Mmvq(sizes) => Box::new(Mmvq::new(device, sizes, wanted)?),
            Self::Topk(sizes) => Box::new(Topk::new(device, sizes, wanted)?),
            Self::Attend(sizes) => Box::new(Attend::new(device, sizes, wanted)?),
            Self::Scores(sizes) => Box::new(Scores::new(device, sizes, wanted)?),
        })
    }
}

/// The plan of family `delta`; `tokens` replaces its token counts where it is not empty, `heads` its key and value heads.
pub fn delta(device: &Device, tokens: &[usize], heads: Option<[usize; 2]>) -> Vec<Planned> {
    let emulated = device.caps().is_emulator;
    let [key_heads, value_heads] = heads.unwrap_or(if emulated { [1, 3] } else { [16, 48] });
    let rotating = if emulated { 2 } else { ROTATING };
    let sizes = |tokens| DeltaSizes::single(key_heads, value_heads, tokens);
    let chosen = |all: &[usize]| if tokens.is_empty() { all.to_vec() } else { tokens.to_vec() };
    let prompts: &[usize] = if emulated { &[33] } else { &[32, 64, 96, 128, 192, 256, 512, 1024, 2048, 8192, 32768] };
    let windows: &[usize] = if emulated { &[1, 8] } else { &[1, 2, 3, 4, 6, 8] };
    let norms: &[usize] = if emulated { &[8] } else { &[1, 8, 2048, 8192] };
    let mut plan: Vec<_> = chosen(prompts).into_iter().filter(|&n| n > 8).map(|n| Planned::Prompt(sizes(n))).collect();
    if tokens.is_empty() {
        let batches: &[&[usize]] = if emulated { &[&[9, 3, 21]] } else { &[&[200, 1000, 500], &[512; 8]] };
        plan.extend(batches.iter().map(|&lengths| Planned::Batch([key_heads, value_heads], lengths)));
    }
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

/// Families that have a plan.
pub const FAMILIES: [&str; 4] = ["delta", "dense", "mmvq", "qsa"];

/// The plan of a family by name, as [`delta`]; the other ones have head counts of their own.
pub fn family(name: &str, device: &Device, tokens: &[usize], heads: Option<[usize; 2]>) -> Option<Vec<Planned>> {
    match name {
        "delta" => Some(delta(device, tokens, heads)),
        "dense" => Some(dense(device, tokens)),
        "mmvq" => Some(mmvq(device, tokens)),
        "qsa" => Some(plan_qsa::qsa(device, tokens)),
        _ => None,
    }
}

/// The plan of family `mmvq`: matrices of Qwen3.8-Flash-Next in the formats that its files have, cold, and those that other
/// engines are read on warm too.
pub fn mmvq(device: &Device, columns: &[usize]) -> Vec<Planned> {
    let emulated = device.caps().is_emulator;
    let counts = vector_counts(emulated, columns);
    let case = |format, [n_in, n_out]: [usize; 2], columns, is_cold| {
        let in_l2 = if is_cold { InL2::Cold } else { InL2::Warm };
        Planned::Mmvq(MmvqCase { format, n_in, n_out, columns, in_l2 })
    };
    if emulated {
        let of = |format| counts.iter().map(move |&n| case(format, [512, 64], n, n == 1));
        return Format::ALL.into_iter().flat_map(of).collect();
    }
    let mut plan = Vec::new();
    for (format, shapes) in MMVQ_SHAPES {
        for &shape in shapes {
            for &n in &counts {
                plan.push(case(format, shape, n, true));
                if n == 1 {
                    plan.push(case(format, shape, n, false));
                }
            }
        }
    }
    plan
}

/// Matrices that are named, each in the named states of the L2; without names the model's, cold.
pub fn mmvq_of(device: &Device, columns: &[usize], matrices: &[Matrix], states: &[InL2]) -> Vec<Planned> {
    let counts = vector_counts(device.caps().is_emulator, columns);
    let own = || MMVQ_SHAPES.iter().flat_map(|(format, shapes)| shapes.iter().map(|&shape| (*format, shape)));
    let matrices: Vec<Matrix> = if matrices.is_empty() { own().collect() } else { matrices.to_vec() };
    let states = if states.is_empty() { &[InL2::Cold] } else { states };
    let mut plan = Vec::new();
    for (format, [n_in, n_out]) in matrices {
        for &columns in &counts {
            let case = |&in_l2| Planned::Mmvq(MmvqCase { format, n_in, n_out, columns, in_l2 });
            plan.extend(states.iter().map(case));
        }
    }
    plan
}

/// Format, columns and rows of a quantized matrix.
pub type Matrix = (Format, [usize; 2]);

fn vector_counts(emulated: bool, wanted: &[usize]) -> Vec<usize> {
    let usual: &[usize] = if emulated { &[1, 3] } else { &[1, 2, 3, 4, 5, 8] };
    let counts = if wanted.is_empty() { usual } else { wanted };
    counts.iter().copied().filter(|n| (1..=8).contains(n)).collect()
}

/// Columns and rows of the matrices that a format is measured on.
const MMVQ_SHAPES: [(Format, &[[usize; 2]]); 7] = [
    (Format::Q6_K, &[[2560, 10_240], [2560, 6144], [6144, 2560], [2560, 512], [2560, 248_320]]),
    (Format::Q5_K, &[[2560, 10_240], [2560, 6144], [6144, 2560]]),
    (Format::Q4_K, &[[2560, 10_240], [2560, 6144], [6144, 2560]]),
    (Format::IQ4_XS, &[[2560, 10_240], [2560, 6144], [6144, 2560]]),
    (Format::Q3_K, &[[2560, 10_240]]),
    (Format::Q8_0, &[[2560, 10_240]]),
    (Format::IQ3_S, &[[2560, 10_240]]),
];

/// The plan of family `dense`: the largest matrices of Qwen3.8-Flash-Next outside its experts, and its narrow one, in bf16 and,
/// for prompts, in f16; without token counts also the largest in blocks of each format, expanded.
pub fn dense(device: &Device, tokens: &[usize]) -> Vec<Planned> {
    let emulated = device.caps().is_emulator;
    let shapes: &[[usize; 2]] =
        if emulated { &[[64, 256]] } else { &[[10_240, 2560], [2560, 6144], [6144, 2560], [324, 10_240]] };
    let counts: &[usize] = if emulated { &[1, 8] } else { &[1, 2, 8, 16, 32, 64, 128, 512, 2048] };
    let counts = if tokens.is_empty() { counts } else { tokens };
    let matrices = if emulated { 2 } else { 8 };
    let mut products = Vec::new();
    for &[n_out, n_in] in shapes {
        for &tokens in counts.iter().filter(|&&n| n > 0) {
            let kinds: &[Kind] = if tokens > 8 { &[Kind::Bf16, Kind::F16] } else { &[Kind::Bf16] };
            let case = |&kind| Planned::Product(ProductCase { tokens, n_out, n_in, kind, matrices });
            products.extend(kinds.iter().map(case));
        }
    }
    let [n_out, n_in] = if emulated { [8, 256] } else { [10_240, 2560] };
    let formats = if tokens.is_empty() { &Format::ALL[..] } else { &[] };
    let expanded = formats.iter().map(|&format| Planned::Dequantize(DequantizeCase { format, n_out, n_in, matrices }));
    products.into_iter().chain(expanded).collect()
}
