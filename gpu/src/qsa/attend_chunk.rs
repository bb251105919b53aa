//! `qsa.attend/chunk` and `early`, first of two launches: the heads of a key head attend 64 cells of a row's list. `early` starts
//! beside the launch ahead and waits for its end.
//!
//! Math      s = q . k / 16, m = max s, e = exp(s - m), l = sum e, sum e v; a cell without a row has e = 0
//! Shapes    `AttendParams`
//! Mapping   grid (chunks, kv heads * parts, rows), chunk x = cells 64 x .. 64 x + 63 of the list, a part of a key head's heads. Scores: warp w has cells 8 w .. 8 w
//!           + 7, lane l values 8 l .. 8 l + 7 of all of them in registers; two heads a round. Weights: warp w has heads w,
//!           w + 8. Sums: thread t has values 4 (t mod 64) .. + 3 for heads H (t / 64) .. + H - 1, cells in shared memory (f32: in place)
//! Order     score: product, then an fma chain over 8 values; butterfly over the lanes; times 1/16. l: e_j + e_(j+32), butterfly.
//!           Sum of a value: fma chain, cells ascending. Nothing depends on the other rows
//! Barriers  three, by all threads: queries and rows are written before the first; scores before the second; weights before
//!           the third. A block without cells leaves as a whole
//! Budget    128 registers, 0 B shared but dynamic memory (`shared_bytes`), 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base, with `attend_merge.rs`; `early` Bitwise

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, block_idx_z, grid_dim_y, sync_threads, thread_idx_x};
use cuda_std::{float, global, grid, kernel, shared, warp};

use super::HEAD_DIM;
use super::attend::{AttendParams, Attended, CHUNK, MASKED, MAX_GROUP, SCALE, listed};
use super::cells::{CellFormat, ChunkRows, F16, F32, I8, NO_ROW, SCALES, readable};

/// Eight warps; two blocks an SM put four rows of 66 blocks on 132 SMs.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 2 };
/// Cells of a warp.
const CELLS: usize = 8;
const _: () = assert!(CELLS * BOUNDS.threads as usize / 32 == CHUNK);
/// Threads that have all values of a head's sums, four each.
const SIDE: usize = HEAD_DIM / 4;
/// Heads whose sums are formed side by side.
const SIDES: usize = BOUNDS.threads as usize / SIDE;
/// Cells of a turn of the sums: their loads are under way together.
const TURN: usize = 8;
const _: () = assert!(CHUNK.is_multiple_of(TURN));

/// Dynamic shared memory of a block for `group` heads.
pub const fn shared_bytes<F: CellFormat>(group: usize) -> usize {
    4 * (group * (CHUNK + HEAD_DIM) + CHUNK * (SCALES + 1)) + if F::STAGED { CHUNK * F::ROW_BYTES } else { 0 }
}

/// Defines the instances: a format, heads whose sums a thread has, and what is waited for first.
macro_rules! instances {
    ($(#[$kernel:meta] $wait:expr; $($name:ident $format:ident $heads:literal),*;)*) => {$($(
        /// # Safety
        /// As [`body`]; the cells' format and no more heads to a block than the name says.
        #[$kernel]
        #[launch_bounds(BOUNDS)]
        pub unsafe fn $name(p: AttendParams) {
            // SAFETY: same contract.
            unsafe { body::<$format, $heads>(p, $wait) }
        }
    )*)*};
}

instances! {
    #[kernel] || ();
    qsa_attend_chunk_f32_g4 F32 1,
    qsa_attend_chunk_f32_g16 F32 4,
    qsa_attend_chunk_f16_g4 F16 1,
    qsa_attend_chunk_f16_g12 F16 3,
    qsa_attend_chunk_f16_g16 F16 4,
    qsa_attend_chunk_i8_g4 I8 1,
    qsa_attend_chunk_i8_g12 I8 3,
    qsa_attend_chunk_i8_g16 I8 4;
    #[kernel(sm = 90)] grid::wait_for_previous;
    qsa_attend_early_f16_g4 F16 1,
    qsa_attend_early_f16_g12 F16 3,
    qsa_attend_early_f16_g16 F16 4,
    qsa_attend_early_i8_g4 I8 1,
    qsa_attend_early_i8_g12 I8 3,
    qsa_attend_early_i8_g16 I8 4;
}

/// The block's shared memory.
#[derive(Clone, Copy)]
struct Area {
    /// f32 `[group][CHUNK]`: scores, then weights.
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
        let scales = base.wrapping_add(group * CHUNK);
        let rows = scales.wrapping_add(CHUNK * SCALES);
        let q = rows.wrapping_add(CHUNK);
        Self { scores: base, scales, rows: rows.cast(), q, staged: q.wrapping_add(group * HEAD_DIM).cast() }
    }
}

