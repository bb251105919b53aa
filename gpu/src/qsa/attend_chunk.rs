//! `qsa.attend/chunk`, first of two launches: the heads of a key head attend 64 cells of a row's list.
//!
//! Math      s = q . k / 16, m = max s, e = exp(s - m), l = sum e, sum e v; a cell without a row has e = 0
//! Shapes    `AttendParams`
//! Mapping   grid (chunks, kv heads, rows), chunk x = cells 64 x .. 64 x + 63 of the list. Scores: warp w has cells 8 w .. 8 w
//!           + 7, lane l values 8 l .. 8 l + 7 of all of them in registers; two heads a round. Weights: warp w has heads w,
//!           w + 8. Sums: thread d has value d for all heads, cells in shared memory (f32: in place)
//! Order     score: product, then an fma chain over 8 values; butterfly over the lanes; times 1/16. l: e_j + e_(j+32), butterfly.
//!           Sum of a value: fma chain, cells ascending. Nothing depends on the other rows
//! Barriers  three, by all threads: queries and rows are written before the first; scores before the second; weights before
//!           the third. A block without cells leaves as a whole
//! Budget    128 registers, 0 B shared but dynamic memory (`shared_bytes`), 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base, with `attend_merge.rs`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, block_idx_z, sync_threads, thread_idx_x};
use cuda_std::{float, global, grid, shared, warp};

use super::HEAD_DIM;
use super::attend::{AttendParams, Attended, CHUNK, MASKED, MAX_GROUP, SCALE, listed};
use super::cells::{CellFormat, ChunkRows, F16, F32, I8, NO_ROW, SCALES, readable};

/// Eight warps; two blocks an SM put four rows of 66 blocks on 132 SMs.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 2 };
/// Cells of a warp.
const CELLS: usize = 8;
const _: () = assert!(CELLS * BOUNDS.threads as usize / 32 == CHUNK && BOUNDS.threads as usize == HEAD_DIM);
/// Floats from a cell's scores to the next: 20 keeps the accesses of the weights' phase at four to a bank.
const PITCH: usize = 20;

/// f32 of shared memory before the queries: scores, scales, rows.
const FIXED: usize = CHUNK * (PITCH + SCALES + 1);

/// Dynamic shared memory of a block for `group` heads of a key head.
pub const fn shared_bytes<F: CellFormat>(group: usize) -> usize {
    4 * (FIXED + group * HEAD_DIM) + if F::STAGED { CHUNK * F::ROW_BYTES } else { 0 }
}

/// Defines the instances: heads of a key head that the sums have registers for.
macro_rules! instances {
    ($($name:ident $format:ident $heads:literal;)*) => {$(
        /// # Safety
        /// As [`body`]; the cells' format and no more heads to a key head than the name says.
        #[cuda_std::kernel]
        #[launch_bounds(BOUNDS)]
        pub unsafe fn $name(p: AttendParams) {
            // SAFETY: same contract.
            unsafe { body::<$format, $heads>(p) }
        }
    )*};
}

instances! {
    qsa_attend_chunk_f32_g4 F32 4;
    qsa_attend_chunk_f32_g16 F32 16;
    qsa_attend_chunk_f16_g4 F16 4;
    qsa_attend_chunk_f16_g12 F16 12;
    qsa_attend_chunk_f16_g16 F16 16;
    qsa_attend_chunk_i8_g4 I8 4;
    qsa_attend_chunk_i8_g12 I8 12;
    qsa_attend_chunk_i8_g16 I8 16;
}

/// The block's shared memory.
#[derive(Clone, Copy)]
struct Area {
    /// f32 `[CHUNK][PITCH]`: scores, then weights.
    scores: *mut f32,
    /// f32 `[CHUNK][SCALES]`: scales of the values.
    scales: *mut f32,
    /// u32 `[CHUNK]`.
    rows: *mut u32,
    /// f32 `[group][2][32][4]`: a head's values 8 l .. 8 l + 3 of all lanes l, then 8 l + 4 ..
    q: *mut f32,
    /// Rows of values of a staged format.
    staged: *mut u8,
}

