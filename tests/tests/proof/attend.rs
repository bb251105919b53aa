//! `qsa.attend`: readings of the definition that look as good as the right one are far from what the kernels do, and operands
//! that do not belong together are refused.

use varve::backend::{Device, EmulatorConfig};
use varve::ops::dispatch::{Dispatch, OpError, Pick};
use varve::ops::qsa_attend::{AttendArgs, Chosen, QSA_ATTEND, attend};
use varve::ops::qsa_cells::CellKind;
use varve::ops::qsa_steps::{WORDS, step_records};
use varve::proof::cells::{CellValues, PageTable};
use varve_gpu::qsa::{HEAD_DIM, RATIO, WidthRule};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const CELLS: usize = 23;

/// What may be read in two ways.
#[derive(Clone, Copy)]
struct Reading {
    kv_head: fn(usize) -> usize,
    scale: f64,
    /// Which half of a head's projection is the gate.
    gate_half: usize,
    gate: fn(f64) -> f64,
    /// Page of a block, given what the table says.
    page: fn(usize, usize) -> usize,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

const RIGHT: Reading = Reading {
    kv_head: |h| h / (HEADS / KV_HEADS),
    scale: 1.0 / 16.0,
    gate_half: 1,
    gate: sigmoid,
    page: |_, page| page,
};

struct Given {
    q: Vec<f32>,
    /// Projections: queries, then gates, of each head.
    projected: Vec<f32>,
    pages: PageTable,
    k: CellValues,
    v: CellValues,
}

fn wave(i: usize, speed: f32) -> f32 {
    (i as f32 * speed).sin() * (1.0 + (i % 7) as f32 / 4.0)
}

impl Given {
    fn new(kind: CellKind) -> Self {
        let pages = PageTable::permuted(CELLS.div_ceil(RATIO), false);
        let rows = pages.pages * KV_HEADS * RATIO;
        let mut cells = [CellValues::blank(kind, rows), CellValues::blank(kind, rows)];
        for (n, cells) in cells.iter_mut().enumerate() {
            for row in 0..rows {
                let x: Vec<f32> =
                    (0..HEAD_DIM).map(|d| wave(row * HEAD_DIM + d + 31 * n, 0.37 + 0.1 * n as f32)).collect();
                cells.put(row, &x);
            }
        }
        let [k, v] = cells;
        let values = |n: usize, speed| (0..n).map(|i| wave(i, speed)).collect::<Vec<_>>();
        Self { q: values(HEADS * HEAD_DIM, 0.53), projected: values(2 * HEADS * HEAD_DIM, 0.29), pages, k, v }
    }

    fn by_kernel(&self) -> Vec<f32> {
        let device = Device::emulator(EmulatorConfig::default());
        let steps = device.upload(&step_records(CELLS - 1, 1, 2048, WidthRule::default())).unwrap();
        let (q, projected) = (device.upload(&self.q).unwrap(), device.upload(&self.projected).unwrap());
        let (k, v) = (self.k.load(&device).unwrap(), self.v.load(&device).unwrap());
        let table = device.upload(&self.pages.table).unwrap();
        let mut y = device.alloc::<f32>(HEADS * HEAD_DIM).unwrap();
        let (width, sizes) = (HEADS * HEAD_DIM, [self.pages.pages, KV_HEADS]);
        let args = AttendArgs {
            q: q.view([1, width]).unwrap(),
            gate: projected.view_strided(HEAD_DIM, [1, 2 * width - HEAD_DIM], [2 * width, 1]).unwrap(),
            gate_head_stride: 2 * HEAD_DIM,
            k_cells: k.rows(sizes).unwrap(),
            v_cells: v.rows(sizes).unwrap(),
            table: table.view([self.pages.table.len()]).unwrap(),
            chosen: Chosen::Seen(CELLS),
            steps: steps.view([1, WORDS]).unwrap(),
            y: y.view_mut([1, width]).unwrap(),
        };
        attend(Pick::Named(QSA_ATTEND.base().name), &device.stream().unwrap(), args).unwrap();
        y.read().unwrap()
    }

