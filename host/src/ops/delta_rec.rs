//! `delta.rec`: the gated delta rule over the tokens of a prompt or of a decode window.

use cuda_std::launch::Kernel;
use varve_gpu::delta::chunk::scratch_floats;
use varve_gpu::delta::chunk_ring::shared_bytes;
use varve_gpu::delta::row_group::BLOCKS;
use varve_gpu::delta::{RecParams, chunk_walk, rec_chunk32, rec_chunk32_prep, rec_chunk32_scan, rec_chunk32_skew};
use varve_gpu::delta::{
    rec_cols, rec_keyhead, rec_lanes, rec_tc32_prep, rec_tc32_scan, rec_wg32_fast_scan, rec_wg32_prep, rec_wg32_scan,
    rec_wg32_split, window_step,
};
use varve_gpu::geometry::{ROW_GROUPS, WINDOW_TOKENS};

use super::checks::{aligned, axis, row_stride};
use super::delta_passes::{Beside, Passes, fits, steps};
use super::delta_sizes::{Batch, DeltaSizes, LogGate, Operands, check_tokens};
use super::delta_split::{WG32_SPLIT, cut};
use super::dispatch::{Dispatch, Needs, OpError, Pick, Preferred, Spread, Staged, Table, Variant};
use super::exactness::Exactness;
use super::tuning::delta_rec as measured;
use crate::backend::{Launch, Stream, View, ViewMut};

/// The variants, most wanted first. Order and conditions: docs/src/dispatch.md, measured in docs/src/measured/delta.md.
pub static DELTA_REC: Table<DeltaSizes, RecParams> = Table {
    op: "delta.rec",
    rows: &[
        Variant {
            name: "window",
            kernel: |ask| {
                if ask.longest > WINDOW_TOKENS {
                    return Err(format!("{} tokens, a window holds {WINDOW_TOKENS}", ask.longest));
                }
                Ok(&window_step::DELTA_REC_WINDOW)
            },
            launch: |ask| blocks(ask, ask.value_heads * BLOCKS, [32, 1, 1]),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "wg32_fast",
            kernel: |ask| halves_fit(ask, &rec_wg32_fast_scan::DELTA_REC_WG32_FAST_SCAN),
            launch: |ask| halves(ask, shared_bytes(false, rec_wg32_scan::ALIGN, rec_wg32_fast_scan::STAGES)),
            staged: Some(WG32_FAST),
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::OptIn,
            exactness: FAST,
        },
        Variant {
            name: "tc32_fast",
            kernel: |ask| halves_fit(ask, &rec_tc32_scan::DELTA_REC_TC32_FAST_SCAN),
            launch: |ask| halves(ask, shared_bytes(false, rec_tc32_scan::ALIGN, rec_tc32_scan::STAGES_FAST)),
            staged: Some(TC32_FAST),
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::OptIn,
            exactness: FAST,
        },
        Variant {
            name: SPLIT,
            kernel: |ask| cut(ask).map(|_| &rec_wg32_split::DELTA_REC_WG32_SPLIT_OUTPUTS),
            launch: |ask| {
                let outputs = cut(ask).map_or(0, |[_, segments]| segments - 1);
                let all = halves(ask, shared_bytes(true, rec_wg32_scan::ALIGN, rec_wg32_scan::STAGES));
                Launch { grid: [all.grid[0], axis(outputs), 1], ..all }
            },
            staged: Some(WG32_SPLIT),
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::Measured { table: measured::WG32_SPLIT, size: prompt_size },
            exactness: CHUNKED,
        },
        Variant {
            name: "wg32",
            kernel: |ask| halves_fit(ask, &rec_wg32_scan::DELTA_REC_WG32_SCAN),
            launch: |ask| halves(ask, shared_bytes(true, rec_wg32_scan::ALIGN, rec_wg32_scan::STAGES)),
            staged: Some(WG32),
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::Measured { table: measured::WG32, size: prompt_size },
            exactness: CHUNKED,
        },
        Variant {
            name: "tc32",
            kernel: |ask| halves_fit(ask, &rec_tc32_scan::DELTA_REC_TC32_SCAN),
            launch: |ask| halves(ask, shared_bytes(true, rec_tc32_scan::ALIGN, rec_tc32_scan::STAGES_PAIRS)),
            staged: Some(TC32),
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::Measured { table: measured::TC32, size: prompt_size },
            exactness: CHUNKED,
        },
        Variant {
            name: "chunk32_skew",
            kernel: |ask| {
                fits(ask, SLOTS)?;
                ask.instance([
                    None,
                    None, // with two heads it is 1 % ahead
                    Some(&rec_chunk32_skew::DELTA_REC_CHUNK32_SKEW_VPK3),
                    None, // more than there is of shared memory
                ])
            },
            launch: |ask| heads_of_a_key(ask, rec_chunk32_skew::BUFFERS),
            staged: Some(CHUNK32),
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::Measured { table: measured::CHUNK32, size: prompt_size },
            exactness: CHUNKED_F32,
        },
        Variant {
            name: "chunk32",
            kernel: |ask| {
                fits(ask, SLOTS)?;
                ask.instance([
                    Some(&rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK1),
                    Some(&rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK2),
                    Some(&rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK3),
                    Some(&rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK4),
                ])
            },
            launch: |ask| heads_of_a_key(ask, rec_chunk32_scan::BUFFERS),
            staged: Some(CHUNK32),
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::Measured { table: measured::CHUNK32, size: prompt_size },
            exactness: CHUNKED_F32,
        },
        Variant {
            name: "lanes",
            kernel: |ask| {
                ask.instance([
                    None, // one warp a block leaves three schedulers idle: `keyhead` is faster
                    Some(&rec_lanes::DELTA_REC_LANES_VPK2),
                    Some(&rec_lanes::DELTA_REC_LANES_VPK3),
                    Some(&rec_lanes::DELTA_REC_LANES_VPK4),
                ])
            },
            launch: |ask| blocks(ask, ask.key_heads * BLOCKS, [axis(32 * ask.vpk()), 1, 1]),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::BlockAnSm },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "keyhead",
            kernel: |ask| {
                ask.instance([
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK1),
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK2),
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK3),
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK4),
                ])
            },
            launch: |ask| blocks(ask, ask.key_heads * ROW_GROUPS, [rec_cols::COLUMNS, 4, 1]),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::OneWave },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "cols",
            kernel: |_| Ok(&rec_cols::DELTA_REC_COLS),
            launch: |ask| blocks(ask, ask.value_heads * ROW_GROUPS, [rec_cols::COLUMNS, 4, 1]),
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Base,
        },
    ],
};