impl Area {
    #[inline(always)]
    fn new(group: usize) -> Self {
        let base = shared::dynamic_shared::<f32>();
        let scales = base.wrapping_add(CHUNK * PITCH);
        let rows = scales.wrapping_add(CHUNK * SCALES);
        let q = rows.wrapping_add(CHUNK);
        Self { scores: base, scales, rows: rows.cast(), q, staged: q.wrapping_add(group * HEAD_DIM).cast() }
    }
}

/// # Safety
/// Shapes and alignment as `AttendParams` says; `heads / kv_heads <= H`; grid `(chunks, kv_heads, rows)`, block 256, dynamic
/// shared memory `shared_bytes::<F>`.
#[inline(always)]
unsafe fn body<F: CellFormat, const H: usize>(p: AttendParams) {
    grid::let_next_start(); // it waits for the end of this launch
    let (thread, chunk, kv_head) = (thread_idx_x() as usize, block_idx_x(), block_idx_y());
    let (query, warp, lane) = (block_idx_z() as usize, thread / 32, (thread % 32) as u32);
    let group = p.heads as usize / p.pages.kv_heads as usize;
    let head0 = query * p.heads as usize + kv_head as usize * group;
    let place = chunk * CHUNK as u32 + (warp * CELLS) as u32 + lane % CELLS as u32;
    // SAFETY: the grid has `rows` of z; the heads are the row's. None of these loads waits for another.
    let (cell, queries, attended) = unsafe {
        (listed(&p, query, place), load_queries(p.q.add(head0 * HEAD_DIM), group, thread), Attended::of(&p, query))
    };
    if chunk >= attended.chunks() {
        return; // the whole block
    }
    let area = Area::new(group);
    // SAFETY: the shared memory is as large as the host was told.
    let (row, keys) = unsafe {
        let row = attended.row(&p, (place, cell), kv_head);
        let keys = load_cells::<F>(&p, area, row, warp, lane);
        store_queries(area.q, &queries, group, thread);
        (row, keys)
    };
    sync_threads();
    // SAFETY: queries are there since the barrier; each score has one writer.
    unsafe { scores(area, &keys, row, (warp, lane), group) };
    sync_threads();
    let part = ((query * p.chunks as usize + chunk as usize) * p.heads as usize) + kv_head as usize * group;
    // SAFETY: scores are there since the barrier; a head is one warp's; the chunk is one of `chunks`.
    unsafe { weights::<H>(area.scores, p.tops.add(2 * part), (warp, lane), group) };
    sync_threads();
    let rows = ChunkRows { staged: area.staged, scales: area.scales, rows: area.rows, values: p.v.values };
    let cells = attended.count as usize - chunk as usize * CHUNK;
    let cells = if cells < CHUNK { cells } else { CHUNK }; // up to three more are read: they have no weight and value 0
    let mut acc = [0.0f32; H];
    let mut j = 0;
    while j < cells {
        for u in 0..4 {
            // SAFETY: rows were staged before the first barrier, weights before the last; j + u < CHUNK,
            // a multiple of 4.
            unsafe {
                let v = F::value(&rows, j + u, thread);
                for quad in 0..H / 4 {
                    let e = shared::load4(area.scores.add((j + u) * PITCH + 4 * quad));
                    for i in 0..4 {
                        acc[4 * quad + i] = float::fma(e[i], v, acc[4 * quad + i]);
                    }
                }
            }
        }
        j += 4;
    }
    for h in 0..H {
        if h < group {
            // SAFETY: the chunk's and head's sums; thread < HEAD_DIM.
            unsafe { global::store(p.sums.add((part + h) * HEAD_DIM + thread), acc[h]) };
        }
    }
}

/// A thread's share of the heads' queries: four values of every fourth head.
type Queries = [[f32; 4]; QUADS];
/// Quads of a thread.
const QUADS: usize = MAX_GROUP * HEAD_DIM / 4 / BOUNDS.threads as usize;

