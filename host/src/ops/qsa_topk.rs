//! `qsa.topk`: the cells that each query row attends to, from the scores of their blocks.

use varve_gpu::qsa::{TopkParams, topk_cluster, topk_ref, topk_reg, topk_rounds, topk_wide};
use varve_gpu::qsa::{topk as steps, topk_split, topk_split_count, topk_split_place};

use super::checks::{axis, count};
use super::dispatch::{Needs, OpError, Pick, Preferred, Staged, Step, Table, Variant};
use super::exactness::Exactness;
use super::qsa_steps::steps_in;
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call. All are capacities: what a row sees is in its step record, so that a graph is right at any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopkSizes {
    /// Query rows.
    pub rows: usize,
    /// Scores of a row: blocks that the context can have, the tail among them.
    pub max_blocks: usize,
}

/// Rows whose clusters of 8 blocks are resident at once on the 132 SMs of an H200.
const CLUSTER_ROWS: usize = 16;
/// Most rows of `split`: 8 MiB of scratch, and more rows fill a card with a block each.
const SPLIT_ROWS: usize = 128;
/// Rows up to which, and blocks from which, `split` is taken: fewer blocks are read as fast by one.
const SPLIT_PAYS: TopkSizes = TopkSizes { rows: 8, max_blocks: 16_384 };

/// The variants, most wanted first.
pub static QSA_TOPK: Table<TopkSizes, TopkParams> = Table {
    op: "qsa.topk",
    rows: &[
        Variant {
            name: "cluster",
            kernel: |ask| match ask {
                TopkSizes { rows, .. } if *rows > CLUSTER_ROWS => {
                    Err(format!("{rows} rows; clusters of {CLUSTER_ROWS} run at once"))
                }
                _ => holds(ask, topk_cluster::MOST_BLOCKS).map(|()| &topk_cluster::QSA_TOPK_CLUSTER),
            },
            launch: |ask| Launch {
                grid: [topk_cluster::PARTS, axis(ask.rows), 1],
                dynamic_shared: topk_cluster::shared_bytes(axis(ask.max_blocks)),
                ..Launch::new(1, topk_cluster::BOUNDS.threads)
            },
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "split",
            kernel: |ask| match ask.rows {
                0..=SPLIT_ROWS => Ok(&topk_split_place::QSA_TOPK_SPLIT_PLACE),
                rows => Err(format!("{rows} rows; there is scratch for {SPLIT_ROWS}")),
            },
            launch: |ask| Launch {
                grid: [topk_split::PARTS, axis(ask.rows), 1],
                ..Launch::new(1, topk_split::BOUNDS.threads)
            },
            staged: Some(Staged { scratch_floats: |ask| ask.rows * topk_split::SCRATCH_WORDS, steps: split_steps }),
            needs: Needs::ANY,
            preferred: Preferred::Tabled(|ask| match ask {
                TopkSizes { rows, max_blocks } if *rows <= SPLIT_PAYS.rows && *max_blocks >= SPLIT_PAYS.max_blocks => {
                    "split"
                }
                TopkSizes { max_blocks, .. } if *max_blocks <= topk_reg::MOST_BLOCKS => "reg",
                _ => "wide",
            }),
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "reg",
            kernel: |ask| holds(ask, topk_reg::MOST_BLOCKS).map(|()| &topk_reg::QSA_TOPK_REG),
            launch: |ask| Launch::new(axis(ask.rows), topk_rounds::BOUNDS.threads),
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "wide",
            kernel: |_| Ok(&topk_wide::QSA_TOPK_WIDE),
            launch: |ask| Launch::new(axis(ask.rows), topk_rounds::BOUNDS.threads),
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant::base(
            "ref",
            |_| Ok(&topk_ref::QSA_TOPK_REF),
            |ask| Launch::new(axis(ask.rows), topk_ref::BOUNDS.threads),
        ),
    ],
};

fn holds(ask: &TopkSizes, most: usize) -> Result<(), String> {
    if ask.max_blocks <= most {
        return Ok(());
    }
    Err(format!("a capacity of {} blocks; it holds the keys of {most}", ask.max_blocks))
}

/// A launch a round, then `last`, which places the ids.
fn split_steps(_: &TopkSizes, last: &Step<TopkParams>, scratch: *mut f32) -> Vec<Step<TopkParams>> {
    let params = TopkParams { scratch: scratch.cast(), ..last.params };
    let count = |round| Step {
        kernel: &topk_split_count::QSA_TOPK_SPLIT_COUNT,
        launch: last.launch,
        params: TopkParams { round, ..params },
        early: false,
    };
    let place = Step { kernel: last.kernel, launch: last.launch, params, early: false };
    (0..steps::ROUNDS).map(count).chain([place]).collect()
}

/// Operands of [`topk`], all dense.
pub struct TopkArgs<'a> {
    /// f32 `[rows, max_blocks]`: scores of the blocks that a row sees, and of its tail; the rest is not read.
    pub scores: View<'a, f32, 2>,
    /// u32 `[rows, 4]`: step records (`varve_gpu::qsa::StepRecord`), rows at multiples of 16 bytes. Read by the kernels:
    /// `n_bid < max_blocks` and `width <= cap`, else blocks and cells beyond are left out.
    pub steps: View<'a, u32, 2>,
    /// u32 `[rows, cap]`: the chosen cells, ascending; `width` of a row are written.
    pub ids: ViewMut<'a, u32, 2>,
}

