//! `moe.router`: the experts of a token and their weights.

use varve_gpu::moe::{MAX_CHOSEN, MAX_EXPERTS, RouterParams, router_warp};

use super::checks::{axis, count};
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::Rows;
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSizes {
    /// Tokens of the call.
    pub tokens: usize,
    /// Experts of the layer.
    pub experts: usize,
}

/// The only variant.
pub static MOE_ROUTER: Table<RouterSizes, RouterParams> = Table {
    op: "moe.router",
    rows: &[Variant::base(
        "warp",
        |ask| match ask.experts {
            0..=128 => Ok(&router_warp::MOE_ROUTER_WARP_E128),
            129..=256 => Ok(&router_warp::MOE_ROUTER_WARP_E256),
            257..=512 => Ok(&router_warp::MOE_ROUTER_WARP_E512),
            513..=1024 => Ok(&router_warp::MOE_ROUTER_WARP_E1024),
            more => Err(format!("no instance for {more} experts")),
        },
        |ask| {
            let blocks = ask.tokens.div_ceil(router_warp::WARPS as usize);
            Launch::new(axis(blocks), router_warp::BOUNDS.threads)
        },
    )],
};

/// Operands of [`router`]. Rows may have gaps.
pub struct RouterArgs<'a> {
    /// f32 `[tokens, experts]`, at most 1,024 experts.
    pub logits: View<'a, f32, 2>,
    /// u32 `[tokens, k]`, k at most 32 and at most the experts.
    pub ids: ViewMut<'a, u32, 2>,
    /// f32 `[tokens, k]`.
    pub weights: ViewMut<'a, f32, 2>,
    /// Whether a token's weights are divided by their sum: the model's `norm_topk_prob`.
    pub renormalise: bool,
}

/// The k experts of largest probability, largest first, equal ones by ascending id, and their softmax over all experts.
///
/// Ids are distinct and below the number of experts whatever the logits are: NaN is the lowest logit and has weight 0,
/// as
/// -infinity has. +infinity makes the token's weights NaN. Other tokens are not affected. Returns the variant's name.
/// No operand may overlap another.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn router(pick: Pick<'_>, stream: &Stream, mut args: RouterArgs<'_>) -> Result<&'static str, OpError> {
    let op = MOE_ROUTER.op;
    let ([tokens, experts], k) = (args.logits.dims, args.ids.dims[1]);
    args.ids.expect(op, "ids", [tokens, k])?;
    args.weights.expect(op, "weights", [tokens, k])?;
    if k == 0 || k > MAX_CHOSEN.min(experts) || experts > MAX_EXPERTS {
        let got = format!("{k} of {experts}");
        let rule = "1 to 32 experts of a token are needed, of at most 1,024";
        return Err(OpError::Value { op, what: "number of experts", got, rule });
    }
    if tokens == 0 {
        return Ok(MOE_ROUTER.base().name);
    }
    let params = RouterParams {
        logits: args.logits.ptr(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        experts: count(op, "experts", experts, i32::MAX as u32)?,
        k: count(op, "experts of a token", k, i32::MAX as u32)?,
        renormalise: u32::from(args.renormalise),
        logits_stride: args.logits.stride(op, "logits strides")?,
        ids_stride: args.ids.stride(op, "ids strides")?,
        weights_stride: args.weights.stride(op, "weights strides")?,
        unused: 0,
        ids: args.ids.ptr_mut(),
        weights: args.weights.ptr_mut(),
    };
    // SAFETY: the checks above are what `RouterParams` asks for, the table's `kernel` has an instance for the experts;
    // views borrow their buffers, which are freed in stream order.
    unsafe { MOE_ROUTER.enqueue(pick, stream, &RouterSizes { tokens, experts }, params) }
}
