//! `moe.plan`: which pairs of token and expert one pass over an expert's weights serves.

use varve_gpu::moe::{MAX_EXPERTS, PlanParams, TILE_WORDS, max_tiles, plan_block};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSizes {
    /// Pairs of token and expert.
    pub pairs: usize,
}

/// The only variant.
pub static MOE_PLAN: Table<PlanSizes, PlanParams> = Table {
    op: "moe.plan",
    rows: &[Variant::base(
        "block",
        |_| Ok(&plan_block::MOE_PLAN_BLOCK),
        |ask| {
            let warps = ask.pairs.div_ceil(32).clamp(1, plan_block::WARPS);
            Launch::new(1, 32 * warps as u32)
        },
    )],
};

/// Operands of [`plan`], all without gaps.
pub struct PlanArgs<'a> {
    /// u32 `[tokens, k]`: the experts of each token; a pair whose id is not below `experts` gets no place.
    pub ids: View<'a, u32, 2>,
    /// Experts of the layer, at most 1,024.
    pub experts: usize,
    /// u32 `[n, 1 + TILE]`, n at least `max_tiles(tokens k, experts)`: expert, then pairs `t k + j`, `NO_PAIR` behind
    /// the last. Tiles beyond the plan's are not written.
    pub tiles: ViewMut<'a, u32, 2>,
    /// u32 `[1]`: tiles of the plan.
    pub n_tiles: ViewMut<'a, u32, 1>,
}

/// Groups the pairs by expert, ascending within one, and cuts each group into tiles, experts ascending.
///
/// Returns the variant's name. No operand may overlap another. Without pairs nothing is enqueued, `n_tiles` included.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn plan(pick: Pick<'_>, stream: &Stream, mut args: PlanArgs<'_>) -> Result<&'static str, OpError> {
    let op = MOE_PLAN.op;
    let (pairs, experts) = (args.ids.len(), args.experts);
    args.ids.expect_dense(op, "ids")?;
    if experts == 0 || experts > MAX_EXPERTS {
        return Err(OpError::Value { op, what: "experts", got: experts.to_string(), rule: "1 to 1,024 are needed" });
    }
    let params = PlanParams {
        ids: args.ids.ptr(),
        pairs: count(op, "pairs", pairs, plan_block::MAX_PAIRS as u32)?,
        experts: experts as u32,
        tiles: args.tiles.ptr_mut(),
        n_tiles: args.n_tiles.ptr_mut(),
    };
    args.tiles.expect(op, "tiles", [args.tiles.dims[0].max(max_tiles(pairs, experts)), TILE_WORDS])?;
    args.tiles.expect_dense(op, "tiles")?;
    args.n_tiles.expect(op, "n_tiles", [1])?;
    if pairs == 0 {
        return Ok(MOE_PLAN.base().name);
    }
    // SAFETY: the checks above are what `PlanParams` asks for; views borrow their buffers, which are freed in stream
    // order.
    unsafe { MOE_PLAN.enqueue(pick, stream, &PlanSizes { pairs }, params) }
}