/// Loads the thread's share; the rest of it is 0.
///
/// # Safety
/// `q` holds `group` heads.
#[inline(always)]
unsafe fn load_queries(q: *const f32, group: usize, thread: usize) -> Queries {
    let mut quads = [[0.0f32; 4]; QUADS];
    for i in 0..QUADS {
        let at = thread + i * BOUNDS.threads as usize;
        if at < group * HEAD_DIM / 4 {
            // SAFETY: within `group` heads.
            quads[i] = unsafe { global::load4_nc(q.add(4 * at)) };
        }
    }
    quads
}

/// Puts the thread's share into shared memory, in the order in which lanes read it.
///
/// # Safety
/// `to` holds `group` heads.
#[inline(always)]
unsafe fn store_queries(to: *mut f32, quads: &Queries, group: usize, thread: usize) {
    for i in 0..QUADS {
        let at = thread + i * BOUNDS.threads as usize;
        let (head, quad) = (at / (HEAD_DIM / 4), at % (HEAD_DIM / 4));
        if head < group {
            let place = head * HEAD_DIM + quad % 2 * (HEAD_DIM / 2) + quad / 2 * 4;
            // SAFETY: within `group` heads, by multiples of 4; one writer a place.
            unsafe { shared::store4(to.add(place), quads[i]) };
        }
    }
}

/// Loads the warp's keys into registers, as numbers, and its rows, scales and values into shared memory. Lanes hold the
/// row of cell `lane % CELLS`. All loads are under way before the first of them is waited for.
///
/// # Safety
/// Rows are in memory or [`NO_ROW`]; the area is the block's.
#[inline(always)]
unsafe fn load_cells<F: CellFormat>(
    p: &AttendParams,
    area: Area,
    row: u32,
    warp: usize,
    lane: u32,
) -> [[f32; 8]; CELLS] {
    let (mut raw, mut raw_scales) = ([F::Eight::default(); CELLS], [0u16; CELLS]);
    let (mut pieces, mut piece_rows) = ([[0u32; 4]; CELLS], [NO_ROW; CELLS]);
    for i in 0..CELLS {
        let at = readable(warp::shfl_idx(row, i as u32));
        // SAFETY: the row is in memory; 8 lane + 7 < HEAD_DIM.
        unsafe {
            raw[i] = F::load8(p.k.values, at * HEAD_DIM + 8 * lane as usize);
            if F::SCALED {
                raw_scales[i] = global::load_nc_ordered(p.k.scales.add(at * SCALES + lane as usize / 8));
            }
        }
    }
    let n_pieces = if F::STAGED { CELLS * F::ROW_BYTES / 512 } else { 0 };
    for i in 0..CELLS {
        if i < n_pieces {
            let byte = 512 * i + 16 * lane as usize;
            piece_rows[i] = warp::shfl_idx(row, (byte / F::ROW_BYTES) as u32);
            // SAFETY: 16 bytes of a row in memory, at a multiple of 16.
            pieces[i] = unsafe {
                let from = p.v.values.add(readable(piece_rows[i]) * F::ROW_BYTES + byte % F::ROW_BYTES);
                global::load4_nc_ordered(from.cast::<u32>())
            };
        }
    }
    let scale_row = warp::shfl_idx(row, lane / SCALES as u32);
    // SAFETY: the area is large enough for CHUNK cells, of which the warp has CELLS; one writer a place.
    unsafe {
        if F::SCALED {
            let bits = global::load_nc(p.v.scales.add(readable(scale_row) * SCALES + lane as usize % SCALES));
            let scale = if scale_row == NO_ROW { 0.0 } else { float::f16_to_f32(bits) };
            shared::store(area.scales.add(warp * CELLS * SCALES + lane as usize), scale);
        }
        if (lane as usize) < CELLS {
            shared::store(area.rows.add(warp * CELLS + lane as usize), row);
        }
        for i in 0..CELLS {
            if i < n_pieces {
                let to = area.staged.add(warp * CELLS * F::ROW_BYTES + 512 * i + 16 * lane as usize);
                let piece = if piece_rows[i] == NO_ROW { [0; 4] } else { pieces[i] };
                shared::store4(to.cast::<u32>(), piece);
            }
        }
    }
    let mut keys = [[0.0f32; 8]; CELLS];
    for i in 0..CELLS {
        keys[i] = F::numbers(raw[i]);
        if F::SCALED {
            let scale = float::f16_to_f32(raw_scales[i]);
            keys[i] = keys[i].map(|code| code * scale);
        }
    }
    keys
}

