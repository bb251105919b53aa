//! `qsa.attend/prompt`: the heads of a key head walk a row's cells in chunks of 32 on tensor cores, with a running softmax.
//!
//! Math      as `attend_chunk.rs` and `attend_merge.rs`; weights are 2^(s - m) with s = q . k log2(e) / 16
//! Shapes    `AttendParams` without scratch; f16 or i8 cells
//! Mapping   grid (rows, kv heads), heads are the 16 rows of m16n8k16, those beyond `heads / kv_heads` zero. Warp w has values
//!           64 w .. 64 w + 63 of every row, for both products; lane l = 4 g + t: cell g of 8 for the scores; cells 4 t .. 4 t + 3
//!           of 16 and values 8 g .. 8 g + 7 for the sums. Keys and values go from memory to registers: the order of an
//!           inner index is free, so each lane takes neighbours
//! Products  q times a power of two and weights times 2^14 (i8: and times their scale over the chunk's largest) as f16 pairs
//!           hi + lo; keys and values are f16. Scales are applied in f32, to a warp's 64 products and to a chunk's sum
//! Order     score: ((w0 + w1) + w2) + w3 over the warps; chunks ascending. Nothing depends on the other rows
//! Barriers  one of the block a chunk: the warps' parts of the scores, in two buffers by turns, so that the next chunk's parts
//!           are written where nobody reads any more
//! Budget    168 registers, 16,384 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `qsa.attend/chunk`: 1e-4 (docs/src/exactness.md)

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{float, global, int, kernel, mma, shared, shared_array, warp};

use super::HEAD_DIM;
use super::attend::{AttendParams, Attended, MASKED, SCALE, listed};
use super::cells::{CellFormat, F16, I8, NO_ROW, SCALES, readable};
use crate::delta::chunk::{larger, power_of_two, scale_exponent, split};

/// Four warps; three blocks an SM.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 3 };
const WARPS: usize = BOUNDS.threads as usize / 32;
/// Cells of a chunk, a lane each where a cell has one number.
const CELLS: usize = 32;
/// Values of a row that a warp has.
const SLICE: usize = HEAD_DIM / WARPS;
/// Rows of a product: heads.
const HEADS: usize = 16;
/// Scores of a chunk.
const TILE: usize = HEADS * CELLS;
/// Exponent of the scale of weights, which are at most 1.
const WEIGHT_SCALE: f32 = 16_384.0;

/// How a lane takes its part of a slice of keys, and f16 pairs of what it has loaded.
trait Halves: CellFormat {
    /// Sixteen values of a key: four for each of four steps.
    type Sixteen: Copy + Default;

    /// First of the four neighbouring values of step `s` that lane `t` of a row's four takes.
    fn first(s: usize, t: usize) -> usize;

    /// Lane `t`'s values of the slice that starts at `at`, counted in values.
    ///
    /// # Safety
    /// As [`CellFormat::load8`]; `at` is a multiple of [`SLICE`].
    unsafe fn load16(values: *const u8, at: usize, t: usize) -> Self::Sixteen;

    /// Those of step `s`, exact.
    fn step(sixteen: Self::Sixteen, s: usize) -> [u32; 2];

    /// Eight neighbouring values, exact.
    fn pairs(eight: Self::Eight) -> [u32; 4];
}

impl Halves for F16 {
    type Sixteen = [[u32; 4]; 2];

    #[inline(always)]
    fn first(s: usize, t: usize) -> usize {
        SLICE / 2 * (s / 2) + 8 * t + 4 * (s % 2)
    }

    #[inline(always)]
    unsafe fn load16(values: *const u8, at: usize, t: usize) -> [[u32; 4]; 2] {
        // SAFETY: same contract; 8 t + 7 < SLICE / 2.
        unsafe { [Self::load8(values, at + 8 * t), Self::load8(values, at + SLICE / 2 + 8 * t)] }
    }

