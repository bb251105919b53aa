//! Blocks that are made: errors within what the step of each format allows, no worse than plain rounding, and the corners.

use proptest::prelude::*;
use varve::model::DType;
use varve::model::quant::{Refused, is_writable, quantize};

use crate::vectors::expand;

/// The block types that are made, each with the largest error that is allowed, relative to the spread of a sub-block: about
/// half a step, and the rounding of integer scales and of f16.
const LIMITS: [(DType, usize, f32); 6] = [
    (DType::Q8_0, 32, 0.5 / 127.0),
    (DType::IQ4_NL, 32, 0.13),
    (DType::Q4_K, 32, 0.1),
    (DType::Q5_K, 32, 0.06),
    (DType::Q6_K, 16, 0.06),
    (DType::IQ4_XS, 32, 0.16),
];

fn round_trip(dtype: DType, values: &[f32]) -> Vec<f32> {
    expand(dtype, &quantize(dtype, values).unwrap())
}

fn squares(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
}

/// Values of a block of any type: normal ones in each sub-block, whose sizes differ.
fn block() -> impl Strategy<Value = Vec<f32>> {
    let normal = prop::collection::vec(prop::array::uniform4(-1.0f32..1.0), 256);
    let sizes = prop::collection::vec(0.2f32..1.0, 16);
    (normal, sizes, -12i32..8).prop_map(|(normal, sizes, exponent)| {
        let value = |(i, four): (usize, [f32; 4])| four.iter().sum::<f32>() * sizes[i / 16] * 2f32.powi(exponent);
        normal.into_iter().enumerate().map(value).collect()
    })
}

#[test]
fn the_list_is_that_of_the_program() {
    let made: Vec<DType> = DType::all().filter(|&dtype| is_writable(dtype) && dtype.block_len() > 1).collect();
    let mut listed = LIMITS.map(|(dtype, ..)| dtype);
    listed.sort();
    assert_eq!(made, listed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn errors_are_within_a_step(values in block()) {
        for (dtype, sub, limit) in LIMITS {
            let got = round_trip(dtype, &values);
            let spread = |x: &[f32]| x.iter().copied().fold(0.0, f32::max) - x.iter().copied().fold(0.0, f32::min);
            // Integer scales are as fine as the largest of the block allows.
            let widest = values.chunks(dtype.block_len()).flat_map(|block| {
                let widest = block.chunks(sub).map(spread).fold(0.0, f32::max);
                vec![widest; block.len()]
            });
            for ((x, y), widest) in values.iter().zip(&got).zip(widest) {
                prop_assert!((x - y).abs() <= limit * widest * 1.01, "{dtype}: {x} became {y}, spread {widest}");
            }
        }
    }

    #[test]
    fn the_same_values_give_the_same_bytes(values in block(), others in block()) {
        for (dtype, ..) in LIMITS {
            let alone = quantize(dtype, &values).unwrap();
            let many = [&others[..], &values, &others].concat();
            let together = quantize(dtype, &many).unwrap();
            let len = alone.len();
            prop_assert!(together[len..2 * len] == alone, "{dtype}: a block depends on its neighbours");
        }
    }

    /// Plain rounding: the smallest and the largest value of a sub-block become the first and the last code.
    #[test]
    fn the_search_beats_plain_rounding(values in block()) {
        for (dtype, codes) in [(DType::Q4_K, 15.0f32), (DType::Q5_K, 31.0)] {
            let plain: Vec<f32> = values.chunks(32).flat_map(|sub| {
                let (low, high) = (sub.iter().copied().fold(0.0, f32::min), sub.iter().copied().fold(0.0, f32::max));
                let step = (high - low) / codes;
                sub.iter().map(move |x| ((x - low) / step).round() * step + low).collect::<Vec<_>>()
            }).collect();
            // Plain rounding had scales of any precision, and the formats have six bits for them.
            let (ours, theirs) = (squares(&values, &round_trip(dtype, &values)), squares(&values, &plain));
            prop_assert!(ours < 1.1 * theirs, "{dtype}: {ours} and {theirs}");
        }
    }
}

/// Levels of a codebook or of integers at a scale that the format holds come back exactly.
#[test]
fn values_on_the_grid_are_kept() {
    let mut state = 1u32;
    let mut next = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % n
    };
    let codes: Vec<f32> = (0..256).map(|i| if i % 32 == 0 { 127.0 } else { next(255) as f32 - 127.0 }).collect();
    let values: Vec<f32> = codes.iter().map(|code| code * 2f32.powi(-9)).collect();
    assert_eq!(round_trip(DType::Q8_0, &values), values);
    let levels = varve_gpu::format::KV;
    let values: Vec<f32> =
        (0..256).map(|i| f32::from(levels[if i % 32 == 0 { 0 } else { next(16) as usize }]) * 0.25).collect();
    assert_eq!(round_trip(DType::IQ4_NL, &values), values);
    assert_eq!(round_trip(DType::IQ4_XS, &values), values);
    let values: Vec<f32> = (0..256).map(|i| if i % 16 == 0 { -32.0 } else { next(64) as f32 - 32.0 }).collect();
    let got = round_trip(DType::Q6_K, &values);
    assert!(squares(&values, &got).sqrt() < 0.01, "{got:?}");
}

