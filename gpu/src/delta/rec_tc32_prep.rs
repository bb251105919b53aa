//! `delta.rec/tc32` and `/wg32`, first launch: what the scan of a chunk needs and does not depend on the state.
//!
//! Math      with G_t the sum of the log decays to t in the chunk and E(t, i) = e^(G_t - G_i):
//!           A[t][i] = beta_t E(t, i) (k_t . k_i), i < t;  P[t][i] = E(t, i) (q_t . k_i), i <= t;  T = (I + A)^-1
//! Shapes    `RecParams` with scratch; any head counts with value_heads a multiple of key_heads
//! Mapping   block (chunk c, key head kh) = c * key_heads + kh, y = sequence, 128 threads: warp w splits 16 rows of k or q
//!           into images, which it leaves in the slot, too, and forms three tiles of k k^T or q k^T; then it makes T and P of heads
//!           kh + (w + 4 i) key_heads
//! Sums      G in f64, kept as two f32 whose differences carry 40 bits; all else f32
//! Products  f16 pairs on tensor cores (`mma.sync`), lo hi + hi lo + hi hi; without `PAIRS` only hi hi
//! Solve     by halves of 16 tokens (`chunk_solve.rs`): lanes 0 to 15 hold the columns of T1, the others those of T2, row by
//!           row from the top; the lower left on tensor cores. No entry of T exceeds 1, nor do the products
//! Tail      tokens past the end count as k = q = 0, gate 0, beta 0: T's rows are those of the identity there, P's are 0
//! Barriers  two: images complete, tiles complete; then each warp works alone, in what was a quarter of the images
//! Budget    128 registers, 38,912 B shared, 0 B local (enforced by tests/tests/ptx/)

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{float, global, kernel, mma, shared, shared_array, warp};

use super::RecParams;
use super::chunk::{
    BETA, BETA_DECAY, CHUNK, CHUNK_SCALE, D_SHIFT, DECAY, KEYS, MatrixLane, P, REST, T, chunk_at, decay, head_of,
    image_bytes, key_bytes, key_scale, keys_of, pairs, parts, power_of_two,
};
use super::chunk_keys::{SPLITTERS, load, store};
use super::chunk_solve::{
    HALF, clear_upper_right, half_at, invert_halves, lower_left, store_halves, store_lower_left, store_pair,
};
use crate::geometry::HEAD_DIM;

