//! Products of a warpgroup against plain definitions.
#![allow(clippy::unwrap_used, clippy::needless_range_loop, missing_docs)]

mod common;

use common::{Array, SEEDS, go, seeded, words};
use cuda_std::emulator::{Launch, Options};
use cuda_std::wgmma::{self, Descriptor};
use cuda_std::{barrier, shared, thread};
use half::f16;

/// Between -2 and 2.
fn small(word: u32) -> f32 {
    word.cast_signed() as f32 / (1u32 << 30) as f32
}

/// f16 bits of a random table: element (i, j) of `columns` columns.
fn table(seed: u32, columns: usize) -> impl Fn(usize, usize) -> u16 + Sync {
    let values: Vec<u16> = words(seed).take(128 * columns).map(|w| f16::from_f32(small(w)).to_bits()).collect();
    move |i, j| values[columns * i + j]
}

fn widen(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// Columns of A and rows of B in the tests: two products.
const K: usize = 32;

/// A thread's fragment of step `step` of A, written out by hand from the module's table.
fn fragment(a: &impl Fn(usize, usize) -> u16, step: usize) -> [u32; 4] {
    let thread = thread::thread_idx_x() as usize % 128;
    let (row, t) = (thread / 32 * 16 + thread % 32 / 4, thread % 4);
    let pair = |row: usize, k: usize| u32::from(a(row, k)) | u32::from(a(row, k + 1)) << 16;
    let k = 16 * step + 2 * t;
    [pair(row, k), pair(row + 8, k), pair(row, k + 8), pair(row + 8, k + 8)]
}

/// Row and column of sum `i` of a thread.
fn place(thread: usize, i: usize) -> (usize, usize) {
    (thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, i / 4 * 8 + thread % 4 * 2 + i % 2)
}

/// Byte of the tile where element (k, n) of B lies, in the terms of the PTX ISA: canonical layout, then swizzle.
#[derive(Clone, Copy)]
enum Tile {
    /// Rows of `swizzle` bytes, `group` bytes from 8 to the next 8.
    KMajor { swizzle: usize, group: usize },
    /// Rows of 64 columns.
    MnMajor { block: usize, group: usize },
}

impl Tile {
    fn byte(self, k: usize, n: usize) -> usize {
        match self {
            Tile::KMajor { swizzle: 128, group } => {
                let (atom, row, unit) = (n / 8 * group, n % 8, 2 * k / 16);
                atom + row * 128 + (unit ^ row) * 16 + 2 * k % 16
            }
            Tile::KMajor { group, .. } => {
                let (atom, row, unit) = (n / 8 * group, n % 8, 2 * k / 16);
                atom + row * 64 + (unit ^ (row / 2)) * 16 + 2 * k % 16
            }
            Tile::MnMajor { block, group } => {
                let (atom, row, unit) = (k / 8 * group + n / 64 * block, k % 8, n % 64 / 8);
                atom + row * 128 + (unit ^ row) * 16 + 2 * n % 16
            }
        }
    }

    fn descriptor(self, tile: *const u8) -> Descriptor {
        match self {
            Tile::KMajor { swizzle: 128, group } => Descriptor::k_major::<128>(tile, group),
            Tile::KMajor { group, .. } => Descriptor::k_major::<64>(tile, group),
            Tile::MnMajor { block, group } => Descriptor::mn_major_128(tile, block, group),
        }
    }

    /// Bytes from 16 k's to the next 16.
    fn step(self) -> usize {
        match self {
            Tile::KMajor { .. } => 32,
            Tile::MnMajor { group, .. } => 2 * group,
        }
    }
}

type Product<const REGS: usize> = unsafe fn(&mut [f32; REGS], [u32; 4], Descriptor, bool);

/// Multiplies with two products on each of two warpgroups, the second of which starts from 0, and compares bit by bit.
fn check<const REGS: usize>(tile: Tile, product: Product<REGS>) {
    let n = 2 * REGS;
    let (a, b, c) = (table(1, K), table(2, n), table(3, n));
    let launch = Launch { dynamic_shared: 64 * 1024, ..Launch::new(1, 256) };
    for (seed, races) in SEEDS.into_iter().map(|seed| (seed, false)).chain([(5, true)]) {
        let out = Array::<u32>::poisoned(256 * REGS);
        let body = || {
            let thread = thread::thread_idx_x() as usize;
            let start = shared::dynamic_shared::<u8>().wrapping_add(2048);
            for i in (thread..K * n).step_by(256) {
                // SAFETY: tiles end within the dynamic area; each element is written by one thread.
                unsafe { shared::store(start.add(tile.byte(i / n, i % n)).cast(), b(i / n, i % n)) };
            }
            barrier::fence_async_shared();
            thread::sync_threads();
            let mut acc: [f32; REGS] = std::array::from_fn(|i| {
                let (row, column) = place(thread % 128, i);
                widen(c(row, column))
            });
            let b = tile.descriptor(start);
            wgmma::fence();
            for step in 0..K / 16 {
                let accumulate = thread < 128 || step > 0;
                // SAFETY: see above.
                unsafe { product(&mut acc, fragment(&a, step), b.advance(step * tile.step()), accumulate) };
            }
            wgmma::commit();
            wgmma::wait::<0>();
            for (i, v) in acc.into_iter().enumerate() {
                out.store(thread * REGS + i, v.to_bits());
            }
        };
        go(&launch, &Options { races, ..seeded(seed) }, body).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let got = out.values();
        for thread in 0..256 {
            for i in 0..REGS {
                let (row, column) = place(thread % 128, i);
                let mut sum = if thread < 128 { widen(c(row, column)) } else { 0.0 };
                for k in 0..K {
                    sum += widen(a(row, k)) * widen(b(k, column));
                }
                assert_eq!(got[thread * REGS + i], sum.to_bits(), "thread {thread}, row {row}, column {column}");
            }
        }
    }
}

#[test]
fn k_major_tiles_multiply_with_k_ascending() {
    check(Tile::KMajor { swizzle: 64, group: 512 }, wgmma::mma_m64n32k16_f16::<false>);
    check(Tile::KMajor { swizzle: 128, group: 1024 }, wgmma::mma_m64n64k16_f16::<false>);
    check(Tile::KMajor { swizzle: 64, group: 1536 }, wgmma::mma_m64n64k16_f16::<false>);
    check(Tile::KMajor { swizzle: 128, group: 3072 }, wgmma::mma_m64n128k16_f16::<false>);
}

#[test]
fn mn_major_tiles_multiply_with_k_ascending() {
    check(Tile::MnMajor { block: 0, group: 1024 }, wgmma::mma_m64n32k16_f16::<true>);
    check(Tile::MnMajor { block: 0, group: 3072 }, wgmma::mma_m64n64k16_f16::<true>);
    check(Tile::MnMajor { block: 1024, group: 2048 }, wgmma::mma_m64n128k16_f16::<true>);
    check(Tile::MnMajor { block: 8192, group: 1024 }, wgmma::mma_m64n128k16_f16::<true>);
}
