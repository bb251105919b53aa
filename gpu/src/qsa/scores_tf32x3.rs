//! `qsa.scores/tf32x3`, first launch: scores of complete blocks as a product on tensor cores, for prompts.
//!
//! Math      the module `scores`, with each product x y as lo hi + hi lo + hi hi of hi = tf32(x), lo = tf32(x - hi)
//! Shapes    `ScoresParams`, `max_blocks` a multiple of 4; finite values below 2^127
//! Mapping   grid (reach / 256 rounded up, nq / 16 rounded up), 128 threads: a block has 16 queries, brought to shared memory
//!           once as the fragments that lanes need, and 256 blocks of cells; warp w takes 16 of each 64. Rows of a product are
//!           the queries, a tile a head, so that a lane has all heads of the same scores. Columns of head and key are permuted
//!           alike: lane t of four has columns 16 k + 4 t .. + 3, one 16-byte load
//! Order     k ascending by 8 columns; the two small products in a sum of their own, which is added at the end; heads as the
//!           module's
//! Barriers  one, behind the fragments; a block whose cells no query has complete returns before it
//! Budget    168 registers, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `per_query`, derived in docs/src/exactness.md#scores

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{float, global, kernel, mma, shared};

use super::scores::{Quad, Row, head_at, key_at, relu};
use super::{INDEX_DIM, INDEX_HEADS, ScoresParams};

/// Four warps; three blocks an SM by shared memory.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 3 };
/// Queries of a block.
pub const QUERIES: u32 = 16;
/// Blocks of cells of a block.
pub const BLOCKS: u32 = 256;
/// Blocks of cells that the warps take at once, 16 each.
const AT_ONCE: u32 = 64;
/// Products side by side in a warp: eight blocks of cells each.
const SIDE: usize = 2;
/// Groups of 16 columns, two steps of the product each.
const GROUPS: usize = INDEX_DIM / 16;
/// Floats of a fragment: four a lane.
const FRAGMENT: usize = 128;

/// Dynamic shared memory: hi and lo of a fragment for each head, group and step.
pub const SHARED_BYTES: u32 = (INDEX_HEADS * GROUPS * 4 * FRAGMENT * 4) as u32;
const _: () = assert!(SHARED_BYTES <= 72 * 1024); // three blocks in 228 KiB less 1 KiB a block

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `max_blocks` a multiple of 4; grid `[reach / 256, nq / 16]`, both rounded up,
/// block 128, `SHARED_BYTES` dynamic.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_tf32x3(p: ScoresParams) {
    let (first_query, first_block) = (block_idx_y() * QUERIES, block_idx_x() * BLOCKS);
    let mut complete = 0;
    for i in 0..QUERIES {
        // SAFETY: a query past the last is the last one.
        complete = complete.max(unsafe { Row::of(&p, first_query + i) }.n_bid);
    }
    let complete = complete.min(p.reach);
    if first_block >= complete {
        return; // all threads of the block
    }
    let fragments = shared::dynamic_shared::<f32>();
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    // SAFETY: the area has `SHARED_BYTES`; all threads are here.
    unsafe { share(&p, first_query, fragments) };
    sync_threads();
    let mut first = first_block + 16 * warp;
    while first < (first_block + BLOCKS).min(complete) {
        // SAFETY: the fragments are there; 16 blocks from `first` on, of which those past the last are not stored.
        unsafe {
            let sums = products(&p, fragments, first, complete);
            store(&p, (first_query, first), &sums, lane);
        }
        first += AT_ONCE;
    }
}

/// hi and lo of a number.
#[inline(always)]
fn split(x: f32) -> [u32; 2] {
    let hi = float::f32_to_tf32(x);
    [hi, float::f32_to_tf32(x - f32::from_bits(hi))]
}

/// Where the fragments of a head and group start: step 0 hi, lo, step 1 hi, lo.
#[inline(always)]
const fn fragment(head: usize, group: usize) -> usize {
    (head * GROUPS + group) * 4 * FRAGMENT
}

