//! Values are exact, for every scale: the theorem of gpu/src/format/mod.rs, against f64.

use half::{bf16, f16};
use varve::model::DType;

use crate::vectors::{block_types, expand, vectors};

/// Byte of the f16 scale of a block, and of the minima's where there is one.
fn scales(dtype: DType) -> (usize, Option<usize>) {
    match dtype {
        DType::Q3_K => (108, None),
        DType::Q6_K => (208, None),
        DType::Q4_K | DType::Q5_K => (0, Some(2)),
        _ => (0, None),
    }
}

fn with_half(block: &[u8], at: usize, bits: u16) -> Vec<u8> {
    let mut block = block.to_vec();
    block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    block
}

/// The first block of the vectors, with another scale of the minima where it has them.
fn block(dtype: DType, dmin: u16) -> Vec<u8> {
    let block = &vectors(dtype).unwrap().0[..dtype.block_bytes()];
    scales(dtype).1.map_or_else(|| block.to_vec(), |at| with_half(block, at, dmin))
}

/// All finite f16 scales: d x is what f64 says, f64 being exact here, and is an f32.
#[test]
fn symmetric_formats_are_exact_for_every_scale() {
    for dtype in block_types().into_iter().filter(|&dtype| scales(dtype).1.is_none()) {
        let (block, (at, _)) = (block(dtype, 0), scales(dtype));
        let units = expand(dtype, &with_half(&block, at, f16::ONE.to_bits()));
        assert!(units.iter().all(|x| (x * 8.0).fract() == 0.0), "{dtype}: a value for d = 1 is no multiple of 1/8");
        for bits in (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()) {
            let d = f16::from_bits(bits).to_f64();
            for (got, unit) in expand(dtype, &with_half(&block, at, bits)).into_iter().zip(&units) {
                assert_eq!(f64::from(got), d * f64::from(*unit), "{dtype}: d = {d:e}, {unit}");
            }
        }
    }
}

/// The affine formats: both products are exact, and their difference is rounded once.
#[test]
fn affine_formats_round_once() {
    for dtype in [DType::Q4_K, DType::Q5_K] {
        let (one, none) = (f16::ONE.to_bits(), 0);
        let scaled = expand(dtype, &with_half(&block(dtype, none), 0, one));
        let minima = expand(dtype, &with_half(&block(dtype, one), 0, none));
        let (pattern, mut rounded) = (block(dtype, none), 0);
        for bits in (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()) {
            let dmin = f16::from_bits(bits.wrapping_mul(40_503) & 0x7bff); // another one each time, finite too
            let d = f16::from_bits(bits).to_f64();
            let values = expand(dtype, &with_half(&with_half(&pattern, 2, dmin.to_bits()), 0, bits));
            for ((got, scaled), min) in values.into_iter().zip(&scaled).zip(&minima) {
                // Their difference may have more bits than an f64, too.
                let (a, b) = (d * f64::from(*scaled), dmin.to_f64() * f64::from(*min));
                let wanted = exact_sum(a, b);
                assert_eq!(got.to_bits() & 0x7fff_ffff, wanted.to_bits() & 0x7fff_ffff, "{dtype}: {d:e}, {dmin:e}");
                rounded += u32::from(f64::from(got) != a + b);
            }
        }
        assert!(rounded > 1000, "{dtype}: the case is too easy");
    }
}

/// `a + b`, rounded once, of multiples of 2^-24, as f16 scales times integers are.
fn exact_sum(a: f64, b: f64) -> f32 {
    let fixed = |x: f64| (x * 2f64.powi(24)) as i128;
    let sum = fixed(a) + fixed(b);
    assert_eq!((fixed(a) as f64, fixed(b) as f64), (a * 2f64.powi(24), b * 2f64.powi(24)));
    sum as f32 * 2f32.powi(-24) // an integer becomes the nearest float, and a power of two keeps it
}

/// Q8_0 and IQ4_NL have one factor, so that a product in f16 rounds the exact value once, too.
#[test]
fn one_f16_product_gives_the_bits_of_the_way_by_f32() {
    for dtype in [DType::Q8_0, DType::IQ4_NL] {
        let (block, (at, _)) = (block(dtype, 0), scales(dtype));
        let codes = expand(dtype, &with_half(&block, at, f16::ONE.to_bits()));
        for bits in (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()) {
            let d = f16::from_bits(bits);
            for (got, code) in expand(dtype, &with_half(&block, at, bits)).into_iter().zip(&codes) {
                assert_eq!(f16::from_f32(got), d * f16::from_f32(*code), "{dtype}: {d:e} * {code}");
            }
        }
    }
    // Not so for a type with two scale factors: one rounding too many is seen somewhere.
    let block = block(DType::Q6_K, 0);
    let unit = expand(DType::Q6_K, &with_half(&block, 208, f16::ONE.to_bits()));
    let d = f16::from_f32(0.012_34);
    let values = expand(DType::Q6_K, &with_half(&block, 208, d.to_bits()));
    let twice = |(i, code): (usize, &f32)| {
        let scale = f32::from(block[192 + i / 16].cast_signed());
        d * f16::from_f32(scale) * f16::from_f32(code / scale) != f16::from_f32(values[i])
    };
    assert!(unit.iter().enumerate().any(twice), "double rounding would go unnoticed");
}

/// bf16 of a value is the nearest even one, however it was reached.
#[test]
fn bf16_results_are_rounded_to_even() {
    for dtype in block_types() {
        for value in expand(dtype, &block(dtype, 0x2000)) {
            let bits = value.to_bits();
            let wanted = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
            assert_eq!(u32::from(bf16::from_f32(value).to_bits()), wanted, "{dtype}: {value}");
        }
    }
}
