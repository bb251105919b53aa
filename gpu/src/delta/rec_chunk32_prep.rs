//! `delta.rec/chunk32`, first launch: T, P and decays of every chunk and value head, for the scan behind it.
//!
//! Math      see `rec_chunk32.rs`; T column by column: T[t][i] = [t = i] - sum over k < t of A[t][k] T[k][i]
//! Shapes    `RecParams` with a span that is a multiple of 32; value_heads = VPK * key_heads, VPK = 1 to 4
//! Mapping   grid x = chunk + chunks * key head, y = sequence. Products: warp = 16 tokens t by 8 tokens i, lane = 2 x 2 of
//!           them, k_t . k_i and q_t . k_i together; the two warps above the diagonal have nothing to do. Matrices: lane =
//!           token i, warp = every eighth t. Solve: warp = head, lane = column i of T, all 32 rows in registers
//! Order     products: fma chain, r ascending; T: fma chain, k ascending. G: f64, shuffle-up by 1, 2, 4, 8, 16
//! Barriers  three, by all 256 threads: rows and G are there; products are there and the rows have no reader left; A is
//!           there, over the rows
//! Budget    80 registers, 44,544 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding, together with the scan

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{copy, float, global, int, kernel, shared, shared_array, warp};

use super::RecParams;
use super::rec_chunk32::{CHUNK, KEYS, MATRIX_PITCH, ROW_PITCH, Record, copy_keys, gates_of};
use crate::geometry::{HEAD_DIM, MAX_VPK};

/// Three blocks an SM hide the waits of the solve, whose warps have long chains.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 3 };
const WARPS: usize = BOUNDS.threads as usize / 32;
/// f32 of a staged 32 x 32 matrix.
const MATRIX: usize = CHUNK * MATRIX_PITCH;
/// Elements of a row that the products take at once.
const STEP: usize = 8;
/// Heads that shared memory has room for.
const HEADS: usize = MAX_VPK as usize;
const _: () = assert!(HEADS * MATRIX <= KEYS && HEADS <= WARPS); // A of all heads over the rows, a warp a head

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, value_heads at most 4 key_heads; grid x a multiple `chunks` of
/// key_heads with `32 chunks <= span`, block 256; scratch as `rec_chunk32` says.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_chunk32_prep(p: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { p.of_block() };
    let chunks = grid_dim_x() / p.key_heads;
    let (chunk, key_head) = ((block_idx_x() % chunks) as usize, (block_idx_x() / chunks) as usize);
    if chunk * CHUNK >= p.tokens as usize {
        return;
    }
    let thread = thread_idx_x() as usize;
    let (warp, lane) = place(thread);
    let heads = (p.value_heads / p.key_heads) as usize;
    let keys = shared_array![f32; KEYS];
    let products = shared_array![f32; 2 * MATRIX];
    let sums = shared_array![f64; HEADS * CHUNK];
    let betas = shared_array![f32; HEADS * CHUNK];
    // SAFETY: `j < heads`, so the head is below value_heads; the chunk is one of the pass.
    let record =
        |j: usize| unsafe { Record::new(&p, block_idx_y() as usize, chunk, key_head + j * p.key_heads as usize) };

    // SAFETY: the chunk has a token; the array is fresh; all warps call it.
    unsafe { copy_keys::<WARPS>(&p, chunk as u32, key_head, keys, warp, lane) };
    copy::cp_async_commit();
    if warp < heads {
        // SAFETY: the head is below value_heads; `warp < 4` and `lane < 32` stay in the arrays.
        unsafe {
            let (gate, beta) = gates_of(&p, chunk * CHUNK + lane, key_head + warp * p.key_heads as usize);
            let sum = running_sum(f64::from(gate), lane);
            let last = from_lane(sum, 31);
            shared::store(sums.add(warp * CHUNK + lane), sum);
            shared::store(betas.add(warp * CHUNK + lane), beta);
            global::store(record(warp).since_start().add(lane), float::exp(sum as f32));
            global::store(record(warp).until_end().add(lane), float::exp((last - sum) as f32));
            global::store(record(warp).beta().add(lane), beta);
        }
    }
    copy::cp_async_wait_all();
    sync_threads();
    let (warp, lane) = place(thread);
    // SAFETY: the rows have landed, and nothing writes them before the barrier.
    unsafe { store_products(keys, products, warp, lane) };
    sync_threads();
    let (warp, lane) = place(thread);
    for j in 0..heads {
        // SAFETY: products, sums and betas are there; A of head j is written over rows that nobody reads any more.
        unsafe {
            let own = shared::load(sums.add(j * CHUNK + lane));
            for m in 0..CHUNK / WARPS {
                let t = warp + WARPS * m;
                let sum = shared::load(sums.add(j * CHUNK + t));
                let decay = float::exp(if lane <= t { (sum - own) as f32 } else { 0.0 });
                let at = products.add(t * MATRIX_PITCH + lane);
                let qk = if lane <= t { decay * shared::load(at.add(MATRIX)) } else { 0.0 };
                global::store(record(j).products().add(t * CHUNK + lane), qk);
                let kk = if lane < t { shared::load(at) } else { 0.0 };
                let a = shared::load(betas.add(j * CHUNK + t)) * decay * kk;
                shared::store(keys.add(j * MATRIX + lane * MATRIX_PITCH + t), a);
            }
        }
    }
    sync_threads();
    let (warp, lane) = place(thread);
    if warp < heads {
        // SAFETY: A of all heads is there.
        let column = unsafe { solve(keys.add(warp * MATRIX), lane) };
        let (warp, lane) = place(thread);
        for t in 0..CHUNK {
            // SAFETY: inside T; one lane an element.
            unsafe { global::store(record(warp).solved().add(t * CHUNK + lane), column[t]) };
        }
    }
}