/// The variant that walks segments of a call side by side. Where they end depends on the call's length, so cuts and padding
/// change its bits.
pub const SPLIT: &str = "wg32_split";

/// Chunks of a pass: 4,096 tokens of one sequence.
const SLOTS: usize = 128;
/// Tokens of the first of several passes that overlap.
const FIRST_PASS: usize = 768;

/// What the chunked variants promise, derived in docs/src/exactness.md#chunked.
const CHUNKED: Exactness = Exactness::Rounding { bound: 5e-6, ordinary: 5e-6, derived: "exactness.md#chunked" };
/// With f32 products: closer on inputs of ordinary use.
const CHUNKED_F32: Exactness = Exactness::Rounding { bound: 5e-6, ordinary: 2e-6, derived: "exactness.md#chunked" };
/// With one f16 product in place of three: keys that differ by less than f16 can tell are beyond it.
const FAST: Exactness = Exactness::Rounding { bound: 2e-2, ordinary: 2e-3, derived: "exactness.md#chunked" };

/// Launches of `chunk32` and `chunk32_skew`.
const CHUNK32: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| rec_chunk32::scratch_floats(ask.value_heads, SLOTS),
    steps: |ask, scan, scratch| {
        let prep = &rec_chunk32_prep::DELTA_REC_CHUNK32_PREP;
        steps(ask, Passes { slots: SLOTS, prep, beside: None }, scan, scratch)
    },
};

/// Launches of `tc32`.
const TC32: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| scratch_floats(true, ask.key_heads, ask.value_heads, SLOTS),
    steps: |ask, scan, scratch| {
        let prep = &rec_tc32_prep::DELTA_REC_TC32_PREP;
        steps(ask, Passes { slots: SLOTS, prep, beside: None }, scan, scratch)
    },
};

/// Launches of `tc32_fast`.
const TC32_FAST: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| scratch_floats(false, ask.key_heads, ask.value_heads, SLOTS),
    steps: |ask, scan, scratch| {
        let prep = &rec_tc32_prep::DELTA_REC_TC32_FAST_PREP;
        steps(ask, Passes { slots: SLOTS, prep, beside: None }, scan, scratch)
    },
};

/// Launches of `wg32`, whose 96 blocks for 48 heads leave SMs free for the preparation of the next pass.
const WG32: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| 2 * scratch_floats(true, ask.key_heads, ask.value_heads, SLOTS),
    steps: |ask, scan, scratch| {
        let beside =
            Some(Beside { part: scratch_floats(true, ask.key_heads, ask.value_heads, SLOTS), first: FIRST_PASS });
        steps(ask, Passes { slots: SLOTS, prep: &rec_wg32_prep::DELTA_REC_WG32_PREP, beside }, scan, scratch)
    },
};

/// Launches of `wg32_fast`.
const WG32_FAST: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| 2 * scratch_floats(false, ask.key_heads, ask.value_heads, SLOTS),
    steps: |ask, scan, scratch| {
        let beside =
            Some(Beside { part: scratch_floats(false, ask.key_heads, ask.value_heads, SLOTS), first: FIRST_PASS });
        steps(ask, Passes { slots: SLOTS, prep: &rec_wg32_prep::DELTA_REC_WG32_FAST_PREP, beside }, scan, scratch)
    },
};

/// What thresholds of prompts are compared with.
fn prompt_size(ask: &DeltaSizes) -> [usize; 2] {
    [ask.longest, ask.sequences]
}

