//! `qsa.attend` over chosen cells of a long context: a captured graph of calls, each over its own blocks of one of several
//! copies of the cells, so that neither is in the L2.

use varve_gpu::qsa::{HEAD_DIM, RATIO, StepRecord, WidthRule, most_cells};

use super::case::{MeasureError, Prepared, between_events, promised_graphs};
use super::floor::Floor;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::dispatch::Pick;
use crate::ops::qsa_attend::{AttendArgs, AttendSizes, Chosen, QSA_ATTEND, attend};
use crate::ops::qsa_cells::CellKind;
use crate::ops::qsa_steps::{WORDS, words};
use crate::proof::cells::{CellValues, LoadedCells, PageTable};
use crate::proof::random::{Array, Random};

/// Query and key heads of Qwen3.8-Flash-Next.
const HEADS: [usize; 2] = [24, 2];

/// A measured call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttendCase {
    /// Format of the cells.
    pub kind: CellKind,
    /// Rows, each with blocks of its own.
    pub rows: usize,
    /// Cells of the context.
    pub cells: usize,
    /// Cells that a row chooses; three more are its tail.
    pub budget: usize,
}

impl AttendCase {
    /// What a launch must read of the cells: the chosen ones' keys and values.
    pub const fn cell_bytes(&self) -> usize {
        2 * self.rows * most_cells(self.budget) * HEADS[1] * self.kind.row_bytes()
    }

    /// The floor: the chosen cells and their numbers, queries and gates in, y out; two operations a product, two products.
    pub const fn floor(&self) -> Floor {
        let (width, heads) = (most_cells(self.budget), HEADS[0]);
        let bytes = self.cell_bytes() + 4 * self.rows * (width + 3 * heads * HEAD_DIM);
        Floor { bytes: bytes as u64, flops: (4 * self.rows * width * heads * HEAD_DIM) as u64 }
    }

    /// The call's sizes.
    const fn sizes(&self) -> AttendSizes {
        let [heads, kv_heads] = HEADS;
        AttendSizes { rows: self.rows, heads, kv_heads, cap: most_cells(self.budget), kind: self.kind }
    }
}