    #[inline(always)]
    fn step(sixteen: [[u32; 4]; 2], s: usize) -> [u32; 2] {
        let half = sixteen[s / 2];
        [half[s % 2 * 2], half[s % 2 * 2 + 1]]
    }

    #[inline(always)]
    fn pairs(eight: [u32; 4]) -> [u32; 4] {
        eight
    }
}

impl Halves for I8 {
    type Sixteen = [u32; 4];

    #[inline(always)]
    fn first(s: usize, t: usize) -> usize {
        16 * t + 4 * s
    }

    #[inline(always)]
    unsafe fn load16(values: *const u8, at: usize, t: usize) -> [u32; 4] {
        // SAFETY: same contract; 16 t + 15 < SLICE.
        unsafe { global::load4_nc_ordered(values.add(at + 16 * t).cast::<u32>()) }
    }

    #[inline(always)]
    fn step(sixteen: [u32; 4], s: usize) -> [u32; 2] {
        let n = Self::numbers([sixteen[s], 0]);
        [float::f32x2_to_f16x2(n[0], n[1]), float::f32x2_to_f16x2(n[2], n[3])]
    }

    #[inline(always)]
    fn pairs(eight: [u32; 2]) -> [u32; 4] {
        let n = Self::numbers(eight);
        [0, 2, 4, 6].map(|i| float::f32x2_to_f16x2(n[i], n[i + 1]))
    }
}

/// # Safety
/// As [`body`]; cells of f16.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_attend_prompt_f16(p: AttendParams) {
    // SAFETY: same contract.
    unsafe { body::<F16>(p) }
}

/// # Safety
/// As [`body`]; cells of i8.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_attend_prompt_i8(p: AttendParams) {
    // SAFETY: same contract.
    unsafe { body::<I8>(p) }
}

/// The lane's place in fragments.
#[derive(Clone, Copy)]
struct Lane {
    warp: usize,
    g: usize,
    t: usize,
}

/// The lane's queries: A fragments `[step][hi, lo]`, and what its rows g, g + 8 of a product are to be multiplied by.
struct Queries {
    steps: [[[u32; 4]; 2]; 4],
    factors: [f32; 2],
}

/// What a lane keeps of the cells so far, for heads g, g + 8.
struct Running {
    /// Largest score.
    top: [f32; 2],
    /// Sum of the weights of the lane's cells.
    total: [f32; 2],
    /// Weighted sums: C fragments, whose column n of tile j is value 8 n + j of the slice.
    sums: [[f32; 4]; 8],
}

/// # Safety
/// Shapes and alignment as `AttendParams` says, at most [`HEADS`] heads to a key head; grid `(rows, kv_heads)`, block 128.
#[inline(always)]
unsafe fn body<F: Halves>(p: AttendParams) {
    let parts = shared_array![f32; 2 * WARPS * TILE];
    let lane = thread_idx_x() % 32;
    let at = Lane { warp: thread_idx_x() as usize / 32, g: lane as usize / 4, t: lane as usize % 4 };
    let (query, kv_head) = (block_idx_x() as usize, block_idx_y());
    let group = p.heads as usize / p.pages.kv_heads as usize;
    let head0 = query * p.heads as usize + kv_head as usize * group;
    // SAFETY: the grid has `rows` of x; the heads are the row's.
    let (attended, queries) = unsafe { (Attended::of(&p, query), queries::<F>(p.q.add(head0 * HEAD_DIM), group, at)) };
    let mut running = Running { top: [MASKED; 2], total: [0.0; 2], sums: [[0.0; 4]; 8] };
    // SAFETY: as above.
    let (mut row, mut cell) = unsafe {
        let row = attended.row(&p, (lane, listed(&p, query, lane)), kv_head);
        (row, listed(&p, query, CELLS as u32 + lane))
    };
    let (mut first, mut buffer) = (0, 0);
    while first < attended.count {
        let parts = parts.wrapping_add(buffer * WARPS * TILE);
        // SAFETY: as above; the buffer's readers of two chunks ago have passed the last barrier.
        unsafe {
            // Cells are known two chunks ahead, rows one.
            let next = first + CELLS as u32 + lane;
            let after = listed(&p, query, next + CELLS as u32);
            let values = write_scores::<F>(&p, &queries, parts, row, at);
            let next = attended.row(&p, (next, cell), kv_head);
            sync_threads();
            attend::<F>(&mut running, parts, values, warp::ballot(row != NO_ROW), at);
            (row, cell) = (next, after);
        }
        first += CELLS as u32;
        buffer = 1 - buffer;
    }
    for half in 0..2 {
        let total = running.total[half];
        let total = total + warp::shfl_xor(total, 1);
        let total = total + warp::shfl_xor(total, 2);
        let head = at.g + 8 * half;
        if head < group {
            // SAFETY: one warp and lane an element.
            unsafe {
                write(&p, (query, kv_head as usize * group + head), at, total, |n| {
                    running.sums[n % 8][2 * half + n / 8]
                })
            };
        }
    }
}

