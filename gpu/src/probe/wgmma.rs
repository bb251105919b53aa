//! Products of a warpgroup.

use super::ProbeParams;
use cuda_std::{
    barrier, float, global, kernel,
    launch::Bounds,
    shared,
    thread::{self, sync_threads},
    wgmma::{self, Descriptor},
};

/// Bounds: one warpgroup.
pub const WARPGROUP: Bounds = Bounds { threads: 128, min_blocks: 1 };

/// Words of A's fragments for `k` columns: for each thread, four registers for each 16 columns.
pub const fn a_words(k: usize) -> usize {
    128 * k / 4
}

/// Words of B, `k` rows and `n` columns: also bytes / 4 of the dynamic shared memory.
pub const fn b_words(k: usize, n: usize) -> usize {
    k * n / 2
}

/// Copies the atoms of B, `WORDS` words, from `input` to the start of shared memory, with swizzle; visible to products.
///
/// # Safety
/// All threads of the block come here; `from` is 16-byte aligned.
#[inline(always)]
unsafe fn place<const WORDS: usize, const SWIZZLE: usize>(from: *const u32) -> *const u32 {
    let tile = shared::dynamic_shared::<u32>();
    let t = thread::thread_idx_x() as usize;
    for i in 0..WORDS / 512 {
        let unit = 128 * i + t;
        // Address bits 4.. take those from 7 on: 3 for rows of 128 bytes, 2 for rows of 64.
        let to = unit ^ ((unit / 8) & (SWIZZLE / 16 - 1));
        // SAFETY: a permutation of the WORDS / 4 units, each written by one thread.
        unsafe { shared::store4(tile.add(4 * to), global::load4(from.add(4 * unit))) };
    }
    barrier::fence_async_shared();
    sync_threads();
    tile
}

/// C + A B, step by step of 16 columns of A; `advance` bytes of B a step.
macro_rules! product {
    ($p:ident, $product:ident::<$trans:literal>, k = $k:expr, n = $n:expr, $swizzle:literal, $describe:expr, $advance:expr) => {{
        const REGS: usize = $n / 2;
        let p: ProbeParams = $p;
        let t = thread::thread_idx_x() as usize;
        let mut acc = [0.0f32; REGS];
        // SAFETY: the ranges that the contract names; B is written before the fence and the barrier in `place`.
        unsafe {
            let b: Descriptor = $describe(place::<{ b_words($k, $n) }, $swizzle>(p.input.add(a_words($k))));
            let c = p.input.add(a_words($k) + b_words($k, $n) + t * REGS);
            for i in 0..REGS {
                acc[i] = f32::from_bits(global::load(c.add(i)));
            }
            let mut a = [[0; 4]; $k / 16];
            for step in 0..$k / 16 {
                a[step] = global::load4(p.input.add((t * ($k / 16) + step) * 4));
            }
            wgmma::hold(&mut acc);
            wgmma::fence();
            for step in 0..$k / 16 {
                wgmma::$product::<$trans>(&mut acc, a[step], b.advance(step * $advance), true);
            }
            wgmma::commit();
            wgmma::wait::<0>();
            wgmma::hold(&mut acc);
            for i in 0..REGS {
                global::store(p.output.add(t * REGS + i), acc[i].to_bits());
            }
        }
    }};
}

/// K-major, 64-byte swizzle: K = 32, N = 32.
///
/// # Safety
/// One block of [`WARPGROUP`] with [`b_words`] of dynamic shared memory; `input` holds A's fragments (`[128][K / 16][4]`), the
/// atoms of B before their swizzle and C's fragments `[128][N / 2]`, 16-byte aligned; `output` takes C's.
#[kernel(sm = 90)]
#[launch_bounds(WARPGROUP)]
pub unsafe fn probe_wgmma_n32(p: ProbeParams) {
    product!(p, mma_m64n32k16_f16::<false>, k = 32, n = 32, 64, |b| Descriptor::k_major::<64>(b, 512), 32);
}

