//! A decode step of QSA as a captured graph, replayed at other depths of the context: `qsa.append`, `qsa.scores`, `qsa.topk`
//! and `qsa.attend`, of which only the step records and the rows' own numbers are written anew.
//!
//! Every replay must have the bits of launches without a graph, and the cells that the host chooses from its scores. One
//! operation runs by each of its variants, the others by dispatch. The emulator's graphs are lists of launches: there this
//! shows that no launch depends on the depth of its capture; that a driver's graph replays them so, only a card shows.

use varve_gpu::qsa::{HEAD_DIM, INDEX_DIM, INDEX_HEADS, RATIO, StepRecord, WidthRule, most_cells};

use super::norm::ANGLES;
use super::operand::{LAWS, Layout, Loaded, Matrix, vector};
use super::{Promised, Values, same, variants};
use crate::backend::{BackendError, Buffer, Device, Stream};
use crate::ops::attn_norm_rope::RopeTables;
use crate::ops::dispatch::Pick;
use crate::ops::qsa_append::{AppendArgs, append};
use crate::ops::qsa_attend::{AttendArgs, AttendSizes, Chosen, QSA_ATTEND, attend};
use crate::ops::qsa_cells::CellKind;
use crate::ops::qsa_scores::{QSA_SCORES, ScoresArgs, ScoresSizes, scores};
use crate::ops::qsa_steps::{WORDS, step_records};
use crate::ops::qsa_topk::{QSA_TOPK, TopkArgs, TopkSizes, topk};
use crate::proof::cells::{CellValues, LoadedCells};
use crate::proof::compare;
use crate::proof::random::{Array, Random};
use crate::proof::reference::topk as reference;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::row::Row;
use crate::proof::run::{Context, Scale, Work};

/// Key heads.
const KV_HEADS: usize = 2;
/// Pairs of an index key that rotate.
const HALF: usize = 4;
/// Pages in memory; a deep context's blocks share them, since they are only read.
const PAGES: usize = 53;
/// What is compared with.
const BASE: &str = "launches";

/// Rows of a step, and the context that it runs in.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    kind: CellKind,
    heads: usize,
    budget: usize,
    /// Cells that the last row sees, in turn; the last turn is as the first.
    depths: [usize; 3],
    /// Cells that the buffers have room for.
    capacity: usize,
}

impl Sizes {
    /// Blocks that the buffers have room for, as the model rounds them up.
    fn max_blocks(&self) -> usize {
        (self.capacity / RATIO + 1).next_multiple_of(4)
    }

    fn cap(&self) -> usize {
        most_cells(self.budget)
    }

    fn attend(&self) -> AttendSizes {
        let Self { rows, heads, kind, .. } = *self;
        AttendSizes { rows, heads, kv_heads: KV_HEADS, cap: self.cap(), kind }
    }

    fn topk(&self) -> TopkSizes {
        TopkSizes { rows: self.rows, max_blocks: self.max_blocks() }
    }

    fn first(&self, depth: usize) -> usize {
        depth - self.rows
    }
}

/// What a step is given: another one for each depth.
struct Given {
    steps: Matrix<u32>,
    raw: Matrix<f32>,
    index_q: Matrix<f32>,
    q: Matrix<f32>,
    gate: Matrix<f32>,
}

impl Given {
    fn new(sizes: Sizes, depth: usize) -> Self {
        let Sizes { rows, heads, budget, .. } = sizes;
        let of =
            |operand: usize, width| Matrix::random((operand + depth) as u64, Layout::Dense, [rows, width], &LAWS[0]);
        let steps = step_records(sizes.first(depth), rows, budget, WidthRule::default());
        Self {
            steps: Matrix::of(0, [rows, WORDS], steps),
            raw: of(1, INDEX_DIM),
            index_q: of(2, INDEX_HEADS * INDEX_DIM),
            q: of(3, heads * HEAD_DIM),
            gate: of(4, heads * HEAD_DIM),
        }
    }
}

