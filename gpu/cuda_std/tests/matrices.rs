//! ldmatrix and mma against plain definitions.
#![allow(clippy::unwrap_used, clippy::needless_range_loop, missing_docs)]

mod common;

use common::{Array, each_seed, fault_of, words};
use cuda_std::emulator::Fault;
use cuda_std::{mma, shared, shared_array, thread, warp};
use half::{bf16, f16};

/// Row `i` of the matrices in shared memory starts here: rows are scattered, as padded tiles are.
fn row_offset(i: usize) -> usize {
    40 * i + i % 2 * 8
}

/// Loads four 8 x 8 matrices whose element [m][r][c] is 64m + 8r + c; gives each lane's registers.
fn load<const N: usize>(f: impl Fn(*const u16) -> [u32; N] + Sync) -> Vec<u32> {
    let out = Array::<u32>::poisoned(32 * N);
    each_seed(1, 32, || {
        let tile = shared_array![u16; 1288];
        let lane = warp::lane_id() as usize;
        for c in 0..8 {
            // SAFETY: each lane writes its own row; all rows are in the array.
            unsafe { shared::store(tile.add(row_offset(lane) + c), (8 * lane + c) as u16) };
        }
        thread::sync_threads();
        for (i, v) in f(tile.wrapping_add(row_offset(lane))).into_iter().enumerate() {
            out.store(lane * N + i, v);
        }
    });
    out.values()
}

#[test]
fn ldmatrix_gives_each_lane_its_pair_of_elements() {
    let pair = |low: usize, high: usize| low as u32 | (high as u32) << 16;
    let plain = |lane: usize, m: usize| 64 * m + 8 * (lane / 4) + lane % 4 * 2;
    let transposed = |lane: usize, m: usize| 64 * m + 8 * (lane % 4 * 2) + lane / 4;
    // SAFETY: every lane's row is in shared memory and aligned to 16 bytes.
    let got = load(|row| unsafe { mma::ldmatrix_x4(row) });
    assert!((0..128).all(|i| got[i] == pair(plain(i / 4, i % 4), plain(i / 4, i % 4) + 1)));
    // SAFETY: as above.
    let got = load(|row| unsafe { mma::ldmatrix_x4_trans(row) });
    assert!((0..128).all(|i| got[i] == pair(transposed(i / 4, i % 4), transposed(i / 4, i % 4) + 8)));
    // SAFETY: as above; lanes 16 to 31 may give any address.
    let got = load(|row| unsafe { mma::ldmatrix_x2(if warp::lane_id() < 16 { row } else { std::ptr::null() }) });
    assert!((0..64).all(|i| got[i] == pair(plain(i / 2, i % 2), plain(i / 2, i % 2) + 1)));
    // SAFETY: as above.
    let got = load(|row| unsafe { mma::ldmatrix_x2_trans(row) });
    assert!((0..64).all(|i| got[i] == pair(transposed(i / 2, i % 2), transposed(i / 2, i % 2) + 8)));
}

#[test]
fn ldmatrix_checks_the_rows() {
    let misaligned = fault_of(32, || {
        let tile = shared_array![u16; 1024];
        // SAFETY: broken on purpose.
        let _ = unsafe { mma::ldmatrix_x4(tile.wrapping_add(if warp::lane_id() == 9 { 4 } else { 0 })) };
    });
    let Fault::Misaligned { place, bytes: 16, .. } = &misaligned else { panic!("{misaligned}") };
    assert_eq!(place.thread, [9, 0, 0]);
    let outside = fault_of(32, || {
        let tile = shared_array![u16; 64];
        // SAFETY: broken on purpose.
        let _ = unsafe { mma::ldmatrix_x2(tile.wrapping_add(8 * warp::lane_id() as usize)) };
    });
    let Fault::OutOfRange { place, .. } = &outside else { panic!("{outside}") };
    assert_eq!(place.thread, [8, 0, 0]);
}

/// Packs `PER` elements of 32 / PER bits.
fn pack<const PER: usize>(element: impl Fn(usize) -> u32) -> u32 {
    (0..PER).fold(0, |word, e| word | (element(e) & (u32::MAX >> (32 - 32 / PER))) << (32 / PER * e))
}

/// Multiplies A (16 x k) by B (k x 8) plus C with `f`, giving fragments as the module's table says, written out by hand.
fn multiply<const PER: usize>(
    k: usize,
    a: &(dyn Fn(usize, usize) -> u32 + Sync),
    b: &(dyn Fn(usize, usize) -> u32 + Sync),
    c: &(dyn Fn(usize, usize) -> u32 + Sync),
    f: impl Fn([u32; 4], [u32; 2], [u32; 4]) -> [u32; 4] + Sync,
) -> [[u32; 8]; 16] {
    let out = Array::<u32>::poisoned(128);
    each_seed(1, 32, || {
        let lane = warp::lane_id() as usize;
        let (g, t) = (lane / 4, lane % 4);
        let near = |e: usize| PER * t + e;
        let far = |e: usize| k / 2 + PER * t + e;
        let a = [
            pack::<PER>(|e| a(g, near(e))),
            pack::<PER>(|e| a(g + 8, near(e))),
            pack::<PER>(|e| a(g, far(e))),
            pack::<PER>(|e| a(g + 8, far(e))),
        ];
        let b = [pack::<PER>(|e| b(near(e), g)), pack::<PER>(|e| b(far(e), g))];
        let places = [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)];
        let d = f(a, b, places.map(|(row, column)| c(row, column)));
        for ((row, column), v) in places.into_iter().zip(d) {
            out.store(8 * row + column, v);
        }
    });
    let got = out.values();
    std::array::from_fn(|row| std::array::from_fn(|column| got[8 * row + column]))
}

