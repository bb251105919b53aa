//! The chunk form of the recurrence, piece by piece: a model in f64 against the recurrence in f64. `prep.rs` holds what the
//! chunk kernels leave in scratch against the model.
//!
//! The names are those of `rec_chunk32.rs`. With chunks of C tokens: (I + A) T = I, D = T Y, O = e^G Q S + P D and
//! S' = e^G_L S + K^T e^(G_L - G) D. The model takes any C, so what holds for one holds for the kernels' C.

use std::ops::Range;

use varve::proof::case::{RecCase, RecShape};
use varve::proof::inputs::{BASE, Inputs, REPORTED_FAULTS, STRESS, named};
use varve::proof::reference::delta::{recurrence, recurrence_from};
use varve_gpu::geometry::HEAD_DIM;

const SIZES: [usize; 3] = [16, 32, 64];
/// What f64 arithmetic of this length leaves, and room.
const EXACT: f64 = 1e-12;

pub type Row = [f64; HEAD_DIM];
/// By rows.
pub type Matrix = Vec<Vec<f64>>;

fn all_laws() -> impl Iterator<Item = &'static Inputs> {
    [&BASE].into_iter().chain(STRESS).chain(REPORTED_FAULTS)
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add_scaled(to: &mut Row, by: f64, row: &Row) {
    to.iter_mut().zip(row).for_each(|(x, y)| *x += by * y);
}

/// Rows of a state transposed times a key or query: what `S^T k` gives.
fn read(state: &[Row], key: &Row) -> Row {
    let mut sum = [0.0; HEAD_DIM];
    state.iter().zip(key).for_each(|(row, &k)| add_scaled(&mut sum, k, row));
    sum
}

/// Tokens of one head, zeros behind the last one.
pub struct Chunk {
    /// Sums of log decays, inclusive.
    pub sums: Vec<f64>,
    pub beta: Vec<f64>,
    pub q: Vec<Row>,
    pub k: Vec<Row>,
    v: Vec<Row>,
}

impl Chunk {
    pub fn new(case: &RecCase, head: usize, tokens: Range<usize>, size: usize) -> Self {
        let shape = &case.shape;
        let row = |x: &[f32]| -> Row { std::array::from_fn(|i| f64::from(x[i])) };
        let rows = |of: &dyn Fn(usize) -> Row| -> Vec<Row> {
            (0..size).map(|i| if i < tokens.len() { of(tokens.start + i) } else { [0.0; HEAD_DIM] }).collect()
        };
        let values = |x: &[f32], stride: usize| -> Vec<f64> {
            (0..size)
                .map(|i| if i < tokens.len() { f64::from(x[(tokens.start + i) * stride + head]) } else { 0.0 })
                .collect()
        };
        let mut sums = values(&case.gate, shape.gate_stride);
        (1..size).for_each(|i| sums[i] += sums[i - 1]);
        let key_head = head % shape.key_heads;
        Self {
            sums,
            beta: values(&case.beta, shape.beta_stride),
            q: rows(&|t| row(case.query(t, key_head))),
            k: rows(&|t| row(case.key(t, key_head))),
            v: rows(&|t| row(case.value(t, head))),
        }
    }

    fn size(&self) -> usize {
        self.beta.len()
    }

    pub fn decay(&self, t: usize, i: usize) -> f64 {
        (self.sums[t] - self.sums[i]).exp()
    }

    fn lower(&self, element: impl Fn(usize, usize) -> f64, diagonal: bool) -> Matrix {
        let n = self.size();
        let kept = |t: usize, i: usize| i < t || (diagonal && i == t);
        (0..n).map(|t| (0..n).map(|i| if kept(t, i) { element(t, i) } else { 0.0 }).collect()).collect()
    }

    fn a(&self) -> Matrix {
        self.lower(|t, i| self.beta[t] * self.decay(t, i) * dot(&self.k[t], &self.k[i]), false)
    }

    pub fn p(&self) -> Matrix {
        self.lower(|t, i| self.decay(t, i) * dot(&self.q[t], &self.k[i]), true)
    }

    /// (I + A)^-1, row by row.
    pub fn t(&self) -> Matrix {
        let mut inverse = Matrix::new();
        for (t, a) in self.a().iter().enumerate() {
            let below = |i: usize| -(i..t).map(|k| a[k] * inverse[k][i]).sum::<f64>();
            let element = |i: usize| if i < t { below(i) } else { f64::from(u8::from(i == t)) };
            inverse.push((0..self.size()).map(element).collect());
        }
        inverse
    }