/// The lane's queries, those of heads that there are not being 0.
///
/// # Safety
/// `q` holds `group` heads, 16-byte aligned.
#[inline(always)]
unsafe fn queries<F: Halves>(q: *const f32, group: usize, at: Lane) -> Queries {
    let mut x = [[[0.0f32; 4]; 4]; 2];
    let mut factors = [0.0f32; 2];
    for half in 0..2 {
        let head = at.g + 8 * half;
        let mut largest = 0.0f32;
        for s in 0..4 {
            if head < group {
                let d = SLICE * at.warp + F::first(s, at.t);
                // SAFETY: `d + 3 < HEAD_DIM`, a multiple of 4.
                x[half][s] = unsafe { global::load4_nc(q.add(head * HEAD_DIM + d)) };
            }
            for i in 0..4 {
                largest = larger(largest, x[half][s][i]);
            }
        }
        let largest = float::max(largest, warp::shfl_xor(largest, 1));
        let largest = float::max(largest, warp::shfl_xor(largest, 2));
        let exponent = scale_exponent(largest.to_bits());
        factors[half] = power_of_two(-exponent) * (SCALE * core::f32::consts::LOG2_E);
        x[half] = x[half].map(|quad| quad.map(|x| x * power_of_two(exponent)));
    }
    let steps = [0, 1, 2, 3].map(|s| {
        let parts = [0, 2].map(|i| [0, 1].map(|half| split::<true>(x[half][s][i], x[half][s][i + 1])));
        [0, 1].map(|part| [parts[0][0][part], parts[0][1][part], parts[1][0][part], parts[1][1][part]])
    });
    Queries { steps, factors }
}

/// Where a score stands in a warp's part: places that lanes read and write together are in different banks.
#[inline(always)]
const fn place(head: usize, cell: usize) -> usize {
    head * CELLS + (cell ^ (head % 2 * 16 + head / 2 % 2 * 8))
}

/// What a lane has of a chunk's values, and the scale of cell number `lane` of it.
type Values<F> = ([<F as CellFormat>::Eight; 8], f32);

