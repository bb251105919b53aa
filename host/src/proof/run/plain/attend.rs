//! `qsa.attend`: over chosen cells and over all, in every format, with cells that are not in memory or not to be seen. Cells
//! that no row attends to are NaN, pages are in no order, and behind a row's list stand cells that it attends to already.

use std::fmt;
use std::ops::Range;

use varve_gpu::qsa::{HEAD_DIM, RATIO, StepRecord, WidthRule, most_cells};

use super::operand::{LAWS, Law, Layout, Loaded, Matrix, rows, vector};
use super::replay::{self, Varied};
use super::{Call, Case, Expected, Promised, Values, aligned_works, prove, variants};
use crate::backend::{BackendError, Device};
use crate::ops::dispatch::Pick;
use crate::ops::qsa_attend::{AttendArgs, AttendSizes, Chosen, QSA_ATTEND, attend};
use crate::ops::qsa_cells::CellKind;
use crate::ops::qsa_steps::{WORDS, step_records};
use crate::proof::cells::{CellValues, PageTable};
use crate::proof::random::{Array, Random};
use crate::proof::reference::attn as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Scale, Work};

/// Query heads, key heads, position of the first row, how many cells are chosen (0: all are attended), format, whether some
/// cells are not in memory and some ids not to be seen.
#[derive(Clone, Copy)]
pub struct Width(usize, usize, usize, usize, CellKind, bool);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(heads, kv_heads, first, budget, kind, holes) = self;
        write!(f, "heads={heads}x{kv_heads}/first={first}/{kind:?}")?;
        if *budget > 0 {
            write!(f, "/{budget}")?;
        }
        write!(f, "{}", if *holes { "/holes" } else { "" })
    }
}

const WIDTHS: &[Width] = &[
    Width(4, 2, 61, 0, CellKind::F32, false),
    Width(24, 2, 90, 64, CellKind::I8, false),
    Width(12, 1, 130, 0, CellKind::F16, false),
    Width(5, 1, 300, 132, CellKind::I8, true),
    Width(16, 1, 3, 0, CellKind::F32, false),
    Width(3, 3, 0, 0, CellKind::I8, false),
    Width(16, 1, 70, 8, CellKind::F16, true),
    Width(4, 1, 200, 64, CellKind::F16, false),
    Width(13, 1, 62, 0, CellKind::I8, true),
];

/// The model's sizes, short, at the edge of the budget, and deep in a long context.
const LARGE: &[Width] = &[
    Width(24, 2, 1499, 2048, CellKind::I8, false),
    Width(24, 2, 2047, 2048, CellKind::F16, false),
    Width(24, 2, 2099, 2048, CellKind::I8, false),
    Width(24, 2, 32_765, 2048, CellKind::I8, false),
    Width(24, 2, 131_069, 2048, CellKind::I8, true),
    Width(24, 2, 131_069, 2048, CellKind::F16, false),
];

struct Attend {
    width: Width,
    q: Matrix<f32>,
    gate: Matrix<f32>,
    gate_stride: usize,
    pages: PageTable,
    k: CellValues,
    v: CellValues,
    /// Lists of `cap` cells.
    ids: Vec<u32>,
    cap: usize,
}

/// The cells that row `t` may attend to: blocks in equal distances and the tail, or all.
fn chosen(Width(_, _, first, budget, _, holes): Width, t: usize) -> Vec<u32> {
    let record = StepRecord::at((first + t) as u32, budget as u32, WidthRule::BlocksPlusTail);
    if budget == 0 || record.n_kv as usize <= budget {
        return (0..record.n_kv).collect();
    }
    let blocks = budget as u32 / RATIO as u32;
    // The first block is shifted from row to row.
    let block = |i: u32| (i * record.n_bid + t as u32 % 3 * (record.n_bid - blocks) / 3) / blocks;
    let cells = (0..blocks).flat_map(|i| {
        let first = block(i).min(record.n_bid - blocks + i) * RATIO as u32;
        first..first + RATIO as u32
    });
    let mut cells: Vec<u32> = cells.chain(record.n_bid * RATIO as u32..record.n_kv).collect();
    if holes {
        cells[2] = record.n_kv + t as u32; // of a later row, or of none
        cells[5] = u32::MAX;
    }
    cells
}

impl Attend {
    fn new(call: Call, width: Width) -> Self {
        let Width(heads, kv_heads, first, budget, kind, holes) = width;
        let gate_stride = if call.layout == Layout::Gaps { 2 * HEAD_DIM } else { HEAD_DIM };
        let pages = PageTable::permuted((first + call.tokens).div_ceil(RATIO) + 1, holes);
        let blank = CellValues::blank(kind, pages.pages * kv_heads * RATIO);
        let mut case = Self {
            width,
            q: Matrix::random(0, Layout::Dense, [call.tokens, heads * HEAD_DIM], call.law),
            gate: Matrix::random(1, call.layout, [call.tokens, (heads - 1) * gate_stride + HEAD_DIM], call.law),
            gate_stride,
            pages,
            v: blank.clone(),
            k: blank,
            ids: Vec::new(),
            cap: if budget == 0 { first + call.tokens } else { most_cells(budget) },
        };
        // Formats with little range take the law in q alone.
        let scale = if kind == CellKind::F32 { call.law.scale } else { 1.0 };
        let (keys, values) = (Random::new(7, Array::Key), Random::new(7, Array::Value));
        let mut cells: Vec<u32> = (0..call.tokens).flat_map(|t| chosen(width, t)).collect();
        cells.sort_unstable();
        cells.dedup();
        for (cell, head) in cells.into_iter().flat_map(|cell| (0..kv_heads).map(move |head| (cell as usize, head))) {
            let Some(row) = case.pages.row(cell, head, kv_heads) else { continue };
            let at = |d: usize| ((cell * kv_heads + head) * HEAD_DIM + d) as u64;
            let of = |random: &Random| (0..HEAD_DIM).map(|d| (scale * random.normal(at(d))) as f32).collect::<Vec<_>>();
            case.k.put(row, &of(&keys));
            case.v.put(row, &of(&values));
        }
        for t in 0..call.tokens {
            let mut list = chosen(width, t);
            list.resize(case.cap, list[0]);
            case.ids.extend(list);
        }
        case
    }