/// What the context holds at first.
struct Past {
    gain: Matrix<f32>,
    dead: Matrix<f32>,
    tail: Matrix<f32>,
    pooled: Matrix<f32>,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
    table: Vec<u32>,
    k: CellValues,
    v: CellValues,
}

impl Past {
    fn new(sizes: Sizes) -> Self {
        let of = |operand, rows, width| Matrix::random(operand, Layout::Dense, [rows, width], &LAWS[0]);
        let angles = |operand| Matrix::random(operand, Layout::Dense, [sizes.capacity, HALF], &ANGLES);
        let rows = PAGES * KV_HEADS * RATIO;
        let cells = |array| {
            let (random, mut cells) = (Random::new(7, array), CellValues::blank(sizes.kind, rows));
            for row in 0..rows {
                let x: Vec<f32> = (0..HEAD_DIM).map(|d| random.normal((row * HEAD_DIM + d) as u64) as f32).collect();
                cells.put(row, &x);
            }
            cells
        };
        Self {
            gain: of(5, 1, INDEX_DIM),
            dead: of(6, 1, INDEX_DIM),
            tail: of(7, RATIO - 1, INDEX_DIM),
            pooled: of(8, sizes.max_blocks(), INDEX_DIM),
            cos: angles(9),
            sin: angles(10),
            table: (0..sizes.max_blocks()).map(|block| (block * 19 % PAGES) as u32).collect(),
            k: cells(Array::Key),
            v: cells(Array::Value),
        }
    }
}

/// All of it on a device.
struct Memory {
    steps: Loaded<u32>,
    raw: Loaded<f32>,
    index_q: Loaded<f32>,
    q: Loaded<f32>,
    gate: Loaded<f32>,
    gain: Buffer<f32>,
    dead: Buffer<f32>,
    tail: Loaded<f32>,
    pooled: Loaded<f32>,
    cos: Loaded<f32>,
    sin: Loaded<f32>,
    table: Buffer<u32>,
    k: LoadedCells,
    v: LoadedCells,
    scores: Loaded<f32>,
    ids: Loaded<u32>,
    y: Loaded<f32>,
}

/// What a step leaves: its results, then what the context keeps.
type Left = Vec<(&'static str, Values)>;
/// How many of them are results, and which one is the ids.
const RESULTS: usize = 3;
const IDS: usize = 1;

/// Who says which variants run.
#[derive(Clone, Copy)]
struct Picks<'a> {
    append: Pick<'a>,
    scores: Pick<'a>,
    topk: Pick<'a>,
    attend: Pick<'a>,
}

impl Memory {
    fn new(device: &Device, sizes: Sizes, past: &Past) -> Result<Self, Flaw> {
        let blank = |width| Loaded::blank(device, 0, Layout::Dense, [sizes.rows, width]);
        let of = |matrix| Loaded::of(device, matrix);
        Ok(Self {
            steps: Loaded::blank(device, 0, Layout::Dense, [sizes.rows, WORDS])?,
            raw: blank(INDEX_DIM)?,
            index_q: blank(INDEX_HEADS * INDEX_DIM)?,
            q: blank(sizes.heads * HEAD_DIM)?,
            gate: blank(sizes.heads * HEAD_DIM)?,
            gain: device.upload(&past.gain.values)?,
            dead: device.upload(&past.dead.values)?,
            tail: of(&past.tail)?,
            pooled: of(&past.pooled)?,
            cos: of(&past.cos)?,
            sin: of(&past.sin)?,
            table: device.upload(&past.table)?,
            k: past.k.load(device)?,
            v: past.v.load(device)?,
            scores: blank(sizes.max_blocks())?,
            ids: Loaded::blank(device, 0, Layout::Dense, [sizes.rows, sizes.cap()])?,
            y: blank(sizes.heads * HEAD_DIM)?,
        })
    }

