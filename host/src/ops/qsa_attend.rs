//! `qsa.attend`: gated attention over the cells that were chosen for each row, or over all that it sees.

use cuda_std::launch::Kernel;
use varve_gpu::qsa::attend::{AttendParams, CHUNK, MAX_GROUP};
use varve_gpu::qsa::{HEAD_DIM, attend_chunk, attend_merge, attend_prompt};

use super::checks::{axis, count, matrix, row_stride, rows_in};
use super::dispatch::{Needs, OpError, Pick, Preferred, Spread, Staged, Step, Table, Variant};
use super::exactness::Exactness;
use super::qsa_cells::{CellKind, CellRows, pages};
use super::qsa_steps::steps_in;
use super::tuning::qsa_attend;
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct AttendSizes {
    /// Rows of queries.
    pub rows: usize,
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Most cells of a row.
    pub cap: usize,
    /// Format of the cells.
    pub kind: CellKind,
}

impl AttendSizes {
    /// Query heads of a key head.
    const fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Blocks that share the heads of a key head: two for a single row, whose blocks would leave half of a large card idle.
    /// Bits do not depend on it.
    const fn parts(&self) -> usize {
        if self.rows == 1 && self.group().is_multiple_of(2) { 2 } else { 1 }
    }

    /// Query heads of a block.
    const fn heads_of_block(&self) -> usize {
        self.group() / self.parts()
    }

    /// Chunks of a row.
    const fn chunks(&self) -> usize {
        self.cap.div_ceil(CHUNK)
    }

    /// f32 of scratch that `rows` rows need for sums.
    const fn sums(&self, rows: usize) -> usize {
        rows * self.chunks() * self.heads * HEAD_DIM
    }

    /// Rows whose scratch is in use at once: what fits [`SCRATCH`], and the grid.
    fn batch(&self) -> usize {
        (SCRATCH / self.sums(1).max(1)).clamp(1, 65_535).min(self.rows.max(1))
    }
}

/// f32 of scratch that rows beyond the first may take: 64 MiB.
const SCRATCH: usize = 16 << 20;

/// The variants, most wanted first.
pub static QSA_ATTEND: Table<AttendSizes, AttendParams> = Table {
    op: "qsa.attend",
    rows: &[
        Variant {
            name: "prompt",
            kernel: |ask| match ask.kind {
                _ if ask.group() > MAX_GROUP => Err(too_many(ask.group())),
                CellKind::F32 => Err("cells of f32 have more digits than an f16 product takes".into()),
                CellKind::F16 => Ok(&attend_prompt::QSA_ATTEND_PROMPT_F16),
                CellKind::I8 => Ok(&attend_prompt::QSA_ATTEND_PROMPT_I8),
            },
            launch: |ask| Launch {
                grid: [axis(ask.rows), axis(ask.kv_heads), 1],
                ..Launch::new(1, attend_prompt::BOUNDS.threads)
            },
            staged: None,
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::Measured { table: qsa_attend::PROMPT, size: |ask| [ask.rows, 1] },
            exactness: Exactness::Rounding { bound: 1e-4, ordinary: 1e-5, derived: "exactness.md#qsa.attend" },
        },
        Variant {
            name: "early",
            kernel: |ask| early_kernel(ask).map(|_| &attend_merge::QSA_ATTEND_EARLY_MERGE),
            launch: chunk_launch,
            staged: Some(Staged {
                scratch_floats,
                steps: |ask, call, scratch| match early_kernel(ask) {
                    Ok(chunk) => steps(ask, call, scratch, [(chunk, true), (call.kernel, true)]),
                    Err(_) => Vec::new(), // the row has no kernel then, and is not run
                },
            }),
            needs: Needs { cc: 90, spread: Spread::Any },
            // On an H200 0.86 to 0.95 of `chunk` with one to four rows; more have not been measured.
            preferred: Preferred::Tabled(|ask| if ask.rows <= 4 { "early" } else { "chunk" }),
            exactness: Exactness::Bitwise,
        },
        Variant {
            staged: Some(Staged {
                scratch_floats,
                steps: |ask, call, scratch| {
                    let merge = &attend_merge::QSA_ATTEND_CHUNK_MERGE;
                    steps(ask, call, scratch, [(call.kernel, false), (merge, false)])
                },
            }),
            ..Variant::base("chunk", chunk_kernel, chunk_launch)
        },
    ],
};

type Attending = &'static Kernel<AttendParams>;