/// Four warps; four blocks an SM by registers (with five, 12.0 would spill).
pub const BOUNDS: Bounds = Bounds { threads: 32 * SPLITTERS as u32, min_blocks: 4 };
/// Tiles of 16 x 8 that k k^T and q k^T have on and below the diagonal, (0, 0), (0, 1), (1, 0) .. (1, 3) as (row of 16, column
/// of 8).
const TILES: usize = 6;

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, scratch for `span / 32` slots a sequence, `span` a multiple of 32;
/// grid `[chunks * key_heads, sequences]`, block 128.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_tc32_prep(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`delta_rec_tc32_prep`].
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_tc32_fast_prep(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

/// The launch, with f16 pairs or single f16.
///
/// # Safety
/// As [`delta_rec_tc32_prep`].
#[inline(always)]
pub(super) unsafe fn body<const PAIRS: bool>(whole: RecParams) {
    let key_heads = whole.key_heads as usize;
    let (chunk, key_head) = (block_idx_x() as usize / key_heads, block_idx_x() as usize % key_heads);
    let slot = block_idx_y() as usize * (whole.span as usize / CHUNK) + chunk;
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { whole.of_block() };
    let (first, tokens) = (chunk * CHUNK, p.tokens as usize);
    if first >= tokens {
        return;
    }
    let warp = thread_idx_x() as usize / 32;
    let images = shared_array![u8; key_bytes(true)];
    let tiles = shared_array![f32; 2 * TILES * 128];
    let rows = load(&p, key_head, warp, first);
    let mut head = key_head + warp * key_heads;
    // SAFETY: each warp writes its own rows and tiles, and reads the others' behind a barrier; when the tiles are complete
    // nobody reads the images any more, and a quarter of their space becomes the warp's own.
    unsafe {
        store::<PAIRS>(images, keys_of::<PAIRS>(&p, slot, key_head), warp, &rows);
        let mut token = Token::load(&p, head, first);
        sync_threads();
        gram::<PAIRS>(images, tiles, warp);
        sync_threads();
        let own = images.add(warp * image_bytes(true));
        while head < p.value_heads as usize {
            prepare_head::<PAIRS>(token, own, head_of::<PAIRS>(&p, slot, head), tiles);
            head += SPLITTERS * key_heads;
            token = Token::load(&p, head, first);
        }
    }
}
const _: () = assert!(SPLITTERS * image_bytes(true) <= key_bytes(true));

/// The log decay and beta of the lane's token and a head; 0 past the end, and for a head that there is not.
#[derive(Clone, Copy)]
struct Token {
    gate: f32,
    beta: f32,
}

impl Token {
    #[inline(always)]
    fn load(p: &RecParams, head: usize, first: usize) -> Self {
        let token = first + warp::lane_id() as usize;
        if token >= p.tokens as usize || head >= p.value_heads as usize {
            return Self { gate: 0.0, beta: 0.0 };
        }
        // SAFETY: a token of the sequence, a head.
        unsafe {
            Self {
                gate: global::load_nc(p.gate.add(token * p.gate_stride as usize + head)),
                beta: global::load_nc(p.beta.add(token * p.beta_stride as usize + head)),
            }
        }
    }
}

/// T, P and the token scalars of one value head, into scratch.
///
/// # Safety
/// `own` is the warp's; the slot is that of the head.
#[inline(always)]
unsafe fn prepare_head<const PAIRS: bool>(token: Token, own: *mut u8, slot: *mut u8, tiles: *const f32) {
    let lane = warp::lane_id() as usize;
    let Token { gate, beta } = token;
    let sum = Sum::up_to(gate);
    let last = sum.of_lane(31);
    // SAFETY: `lane < 32`; the warp meets between the steps that read what another lane wrote.
    unsafe {
        let scalars = slot.add(image_bytes(PAIRS)).cast::<f32>();
        let (decayed, rest) = (float::exp(sum.value), float::exp(last.minus(sum)));
        global::store(scalars.add(BETA + lane), beta);
        global::store(scalars.add(BETA_DECAY + lane), beta * decayed);
        global::store(scalars.add(DECAY + lane), decayed);
        global::store(scalars.add(REST + lane), rest * power_of_two(-D_SHIFT));
        weigh::<PAIRS>(own, tiles, sum, beta);
        warp::sync_warp(warp::FULL_MASK);
        let column = invert_halves(own, lane);
        store_halves::<PAIRS>(own, lane, &column);
        warp::sync_warp(warp::FULL_MASK);
        clear_upper_right(own, lane);
        let below = lower_left::<PAIRS>(own);
        warp::sync_warp(warp::FULL_MASK);
        store_lower_left::<PAIRS>(own, lane, &below);
        warp::sync_warp(warp::FULL_MASK);
        for i in 0..image_bytes(PAIRS) / 512 {
            let at = (32 * i + lane) * 16;
            global::store4(slot.add(at).cast::<u32>(), shared::load4(own.add(at).cast::<u32>()));
        }
        warp::sync_warp(warp::FULL_MASK);
    }
}

/// A sum of log decays: the nearest f32 and what is left.
#[derive(Clone, Copy)]
struct Sum {
    value: f32,
    rest: f32,
}

impl Sum {
    /// The sum over the lanes up to each one, added in f64.
    #[inline(always)]
    fn up_to(gate: f32) -> Self {
        let lane = warp::lane_id();
        let mut sum = f64::from(gate);
        for step in 0..5u32 {
            let bits = sum.to_bits();
            let low = warp::shfl_up(bits as u32, 1 << step);
            let high = warp::shfl_up((bits >> 32) as u32, 1 << step);
            let below = f64::from_bits(u64::from(high) << 32 | u64::from(low));
            if lane >= 1 << step {
                sum += below;
            }
        }
        let value = sum as f32;
        Self { value, rest: (sum - f64::from(value)) as f32 }
    }

    #[inline(always)]
    fn of_lane(self, lane: u32) -> Self {
        Self { value: warp::shfl_idx(self.value, lane), rest: warp::shfl_idx(self.rest, lane) }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> f32 {
        (self.value - other.value) + (self.rest - other.rest)
    }
}

/// The warp's tiles of k k^T (warps 0, 1) or q k^T (2, 3), times `2^(2 key_scale)`: columns 8 h .. and 16 + 8 h .. with
/// h = warp mod 2. A lane's four values lie together.
///
/// # Safety
/// The k, q images are complete and the block has met since.
#[inline(always)]
unsafe fn gram<const PAIRS: bool>(images: *const u8, tiles: *mut f32, warp: usize) {
    let lane = warp::lane_id() as usize;
    let (product, h) = (warp / 2, warp % 2);
    let (left, right) = (MatrixLane::rows_first(), MatrixLane::apart(HALF));
    let mut sums = [[0.0f32; 4]; 3]; // (0, h), (1, h), (1, 2 + h)
    for step in 0..HEAD_DIM / 16 {
        let mut a = [[[0u32; 4]; 2]; 2]; // [rows of 16][hi, lo]
        let mut b = [[[0u32; 2]; 2]; 2]; // [hi, lo][columns]
        for part in 0..parts(PAIRS) {
            // SAFETY: rows and columns of the image.
            unsafe {
                for m in 0..2 {
                    let row = CHUNK * product + HALF * m;
                    a[m][part] = mma::ldmatrix_x4(images.add(KEYS[part] + left.key(row, step)));
                }
                b[part] = pairs(mma::ldmatrix_x4(images.add(KEYS[part] + right.key(8 * h, step))));
            }
        }
        for small in 0..if PAIRS { 3 } else { 1 } {
            // lo hi, hi lo, hi hi
            let (x, y) = if !PAIRS { (0, 0) } else { ([1, 0, 0][small], [0, 1, 0][small]) };
            sums[0] = mma::mma_m16n8k16_f16(a[0][x], b[y][0], sums[0]);
            sums[1] = mma::mma_m16n8k16_f16(a[1][x], b[y][0], sums[1]);
            sums[2] = mma::mma_m16n8k16_f16(a[1][x], b[y][1], sums[2]);
        }
    }
    for i in 0..3 {
        let tile = product * TILES + [h, 2 + h, 4 + h][i];
        // SAFETY: each tile is one warp's.
        unsafe { shared::store4(tiles.add((tile * 32 + lane) * 4), sums[i]) };
    }
}

/// Makes A and the P image from the tiles: A's diagonal halves as f32, its lower left in the T image.
///
/// # Safety
/// The P and T images are the warp's to write; the tiles of the block are complete.
#[inline(always)]
unsafe fn weigh<const PAIRS: bool>(images: *mut u8, tiles: *const f32, sum: Sum, beta: f32) {
    let lane = warp::lane_id() as usize;
    let (g, pair) = (lane / 4, lane % 4 * 2);
    let unscale = power_of_two(-2 * key_scale(PAIRS));
    let scale = power_of_two(CHUNK_SCALE);
    for m in 0..2 {
        let rows = [HALF * m + g, HALF * m + 8 + g];
        let row_sum = [sum.of_lane(rows[0] as u32), sum.of_lane(rows[1] as u32)];
        let row_beta = [warp::shfl_idx(beta, rows[0] as u32), warp::shfl_idx(beta, rows[1] as u32)];
        for n in 0..2 * m + 2 {
            let tile = if m == 0 { n } else { 2 + n };
            let column = 8 * n + pair;
            let column_sum = [sum.of_lane(column as u32), sum.of_lane(column as u32 + 1)];
            // SAFETY: tiles of both products.
            let (kk, qk) = unsafe {
                (
                    shared::load4(tiles.add((tile * 32 + lane) * 4)),
                    shared::load4(tiles.add(((TILES + tile) * 32 + lane) * 4)),
                )
            };
            for half in 0..2 {
                let row = rows[half];
                let (mut av, mut pv) = ([0.0f32; 2], [0.0f32; 2]);
                for c in 0..2 {
                    // Above the diagonal the sum is positive and not wanted: it must not overflow.
                    let e = decay(float::min(row_sum[half].minus(column_sum[c]), 0.0));
                    let i = 2 * half + c;
                    av[c] = if column + c < row { row_beta[half] * unscale * e * kk[i] } else { 0.0 };
                    pv[c] = if column + c <= row { unscale * scale * e * qk[i] } else { 0.0 };
                }
                let at = chunk_at(row, n) + pair * 2;
                // SAFETY: `row < 32`, `n < 4`: inside A's half and the images; multiples of 8 and 4 bytes.
                unsafe {
                    store_pair::<PAIRS>(images, P, at, pv[0], pv[1]);
                    if n / 2 == m {
                        let unit = n % 2 * 2 + pair / 4;
                        let to = images.add(half_at(m, row % HALF, unit) + pair % 4 * 4);
                        shared::store2(to.cast::<f32>(), av);
                    } else {
                        store_pair::<PAIRS>(images, T, at, av[0] * scale, av[1] * scale);
                    }
                }
            }
        }
    }
}
