//! `varve info --dispatch`: each operation's table for a device, the row that runs, and why each other one does not.

use serde::Serialize;
use varve_gpu::mmvq::Format;

use super::{CliError, Global};
use crate::backend::{known_card, known_cards};
use crate::ops::attn_norm_rope::{ATTN_NORM_ROPE, NormRopeSizes};
use crate::ops::attn_softmax::{ATTN_SOFTMAX, SoftmaxSizes};
use crate::ops::card::Card;
use crate::ops::conv_window::CONV_WINDOW;
use crate::ops::delta_commit::DELTA_COMMIT;
use crate::ops::delta_conv::{ConvSizes, DELTA_CONV};
use crate::ops::delta_gated_norm::{DELTA_GATED_NORM, GatedNormSizes};
use crate::ops::delta_gates::{DELTA_GATES, GatesSizes};
use crate::ops::delta_out_norm::{DELTA_OUT_NORM, OutNormSizes, OutputGate};
use crate::ops::delta_rec::DELTA_REC;
use crate::ops::dense_dequantize::{DENSE_DEQUANTIZE, DequantizeSizes};
use crate::ops::dense_embed::{DENSE_EMBED, EmbedSizes};
use crate::ops::dense_product::{DENSE_PRODUCT, ProductSizes};
use crate::ops::dispatch::{Dispatch, Pick, Table, Target};
use crate::ops::hyper_expand::HYPER_EXPAND;
use crate::ops::hyper_mix::HYPER_MIX;
use crate::ops::hyper_squeeze::HYPER_SQUEEZE;
use crate::ops::hyper_write::HYPER_WRITE;
use crate::ops::mmvq_product::{MMVQ_PRODUCT, QuantizedProductSizes};
use crate::ops::mmvq_quantize::{MMVQ_QUANTIZE, QuantizeSizes};
use crate::ops::moe_combine::MOE_COMBINE;
use crate::ops::moe_plan::{MOE_PLAN, PlanSizes};
use crate::ops::moe_product::{ExpertProductSizes, MOE_PRODUCT};
use crate::ops::moe_router::{MOE_ROUTER, RouterSizes};
use crate::ops::moe_silu_mul::MOE_SILU_MUL;
use crate::ops::norm_rms::{NORM_RMS, RmsSizes};
use crate::ops::ple_conv::PLE_CONV;
use crate::ops::ple_gate::{GateSizes, PLE_GATE};
use crate::ops::qsa_append::{AppendSizes, QSA_APPEND};
use crate::ops::qsa_attend::{AttendSizes, QSA_ATTEND};
use crate::ops::qsa_cells::CellKind;
use crate::ops::qsa_scores::{QSA_SCORES, ScoresSizes};
use crate::ops::qsa_store::{QSA_STORE, StoreSizes};
use crate::ops::qsa_topk::{QSA_TOPK, TopkSizes};
use crate::ops::weights::Kind;
use crate::ops::{DeltaSizes, QuadSizes};

/// Sizes and device that `--dispatch` explains.
#[derive(Debug, clap::Args)]
pub struct Explain {
    /// Explain which variant of each operation runs, and why each other one does not
    #[arg(long)]
    pub dispatch: bool,
    /// Tokens of the call to explain; without it a prompt and a decode window are shown
    #[arg(long, requires = "dispatch")]
    tokens: Option<usize>,
    /// Key heads of the call to explain
    #[arg(long, requires = "dispatch", default_value_t = 16)]
    key_heads: usize,
    /// Value heads of the call to explain, a multiple of the key heads
    #[arg(long, requires = "dispatch", default_value_t = 48)]
    value_heads: usize,
    /// Explain for a known card instead of a device, for example "RTX 4090"
    #[arg(long, requires = "dispatch")]
    card: Option<String>,
}

/// One variant of one operation.
#[derive(Serialize)]
struct Row<'a> {
    op: &'a str,
    variant: &'a str,
    tokens: usize,
    chosen: bool,
    exactness: &'a str,
    kernel: Option<&'a str>,
    reason: Option<String>,
}

/// Runs the command.
pub fn run(global: &Global, args: &Explain) -> Result<(), CliError> {
    let dispatch = Dispatch::new(global.switches()?);
    if args.key_heads == 0 || args.value_heads == 0 || !args.value_heads.is_multiple_of(args.key_heads) {
        let heads = format!("{} key heads, {} value heads", args.key_heads, args.value_heads);
        return Err(CliError::Usage(format!("{heads}: value heads must be a multiple of the key heads, both above 0")));
    }
    match &args.card {
        Some(name) => {
            let card = known_card(name).ok_or_else(|| {
                let known: Vec<_> = known_cards().into_iter().map(|card| card.name).collect();
                CliError::Usage(format!("unknown card `{name}`; known: {}", known.join(", ")))
            })?;
            explain_all(global, args, &dispatch, &Card(card))
        }
        None => explain_all(global, args, &dispatch, &global.open()?),
    }
}

