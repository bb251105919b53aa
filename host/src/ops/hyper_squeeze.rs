//! `hyper.squeeze`: the nonlinearities behind a read's low-rank products.

use varve_gpu::hyper::{SqueezeParams, squeeze_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide};
use crate::backend::{Stream, ViewMut};

/// The only variant.
pub static HYPER_SQUEEZE: Table<QuadSizes, SqueezeParams> = Table {
    op: "hyper.squeeze",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&squeeze_quad::HYPER_SQUEEZE_QUAD_WIDE, &squeeze_quad::HYPER_SQUEEZE_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`squeeze`].
pub struct SqueezeArgs<'a> {
    /// f32 `[tokens, r + C]`, or `[tokens, r]` where nothing is injected: the products of the normed streams with
    /// `down`, then with `inject`. Changed in place; rows may have gaps.
    pub v: ViewMut<'a, f32, 2>,
    /// r: rows of `down`.
    pub rank: usize,
    /// Streams C.
    pub streams: usize,
}

/// In place: `silu(v / C)` in the first r columns, `2 sigmoid(v / C)` in the C columns behind, if there are any.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn squeeze(pick: Pick<'_>, stream: &Stream, mut args: SqueezeArgs<'_>) -> Result<&'static str, OpError> {
    let op = HYPER_SQUEEZE.op;
    let [tokens, width] = args.v.dims;
    if args.streams == 0 || (width != args.rank && Some(width) != args.rank.checked_add(args.streams)) {
        let got = format!("{width} with r = {}, C = {}", args.rank, args.streams);
        return Err(OpError::Value {
            op,
            what: "width of v",
            got,
            rule: "r or r + C columns are needed, C at least 1",
        });
    }
    if args.v.is_empty() {
        return Ok(HYPER_SQUEEZE.base().name);
    }
    let sizes = QuadSizes { rows: tokens, width, wide: all_wide(width, &[&args.v]) };
    let params = SqueezeParams {
        quads: sizes.quads(op)?,
        rank: count(op, "rank", args.rank, i32::MAX as u32)?,
        stride: args.v.stride(op, "v strides")?,
        streams: count(op, "streams", args.streams, 1 << 24)? as f32,
        v: args.v.ptr_mut(),
    };
    // SAFETY: the checks above are what `SqueezeParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { HYPER_SQUEEZE.enqueue(pick, stream, &sizes, params) }
}