/// A table of random values: element (i, j).
fn table<T: Copy>(seed: u32, make: impl Fn(u32) -> T) -> impl Fn(usize, usize) -> T {
    let values: Vec<T> = words(seed).take(32 * 32).map(make).collect();
    move |i, j| values[32 * i + j]
}

/// Between -2 and 2.
fn small(word: u32) -> f32 {
    word.cast_signed() as f32 / (1u32 << 30) as f32
}

/// Checks a float product against the documented order, bit by bit.
fn check_float<const PER: usize>(
    k: usize,
    narrow: fn(f32) -> u32,
    widen: fn(u32) -> f32,
    f: fn([u32; 4], [u32; 2], [f32; 4]) -> [f32; 4],
) {
    let a = table(1, |w| narrow(small(w)));
    let b = table(2, |w| narrow(small(w)));
    let c = table(3, |w| small(w).to_bits());
    let run = |a4, b2, c4: [u32; 4]| f(a4, b2, c4.map(f32::from_bits)).map(f32::to_bits);
    let got = multiply::<PER>(k, &a, &b, &c, run);
    for row in 0..16 {
        for column in 0..8 {
            let mut sum = f32::from_bits(c(row, column));
            for i in 0..k {
                sum += widen(a(row, i)) * widen(b(i, column));
            }
            assert_eq!(got[row][column], sum.to_bits(), "row {row}, column {column}");
        }
    }
}

#[test]
fn float_products_add_with_k_ascending() {
    check_float::<2>(
        16,
        |x| f16::from_f32(x).to_bits().into(),
        |w| f16::from_bits(w as u16).to_f32(),
        mma::mma_m16n8k16_f16,
    );
    check_float::<2>(
        16,
        |x| bf16::from_f32(x).to_bits().into(),
        |w| bf16::from_bits(w as u16).to_f32(),
        mma::mma_m16n8k16_bf16,
    );
    // tf32 ignores the lowest 13 bits.
    check_float::<1>(8, f32::to_bits, |w| f32::from_bits(w >> 13 << 13), mma::mma_m16n8k8_tf32);
}

#[test]
fn the_s8_product_is_exact() {
    let a = table(4, |w| w & 0xff);
    let b = table(5, |w| w & 0xff);
    let c = table(6, |w| w);
    let run = |a4, b2, c4: [u32; 4]| mma::mma_m16n8k32_s8(a4, b2, c4.map(u32::cast_signed)).map(i32::cast_unsigned);
    let got = multiply::<4>(32, &a, &b, &c, run);
    let signed = |w: u32| i32::from(w as u8 as i8);
    for row in 0..16 {
        for column in 0..8 {
            let sum: i32 = (0..32).map(|i| signed(a(row, i)) * signed(b(i, column))).sum();
            assert_eq!(got[row][column], c(row, column).wrapping_add(sum.cast_unsigned()));
        }
    }
}

/// Registers of A and B beyond those of the shape are the shape's of 32 k, which stay zero.
#[test]
fn the_s8_product_of_16_k_is_exact() {
    let (a, b, c) = (table(4, |w| w & 0xff), table(5, |w| w & 0xff), table(6, |w| w));
    let run = |a4: [u32; 4], b2: [u32; 2], c4: [u32; 4]| {
        mma::mma_m16n8k16_s8([a4[0], a4[1]], b2[0], c4.map(u32::cast_signed)).map(i32::cast_unsigned)
    };
    let (a_there, b_there) = (|i, k| if k < 16 { a(i, k) } else { 0 }, |k, j| if k < 16 { b(k, j) } else { 0 });
    let got = multiply::<4>(32, &a_there, &b_there, &c, run);
    let signed = |w: u32| i32::from(w as u8 as i8);
    for row in 0..16 {
        for column in 0..8 {
            let sum: i32 = (0..16).map(|i| signed(a(row, i)) * signed(b(i, column))).sum();
            assert_eq!(got[row][column], c(row, column).wrapping_add(sum.cast_unsigned()));
        }
    }
}

#[test]
fn an_mma_that_part_of_the_warp_reaches_is_divergent() {
    let fault = fault_of(32, || {
        if warp::lane_id() != 7 {
            let _ = mma::mma_m16n8k16_f16([0; 4], [0; 2], [0.0; 4]);
        }
    });
    assert!(matches!(fault, Fault::Divergence { primitive: "mma_m16n8k16_f16", .. }), "{fault}");
    let fault = fault_of(32, || {
        let _ = if warp::lane_id() < 8 {
            mma::mma_m16n8k16_f16([0; 4], [0; 2], [1.0; 4])
        } else {
            mma::mma_m16n8k16_f16([0; 4], [0; 2], [2.0; 4])
        };
    });
    assert!(matches!(fault, Fault::Divergence { .. }), "{fault}");
    let fault = fault_of(48, || {
        let _ = mma::mma_m16n8k16_f16([0; 4], [0; 2], [0.0; 4]);
    });
    let Fault::BadOperand { problem, .. } = &fault else { panic!("{fault}") };
    assert_eq!(problem, "the block's last warp has only 16 threads");
}