    fn by(&self, reading: Reading) -> Vec<f64> {
        let row = |of: &CellValues, cell: usize, head: usize| {
            let block = cell / RATIO;
            let page = (reading.page)(block, self.pages.table[block] as usize);
            of.row((page * KV_HEADS + head) * RATIO + cell % RATIO)
        };
        let head = |h: usize| {
            let (q, kv_head) = (&self.q[h * HEAD_DIM..][..HEAD_DIM], (reading.kv_head)(h));
            let score = |cell: usize| {
                let k = row(&self.k, cell, kv_head);
                q.iter().zip(k).map(|(&q, k)| f64::from(q) * f64::from(k)).sum::<f64>() * reading.scale
            };
            let scores: Vec<f64> = (0..CELLS).map(score).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut out = vec![0.0; HEAD_DIM];
            for (cell, weight) in weights.iter().enumerate() {
                let v = row(&self.v, cell, kv_head);
                out.iter_mut().zip(v).for_each(|(out, v)| *out += weight / total * f64::from(v));
            }
            let gates = &self.projected[(2 * h + reading.gate_half) * HEAD_DIM..][..HEAD_DIM];
            out.iter_mut().zip(gates).for_each(|(out, &gate)| *out *= (reading.gate)(f64::from(gate)));
            out
        };
        (0..HEADS).flat_map(head).collect()
    }
}

/// Largest difference over the largest value.
fn distance(got: &[f32], wanted: &[f64]) -> f64 {
    let largest = wanted.iter().fold(0.0f64, |a, x| a.max(x.abs()));
    got.iter().zip(wanted).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max) / largest
}

#[test]
fn rival_readings_are_far_from_the_kernels() {
    for kind in CellKind::ALL {
        let given = Given::new(kind);
        let got = given.by_kernel();
        let right = distance(&got, &given.by(RIGHT));
        assert!(right < 1e-5, "{kind:?}: {right:e}");
        let rivals = [
            ("key head h mod 2", Reading { kv_head: |h| h % KV_HEADS, ..RIGHT }),
            ("no 1/16", Reading { scale: 1.0, ..RIGHT }),
            ("gate from the first half", Reading { gate_half: 0, ..RIGHT }),
            ("silu gate", Reading { gate: |x| x * sigmoid(x), ..RIGHT }),
            ("pages in order", Reading { page: |block, _| block, ..RIGHT }),
        ];
        for (what, rival) in rivals {
            let rival = distance(&got, &given.by(rival));
            assert!(rival > 0.02, "{kind:?}, {what}: only {rival:e} away");
        }
    }
}

/// What comes of a call with `rows` rows of q of `width` values, `cap` ids and records of `words` words.
fn called(
    kinds: [CellKind; 2],
    kv_heads: usize,
    [rows, width, cap, words]: [usize; 4],
) -> Result<&'static str, OpError> {
    let device = Device::emulator(EmulatorConfig::default());
    let cells = kinds.map(|kind| CellValues::blank(kind, kv_heads * RATIO).load(&device).unwrap());
    let [q, gate] = [0, 1].map(|_| device.upload(&vec![1.0f32; rows * width]).unwrap());
    let (table, ids) = (device.upload(&[0u32]).unwrap(), device.upload(&vec![0u32; rows * cap]).unwrap());
    let steps = device.upload(&vec![1u32; rows * words]).unwrap();
    let mut y = device.alloc::<f32>(rows * width).unwrap();
    let args = AttendArgs {
        q: q.view([rows, width]).unwrap(),
        gate: gate.view([rows, width]).unwrap(),
        gate_head_stride: HEAD_DIM,
        k_cells: cells[0].rows([1, kv_heads]).unwrap(),
        v_cells: cells[1].rows([1, kv_heads]).unwrap(),
        table: table.view([1]).unwrap(),
        chosen: Chosen::Ids(ids.view([rows, cap]).unwrap()),
        steps: steps.view([rows, words]).unwrap(),
        y: y.view_mut([rows, width]).unwrap(),
    };
    attend(Pick::Best(&Dispatch::default()), &device.stream().unwrap(), args)
}

#[test]
fn operands_that_do_not_belong_together_are_refused() {
    let (f16, width) = ([CellKind::F16; 2], 4 * HEAD_DIM);
    called(f16, 2, [1, width, 7, 4]).unwrap();
    called(f16, 2, [0, width, 7, 4]).unwrap(); // no rows are no launch
    let refused = |kinds, kv_heads, sizes| called(kinds, kv_heads, sizes).unwrap_err().to_string();
    let mixed = refused([CellKind::I8, CellKind::F16], 2, [1, width, 7, 4]);
    assert_eq!(mixed, "qsa.attend: format of values is F16 beside keys of I8, both must have one format");
    assert!(refused(f16, 3, [1, width, 7, 4]).contains("1024 values of q for 3 key heads"));
    assert!(refused(f16, 2, [1, width + 4, 7, 4]).contains("1028 values of q"));
    assert!(refused(f16, 2, [1, width, 0, 4]).contains("most cells of a row is 0"));
    assert!(refused(f16, 2, [1, width, 7, 3]).contains("`steps` has shape [1, 3], needed is [1, 4]"));
    assert!(refused(f16, 0, [1, width, 7, 4]).contains("1 pages of 0 key heads"));
    let many = refused(f16, 1, [1, 17 * HEAD_DIM, 7, 4]);
    assert!(many.contains("17 query heads to a key head; there are instances for up to 16"), "{many}");
}