/// A call that is set up.
pub struct Attend {
    stream: Stream,
    sizes: AttendCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

struct Operands {
    sizes: AttendCase,
    pages: usize,
    cells: Vec<[LoadedCells; 2]>,
    table: Buffer<u32>,
    lists: Vec<Buffer<u32>>,
    steps: Buffer<u32>,
    q: Buffer<f32>,
    gate: Buffer<f32>,
    y: Buffer<f32>,
}

/// Rows of random values that the cells repeat.
const SOME_ROWS: usize = 4096;

/// Rows of ordinary values: random codes and halves.
fn values(kind: CellKind, rows: usize, array: Array) -> CellValues {
    let random = Random::new(1, array);
    let mut some = CellValues::blank(kind, SOME_ROWS.min(rows));
    for row in 0..SOME_ROWS.min(rows) {
        let x: Vec<f32> = (0..HEAD_DIM).map(|d| random.normal((row * HEAD_DIM + d) as u64) as f32).collect();
        some.put(row, &x);
    }
    fn repeat<T: Copy>(some: &[T], len: usize) -> Vec<T> {
        some.iter().copied().cycle().take(len).collect()
    }
    match some {
        CellValues::F32(all) => CellValues::F32(repeat(&all, rows * HEAD_DIM)),
        CellValues::F16(all) => CellValues::F16(repeat(&all, rows * HEAD_DIM)),
        CellValues::I8(codes, scales) => {
            let per_row = scales.len() / SOME_ROWS.min(rows);
            CellValues::I8(repeat(&codes, rows * HEAD_DIM), repeat(&scales, rows * per_row))
        }
    }
}

impl Operands {
    fn new(device: &Device, sizes: AttendCase) -> Result<Self, MeasureError> {
        let AttendCase { kind, rows, cells, budget } = sizes;
        let [heads, kv_heads] = HEADS;
        let l2 = usize::try_from(device.caps().l2_bytes).unwrap_or(usize::MAX);
        let pages = PageTable::permuted(cells / RATIO, false);
        let all_rows = pages.pages * kv_heads * RATIO;
        let (k, v) = (values(kind, all_rows, Array::Key), values(kind, all_rows, Array::Value));
        let emulated = device.caps().is_emulator;
        let copies = if emulated { 1 } else { (16 * l2).div_ceil(2 * all_rows * kind.row_bytes()).clamp(1, 16) };
        let lists = if emulated { 2 } else { (4 * l2).div_ceil(sizes.cell_bytes()).clamp(2, 256) };
        let record = StepRecord::at(cells as u32 - 2, budget as u32, WidthRule::BlocksPlusTail);
        let random = Random::new(1, Array::Pick);
        let (blocks, strata) = (budget / RATIO, f64::from(record.n_bid) / (budget / RATIO) as f64);
        let list = |n: usize| -> Vec<u32> {
            let of_row = |row: usize| {
                let block = move |i: usize| {
                    let at = (i as f64 + random.uniform(((n * rows + row) * blocks + i) as u64)) * strata;
                    (at as u32).min(record.n_bid - 1)
                };
                let chosen = (0..blocks).map(block).flat_map(|b| b * RATIO as u32..(b + 1) * RATIO as u32);
                chosen.chain(record.n_bid * RATIO as u32..record.n_kv)
            };
            (0..rows).flat_map(of_row).collect()
        };
        let steps = words(record).repeat(rows);
        let normals = |array, n: usize| -> Vec<f32> {
            let random = Random::new(2, array);
            (0..n).map(|i| random.normal(i as u64) as f32).collect()
        };
        let width = heads * HEAD_DIM;
        Ok(Self {
            sizes,
            pages: pages.pages,
            cells: (0..copies).map(|_| Ok([k.load(device)?, v.load(device)?])).collect::<Result<_, MeasureError>>()?,
            table: device.upload(&pages.table)?,
            lists: (0..lists).map(|n| device.upload(&list(n))).collect::<Result<_, _>>()?,
            steps: device.upload(&steps)?,
            q: device.upload(&normals(Array::Query, rows * width))?,
            gate: device.upload(&normals(Array::Gate, rows * 2 * width))?,
            y: device.alloc(rows * width)?,
        })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let ([heads, kv_heads], rows) = (HEADS, self.sizes.rows);
        let (sizes, cap, width) = ([self.pages, kv_heads], most_cells(self.sizes.budget), heads * HEAD_DIM);
        let [k, v] = &self.cells[i % self.cells.len()];
        let args = AttendArgs {
            q: self.q.view([rows, width])?,
            gate: self.gate.view_strided(HEAD_DIM, [rows, 2 * width - HEAD_DIM], [2 * width, 1])?,
            gate_head_stride: 2 * HEAD_DIM,
            k_cells: k.rows(sizes)?,
            v_cells: v.rows(sizes)?,
            table: self.table.view([self.table.len()])?,
            chosen: Chosen::Ids(self.lists[i % self.lists.len()].view([rows, cap])?),
            steps: self.steps.view([rows, WORDS])?,
            y: self.y.view_mut([rows, width])?,
        };
        attend(Pick::Named(variant), stream, args)?;
        Ok(())
    }
}

impl Attend {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that breaks its promise.
    pub fn new(device: &Device, sizes: AttendCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let rows = QSA_ATTEND.rows.iter().rev().filter(|row| named(row.name));
        let rows = rows.filter(|&row| QSA_ATTEND.launch_of(row, device.caps(), &sizes.sizes()).is_ok());
        let arms: Vec<_> = rows.map(|row| row.name).collect();
        // A prompt's call is as long as a graph of windows.
        let launches = (launches(device) / sizes.rows.div_ceil(8)).max(2);
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), launches };
        let name = case.case();
        case.graphs = promised_graphs(
            (QSA_ATTEND.op, &name),
            (&case.stream, &case.arms[..], case.launches),
            |variant| QSA_ATTEND.promise_of(variant),
            &mut operands,
            |operands| &mut operands.y,
            Operands::launch,
        )?;
        Ok(case)
    }
}

impl Prepared for Attend {
    fn op(&self) -> &'static str {
        QSA_ATTEND.op
    }

    fn case(&self) -> String {
        let AttendCase { kind, rows, cells, budget } = self.sizes;
        format!("{kind:?}, {rows} rows of {} of {cells} cells, cold", most_cells(budget))
    }

    fn tokens(&self) -> usize {
        self.sizes.rows
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        QSA_ATTEND.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        self.sizes.floor()
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