/// Warp and lane of a thread, as numbers that the compiler does not know: else it keeps the addresses of all stages in
/// registers, from the first one on.
#[inline(always)]
fn place(thread: usize) -> (usize, usize) {
    let thread = int::opaque(thread) as u32 % BOUNDS.threads;
    ((thread / 32) as usize, (thread % 32) as usize)
}

/// The value of lane `source`.
#[inline(always)]
fn from_lane(x: f64, source: u32) -> f64 {
    let bits = x.to_bits();
    let (low, high) = (warp::shfl_idx(bits as u32, source), warp::shfl_idx((bits >> 32) as u32, source));
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

/// Sum of `x` over the lanes up to this one. All lanes call it.
#[inline(always)]
fn running_sum(x: f64, lane: usize) -> f64 {
    let mut sum = x;
    for step in 0..5 {
        let delta = 1 << step;
        let bits = sum.to_bits();
        let (low, high) = (warp::shfl_up(bits as u32, delta), warp::shfl_up((bits >> 32) as u32, delta));
        let below = f64::from_bits(u64::from(high) << 32 | u64::from(low));
        sum += if lane >= delta as usize { below } else { 0.0 };
    }
    sum
}

/// k_t . k_i to `products` and q_t . k_i behind it, by rows t; some above the diagonal too, the rest stays unwritten.
///
/// # Safety
/// `keys` holds a chunk's rows, which have landed; `products` is two staged matrices; all 8 warps call it.
#[inline(always)]
unsafe fn store_products(keys: *const f32, products: *mut f32, warp: usize, lane: usize) {
    // Lanes that differ in bit 0 read the same tokens t, in bit 1 the same i: such 16-byte loads take half the time.
    let (t, i) = (16 * (warp / 4) + (lane >> 1) % 8, 8 * (warp % 4) + lane % 2 + (lane >> 4) * 2);
    if i / 8 * 8 > t / 16 * 16 + 15 {
        return; // above the diagonal; the same for the whole warp
    }
    // SAFETY: tokens are below 32, q rows follow the 32 k rows; multiples of 4 floats, here and below.
    let (mut rows, mut right_rows) = unsafe { (keys.add(t * ROW_PITCH), keys.add(i * ROW_PITCH)) };
    let (mut kk, mut qk) = ([[0.0f32; 2]; 2], [[0.0f32; 2]; 2]);
    let mut steps = int::opaque(HEAD_DIM / STEP) as u32; // unrolled as a whole, ptxas loads far ahead and spills
    while steps > 0 {
        for r in (0..STEP).step_by(4) {
            let (mut k, mut q, mut right) = ([[0.0f32; 4]; 2], [[0.0f32; 4]; 2], [[0.0f32; 4]; 2]);
            for x in 0..2 {
                // SAFETY: `t + 8 < 32`, `i + 4 < 32`, 128 values a row.
                unsafe {
                    k[x] = shared::load4(rows.add(8 * x * ROW_PITCH + r));
                    q[x] = shared::load4(rows.add((CHUNK + 8 * x) * ROW_PITCH + r));
                    right[x] = shared::load4(right_rows.add(4 * x * ROW_PITCH + r));
                }
            }
            for e in 0..4 {
                for x in 0..2 {
                    for y in 0..2 {
                        kk[x][y] = float::fma(k[x][e], right[y][e], kk[x][y]);
                        qk[x][y] = float::fma(q[x][e], right[y][e], qk[x][y]);
                    }
                }
            }
        }
        // SAFETY: at most just behind the row.
        unsafe {
            rows = rows.add(STEP);
            right_rows = right_rows.add(STEP);
        }
        steps -= 1;
    }
    for x in 0..2 {
        for y in 0..2 {
            // SAFETY: inside the matrices; one lane an element.
            unsafe {
                let at = products.add((t + 8 * x) * MATRIX_PITCH + i + 4 * y);
                shared::store(at, kk[x][y]);
                shared::store(at.add(MATRIX), qk[x][y]);
            }
        }
    }
}

/// Column `lane` of (I + A)^-1; `a` holds A by columns.
///
/// # Safety
/// `a` is a staged matrix in shared memory, 16-byte aligned; nobody writes it.
#[inline(always)]
unsafe fn solve(a: *const f32, lane: usize) -> [f32; CHUNK] {
    let mut x = [0.0f32; CHUNK];
    for t in 0..CHUNK {
        x[t] = if t as u32 == lane as u32 { 1.0 } else { 0.0 };
    }
    for k in 0..CHUNK - 1 {
        for t in ((k + 1) / 4 * 4..CHUNK).step_by(4) {
            // SAFETY: `k < 31`, `t + 3 < 32`, multiples of 4 floats.
            let four = unsafe { shared::load4(a.add(k * MATRIX_PITCH + t)) };
            for e in 0..4 {
                if t + e > k {
                    x[t + e] = float::fma(-four[e], x[k], x[t + e]);
                }
            }
        }
    }
    x
}
