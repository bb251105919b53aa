//! `qsa.scores`: how much a query wants each block of cells that it sees.

use varve_gpu::qsa::{
    INDEX_DIM, INDEX_HEADS, ScoresParams, scores_multi, scores_packed, scores_per_query, scores_rows, scores_scatter,
    scores_tf32x3, scores_tf32x3_tail,
};

use super::checks::{aligned, axis, count, matrix, vector};
use super::dispatch::{Needs, OpError, Pick, Preferred, Spread, Staged, Step, Table, Variant};
use super::exactness::Exactness;
use super::qsa_steps::steps_in;
use crate::backend::{Caps, Launch, Stream, View, ViewMut};
use cuda_std::launch::{Bounds, Kernel};

/// Sizes of a call. All grids come from these, so that a captured launch does for any depth of the context.
#[derive(Clone, Copy, Debug)]
pub struct ScoresSizes {
    /// Queries.
    pub queries: usize,
    /// Blocks that the buffers have room for.
    pub max_blocks: usize,
    /// Blocks to score at most, 1 to `max_blocks`.
    pub reach: usize,
    /// SMs of the device.
    pub sms: u32,
}

impl ScoresSizes {
    /// For a device with `caps`, of any reach.
    #[must_use]
    pub const fn on(caps: &Caps, queries: usize, max_blocks: usize) -> Self {
        Self { queries, max_blocks, reach: max_blocks, sms: caps.sms }
    }

    /// Whether rows of scores are 16-byte aligned.
    fn has_aligned_rows(&self) -> bool {
        self.max_blocks.is_multiple_of(4)
    }

    /// The variant for these sizes, as an H200 has them fastest (docs/src/measured/qsa_scores.md). Where `packed` would be and
    /// cannot, `scatter` or, with more queries, the base.
    fn wanted(&self) -> &'static str {
        match self.queries {
            1 | 3 => "rows",
            2 => "packed",
            4 if !self.has_aligned_rows() => "rows",
            5 | 6 => "scatter",
            _ if self.has_aligned_rows() => "packed",
            7 | 8 => "scatter",
            _ => "per_query",
        }
    }
}

type Found = Result<&'static Kernel<ScoresParams>, String>;

/// Most queries of a launch of `multi` and `scatter`.
fn at_most_eight(ask: &ScoresSizes, kernel: &'static Kernel<ScoresParams>) -> Found {
    if ask.queries > scores_multi::QUERIES {
        return Err(format!("{} queries, it holds {}", ask.queries, scores_multi::QUERIES));
    }
    Ok(kernel)
}

/// A kernel that stores or loads scores four at a time.
fn aligned_rows(ask: &ScoresSizes, kernel: &'static Kernel<ScoresParams>) -> Found {
    if ask.has_aligned_rows() {
        return Ok(kernel);
    }
    Err(format!("rows of {} scores are not 16-byte aligned", ask.max_blocks))
}

fn rows(ask: &ScoresSizes) -> Found {
    Ok(match ask.queries {
        1 => &scores_rows::QSA_SCORES_ROWS_NQ1,
        2 => &scores_rows::QSA_SCORES_ROWS_NQ2,
        3 => &scores_rows::QSA_SCORES_ROWS_NQ3,
        4 => &scores_rows::QSA_SCORES_ROWS_NQ4,
        n => return Err(format!("{n} queries, there are instances for 1 to 4")),
    })
}

fn packed(ask: &ScoresSizes) -> Found {
    match ask.queries {
        1 => Ok(&scores_packed::QSA_SCORES_PACKED_NQ1),
        2 => Ok(&scores_packed::QSA_SCORES_PACKED_NQ2),
        _ => aligned_rows(ask, &scores_packed::QSA_SCORES_PACKED_NQ4),
    }
}

/// Queries of a warp of `packed`.
const GROUP: usize = 4;
/// Waves of blocks that several groups of queries make: the last one may be nearly empty.
const WAVES: usize = 4;