/// Scores of the warp's cells for all heads.
///
/// # Safety
/// The queries are in the area; all lanes of the warp call it together.
#[inline(always)]
unsafe fn scores(area: Area, keys: &[[f32; 8]; CELLS], row: u32, (warp, lane): (usize, u32), group: usize) {
    let mine = warp::scatter_index::<{ 2 * CELLS }>();
    let (pair, cell) = (mine as usize / CELLS, mine % CELLS as u32);
    let is_there = warp::shfl_idx(row, cell) != NO_ROW;
    let place = area.scores.wrapping_add((warp * CELLS + cell as usize) * PITCH + pair);
    let mut head = 0;
    while head < group {
        let mut dots = [0.0f32; 2 * CELLS];
        for i in 0..2 {
            let h = if head + i < group { head + i } else { head }; // an odd one's partner is not stored
            // SAFETY: `h < group`.
            let (a, b) = unsafe {
                let q = area.q.add(h * HEAD_DIM + 4 * lane as usize);
                (shared::load4(q), shared::load4(q.add(HEAD_DIM / 2)))
            };
            for c in 0..CELLS {
                dots[CELLS * i + c] = dot(&keys[c], a, b);
            }
        }
        let score = warp::scatter_sum::<{ 2 * CELLS }>(dots) * SCALE;
        if lane.is_multiple_of(2) && head + pair < group {
            // SAFETY: one lane for each of two heads and eight cells.
            unsafe { shared::store(place.add(head), if is_there { score } else { MASKED }) };
        }
        head += 2;
    }
}

/// `k . (a, b)`, ascending.
#[inline(always)]
fn dot(k: &[f32; 8], a: [f32; 4], b: [f32; 4]) -> f32 {
    let mut sum = k[0] * a[0];
    for i in 1..4 {
        sum = float::fma(k[i], a[i], sum);
    }
    for i in 0..4 {
        sum = float::fma(k[4 + i], b[i], sum);
    }
    sum
}

/// Turns scores into weights, and writes each head's largest score and sum of weights.
///
/// # Safety
/// The scores of `group` heads are there; `tops` holds two floats a head; all lanes of the warp call it together.
#[inline(always)]
unsafe fn weights<const H: usize>(scores: *mut f32, tops: *mut f32, (warp, lane): (usize, u32), group: usize) {
    for turn in 0..H.div_ceil(8) {
        let head = warp + 8 * turn;
        if head >= H {
            continue;
        }
        let at = [0, 32].map(|j| (lane as usize + j) * PITCH + head);
        let mut e = [0.0f32; 2]; // of heads that only fill up the last four
        if head < group {
            // SAFETY: `head < H <= PITCH`.
            let s = at.map(|at| unsafe { shared::load(scores.add(at)) });
            let top = warp::max_xor(float::max(s[0], s[1]));
            e = s.map(|s| if s == MASKED { 0.0 } else { float::exp(s - top) });
            let total = warp::sum_xor(e[0] + e[1]);
            if lane == 0 {
                // SAFETY: a head's place, 8-byte aligned.
                unsafe { global::store2(tops.add(2 * head), [top, total]) };
            }
        }
        for i in 0..2 {
            // SAFETY: as above; only this warp reads the head's scores.
            unsafe { shared::store(scores.add(at[i]), e[i]) };
        }
    }
}