    /// D and O of the chunk; `state` becomes the state behind it.
    fn walk(&self, state: &mut [Row]) -> (Vec<Row>, Vec<Row>) {
        let n = self.size();
        let since_start = |t: usize| self.sums[t].exp();
        let y: Vec<Row> = (0..n)
            .map(|t| {
                let mut row = self.v[t];
                add_scaled(&mut row, -since_start(t), &read(state, &self.k[t]));
                row.map(|x| self.beta[t] * x)
            })
            .collect();
        let combine = |matrix: &Matrix, rows: &[Row], t: usize| {
            let mut sum = [0.0; HEAD_DIM];
            rows.iter().zip(&matrix[t]).for_each(|(row, &m)| add_scaled(&mut sum, m, row));
            sum
        };
        let solved = self.t();
        let d: Vec<Row> = (0..n).map(|t| combine(&solved, &y, t)).collect();
        let products = self.p();
        let o = (0..n)
            .map(|t| {
                let mut row = combine(&products, &d, t);
                add_scaled(&mut row, since_start(t), &read(state, &self.q[t]));
                row
            })
            .collect();
        let whole = since_start(n - 1);
        state.iter_mut().enumerate().for_each(|(r, row)| {
            row.iter_mut().for_each(|x| *x *= whole);
            for (t, d) in d.iter().enumerate() {
                add_scaled(row, self.decay(n - 1, t) * self.k[t][r], d);
            }
        });
        (d, o)
    }
}

/// The case's state of one head before the call.
fn start(case: &RecCase, head: usize) -> Vec<Row> {
    let width = case.shape.y_width();
    (0..HEAD_DIM).map(|r| std::array::from_fn(|c| f64::from(case.state[r * width + head * HEAD_DIM + c]))).collect()
}

/// Walks the whole case in chunks of `size`: D, O and the last state.
fn walk(case: &RecCase, head: usize, size: usize) -> (Vec<Row>, Vec<Row>, Vec<Row>) {
    let (mut state, mut d, mut o) = (start(case, head), Vec::new(), Vec::new());
    let tokens = case.shape.tokens;
    for first in (0..tokens).step_by(size) {
        let n = size.min(tokens - first);
        let (d_rows, o_rows) = Chunk::new(case, head, first..first + n, size).walk(&mut state);
        d.extend_from_slice(&d_rows[..n]);
        o.extend_from_slice(&o_rows[..n]);
    }
    (d, o, state)
}

/// Largest |difference| over the largest |value|.
fn distance(got: &[Row], want: &[Row]) -> f64 {
    assert_eq!(got.len(), want.len());
    let largest = want.as_flattened().iter().fold(f64::MIN_POSITIVE, |a, x| a.max(x.abs()));
    let mut worst = 0.0f64;
    for (g, w) in got.as_flattened().iter().zip(want.as_flattened()) {
        assert!(g.is_finite(), "{g}, expected {w}");
        worst = worst.max((g - w).abs());
    }
    worst / largest
}

fn within(what: &str, law: &Inputs, size: usize, distance: f64) {
    assert!(distance <= EXACT, "{what}, {}, chunks of {size}: {distance:e}", law.name);
}

#[test]
fn t_is_the_inverse_and_never_grows() {
    for law in all_laws() {
        let case = RecCase::new(RecShape::dense(1, 2, 64), law, 3);
        for size in SIZES {
            let chunk = Chunk::new(&case, 1, 0..size, size);
            let (a, t, p) = (chunk.a(), chunk.t(), chunk.p());
            for row in 0..size {
                for column in 0..size {
                    let product = t[row][column] + (0..row).map(|k| a[row][k] * t[k][column]).sum::<f64>();
                    let unit = f64::from(u8::from(row == column));
                    within("(I + A) T = I", law, size, (product - unit).abs());
                    let limit = 1.0 + 1e-6; // rows are normalised in f32
                    assert!(t[row][column].abs() <= limit && p[row][column].abs() <= limit, "{}", law.name);
                }
            }
        }
    }
    let coherent = RecCase::new(RecShape::dense(1, 1, 64), named("coherent_keys").unwrap(), 3);
    let t = Chunk::new(&coherent, 0, 0..64, 64).t();
    assert!((1..64).any(|row| t[row][row - 1].abs() > 0.5), "keys that are alike fill T");
}