/// The first launch's kernel, and that for a launch that may start early.
fn kernels(ask: &AttendSizes) -> Result<(Attending, Option<Attending>), String> {
    use attend_chunk as k;
    Ok(match (ask.kind, ask.heads_of_block()) {
        _ if ask.group() > MAX_GROUP => return Err(too_many(ask.group())),
        (CellKind::F32, ..=4) => (&k::QSA_ATTEND_CHUNK_F32_G4, None),
        (CellKind::F32, _) => (&k::QSA_ATTEND_CHUNK_F32_G16, None),
        (CellKind::F16, ..=4) => (&k::QSA_ATTEND_CHUNK_F16_G4, Some(&k::QSA_ATTEND_EARLY_F16_G4)),
        (CellKind::F16, ..=12) => (&k::QSA_ATTEND_CHUNK_F16_G12, Some(&k::QSA_ATTEND_EARLY_F16_G12)),
        (CellKind::F16, _) => (&k::QSA_ATTEND_CHUNK_F16_G16, Some(&k::QSA_ATTEND_EARLY_F16_G16)),
        (CellKind::I8, ..=4) => (&k::QSA_ATTEND_CHUNK_I8_G4, Some(&k::QSA_ATTEND_EARLY_I8_G4)),
        (CellKind::I8, ..=12) => (&k::QSA_ATTEND_CHUNK_I8_G12, Some(&k::QSA_ATTEND_EARLY_I8_G12)),
        (CellKind::I8, _) => (&k::QSA_ATTEND_CHUNK_I8_G16, Some(&k::QSA_ATTEND_EARLY_I8_G16)),
    })
}

fn chunk_kernel(ask: &AttendSizes) -> Result<Attending, String> {
    kernels(ask).map(|(chunk, _)| chunk)
}

fn early_kernel(ask: &AttendSizes) -> Result<Attending, String> {
    kernels(ask)?.1.ok_or_else(|| "cells of f32 are for runs that are held to an oracle".into())
}

fn chunk_launch(ask: &AttendSizes) -> Launch {
    Launch {
        grid: [axis(ask.chunks()), axis(ask.kv_heads * ask.parts()), axis(ask.batch())],
        dynamic_shared: axis(ask.kind.chunk_bytes(ask.heads_of_block())),
        ..Launch::new(1, attend_chunk::BOUNDS.threads)
    }
}

fn scratch_floats(ask: &AttendSizes) -> usize {
    let rows = ask.batch();
    ask.sums(rows) + 2 * rows * ask.chunks() * ask.heads
}

fn too_many(group: usize) -> String {
    format!("{group} query heads to a key head; there are instances for up to {MAX_GROUP}")
}

/// Chunks, then their merge, each with whether it may start early, for as many rows at a time as scratch is there for.
fn steps(
    ask: &AttendSizes,
    call: &Step<AttendParams>,
    scratch: *mut f32,
    [(chunk, early_chunk), (merge, early_merge)]: [(Attending, bool); 2],
) -> Vec<Step<AttendParams>> {
    let batch = ask.batch();
    let (sums, all) = (scratch, call.params);
    let tops = sums.wrapping_add(ask.sums(batch));
    let mut steps = Vec::new();
    for first in (0..ask.rows).step_by(batch) {
        let rows = batch.min(ask.rows - first);
        let params = AttendParams {
            q: all.q.wrapping_add(first * ask.heads * HEAD_DIM),
            gate: all.gate.wrapping_add(first * all.gate_stride as usize),
            ids: if all.ids.is_null() { all.ids } else { all.ids.wrapping_add(first * ask.cap) },
            steps: all.steps.wrapping_add(first),
            y: all.y.wrapping_add(first * ask.heads * HEAD_DIM),
            rows: axis(rows),
            sums,
            tops,
            ..all
        };
        let [x, y, _] = call.launch.grid;
        let launch = Launch { grid: [x, y, axis(rows)], ..call.launch };
        steps.push(Step { kernel: chunk, launch, params, early: early_chunk });
        let launch = Launch {
            grid: [axis(ask.heads * attend_merge::PARTS), axis(rows), 1],
            ..Launch::new(1, attend_merge::BOUNDS.threads)
        };
        steps.push(Step { kernel: merge, launch, params, early: early_merge });
    }
    steps
}

/// Which cells are attended.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<'a> {
    /// The first `width` of each row's list, u32 `[rows, cap]`, dense. One that the row does not see gets no weight.
    Ids(View<'a, u32, 2>),
    /// All `n_kv` that a row sees. It must not see more than this many: what is beyond them gets no weight.
    Seen(usize),
}