#[test]
fn zeros_stay_zeros() {
    for (dtype, ..) in LIMITS {
        for zero in [0.0, -0.0, 1e-30, f32::MIN_POSITIVE / 2.0] {
            let got = round_trip(dtype, &[zero; 512]);
            assert!(got.iter().all(|&x| x == 0.0), "{dtype}: {zero} became {:?}", got[0]);
        }
    }
}

#[test]
fn constants_and_outliers_are_near() {
    for (dtype, _, limit) in LIMITS {
        for constant in [1.0, -1.0, 0.3, -12_345.0, 3e-3, 3.9e6] {
            let got = round_trip(dtype, &[constant; 256]);
            let worst = got.iter().map(|x| (x / constant - 1.0).abs()).fold(0.0, f32::max);
            // The scale of 3e-3 in IQ4_XS, 7e-7, has four bits as an f16.
            assert!(worst < 0.02, "{dtype}: {constant} became {}", got[0]);
        }
        for at in [0, 100, 255] {
            let mut values: Vec<f32> = (0..256).map(|i| (i as f32).sin() * 0.01).collect();
            values[at] = -20.0;
            let got = round_trip(dtype, &values);
            assert!((got[at] / -20.0 - 1.0).abs() < 0.01, "{dtype}: -20 became {}", got[at]);
            let worst = got.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 20.0 * limit, "{dtype}: {worst}");
        }
    }
}

/// Scales among the smallest f16, which are far apart.
#[test]
fn small_values_keep_their_size() {
    for (dtype, ..) in LIMITS {
        for size in [1e-3f32, 1e-4, 2e-5] {
            let values: Vec<f32> = (0..256).map(|i| (i as f32 * 0.7).sin() * size).collect();
            let got = round_trip(dtype, &values);
            let relative = (squares(&values, &got) / squares(&values, &[0.0; 256])).sqrt();
            assert!(relative < 0.25, "{dtype}: values of size {size} are {relative:.3} off");
        }
    }
}

#[test]
fn what_is_no_number_or_too_large_is_refused_with_its_place() {
    for dtype in DType::all().filter(|&dtype| is_writable(dtype)) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![1.0; 512];
            (values[300], values[400]) = (bad, bad);
            let refused = quantize(dtype, &values).unwrap_err();
            assert!(matches!(refused, Refused::NotFinite { at: 300, .. }), "{dtype}: {refused}");
            assert!(refused.behind(1000).to_string().contains("value 1300"), "{refused}");
        }
    }
    for (dtype, large) in [(DType::Q4_K, 4.1e6), (DType::Q8_0, -1e7), (DType::F16, 65_505.0), (DType::BF16, f32::MAX)] {
        let refused = quantize(dtype, &[&[0.0; 7][..], &[large; 249]].concat()).unwrap_err();
        assert!(matches!(refused, Refused::TooLarge { at: 7, .. }), "{dtype}: {refused}");
    }
    assert!(quantize(DType::F32, &[f32::MAX]).is_ok());
}