    /// Another step's numbers, in the same places; nobody has written its outputs.
    fn give(&mut self, given: &Given) -> Result<(), BackendError> {
        self.steps.put(0, &given.steps.values)?;
        self.raw.put(0, &given.raw.values)?;
        self.index_q.put(0, &given.index_q.values)?;
        self.q.put(0, &given.q.values)?;
        self.gate.put(0, &given.gate.values)?;
        self.scores.poison()?;
        self.ids.poison()?;
        self.y.poison()
    }

    fn enqueue(&mut self, stream: &Stream, picks: Picks<'_>) -> Result<(), Flaw> {
        let cells = [PAGES, KV_HEADS];
        let args = AppendArgs {
            raw: self.raw.all()?,
            steps: self.steps.all()?,
            gain: vector(&self.gain)?,
            tail: self.tail.all_mut()?,
            pooled: self.pooled.all_mut()?,
            dead: self.dead.view_mut([INDEX_DIM]).map_err(BackendError::from)?,
            rope: RopeTables { cos: self.cos.all()?, sin: self.sin.all()?, first: 0 },
            round_to_f16: true,
            eps: 1e-6,
        };
        append(picks.append, stream, args)?;
        let args = ScoresArgs {
            q: self.index_q.all()?,
            keys: self.pooled.all()?,
            dead: vector(&self.dead)?,
            steps: self.steps.all()?,
            scores: self.scores.all_mut()?,
            reach: 0,
        };
        scores(picks.scores, stream, args)?;
        let args = TopkArgs { scores: self.scores.all()?, steps: self.steps.all()?, ids: self.ids.all_mut()? };
        topk(picks.topk, stream, args)?;
        let args = AttendArgs {
            q: self.q.all()?,
            gate: self.gate.all()?,
            gate_head_stride: HEAD_DIM,
            k_cells: self.k.rows(cells).map_err(BackendError::from)?,
            v_cells: self.v.rows(cells).map_err(BackendError::from)?,
            table: vector(&self.table)?,
            chosen: Chosen::Ids(self.ids.all()?),
            steps: self.steps.all()?,
            y: self.y.all_mut()?,
        };
        attend(picks.attend, stream, args)?;
        Ok(())
    }

    fn left(&self) -> Result<Left, Flaw> {
        Ok(vec![
            ("scores", Values::F32(self.scores.read_any()?)),
            ("ids", Values::U32(self.ids.read_any()?)),
            ("y", Values::F32(self.y.read()?)),
            ("pooled", Values::F32(self.pooled.read()?)),
            ("tail", Values::F32(self.tail.read()?)),
        ])
    }

    /// Holds each row's cells to those that the host chooses from the scores.
    fn check_ids(&self, row: &mut Row, sizes: Sizes, depth: usize) -> Result<(), Flaw> {
        let (scores, ids) = (self.scores.read_any()?, self.ids.read_any()?);
        for (t, (scores, ids)) in scores.chunks(sizes.max_blocks()).zip(ids.chunks(sizes.cap())).enumerate() {
            let record = StepRecord::at((sizes.first(depth) + t) as u32, sizes.budget as u32, WidthRule::default());
            let wanted = reference::topk(scores, record);
            let outcome = compare::bits(&wanted, &ids[..wanted.len()]);
            row.check(&format!("{depth} cells, row {t}, ids by the host"), outcome);
        }
        Ok(())
    }
}