/// The scan of a tensor-core form, if its passes fit the call.
fn halves_fit(ask: &DeltaSizes, scan: &'static Kernel<RecParams>) -> Result<&'static Kernel<RecParams>, String> {
    fits(ask, SLOTS).map(|()| scan)
}

/// A block for each half of a value head's columns.
fn halves(ask: &DeltaSizes, dynamic_shared: u32) -> Launch {
    Launch { dynamic_shared, ..blocks(ask, ask.value_heads * chunk_walk::SPLIT, [chunk_walk::BOUNDS.threads, 1, 1]) }
}

/// A block for each key head and 16 columns of its value heads, with `buffers` buffers of k and q.
fn heads_of_a_key(ask: &DeltaSizes, buffers: usize) -> Launch {
    let block = [rec_chunk32_scan::bounds(axis(ask.vpk())).threads, 1, 1];
    let dynamic_shared = axis(rec_chunk32_scan::shared_bytes(ask.vpk(), buffers));
    Launch { dynamic_shared, ..blocks(ask, ask.key_heads * rec_chunk32_scan::BLOCKS, block) }
}

/// `blocks` blocks for each sequence.
fn blocks(ask: &DeltaSizes, blocks: usize, block: [u32; 3]) -> Launch {
    Launch { grid: [axis(blocks), axis(ask.sequences), 1], block, dynamic_shared: 0 }
}

/// What becomes of the state in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAfter {
    /// It is the state after the last token.
    Updated,
    /// It stays as it was: a window of drafts is only looked at.
    Kept,
}

/// Operands of [`recurrence`]. No two may overlap; all addresses and row strides are multiples of 16 bytes (gate and
/// beta excepted).
pub struct RecArgs<'a> {
    /// f32 `[tokens, (2 key_heads + value_heads) * 128]`: q, k (L2-normalised, |.| <= 1), v of a token.
    pub qkv: View<'a, f32, 2>,
    /// f32 `[tokens, value_heads]`.
    pub gate: LogGate<'a>,
    /// f32 `[tokens, value_heads]`, in 0..=1.
    pub beta: View<'a, f32, 2>,
    /// f32 `[sequences * 128, value_heads, 128]`, contiguous: of each sequence, row r of all heads together.
    pub state: ViewMut<'a, f32, 3>,
    /// f32 `[tokens, value_heads * 128]`: output, already times 1/sqrt(128).
    pub y: ViewMut<'a, f32, 2>,
    /// Key heads; value head h reads key head h mod key_heads.
    pub key_heads: usize,
    /// Whether the state is written.
    pub state_after: StateAfter,
    /// The sequences that the tokens belong to; none: they are one.
    pub batch: Option<Batch<'a>>,
}

/// The gated delta rule, token after token (Gated Delta Networks, arXiv 2412.06464), by the preferred variant.
///
/// Returns the variant's name. Any split of a call gives the same bits and so do all variants, but for those whose promise
/// is a rounding bound: see docs/src/exactness.md#chunked. Each sequence of a batch gets the bits of a call of its own.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn recurrence(dispatch: &Dispatch, stream: &Stream, mut args: RecArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&mut args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_REC.base().name);
    }
    enqueue(Pick::Best(dispatch), stream, &sizes, params)
}

/// [`recurrence`] by the named variant, for tests and measurements.
///
/// # Errors
/// As [`recurrence`], and [`OpError::NoVariant`] or [`OpError::Unfit`].
pub fn recurrence_by(variant: &str, stream: &Stream, mut args: RecArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&mut args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_REC.row(variant)?.name);
    }
    enqueue(Pick::Named(variant), stream, &sizes, params)
}

fn enqueue(pick: Pick<'_>, stream: &Stream, sizes: &DeltaSizes, params: RecParams) -> Result<&'static str, OpError> {
    // SAFETY: `check` established the shapes, strides and alignment that `RecParams` asks for, the table's `launch` the
    // grid that the kernel's header asks for; views borrow their buffers, which are freed in stream order.
    unsafe { DELTA_REC.enqueue(pick, stream, sizes, params) }
}

fn check(args: &mut RecArgs<'_>) -> Result<(DeltaSizes, RecParams), OpError> {
    let op = DELTA_REC.op;
    let RecArgs { qkv, gate, beta, state, key_heads, batch, .. } = args;
    let operands = Operands { qkv, gate, beta, state, key_heads: *key_heads, batch: *batch };
    let (mut sizes, params) = check_tokens(op, operands)?;
    sizes.state_kept = args.state_after == StateAfter::Kept;
    args.y.expect(op, "y", [sizes.tokens, sizes.y_width()])?;
    aligned(op, "y", args.y.is_aligned(16))?;
    let y_stride = row_stride(op, "y strides", args.y.strides, 4)?;
    let keep_state = u32::from(sizes.state_kept);
    Ok((sizes, RecParams { y: args.y.ptr_mut(), y_stride, keep_state, ..params }))
}