/// Operands of [`attend`].
pub struct AttendArgs<'a> {
    /// f32 `[rows, heads * 256]`, normed and rotated, dense.
    pub q: View<'a, f32, 2>,
    /// f32 `[rows, (heads - 1) * gate_head_stride + 256]`: output gate before its sigmoid; head h at `h * gate_head_stride`.
    pub gate: View<'a, f32, 2>,
    /// Elements from a head's gate to the next.
    pub gate_head_stride: usize,
    /// Keys of all cells.
    pub k_cells: CellRows<'a>,
    /// Values of all cells, in the same format.
    pub v_cells: CellRows<'a>,
    /// u32 `[blocks]`: the page of each block of 4 cells, or `NO_PAGE`: its cells get no weight.
    pub table: View<'a, u32, 1>,
    /// Cells of each row.
    pub chosen: Chosen<'a>,
    /// u32 `[rows, 4]`, dense: `StepRecord`s.
    pub steps: View<'a, u32, 2>,
    /// f32 `[rows, heads * 256]`, dense.
    pub y: ViewMut<'a, f32, 2>,
}

/// `y = sigmoid(gate) * softmax(q k^T / 16) v`, head by head, over the chosen cells; query head h reads key head
/// `h / (heads / kv_heads)`. 0 for a row none of whose cells is in memory.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand, [`OpError::NoneFits`] and [`OpError::Unfit`] why no variant runs;
/// nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn attend(pick: Pick<'_>, stream: &Stream, mut args: AttendArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_ATTEND.op;
    let value = |what, got: String, rule| OpError::Value { op, what, got, rule };
    let ([rows, width], kind, sizes) = (args.q.dims, args.k_cells.kind(), args.k_cells.sizes());
    if args.v_cells.kind() != kind {
        let got = format!("{:?} beside keys of {kind:?}", args.v_cells.kind());
        return Err(value("format of values", got, "both must have one format"));
    }
    let (heads, kv_heads) = (width / HEAD_DIM, sizes[1]);
    let cells = pages(op, &args.table, sizes)?;
    if heads == 0 || heads * HEAD_DIM != width || !heads.is_multiple_of(kv_heads) {
        let got = format!("{width} values of q for {kv_heads} key heads");
        return Err(value("head count", got, "heads of 256 values, a multiple of the key heads"));
    }
    let (ids, cap) = match &args.chosen {
        Chosen::Ids(ids) => {
            ids.expect(op, "ids", [rows, ids.dims[1]])?;
            ids.expect_dense(op, "ids")?;
            (ids.ptr(), ids.dims[1])
        }
        Chosen::Seen(most) => (std::ptr::null(), *most),
    };
    if cap == 0 {
        return Err(value("most cells of a row", "0".into(), "a row must have room for one"));
    }
    matrix(op, "q", &args.q, [rows, width])?;
    matrix(op, "y", &args.y.as_view(), [rows, width])?;
    let gate_head_stride = row_stride(op, "head stride of the gate", [args.gate_head_stride, 1], 4)?;
    let gate_width = (heads - 1).saturating_mul(args.gate_head_stride).saturating_add(HEAD_DIM);
    let ask = AttendSizes { rows, heads, kv_heads, cap, kind };
    let params = AttendParams {
        gate_stride: rows_in(op, "gate", &args.gate, [rows, gate_width])?,
        q: args.q.ptr(),
        gate: args.gate.ptr(),
        k: args.k_cells.expect(op, "k_cells", sizes)?,
        v: args.v_cells.expect(op, "v_cells", sizes)?,
        pages: cells,
        ids,
        steps: steps_in(op, &args.steps, rows)?,
        sums: std::ptr::null_mut(),
        tops: std::ptr::null_mut(),
        y: args.y.ptr_mut(),
        rows: count(op, "rows", rows, i32::MAX as u32)?,
        heads: count(op, "heads", heads, 65_535)?,
        cap: count(op, "most cells of a row", cap, i32::MAX as u32)?,
        chunks: count(op, "chunks", ask.chunks(), i32::MAX as u32)?,
        gate_head_stride,
    };
    if rows == 0 {
        return Ok(QSA_ATTEND.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; ids, pages and records outside are the kernels' matter; views borrow
    // their buffers, and y's exclusively.
    unsafe { QSA_ATTEND.enqueue(pick, stream, &ask, params) }
}