/// Blocks whose warps walk over steps of `step` blocks of cells: as many as the device holds, or fewer if all are busy.
fn walking(ask: &ScoresSizes, bounds: Bounds, step: usize) -> usize {
    let resident = (ask.sms * bounds.min_blocks) as usize;
    resident.min(ask.reach.div_ceil(step * bounds.threads as usize / 32)).max(1)
}

fn walk(ask: &ScoresSizes, bounds: Bounds, step: usize) -> Launch {
    Launch::new(axis(walking(ask, bounds, step)), bounds.threads)
}

fn packed_launch(ask: &ScoresSizes) -> Launch {
    let bounds = if ask.queries == 1 { scores_packed::BOUNDS_NQ1 } else { scores_packed::BOUNDS };
    let all = walking(ask, bounds, scores_packed::LONGEST_STEP);
    if ask.queries <= GROUP {
        return Launch::new(axis(all), bounds.threads);
    }
    let groups = ask.queries.div_ceil(GROUP);
    let each = (WAVES * (ask.sms * bounds.min_blocks) as usize).div_ceil(groups).min(all);
    Launch { grid: [axis(each), axis(groups), 1], ..Launch::new(1, bounds.threads) }
}

fn product_launch(ask: &ScoresSizes) -> Launch {
    let grid =
        [ask.reach.div_ceil(scores_tf32x3::BLOCKS as usize), ask.queries.div_ceil(scores_tf32x3::QUERIES as usize)];
    let launch = Launch::new(1, scores_tf32x3::BOUNDS.threads);
    Launch { grid: [axis(grid[0]), axis(grid[1]), 1], dynamic_shared: scores_tf32x3::SHARED_BYTES, ..launch }
}

/// The product, then the scores of the dead key.
fn product_steps(ask: &ScoresSizes, call: &Step<ScoresParams>) -> Vec<Step<ScoresParams>> {
    let tail = Launch::new(axis(ask.queries), scores_tf32x3_tail::BOUNDS.threads);
    let step = |kernel, launch| Step { kernel, launch, params: call.params, early: false };
    vec![step(call.kernel, call.launch), step(&scores_tf32x3_tail::QSA_SCORES_TF32X3_TAIL, tail)]
}

macro_rules! bitwise {
    ($name:literal, $kernel:expr, $launch:expr) => {
        Variant {
            name: $name,
            kernel: $kernel,
            launch: $launch,
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Tabled(ScoresSizes::wanted),
            exactness: Exactness::Bitwise,
        }
    };
}

/// The variants. All but `tf32x3` give the same bits.
pub static QSA_SCORES: Table<ScoresSizes, ScoresParams> = Table {
    op: "qsa.scores",
    rows: &[
        bitwise!("packed", packed, packed_launch),
        bitwise!("rows", rows, |ask| {
            let bounds = if ask.queries == 1 { scores_rows::BOUNDS_NQ1 } else { scores_rows::BOUNDS };
            walk(ask, bounds, scores_rows::LONGEST_STEP)
        }),
        bitwise!("scatter", |ask| at_most_eight(ask, &scores_scatter::QSA_SCORES_SCATTER), |ask| {
            walk(ask, scores_scatter::BOUNDS, scores_scatter::STEP)
        }),
        bitwise!("multi", |ask| at_most_eight(ask, &scores_multi::QSA_SCORES_MULTI), |ask| {
            walk(ask, scores_multi::BOUNDS, 1)
        }),
        Variant {
            name: "tf32x3",
            kernel: |ask| aligned_rows(ask, &scores_tf32x3::QSA_SCORES_TF32X3),
            launch: product_launch,
            staged: Some(Staged { scratch_floats: |_| 0, steps: |ask, call, _| product_steps(ask, call) }),
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::OptIn,
            exactness: Exactness::Rounding { bound: 2e-4, ordinary: 1e-5, derived: "exactness.md#scores" },
        },
        Variant::base(
            "per_query",
            |_| Ok(&scores_per_query::QSA_SCORES_PER_QUERY),
            |ask| {
                let threads = scores_per_query::BOUNDS.threads;
                let blocks = ask.reach.div_ceil(threads as usize / 32);
                Launch { grid: [axis(blocks), axis(ask.queries), 1], ..Launch::new(1, threads) }
            },
        ),
    ],
};