/// # Safety
/// Shapes and alignment as `AttendParams` says; grid `(chunks, kv_heads * parts, rows)`, block 256, where `heads /
/// (kv_heads * parts)` is whole and at most H * SIDES; dynamic
/// shared memory `shared_bytes::<F>`.
#[inline(always)]
unsafe fn body<F: CellFormat, const H: usize>(p: AttendParams, wait: impl Fn()) {
    wait();
    grid::let_next_start(); // the merge waits for the end of this launch; what was ahead of it has ended
    let (thread, chunk) = (thread_idx_x() as usize, block_idx_x());
    let (query, warp, lane) = (block_idx_z() as usize, thread / 32, (thread % 32) as u32);
    // A key head's query heads are dealt to as many blocks as the grid has of them.
    let parts = grid_dim_y() / p.pages.kv_heads;
    let (kv_head, group) = (block_idx_y() / parts, (p.heads / grid_dim_y()) as usize);
    let first = block_idx_y() as usize * group;
    let head0 = query * p.heads as usize + first;
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
    let part = (query * p.chunks as usize + chunk as usize) * p.heads as usize + first;
    // SAFETY: scores are there since the barrier; a head is one warp's; the chunk is one of `chunks`.
    unsafe { weights::<H>(area.scores, p.tops.add(2 * part), (warp, lane), group) };
    sync_threads();
    let rows = ChunkRows { staged: area.staged, scales: area.scales, rows: area.rows, values: p.v.values };
    let cells = attended.count as usize - chunk as usize * CHUNK;
    let cells = if cells < CHUNK { cells } else { CHUNK }; // up to seven more are read: they have no weight and value 0
    let (side, d) = (H * (thread / SIDE), 4 * (thread % SIDE));
    if side < group {
        // SAFETY: rows were staged before the first barrier, weights before the last; the warp's heads are of the block.
        let acc = unsafe { sums::<F, H>(&rows, area.scores, cells, (side, group), d) };
        for h in 0..H {
            if side + h < group {
                // SAFETY: the chunk's and head's sums; d + 3 < HEAD_DIM, multiples of 4.
                unsafe { global::store4(p.sums.add((part + side + h) * HEAD_DIM + d), acc[h]) };
            }
        }
    }
}

/// Sums of values `d .. d + 4` of the first `cells` cells, for H heads from `head` on; there are `group`, and what is behind
/// them repeats the last.
///
/// # Safety
/// Rows and weights of all cells are in shared memory, `head < group`, `d + 3 < HEAD_DIM`.
#[inline(always)]
unsafe fn sums<F: CellFormat, const H: usize>(
    rows: &ChunkRows,
    weights: *const f32,
    cells: usize,
    (head, group): (usize, usize),
    d: usize,
) -> [[f32; 4]; H] {
    let mut acc = [[0.0f32; 4]; H];
    let mut j = 0;
    while j < cells {
        let (mut e, mut v) = ([[[0.0f32; 4]; H]; TURN / 4], [F::Four::default(); TURN]);
        for u in 0..TURN {
            for h in 0..H {
                if u.is_multiple_of(4) {
                    let head = if head + h < group { head + h } else { group - 1 };
                    // SAFETY: a head of the block; cells by fours.
                    e[u / 4][h] = unsafe { shared::load4(weights.add(head * CHUNK + j + u)) };
                }
            }
            // SAFETY: j + u < CHUNK, a multiple of TURN.
            v[u] = unsafe { F::load4(rows, j + u, d) };
        }
        for u in 0..TURN {
            let v = F::values(v[u]);
            for h in 0..H {
                for i in 0..4 {
                    acc[h][i] = float::fma(e[u / 4][h][u % 4], v[i], acc[h][i]);
                }
            }
        }
        j += TURN;
    }
    acc
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
            raw[i] = F::load8_here(p.k.values, at * HEAD_DIM + 8 * lane as usize);
            if F::SCALED {
                raw_scales[i] = global::load(p.k.scales.add(at * SCALES + lane as usize / 8));
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
    let place = area.scores.wrapping_add(pair * CHUNK + warp * CELLS + cell as usize);
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
            unsafe { shared::store(place.add(head * CHUNK), if is_there { score } else { MASKED }) };
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
    for turn in 0..(H * SIDES).div_ceil(8) {
        let head = warp + 8 * turn;
        if head < group {
            let at = [0, 32].map(|j| head * CHUNK + lane as usize + j);
            // SAFETY: a head of the block.
            let s = at.map(|at| unsafe { shared::load(scores.add(at)) });
            let top = warp::max_xor(float::max(s[0], s[1]));
            let e = s.map(|s| if s == MASKED { 0.0 } else { float::exp(s - top) });
            let total = warp::sum_xor(e[0] + e[1]);
            for i in 0..2 {
                // SAFETY: as above; only this warp reads the head's scores.
                unsafe { shared::store(scores.add(at[i]), e[i]) };
            }
            if lane == 0 {
                // SAFETY: a head's place, 8-byte aligned.
                unsafe { global::store2(tops.add(2 * head), [top, total]) };
            }
        }
    }
}