/// Writes the warp's part of the scores of a chunk, of which lane l holds the row of cell l, and starts loading its values.
///
/// # Safety
/// Rows are in memory or [`NO_ROW`]; `parts` holds a tile for each warp, which nobody reads; all lanes of the warp call it together.
#[inline(always)]
unsafe fn write_scores<F: Halves>(p: &AttendParams, q: &Queries, parts: *mut f32, row: u32, at: Lane) -> Values<F> {
    // Else the addresses of all scores are kept from chunk to chunk.
    let (warp, g, t) = (int::opaque(at.warp), int::opaque(at.g), int::opaque(at.t));
    let mut keys = [F::Sixteen::default(); 4];
    for j in 0..4 {
        let row = readable(warp::shfl_idx(row, (8 * j + g) as u32));
        // SAFETY: the slice of a row in memory.
        keys[j] = unsafe { F::load16(p.k.values, row * HEAD_DIM + SLICE * warp, t) };
    }
    let (mut key_scale, mut value_scale) = (1.0, 1.0);
    if F::SCALED {
        let place = readable(row) * SCALES + warp;
        // SAFETY: a scale of a row in memory; a warp's slice is one group of values.
        let bits = unsafe { [global::load_nc(p.k.scales.add(place)), global::load_nc(p.v.scales.add(place))] };
        [key_scale, value_scale] = bits.map(|bits| if row == NO_ROW { 0.0 } else { float::f16_to_f32(bits) });
    }
    for j in 0..4 {
        let mut c = [0.0f32; 4];
        for s in 0..4 {
            let b = F::step(keys[j], s);
            c = mma::mma_m16n8k16_f16(q.steps[s][1], b, c);
            c = mma::mma_m16n8k16_f16(q.steps[s][0], b, c);
        }
        let first = 8 * j + 2 * t;
        if F::SCALED {
            let scales = [0, 1].map(|i| warp::shfl_idx(key_scale, (first + i) as u32));
            c = [0, 1, 2, 3].map(|i| c[i] * scales[i % 2]);
        }
        for half in 0..2 {
            // SAFETY: the warp's part; one writer a place, two neighbours.
            unsafe {
                let to = parts.add(warp * TILE + place(g + 8 * half, first));
                shared::store2(to, [c[2 * half] * q.factors[half], c[2 * half + 1] * q.factors[half]]);
            }
        }
    }
    // Under way while the warps wait for each other's scores; before, their registers are the keys'.
    let mut values = [F::Eight::default(); 8];
    for i in 0..8 {
        let row = readable(warp::shfl_idx(row, cell(i, t) as u32));
        // SAFETY: as above; 8 g + 7 < SLICE.
        values[i] = unsafe { F::load8(p.v.values, row * HEAD_DIM + SLICE * warp + 8 * g) };
    }
    (values, value_scale)
}

/// Attends the cells of a chunk, those that are `there`.
///
/// # Safety
/// All warps have written their parts, with a barrier since; all lanes of the warp call it together.
#[inline(always)]
unsafe fn attend<F: Halves>(running: &mut Running, parts: *const f32, values: Values<F>, there: u32, at: Lane) {
    let (g, t) = (int::opaque(at.g), int::opaque(at.t));
    let mut weights = [[[0.0f32; 4]; 2]; 2];
    let mut rescale = [0.0f32; 2];
    for half in 0..2 {
        let mut scores = [[MASKED; 4]; 2];
        for u in 0..2 {
            // SAFETY: all parts were written before the barrier.
            let sums = unsafe { score_sums(parts, g + 8 * half, cell(4 * u, t)) };
            for i in 0..4 {
                if there >> cell(4 * u + i, t) & 1 == 1 {
                    scores[u][i] = sums[i];
                }
            }
        }
        let mut top = running.top[half];
        for i in 0..8 {
            top = float::max(top, scores[i / 4][i % 4]);
        }
        let top = float::max(top, warp::shfl_xor(top, 1));
        let top = float::max(top, warp::shfl_xor(top, 2));
        rescale[half] = float::exp2_approx(running.top[half] - top);
        running.total[half] *= rescale[half];
        running.top[half] = top;
        for i in 0..8 {
            if there >> cell(i, t) & 1 == 1 {
                let weight = float::exp2_approx(scores[i / 4][i % 4] - top);
                weights[i / 4][half][i % 4] = weight;
                running.total[half] += weight;
            }
        }
    }
    add_values::<F>(running, weights, rescale, values, there, t);
}

/// Number in the chunk of a lane's cell `i` of eight for the sums.
#[inline(always)]
const fn cell(i: usize, t: usize) -> usize {
    i / 4 * 16 + 4 * t + i % 4
}