/// Operands of [`scores`].
pub struct ScoresArgs<'a> {
    /// f32 `[queries, INDEX_HEADS * INDEX_DIM]`, dense: index queries, normed and rotated.
    pub q: View<'a, f32, 2>,
    /// f32 `[max_blocks, INDEX_DIM]`, dense: keys of complete blocks; the others are not read.
    pub keys: View<'a, f32, 2>,
    /// f32 `[INDEX_DIM]`: the key that stands for the block of a query's tail.
    pub dead: View<'a, f32, 1>,
    /// u32 `[queries, 4]`, dense: step records.
    pub steps: View<'a, u32, 2>,
    /// f32 `[queries, max_blocks]`, dense; of a row only blocks 0 to `n_bid` are written.
    pub scores: ViewMut<'a, f32, 2>,
    /// Blocks to score at most, so that no launch is larger than that takes: of a row none from here on is written. 0 for
    /// `max_blocks`, as in a captured graph.
    pub reach: usize,
}

/// `scores[t][b] = sum over heads of max(0, q[t, h] . keys[b])` for the complete blocks that query t sees, and of the dead
/// key for block `n_bid`, plus 1e9 if the query has a tail. All f32; not divided by the root of the dimension, since only
/// the order matters.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as [`Table::enqueue`].
pub fn scores(pick: Pick<'_>, stream: &Stream, mut args: ScoresArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_SCORES.op;
    let ([queries, _], [max_blocks, _]) = (args.q.dims, args.keys.dims);
    let nq = count(op, "queries", queries, 65_535)?;
    matrix(op, "q", &args.q, [queries, INDEX_HEADS * INDEX_DIM])?;
    if max_blocks == 0 {
        return Err(OpError::Value { op, what: "rows of keys", got: "0".into(), rule: "at least one block" });
    }
    matrix(op, "keys", &args.keys, [max_blocks, INDEX_DIM])?;
    vector(op, "dead", &args.dead, INDEX_DIM)?;
    args.scores.expect(op, "scores", [queries, max_blocks])?;
    args.scores.expect_dense(op, "scores")?;
    aligned(op, "scores", args.scores.ptr().addr().is_multiple_of(16))?;
    let reach = if args.reach == 0 { max_blocks } else { args.reach.min(max_blocks) };
    let params = ScoresParams {
        pooled: args.keys.ptr(),
        dead: args.dead.ptr(),
        q_idx: args.q.ptr(),
        steps: steps_in(op, &args.steps, queries)?,
        out: args.scores.ptr_mut(),
        nq,
        max_blocks: count(op, "rows of keys", max_blocks, i32::MAX as u32)?,
        reach: count(op, "reach", reach, i32::MAX as u32)?,
        reserved: 0,
    };
    if queries == 0 {
        return Ok(QSA_SCORES.base().name);
    }
    let sizes = ScoresSizes { reach, ..ScoresSizes::on(stream.device().caps(), queries, max_blocks) };
    // SAFETY: shapes and alignment were checked, the rows' where a kernel has an instance; kernels touch nothing beyond
    // `reach`, whatever the records hold; views borrow their buffers, and scores' exclusively.
    unsafe { QSA_SCORES.enqueue(pick, stream, &sizes, params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, EmulatorConfig, known_card};
    use crate::ops::card::Card;
    use crate::ops::dispatch::{Dispatch, Reason};

    fn chosen(queries: usize, max_blocks: usize) -> &'static str {
        let card = Card(known_card("H200").expect("a known card"));
        let sizes = ScoresSizes::on(&card.0, queries, max_blocks);
        QSA_SCORES.select(&Dispatch::default(), &card, &sizes).map_or("none", |choice| choice.variant)
    }

    #[test]
    fn the_variant_goes_by_queries_and_alignment() {
        let by = |max_blocks| [1, 2, 3, 4, 6, 8, 9, 2048].map(|queries| chosen(queries, max_blocks));
        let [p, r, s, q] = ["packed", "rows", "scatter", "per_query"];
        assert_eq!(by(32_772), [r, p, r, p, s, p, p, p]);
        assert_eq!(by(32_770), [r, p, r, r, s, s, q, q]);
    }

    #[test]
    fn what_does_not_run_says_why() {
        let card = Card(known_card("H200").expect("a known card"));
        let explained = QSA_SCORES.explain(&Dispatch::default(), &card, &ScoresSizes::on(&card.0, 9, 1030));
        let why = |name: &str| {
            let row = explained.iter().find(|row| row.variant == name).expect("a row");
            row.reason.as_ref().map(Reason::to_string).unwrap_or_default()
        };
        assert_eq!(why("packed"), "rows of 1030 scores are not 16-byte aligned");
        assert_eq!(why("rows"), "9 queries, there are instances for 1 to 4");
        assert_eq!(why("scatter"), "9 queries, it holds 8");
        let explained = QSA_SCORES.explain(&Dispatch::default(), &card, &ScoresSizes::on(&card.0, 32, 1032));
        let reason = explained.iter().find(|row| row.variant == "tf32x3").and_then(|row| row.reason.as_ref());
        assert_eq!(reason.map(Reason::to_string), Some("opt-in: `qsa.scores=tf32x3` takes it".to_owned()));
    }

    #[test]
    fn grids_come_from_capacities() {
        let grid =
            |queries, max_blocks| packed_launch(&ScoresSizes { queries, max_blocks, reach: max_blocks, sms: 132 }).grid;
        assert_eq!(grid(1, 1028), [33, 1, 1], "eight warps of a step of four blocks each");
        assert_eq!(grid(1, 65_540), [396, 1, 1], "three blocks an SM");
        assert_eq!(grid(4, 65_540), [264, 1, 1]);
        assert_eq!(grid(2048, 65_540), [3, 512, 1]);
        let based =
            |reach| (QSA_SCORES.base().launch)(&ScoresSizes { queries: 9, max_blocks: 100, reach, sms: 132 }).grid;
        assert_eq!([based(100), based(17), based(1)], [[13, 9, 1], [3, 9, 1], [1, 9, 1]]);
    }

    #[test]
    fn operands_that_do_not_fit_are_named() {
        let device = Device::emulator(EmulatorConfig::default());
        let stream = device.stream().expect("a stream");
        let wrong = |q: [usize; 2], keys: [usize; 2], dead: usize, steps: [usize; 2], out: [usize; 2]| {
            let of = |[rows, width]: [usize; 2]| device.alloc::<f32>(rows * width).expect("fits");
            let (q_buffer, key_buffer, dead_buffer, mut out_buffer) = (of(q), of(keys), of([1, dead]), of(out));
            let step_buffer = device.alloc::<u32>(steps[0] * steps[1]).expect("fits");
            let args = ScoresArgs {
                q: q_buffer.view(q).expect("fits"),
                keys: key_buffer.view(keys).expect("fits"),
                dead: dead_buffer.view([dead]).expect("fits"),
                steps: step_buffer.view(steps).expect("fits"),
                scores: out_buffer.view_mut(out).expect("fits"),
                reach: 0,
            };
            scores(Pick::Best(&Dispatch::default()), &stream, args).expect_err("refused").to_string()
        };
        let named = |error: String, operand: &str| assert!(error.contains(operand), "{error}");
        named(wrong([2, 384], [8, 128], 128, [2, 4], [2, 8]), "`q` has shape [2, 384], needed is [2, 512]");
        named(wrong([2, 512], [8, 64], 128, [2, 4], [2, 8]), "`keys` has shape [8, 64], needed is [8, 128]");
        named(wrong([2, 512], [8, 128], 64, [2, 4], [2, 8]), "`dead`");
        named(wrong([2, 512], [8, 128], 128, [1, 4], [2, 8]), "`steps`");
        named(wrong([2, 512], [8, 128], 128, [2, 4], [2, 9]), "`scores` has shape [2, 9], needed is [2, 8]");
        named(wrong([2, 512], [0, 128], 128, [2, 4], [2, 0]), "rows of keys is 0");
    }
}