/// Chooses each row's cells: those of the blocks of largest score, equal ones by lower cell, `width` in all, ascending.
///
/// NaN and -0 are scores of 0. A row whose `n_kv` is not above its `width` gets all its cells. Returns the variant's name.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn topk(pick: Pick<'_>, stream: &Stream, mut args: TopkArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_TOPK.op;
    let ([rows, max_blocks], cap) = (args.scores.dims, args.ids.dims[1]);
    if max_blocks == 0 || cap == 0 {
        let got = format!("{max_blocks} blocks, {cap} cells");
        return Err(OpError::Value { op, what: "capacity", got, rule: "at least one block and one cell" });
    }
    args.ids.expect(op, "ids", [rows, cap])?;
    args.scores.expect_dense(op, "scores")?;
    args.ids.expect_dense(op, "ids")?;
    let params = TopkParams {
        scores: args.scores.ptr(),
        steps: steps_in(op, &args.steps, rows)?,
        ids: args.ids.ptr_mut(),
        scratch: std::ptr::null_mut(),
        rows: count(op, "rows", rows, 65_535)?,
        // Cells have numbers below 2^32, and a share of a row ends below that too.
        max_blocks: count(op, "blocks", max_blocks, 1 << 29)?,
        cap: count(op, "cells", cap, i32::MAX as u32)?,
        round: 0,
    };
    if rows == 0 {
        return Ok(QSA_TOPK.base().name);
    }
    // SAFETY: shapes, layouts and alignment were checked; views borrow their buffers, and the ids' exclusively. What is in
    // the records the kernels hold to the capacities themselves.
    unsafe { QSA_TOPK.enqueue(pick, stream, &TopkSizes { rows, max_blocks }, params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, EmulatorConfig};

    #[test]
    fn operands_that_do_not_fit_are_named() {
        let device = Device::emulator(EmulatorConfig::default());
        let stream = device.stream().expect("a stream");
        let scores = device.upload(&[0.0f32; 16]).expect("fits");
        let (steps, mut ids) = (device.upload(&[0u32; 16]).expect("fits"), device.upload(&[0u32; 16]).expect("fits"));
        let mut refusal = |[rows, blocks]: [usize; 2], [first, records]: [usize; 2], [lines, cap]: [usize; 2]| {
            let args = TopkArgs {
                scores: scores.view_strided(0, [rows, blocks], [blocks.max(1), 1]).expect("within"),
                steps: steps.view_strided(first, [records, 4], [4, 1]).expect("within"),
                ids: ids.view_strided_mut(0, [lines, cap], [cap.max(1), 1]).expect("within"),
            };
            topk(Pick::Named("ref"), &stream, args).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refusal([2, 8], [0, 2], [2, 8]), "");
        assert!(refusal([2, 8], [0, 3], [2, 8]).contains("steps"));
        assert!(refusal([2, 8], [0, 2], [3, 5]).contains("ids"));
        assert!(refusal([2, 8], [1, 2], [2, 8]).contains("steps"), "no multiple of 16 bytes");
        assert!(refusal([2, 0], [0, 2], [2, 8]).contains("0 blocks"));
        assert!(refusal([2, 8], [0, 2], [2, 0]).contains("0 cells"));
        assert_eq!(refusal([0, 8], [0, 0], [0, 8]), "", "nothing to do");
    }
}