/// Scores of four neighbouring cells for a head: the warps' parts, in order.
///
/// # Safety
/// The parts were written; `cell` is a multiple of 4.
#[inline(always)]
unsafe fn score_sums(parts: *const f32, head: usize, cell: usize) -> [f32; 4] {
    // SAFETY: `place` keeps four neighbours together.
    let part = |warp: usize| unsafe { shared::load4(parts.add(warp * TILE + place(head, cell))) };
    let mut sums = part(0);
    for warp in 1..WARPS {
        let part = part(warp);
        sums = [0, 1, 2, 3].map(|i| sums[i] + part[i]);
    }
    sums
}

/// `sums = sums rescale + weights values`.
#[inline(always)]
fn add_values<F: Halves>(
    running: &mut Running,
    mut weights: [[[f32; 4]; 2]; 2],
    rescale: [f32; 2],
    (values, scale): Values<F>,
    there: u32,
    t: usize,
) {
    let (mut share, mut back) = (WEIGHT_SCALE, 1.0 / WEIGHT_SCALE);
    if F::SCALED {
        let largest = f32::from_bits(warp::redux_max_u32(scale.to_bits())); // none is below 0
        share = if largest == 0.0 { 0.0 } else { scale / largest * WEIGHT_SCALE };
        back = largest / WEIGHT_SCALE;
    }
    for i in 0..8 {
        let share = if F::SCALED { warp::shfl_idx(share, cell(i, t) as u32) } else { share };
        for half in 0..2 {
            weights[i / 4][half][i % 4] *= share;
        }
    }
    let fragments = weights.map(|rows| {
        let parts = [0, 2].map(|i| [0, 1].map(|half| split::<true>(rows[half][i], rows[half][i + 1])));
        [0, 1].map(|part| [parts[0][0][part], parts[0][1][part], parts[1][0][part], parts[1][1][part]])
    });
    let mut pairs = values.map(F::pairs);
    if there != warp::FULL_MASK {
        for i in 0..8 {
            if there >> cell(i, t) & 1 == 0 {
                pairs[i] = [0; 4]; // what stands in the row that was read instead may be no number
            }
        }
    }
    for j in 0..8 {
        let mut c = [0.0f32; 4];
        for u in 0..2 {
            let selector = if j % 2 == 0 { 0x5410 } else { 0x7632 };
            let b = [0, 2].map(|i| int::prmt(pairs[4 * u + i][j / 2], pairs[4 * u + i + 1][j / 2], selector));
            c = mma::mma_m16n8k16_f16(fragments[u][1], b, c);
            c = mma::mma_m16n8k16_f16(fragments[u][0], b, c);
        }
        running.sums[j] = [0, 1, 2, 3].map(|i| float::fma(c[i], back, running.sums[j][i] * rescale[i / 2]));
    }
}

/// Writes the lane's 16 values of a head, `sum(n)` being the n-th.
///
/// # Safety
/// Row and head are the call's.
#[inline(always)]
unsafe fn write(p: &AttendParams, (row, head): (usize, usize), at: Lane, total: f32, sum: impl Fn(usize) -> f32) {
    let d = SLICE * at.warp + 16 * at.t;
    let gate = row * p.gate_stride as usize + head * p.gate_head_stride as usize + d;
    let y = (row * p.heads as usize + head) * HEAD_DIM + d;
    for quad in 0..4 {
        // SAFETY: `d + 15 < HEAD_DIM`, all multiples of 4; one writer an element.
        unsafe {
            let gates = global::load4_nc(p.gate.add(gate + 4 * quad));
            let out = [0, 1, 2, 3].map(|i| {
                let mean = if total == 0.0 { 0.0 } else { sum(4 * quad + i) / total };
                mean * float::sigmoid(gates[i])
            });
            global::store4(p.y.add(y + 4 * quad), out);
        }
    }
}