/// K-major, 128-byte swizzle: K = 64, N = 64.
///
/// # Safety
/// As [`probe_wgmma_n32`].
#[kernel(sm = 90)]
#[launch_bounds(WARPGROUP)]
pub unsafe fn probe_wgmma_n64(p: ProbeParams) {
    product!(p, mma_m64n64k16_f16::<false>, k = 64, n = 64, 128, |b| Descriptor::k_major::<128>(b, 1024), 32);
}

/// K-major, 128-byte swizzle: K = 64, N = 128.
///
/// # Safety
/// As [`probe_wgmma_n32`].
#[kernel(sm = 90)]
#[launch_bounds(WARPGROUP)]
pub unsafe fn probe_wgmma_n128(p: ProbeParams) {
    product!(p, mma_m64n128k16_f16::<false>, k = 64, n = 128, 128, |b| Descriptor::k_major::<128>(b, 1024), 32);
}

/// MN-major: K = 32, N = 64.
///
/// # Safety
/// As [`probe_wgmma_n32`].
#[kernel(sm = 90)]
#[launch_bounds(WARPGROUP)]
pub unsafe fn probe_wgmma_trans_n64(p: ProbeParams) {
    product!(p, mma_m64n64k16_f16::<true>, k = 32, n = 64, 128, |b| Descriptor::mn_major_128(b, 0, 1024), 2048);
}

/// MN-major: K = 32, N = 128; the two blocks of a group of 8 k's follow each other.
///
/// # Safety
/// As [`probe_wgmma_n32`].
#[kernel(sm = 90)]
#[launch_bounds(WARPGROUP)]
pub unsafe fn probe_wgmma_trans_n128(p: ProbeParams) {
    product!(p, mma_m64n128k16_f16::<true>, k = 32, n = 128, 128, |b| Descriptor::mn_major_128(b, 1024, 2048), 4096);
}

/// Columns of A in [`probe_wgmma_chain`].
pub const CHAIN_K: usize = 128;

/// A form that kernels use: K = 128 in two tiles of 64 (K-major, N = 64), A split into an f16 and the f16 of its rest. The
/// sums of a first group are doubled behind its wait, go into a second one and are doubled again: `C = 6 A B`.
///
/// # Safety
/// One block of [`WARPGROUP`] with [`b_words`] of dynamic shared memory; `input` holds A's fragments in f32
/// (`[128][CHAIN_K / 16][8]`, two values for each register of the f16 form) and the atoms of B; `output` takes C's fragments.
#[kernel(sm = 90)]
#[launch_bounds(WARPGROUP)]
pub unsafe fn probe_wgmma_chain(p: ProbeParams) {
    let t = thread::thread_idx_x() as usize;
    let mut acc = [0.0f32; 32];
    // SAFETY: the ranges that the contract names; B is written before the fence and the barrier in `place`.
    unsafe {
        let tile = place::<{ b_words(CHAIN_K, 64) }, 128>(p.input.add(128 * CHAIN_K / 2));
        let b = Descriptor::k_major::<128>(tile, 1024);
        let mut high = [[0; 4]; CHAIN_K / 16];
        let mut low = [[0; 4]; CHAIN_K / 16];
        for step in 0..CHAIN_K / 16 {
            for r in 0..4 {
                let [x, y] = global::load2(p.input.add((t * (CHAIN_K / 16) + step) * 8 + 2 * r)).map(f32::from_bits);
                let near = float::f32x2_to_f16x2(x, y);
                let [rx, ry] = float::f16x2_to_f32x2(near);
                high[step][r] = near;
                low[step][r] = float::f32x2_to_f16x2(x - rx, y - ry);
            }
        }
        for round in 0..2 {
            wgmma::hold(&mut acc);
            wgmma::fence();
            for step in 0..CHAIN_K / 16 {
                let b = b.advance(step / 4 * 8192 + step % 4 * 32);
                wgmma::mma_m64n64k16_f16::<false>(&mut acc, high[step], b, round + step > 0);
                wgmma::mma_m64n64k16_f16::<false>(&mut acc, low[step], b, true);
            }
            wgmma::commit();
            wgmma::wait::<0>();
            wgmma::hold(&mut acc);
            for i in 0..32 {
                acc[i] *= 2.0;
            }
        }
        for i in 0..32 {
            global::store(p.output.add(t * 32 + i), acc[i].to_bits());
        }
    }
}
