//! Operations: each checks shapes, walks its dispatch table and launches. A file an operation.

pub mod add;
pub mod attn_norm_rope;
pub mod attn_softmax;
pub mod card;
mod checks;
pub mod conv_window;
pub mod delta_commit;
pub mod delta_conv;
pub mod delta_gated_norm;
pub mod delta_gates;
pub mod delta_out_norm;
pub mod delta_passes;
pub mod delta_rec;
mod delta_sizes;
mod delta_split;
pub mod dense_dequantize;
pub mod dense_embed;
pub mod dense_product;
pub mod dispatch;
pub mod exactness;
pub mod hyper_expand;
pub mod hyper_mix;
pub mod hyper_squeeze;
pub mod hyper_write;
mod mmvq_instances;
pub mod mmvq_picked;
pub mod mmvq_product;
pub mod mmvq_quantize;
pub mod moe_combine;
pub mod moe_plan;
pub mod moe_product;
pub mod moe_router;
pub mod moe_silu_mul;
pub mod norm_rms;
pub mod ple_conv;
pub mod ple_gate;
pub mod qsa_append;
pub mod qsa_attend;
pub mod qsa_cells;
pub mod qsa_scores;
pub mod qsa_steps;
pub mod qsa_store;
pub mod qsa_topk;
mod quads;
mod reason;
pub mod switches;
pub mod tuning;
mod variant;
pub mod weights;

pub use delta_sizes::{Batch, DeltaSizes, LogGate};
pub use quads::QuadSizes;

/// An operation by name, with its variants, most wanted first.
pub type Listed = (&'static str, Vec<&'static str>);

/// Every operation.
#[must_use]
pub fn list() -> Vec<Listed> {
    vec![
        delta_rec::DELTA_REC.listed(),
        delta_commit::DELTA_COMMIT.listed(),
        delta_out_norm::DELTA_OUT_NORM.listed(),
        delta_conv::DELTA_CONV.listed(),
        delta_gates::DELTA_GATES.listed(),
        delta_gated_norm::DELTA_GATED_NORM.listed(),
        dense_dequantize::DENSE_DEQUANTIZE.listed(),
        dense_embed::DENSE_EMBED.listed(),
        dense_product::DENSE_PRODUCT.listed(),
        norm_rms::NORM_RMS.listed(),
        attn_norm_rope::ATTN_NORM_ROPE.listed(),
        attn_softmax::ATTN_SOFTMAX.listed(),
        qsa_append::QSA_APPEND.listed(),
        qsa_scores::QSA_SCORES.listed(),
        qsa_topk::QSA_TOPK.listed(),
        qsa_store::QSA_STORE.listed(),
        qsa_attend::QSA_ATTEND.listed(),
        hyper_expand::HYPER_EXPAND.listed(),
        hyper_squeeze::HYPER_SQUEEZE.listed(),
        hyper_mix::HYPER_MIX.listed(),
        hyper_write::HYPER_WRITE.listed(),
        ple_gate::PLE_GATE.listed(),
        ple_conv::PLE_CONV.listed(),
        conv_window::CONV_WINDOW.listed(),
        mmvq_quantize::MMVQ_QUANTIZE.listed(),
        mmvq_product::MMVQ_PRODUCT.listed(),
        moe_product::MOE_PRODUCT.listed(),
        moe_router::MOE_ROUTER.listed(),
        moe_plan::MOE_PLAN.listed(),
        moe_silu_mul::MOE_SILU_MUL.listed(),
        moe_combine::MOE_COMBINE.listed(),
    ]
}
/// Checks that every operation and variant that the switches name exists.
///
/// # Errors
/// [`dispatch::OpError::NoVariant`] lists the operation's variants, [`dispatch::OpError::NoOp`] the operations.
pub fn check_switches(switches: &switches::Switches) -> Result<(), dispatch::OpError> {
    let all = list();
    for (name, variant) in switches.named() {
        let Some((op, variants)) = all.iter().find(|(op, _)| *op == name) else {
            let known = all.iter().map(|(op, _)| *op).collect::<Vec<_>>().join(", ");
            return Err(dispatch::OpError::NoOp { name: name.to_owned(), known });
        };
        if !variants.contains(&variant) {
            return Err(dispatch::OpError::NoVariant { op, name: variant.to_owned(), known: variants.join(", ") });
        }
    }
    Ok(())
}