/// Splits the queries and lays them out as fragments.
///
/// # Safety
/// As the kernel; `fragments` is its dynamic area.
#[inline(always)]
unsafe fn share(p: &ScoresParams, first_query: u32, fragments: *mut f32) {
    let (warp, lane) = (thread_idx_x() as usize / 32, thread_idx_x() as usize % 32);
    let (g, t) = (lane / 4, lane % 4);
    let mut at = warp;
    while at < INDEX_HEADS * GROUPS {
        let (head, group) = (at / GROUPS, at % GROUPS);
        // SAFETY: a query past the last is the last one; `16 group + 4 t + 3 < 128`. Each thread has fragments of its own.
        unsafe {
            let row = |query: usize| -> Quad {
                let row = head_at(p, first_query + query as u32, head as u32);
                global::load4_nc(row.add(16 * group + 4 * t))
            };
            let (upper, lower) = (row(g), row(g + 8));
            for step in 0..2 {
                let a = [upper[2 * step], lower[2 * step], upper[2 * step + 1], lower[2 * step + 1]].map(split);
                for part in 0..2 {
                    let to = fragments.add(fragment(head, group) + (2 * step + part) * FRAGMENT + 4 * lane);
                    shared::store4(to.cast::<u32>(), a.map(|parts| parts[part]));
                }
            }
        }
        at += BOUNDS.threads as usize / 32;
    }
}

/// Sums of the heads for 16 queries and 8 SIDE blocks: of queries g, g, g + 8, g + 8 and columns 2 t, 2 t + 1, 2 t, 2 t + 1.
///
/// # Safety
/// As the kernel, behind its barrier; `first < complete`.
#[inline(always)]
unsafe fn products(p: &ScoresParams, fragments: *const f32, first: u32, complete: u32) -> [Quad; SIDE] {
    let lane = thread_idx_x() % 32;
    let (g, t) = (lane / 4, lane % 4);
    // A block past the last is the last one.
    let keys = [0, 1].map(|i| key_at(p, (first + 8 * i + g).min(complete - 1)).wrapping_add(4 * t as usize));
    let mut large = [[[0.0f32; 4]; SIDE]; INDEX_HEADS];
    let mut small = [[[0.0f32; 4]; SIDE]; INDEX_HEADS];
    // SAFETY: the key of a complete block, written; the first of 128 columns.
    let mut quads = keys.map(|key| unsafe { global::load4_nc(key) });
    for group in 0..GROUPS {
        let behind = if group + 1 < GROUPS { group + 1 } else { group };
        // SAFETY: as above, `16 behind + 4 t + 3 < 128`.
        let next = keys.map(|key| unsafe { global::load4_nc(key.add(16 * behind)) });
        for step in 0..2 {
            let b = quads.map(|quad| [quad[2 * step], quad[2 * step + 1]].map(split));
            for head in 0..INDEX_HEADS {
                let part = |part: usize| {
                    let from = fragments.wrapping_add(fragment(head, group) + (2 * step + part) * FRAGMENT);
                    // SAFETY: within the area, which nobody writes any more.
                    unsafe { shared::load4(from.add(4 * lane as usize).cast::<u32>()) }
                };
                let (hi, lo) = (part(0), part(1));
                for i in 0..SIDE {
                    let [[hi0, lo0], [hi1, lo1]] = b[i];
                    let sum = mma::mma_m16n8k8_tf32(lo, [hi0, hi1], small[head][i]);
                    small[head][i] = mma::mma_m16n8k8_tf32(hi, [lo0, lo1], sum);
                    large[head][i] = mma::mma_m16n8k8_tf32(hi, [hi0, hi1], large[head][i]);
                }
            }
        }
        quads = next;
    }
    let mut sums = [[0.0f32; 4]; SIDE];
    for i in 0..SIDE {
        for c in 0..4 {
            let r = [0, 1, 2, 3].map(|head: usize| relu(large[head][i][c] + small[head][i][c]));
            sums[i][c] = ((r[0] + r[1]) + r[2]) + r[3];
        }
    }
    sums
}

/// Stores those that are of complete blocks of their queries.
///
/// # Safety
/// As the kernel.
#[inline(always)]
unsafe fn store(p: &ScoresParams, (first_query, first): (u32, u32), sums: &[Quad; SIDE], lane: u32) {
    let (g, t) = (lane / 4, lane % 4);
    for half in 0..2 {
        let query = first_query + g + 8 * half as u32;
        if query < p.nq {
            // SAFETY: `query < nq`.
            let complete = unsafe { Row::of(p, query) }.n_bid.min(p.reach);
            let row = p.out.wrapping_add(query as usize * p.max_blocks as usize);
            for i in 0..SIDE {
                let block = first + 8 * i as u32 + 2 * t;
                let [a, b] = [sums[i][2 * half], sums[i][2 * half + 1]];
                // SAFETY: a step lies below `reach`; `block` is even and rows are 16-byte aligned. One thread
                // has these blocks of this query.
                unsafe {
                    if block + 1 < complete {
                        global::store2(row.add(block as usize), [a, b]);
                    } else if block < complete {
                        global::store(row.add(block as usize), a);
                    }
                }
            }
        }
    }
}
