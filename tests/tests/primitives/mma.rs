//! Matrix loads and products.

use crate::rig::{Rig, UNWRITTEN, check_rows, noise, noise_rows, rigs, rigs_for};
use cuda_std::launch::Kernel;
use half::{bf16, f16};
use varve::backend::Launch;
use varve_gpu::probe::{ProbeParams, mma::*};

const LANES: usize = 32;

#[test]
fn ldmatrix_gives_each_lane_its_elements() {
    let input: Vec<u32> = noise_rows::<1>(41, LDMATRIX_WORDS).into_iter().flatten().collect();
    // Element (r, c) of matrix m: row 8 m + r of eight halves.
    let element = |m: usize, r: usize, c: usize| (input[(8 * m + r) * 4 + c / 2] >> (16 * (c % 2))) & 0xffff;
    let pair = |low: u32, high: u32| low | high << 16;
    for rig in rigs() {
        let start = [UNWRITTEN; LANES * LDMATRIX_RESULTS];
        let got = rig.words(&PROBE_LDMATRIX, Launch::new(1, 32), &input, &start);
        for (lane, got) in got.chunks(LDMATRIX_RESULTS).enumerate() {
            let (g, t) = (lane / 4, lane % 4);
            let plain = |m| pair(element(m, g, 2 * t), element(m, g, 2 * t + 1));
            let turned = |m| pair(element(m, 2 * t, g), element(m, 2 * t + 1, g));
            let expected = [
                plain(0),
                plain(1),
                plain(2),
                plain(3),
                turned(0),
                turned(1),
                turned(2),
                turned(3),
                plain(0),
                plain(1),
                turned(0),
                turned(1),
            ];
            assert_eq!(got, expected, "{rig}, lane {lane}");
        }
    }
}

/// A, B and C as plain matrices, and how their elements lie in registers.
struct Shape {
    k: usize,
    /// Bits of an element of A and B.
    bits: usize,
    decode: fn(u32) -> f64,
}

const F16: Shape = Shape { k: 16, bits: 16, decode: |b| f16::from_bits(b as u16).to_f64() };
const BF16: Shape = Shape { k: 16, bits: 16, decode: |b| bf16::from_bits(b as u16).to_f64() };
const TF32: Shape = Shape { k: 8, bits: 32, decode: |b| f64::from(f32::from_bits(b & !0x1fff)) };
const S8: Shape = Shape { k: 32, bits: 8, decode: |b| f64::from((b as u8).cast_signed()) };

impl Shape {
    fn part(&self, register: u32, index: usize) -> f64 {
        let mask = if self.bits == 32 { !0 } else { (1 << self.bits) - 1 };
        (self.decode)((register >> (self.bits * index)) & mask)
    }

    /// A [16][k], B [k][8], C [16][8] (its registers' bits) of the fragments of all lanes.
    fn matrices(&self, rows: &[[u32; MMA_INPUT]]) -> (Vec<f64>, Vec<f64>, Vec<u32>) {
        let per = 32 / self.bits;
        let (mut a, mut b, mut c) = (vec![f64::NAN; 16 * self.k], vec![f64::NAN; self.k * 8], vec![0; 16 * 8]);
        for (lane, row) in rows.iter().enumerate() {
            let (g, t) = (lane / 4, lane % 4);
            for register in 0..4 {
                for i in 0..per {
                    let column = per * t + i + self.k / 2 * (register / 2);
                    a[(g + 8 * (register % 2)) * self.k + column] = self.part(row[register], i);
                }
            }
            for register in 0..2 {
                for i in 0..per {
                    b[(per * t + i + self.k / 2 * register) * 8 + g] = self.part(row[4 + register], i);
                }
            }
            for register in 0..4 {
                c[(g + 8 * (register / 2)) * 8 + 2 * t + register % 2] = row[6 + register];
            }
        }
        (a, b, c)
    }
}

/// D [16][8] of the lanes' results.
fn gather(got: &[u32]) -> Vec<u32> {
    let mut d = vec![UNWRITTEN; 16 * 8];
    for (lane, row) in got.chunks(MMA_OUTPUT).enumerate() {
        for register in 0..4 {
            d[(lane / 4 + 8 * (register / 2)) * 8 + 2 * (lane % 4) + register % 2] = row[register];
        }
    }
    d
}

/// Runs the product and hands, for each element, result bits, start bits, exact product sum and sum of magnitudes to `check`.
fn products(
    kernel: &'static Kernel<ProbeParams>,
    shape: &Shape,
    rows: &[[u32; MMA_INPUT]],
    check: impl Fn(&Rig, u32, u32, f64, f64),
) {
    let (a, b, c) = shape.matrices(rows);
    for rig in rigs_for(kernel) {
        let got = rig.words(kernel, Launch::new(1, 32), rows.as_flattened(), &[UNWRITTEN; LANES * MMA_OUTPUT]);
        for (i, &d) in gather(&got).iter().enumerate() {
            let term = |k: usize| a[i / 8 * shape.k + k] * b[k * 8 + i % 8];
            let sum: f64 = (0..shape.k).map(term).sum();
            let size: f64 = (0..shape.k).map(|k| term(k).abs()).sum();
            check(&rig, d, c[i], sum, size);
        }
    }
}