fn explain_all(global: &Global, args: &Explain, dispatch: &Dispatch, target: &impl Target) -> Result<(), CliError> {
    let counts = args.tokens.map_or_else(|| vec![2048, 1], |tokens| vec![tokens]);
    for &tokens in &counts {
        let sizes = DeltaSizes::single(args.key_heads, args.value_heads, tokens);
        explain(global, &DELTA_REC, dispatch, target, &sizes, tokens)?;
        explain(global, &DELTA_COMMIT, dispatch, target, &sizes, tokens)?;
        let norm = OutNormSizes { tokens, value_heads: args.value_heads, gate: OutputGate::Sigmoid };
        explain(global, &DELTA_OUT_NORM, dispatch, target, &norm, tokens)?;
        explain_layers(global, args, dispatch, target, tokens)?;
    }
    Ok(())
}

/// The other operations of a layer, with the sizes of Qwen3.8-Flash-Next apart from the head counts given.
fn explain_layers(
    global: &Global,
    args: &Explain,
    dispatch: &Dispatch,
    target: &impl Target,
    tokens: usize,
) -> Result<(), CliError> {
    const HIDDEN: usize = 2560;
    const STREAMS: usize = 4;
    let (keys, values) = (args.key_heads, args.value_heads);
    macro_rules! show {
        ($($table:expr, $sizes:expr;)*) => { $(explain(global, &$table, dispatch, target, &$sizes, tokens)?;)* };
    }
    let quad = |width| QuadSizes { rows: tokens, width, wide: true };
    let product = |[n_out, n_in]: [usize; 2]| ProductSizes { tokens, n_out, n_in, kind: Kind::Bf16, aligned: true };
    let columns = tokens.min(8);
    let quantized = |n_out| {
        let (caps, pick) = (target.caps(), Pick::Best(dispatch));
        QuantizedProductSizes::on(caps, pick, Format::Q6_K, [HIDDEN, n_out], columns)
    };
    let experts = |n_out| ExpertProductSizes {
        pairs: 10 * tokens,
        n_out,
        experts: 512,
        planned: tokens > 1,
        kind: Some(Kind::Bf16),
    };
    show! {
        DELTA_CONV, ConvSizes { rows: tokens * (2 * keys + values) };
        DELTA_GATES, GatesSizes { values: tokens * values };
        DELTA_GATED_NORM, GatedNormSizes { rows: tokens * values, gate: OutputGate::Sigmoid };
        DENSE_DEQUANTIZE, DequantizeSizes { groups: (2 * keys + 2 * values) * 128 * HIDDEN / 32, aligned: true };
        DENSE_EMBED, EmbedSizes { rows: tokens, width: HIDDEN, kind: Some(Kind::Bf16) };
        DENSE_PRODUCT, product([(2 * keys + 2 * values) * 128, HIDDEN]);
        DENSE_PRODUCT, product([324, STREAMS * HIDDEN]);
        NORM_RMS, RmsSizes { groups: STREAMS * tokens };
        ATTN_NORM_ROPE, NormRopeSizes { rows: 24 * tokens };
        ATTN_SOFTMAX, SoftmaxSizes { tokens, heads: 24 };
        QSA_APPEND, AppendSizes { tokens };
        QSA_SCORES, ScoresSizes::on(target.caps(), tokens, 65_540);
        QSA_TOPK, TopkSizes { rows: tokens, max_blocks: 65_538 };
        QSA_STORE, StoreSizes { tokens, kv_heads: 2, kind: CellKind::I8 };
        QSA_ATTEND, AttendSizes { rows: tokens, heads: 24, kv_heads: 2, cap: 2051, kind: CellKind::I8 };
        HYPER_EXPAND, quad(HIDDEN);
        HYPER_SQUEEZE, quad(324);
        HYPER_MIX, quad(HIDDEN);
        HYPER_WRITE, quad(HIDDEN);
        PLE_GATE, GateSizes { warps: STREAMS * tokens, wide: true };
        PLE_CONV, quad(STREAMS * HIDDEN);
        CONV_WINDOW, quad(STREAMS * HIDDEN);
        MMVQ_QUANTIZE, QuantizeSizes { blocks: columns * HIDDEN / 32, interleaved: true };
        MMVQ_PRODUCT, quantized((2 * keys + 2 * values) * 128);
        MOE_ROUTER, RouterSizes { tokens, experts: 512 };
        MOE_PLAN, PlanSizes { pairs: 10 * tokens };
        MOE_PRODUCT, experts(1280);
        MOE_SILU_MUL, quad(640);
        MOE_COMBINE, quad(HIDDEN);
    }
    Ok(())
}

fn explain<A, P: Copy>(
    global: &Global,
    table: &Table<A, P>,
    dispatch: &Dispatch,
    target: &impl Target,
    ask: &A,
    tokens: usize,
) -> Result<(), CliError> {
    let out = global.output();
    if !out.is_json() {
        out.line(&format!("{} on {}, {tokens} tokens:", table.op, target.caps().name))?;
    }
    for row in table.explain(dispatch, target, ask) {
        let reason = row.reason.map(|reason| reason.to_string());
        let text = || {
            let state = match (&reason, row.chosen) {
                (_, true) => "runs".to_owned(),
                (Some(reason), _) => format!("no: {reason}"),
                (None, _) => "would run; the one above is preferred".to_owned(),
            };
            format!("  {:9} {:8} {state}", row.variant, row.exactness.word())
        };
        let object = Row {
            op: table.op,
            variant: row.variant,
            tokens,
            chosen: row.chosen,
            exactness: row.exactness.word(),
            kernel: row.kernel,
            reason: reason.clone(),
        };
        out.row(&object, text)?;
    }
    Ok(())
}