    /// Sizes of the call.
    fn sizes(&self) -> AttendSizes {
        let Width(heads, kv_heads, _, _, kind, _) = self.width;
        AttendSizes { rows: self.q.rows, heads, kv_heads, cap: self.cap, kind }
    }

    /// What must come, where a weight may be off by `floor` besides.
    fn outputs(&self, floor: f64) -> Vec<Expected> {
        let heads = self.width.0;
        vec![Expected::Near((0..self.q.rows * heads).flat_map(|i| self.head(i / heads, i % heads, floor)).collect())]
    }

    fn head(&self, t: usize, head: usize, floor: f64) -> Vec<Near> {
        let Width(heads, kv_heads, first, ..) = self.width;
        let kv_head = head / (heads / kv_heads);
        let seen = chosen(self.width, t).into_iter().filter(|&cell| cell as usize <= first + t);
        let rows: Vec<usize> = seen.filter_map(|cell| self.pages.row(cell as usize, kv_head, kv_heads)).collect();
        let of = |cells: &CellValues| rows.iter().map(|&row| cells.row(row)).collect::<Vec<_>>();
        let (k, v) = (of(&self.k), of(&self.v));
        let (k, v): (Vec<&[f32]>, Vec<&[f32]>) =
            (k.iter().map(|row| &row[..]).collect(), v.iter().map(|row| &row[..]).collect());
        let y = reference::softmax(&self.q.row(t)[head * HEAD_DIM..][..HEAD_DIM], &k, &v);
        let largest = v.iter().flat_map(|row| row.iter()).fold(0.0f64, |a, &x| a.max(f64::from(x).abs()));
        let lost = floor * largest * v.len() as f64;
        let y = y.into_iter().map(|y| Near { slack: y.slack + lost, ..y });
        let gate = &self.gate.row(t)[head * self.gate_stride..][..HEAD_DIM];
        y.zip(gate).map(|(y, &gate)| y.product(Near::sigmoid(f64::from(gate), 0.0))).collect()
    }
}

impl Case for Attend {
    fn names(&self) -> [&'static str; 2] {
        [QSA_ATTEND.op, QSA_ATTEND.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &QSA_ATTEND, &self.sizes())
    }

    fn tokens(&self) -> usize {
        self.q.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, Width(_, kv_heads, first, budget, ..)) = (device.stream()?, self.width);
        let (q, gate) = (Loaded::of(device, &self.q)?, Loaded::of(device, &self.gate)?);
        let (k, v, sizes) = (self.k.load(device)?, self.v.load(device)?, [self.pages.pages, kv_heads]);
        let (table, ids) = (device.upload(&self.pages.table)?, device.upload(&self.ids)?);
        let steps = device.upload(&step_records(first, self.q.rows, budget, WidthRule::default()))?;
        let mut y = Loaded::blank(device, 0, Layout::Dense, [self.q.rows, self.q.width])?;
        for piece in pieces {
            let chosen = match budget {
                0 => Chosen::Seen(self.cap),
                _ => Chosen::Ids(rows(&ids, piece, self.cap)?),
            };
            let args = AttendArgs {
                q: q.view(piece)?,
                gate: gate.view(piece)?,
                gate_head_stride: self.gate_stride,
                k_cells: k.rows(sizes).map_err(BackendError::from)?,
                v_cells: v.rows(sizes).map_err(BackendError::from)?,
                table: vector(&table)?,
                chosen,
                steps: rows(&steps, piece, WORDS)?,
                y: y.view_mut(piece)?,
            };
            stream.poison_scratch()?;
            attend(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        self.outputs(0.0)
    }

    /// Weights of `prompt` are f16 pairs of 2^14 at most, so those below 2^-39 are lost, or off by that.
    fn expected_by(&self, variant: &str) -> Option<Vec<Expected>> {
        (variant == "prompt").then(|| self.outputs(2.0f64.powi(-39)))
    }
}

fn cases(scale: Scale) -> Vec<Work> {
    let mut works = aligned_works(scale, WIDTHS, Attend::new);
    let window = |width: &'static Width, tokens: usize, law: &'static Law| {
        let call = Call { tokens, width: 0, layout: Layout::Dense, law };
        let name = format!("window/{}/T={tokens}/{width}", law.name);
        Work::new(name, move |context, name| prove(context, name, &Attend::new(call, *width)))
    };
    works.push(window(&WIDTHS[1], 8, &LAWS[0]));
    // Formats that `prompt` takes.
    works.extend(LAWS[1..].iter().flat_map(|law| [&WIDTHS[1], &WIDTHS[7]].map(|width| window(width, 3, law))));
    if !scale.is_small() {
        works.extend(LARGE.iter().map(|width| window(width, 8, &LAWS[0])));
    }
    works.extend(replay::works(scale, Varied::Attend));
    works
}

/// `qsa.attend`; in calls with gaps the gates of heads are twice as far apart as they are wide.
pub const ATTEND: Operation = Operation { op: QSA_ATTEND.op, variants: || QSA_ATTEND.listed().1, works: cases };