#[test]
fn corrections_outputs_and_state_are_the_recurrence() {
    for law in all_laws() {
        let case = RecCase::new(RecShape::dense(1, 2, 150), law, 4);
        let want = recurrence(&case);
        let head = 1;
        let part = |x: &[f64]| -> Vec<Row> {
            x.chunks(2 * HEAD_DIM).map(|row| std::array::from_fn(|c| row[head * HEAD_DIM + c])).collect()
        };
        let mut state = start(&case, head);
        let all = Chunk::new(&case, head, 0..150, 150);
        let d_want: Vec<Row> = (0..150)
            .map(|t| {
                let gate = f64::from(case.gate[t * 2 + head]).exp();
                let mut d = all.v[t];
                add_scaled(&mut d, -gate, &read(&state, &all.k[t]));
                let d = d.map(|x| all.beta[t] * x);
                state.iter_mut().zip(&all.k[t]).for_each(|(row, &k)| {
                    row.iter_mut().zip(&d).for_each(|(s, d)| *s = gate * *s + k * d);
                });
                d
            })
            .collect();
        for size in SIZES {
            let (d, o, state) = walk(&case, head, size);
            let y: Vec<Row> = o.iter().map(|row| row.map(|x| x / (HEAD_DIM as f64).sqrt())).collect();
            within("D", law, size, distance(&d, &d_want));
            within("O", law, size, distance(&y, &part(&want.y)));
            within("S", law, size, distance(&state, &part(&want.state)));
        }
    }
}

#[test]
fn a_padded_tail_is_the_unpadded_chunk() {
    let case = RecCase::new(RecShape::dense(1, 1, 21), &BASE, 5);
    let (mut padded, mut exact) = (start(&case, 0), start(&case, 0));
    let (d_padded, o_padded) = Chunk::new(&case, 0, 0..21, 32).walk(&mut padded);
    let (d, o) = Chunk::new(&case, 0, 0..21, 21).walk(&mut exact);
    assert!(distance(&d_padded[..21], &d) <= EXACT && distance(&o_padded[..21], &o) <= EXACT);
    assert!(distance(&padded, &exact) <= EXACT);
    assert!(d_padded[21..].as_flattened().iter().all(|&x| x == 0.0), "no token, no correction");
}

#[test]
fn two_chunks_are_one_of_twice_the_size() {
    for law in all_laws() {
        let case = RecCase::new(RecShape::dense(1, 1, 64), law, 6);
        let (once, twice) = (walk(&case, 0, 64), walk(&case, 0, 32));
        within("D", law, 64, distance(&twice.0, &once.0));
        within("O", law, 64, distance(&twice.1, &once.1));
        within("S", law, 64, distance(&twice.2, &once.2));
    }
}

/// Negative control: without the decay between two tokens of a chunk the result is another one.
#[test]
fn a_wrong_decay_is_noticed() {
    let case = RecCase::new(RecShape::dense(1, 1, 32), &BASE, 6);
    let mut chunk = Chunk::new(&case, 0, 0..32, 32);
    let mut right = start(&case, 0);
    let o = chunk.walk(&mut right).1;
    chunk.sums[3] += 0.01;
    let mut wrong = start(&case, 0);
    assert!(distance(&chunk.walk(&mut wrong).1, &o) > 1e-4);
}

/// A run of chunks is an affine map of the state: its matrix from unit states without values, its constant from a zero state.
#[test]
fn chunks_are_an_affine_map_of_the_state() {
    let mut case = RecCase::new(RecShape::dense(1, 1, 70), &BASE, 7);
    let through = |case: &RecCase, state: &[f64]| recurrence_from(case, state, 0..70).state;
    let given: Vec<f64> = case.state.iter().map(|&x| f64::from(x)).collect();
    let want = through(&case, &given);
    case.state.fill(0.0);
    let constant = walk(&case, 0, 32).2;
    // Column c of a state without values is M times its column c: the unit matrix gives M.
    for t in 0..70 {
        case.qkv[t * 384 + 256..][..HEAD_DIM].fill(0.0);
    }
    for r in 0..HEAD_DIM {
        case.state[r * HEAD_DIM + r] = 1.0;
    }
    let matrix = walk(&case, 0, 32).2;
    let mut got = constant;
    for r in 0..HEAD_DIM {
        for k in 0..HEAD_DIM {
            let before: Row = std::array::from_fn(|c| given[k * HEAD_DIM + c]);
            add_scaled(&mut got[r], matrix[r][k], &before);
        }
    }
    let want: Vec<Row> = want.chunks(HEAD_DIM).map(|row| std::array::from_fn(|c| row[c])).collect();
    let far = distance(&got, &want);
    assert!(far <= EXACT, "{far:e}");
}