fn check(device: &Device, row: &mut Row, sizes: Sizes, past: &Past, picks: Picks<'_>) -> Result<(), Flaw> {
    let (mut plain, mut captured) = (Memory::new(device, sizes, past)?, Memory::new(device, sizes, past)?);
    let (stream, mut graph, mut all) = (device.stream()?, None, Vec::<Left>::new());
    for depth in sizes.depths {
        let given = Given::new(sizes, depth);
        let fresh = device.stream()?;
        plain.give(&given)?;
        plain.enqueue(&fresh, picks)?;
        fresh.synchronize()?;
        captured.give(&given)?;
        let graph = match &mut graph {
            Some(graph) => graph,
            none => none.insert(stream.capture(|stream| captured.enqueue(stream, picks))?),
        };
        graph.launch(&stream)?;
        stream.synchronize()?;
        plain.check_ids(row, sizes, depth)?;
        let got = captured.left()?;
        same(row, &format!("{depth} cells"), &plain.left()?, &got);
        all.push(got);
    }
    same(row, "back again", &all[0][..RESULTS], &all[2]);
    if all[0][IDS] == all[1][IDS] {
        row.fail("ids", "a replay does not see another depth");
    }
    if row.bit_equal {
        row.base_differs_by(0.0);
    }
    Ok(())
}

/// Which operation runs by each of its variants.
#[derive(Clone, Copy)]
pub(super) enum Varied {
    /// `qsa.scores`.
    Scores,
    /// `qsa.topk`.
    Topk,
    /// `qsa.attend`.
    Attend,
}

impl Varied {
    fn op(self) -> &'static str {
        match self {
            Self::Scores => QSA_SCORES.op,
            Self::Topk => QSA_TOPK.op,
            Self::Attend => QSA_ATTEND.op,
        }
    }

    fn variants(self, context: &Context<'_>, sizes: Sizes) -> Vec<Promised> {
        match self {
            Self::Scores => {
                let sizes = ScoresSizes::on(context.device().caps(), sizes.rows, sizes.max_blocks());
                variants(context, &QSA_SCORES, &sizes)
            }
            Self::Topk => variants(context, &QSA_TOPK, &sizes.topk()),
            Self::Attend => variants(context, &QSA_ATTEND, &sizes.attend()),
        }
    }

    fn picks<'a>(self, dispatched: Pick<'a>, variant: &'a str) -> Picks<'a> {
        let all = Picks { append: dispatched, scores: dispatched, topk: dispatched, attend: dispatched };
        let named = Pick::Named(variant);
        match self {
            Self::Scores => Picks { scores: named, ..all },
            Self::Topk => Picks { topk: named, ..all },
            Self::Attend => Picks { attend: named, ..all },
        }
    }
}

fn prove(context: &Context<'_>, name: &str, sizes: Sizes, varied: Varied) -> Vec<Row> {
    let variants = varied.variants(context, sizes);
    if variants.is_empty() {
        return Vec::new();
    }
    let past = Past::new(sizes);
    // Schedules of the emulator are the matter of other rows.
    let runs = if context.device().caps().is_emulator { 1 } else { context.devices.seeds() };
    let replay = |row: &mut Row| -> Result<(), Flaw> {
        row.seeds = runs;
        let picks = varied.picks(Pick::Best(&context.dispatch), row.variant);
        (0..runs).try_for_each(|_| check(context.device(), row, sizes, &past, picks))
    };
    let row_of = |(variant, exactness): Promised| context.row((varied.op(), variant, BASE), exactness, name, replay);
    variants.into_iter().map(row_of).collect()
}

/// A step of one token and one of four, in a context whose capacity is that of the deeper place.
pub(super) fn works(scale: Scale, varied: Varied) -> Vec<Work> {
    let small = Sizes { rows: 1, kind: CellKind::F16, heads: 6, budget: 32, depths: [120, 700, 120], capacity: 760 };
    let full = Sizes { heads: 24, budget: 2048, depths: [4096, 131_072, 4096], capacity: 135_168, ..small };
    let one = if scale.is_small() { small } else { full };
    let work = |sizes: Sizes| {
        let [shallow, deep, _] = sizes.depths;
        let name = format!("replay/T={}/cells={shallow},{deep},{shallow}", sizes.rows);
        Work::new(name, move |context, name| prove(context, name, sizes, varied))
    };
    [one, Sizes { rows: 4, kind: CellKind::I8, ..one }].map(work).into()
}