/// Fragments whose elements are small integers, so that every order of summation is exact.
fn small_integers(seed: u64, encode: impl Fn(f32) -> u32, per: usize, bits: usize) -> Vec<[u32; MMA_INPUT]> {
    let mut next = noise(seed);
    let mut integer = move || (next() % 33) as f32 - 16.0;
    (0..LANES)
        .map(|_| {
            std::array::from_fn(|k| {
                if k < 6 { (0..per).fold(0, |w, i| w | encode(integer()) << (bits * i)) } else { integer().to_bits() }
            })
        })
        .collect()
}

/// Fragments of values of about 1 with full mantissas.
fn fractions(seed: u64, encode: impl Fn(f32) -> u32, per: usize, bits: usize) -> Vec<[u32; MMA_INPUT]> {
    let mut next = noise(seed);
    let mut value = move || next() as f32 / (1u64 << 31) as f32 - 1.0;
    (0..LANES)
        .map(|_| {
            std::array::from_fn(|k| {
                if k < 6 { (0..per).fold(0, |w, i| w | encode(value()) << (bits * i)) } else { value().to_bits() }
            })
        })
        .collect()
}

/// Products of floats: exact on small integers; on fractions within the rounding of `k + 1` truncated additions (a card
/// aligns the terms of a step to the largest and cuts what is below; that is at most 2^-22 of the magnitudes a term).
fn float_products(kernel: &'static Kernel<ProbeParams>, shape: &Shape, encode: fn(f32) -> u32) {
    let per = 32 / shape.bits;
    products(kernel, shape, &small_integers(42, encode, per, shape.bits), |rig, d, c, sum, _| {
        let want = f64::from(f32::from_bits(c)) + sum;
        assert_eq!(f64::from(f32::from_bits(d)), want, "{} on {rig}", kernel.symbol());
    });
    products(kernel, shape, &fractions(43, encode, per, shape.bits), |rig, d, c, sum, size| {
        let c = f64::from(f32::from_bits(c));
        let bound = (size + c.abs()) * (shape.k + 1) as f64 * 2f64.powi(-24) * 4.0;
        let error = (f64::from(f32::from_bits(d)) - (c + sum)).abs();
        assert!(error <= bound, "{} on {rig}: off by {error:e}, allowed {bound:e}", kernel.symbol());
    });
}

#[test]
fn f16_products_match() {
    float_products(&PROBE_MMA_F16, &F16, |x| u32::from(f16::from_f32(x).to_bits()));
}

#[test]
fn bf16_products_match() {
    float_products(&PROBE_MMA_BF16, &BF16, |x| u32::from(bf16::from_f32(x).to_bits()));
}

#[test]
fn tf32_products_match() {
    float_products(&PROBE_MMA_TF32, &TF32, |x| x.to_bits() & !0x1fff);
}

#[test]
fn s8_products_are_exact_and_wrap() {
    let mut rows = noise_rows::<MMA_INPUT>(44, LANES);
    rows[0][6] = i32::MAX.cast_unsigned();
    products(&PROBE_MMA_S8, &S8, &rows, |rig, d, c, sum, _| {
        assert_eq!(d, c.wrapping_add((sum as i32).cast_unsigned()), "{rig}");
    });
}

/// A product of 16 k is one of 32 whose second half is zero.
#[test]
fn s8_products_of_16_k_are_exact_and_wrap() {
    let mut rows = noise_rows::<MMA_INPUT>(45, LANES);
    rows[0][6] = i32::MIN.cast_unsigned();
    for row in &mut rows {
        (row[2], row[3], row[5]) = (0, 0, 0);
    }
    products(&PROBE_MMA_S8_K16, &S8, &rows, |rig, d, c, sum, _| {
        assert_eq!(d, c.wrapping_add((sum as i32).cast_unsigned()), "{rig}");
    });
}

/// The check above can fail: a lane's fragment moved to another lane is noticed.
#[test]
#[should_panic(expected = "probe_mma_f16")]
fn a_fragment_in_the_wrong_lane_is_noticed() {
    let encode = |x: f32| u32::from(f16::from_f32(x).to_bits());
    let rows = small_integers(45, encode, 2, 16);
    let mut swapped = rows.clone();
    swapped.swap(3, 17);
    let (a, b, c) = F16.matrices(&swapped);
    check_rows::<MMA_INPUT, MMA_OUTPUT>(&PROBE_MMA_F16, 32, &rows, |lane| {
        std::array::from_fn(|register| {
            let (r, n) = (lane / 4 + 8 * (register / 2), 2 * (lane % 4) + register % 2);
            let sum: f64 = (0..16).map(|k| a[r * 16 + k] * b[k * 8 + n]).sum();
            ((f64::from(f32::from_bits(c[r * 8 + n])) + sum) as f32).to_bits()
        })
    });
}
