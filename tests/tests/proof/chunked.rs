//! The chunked kernels as a whole on the emulator: under its race check, over more than a pass, and their error by position.

use varve::backend::{Device, EmulatorConfig};
use varve::proof::case::{RecCase, RecShape};
use varve::proof::inputs::{BASE, named};
use varve::proof::reference::delta::recurrence;

use super::call::recurrence_of;

/// `wg32_split` last: whose passes no two calls repeat.
const CHUNKED: [&str; 6] = ["wg32_fast", "tc32_fast", "wg32", "tc32", "chunk32", "wg32_split"];

#[test]
fn chunked_kernels_have_no_races() {
    // Five chunks: both stages are filled twice and more, the last one is a tail.
    let of = |value_heads| RecCase::new(RecShape::dense(1, value_heads, 133), &BASE, 3);
    let (one, three) = (of(1), of(3));
    for (variant, case) in CHUNKED.map(|variant| (variant, &one)).into_iter().chain([("chunk32_skew", &three)]) {
        let (plain, _) = recurrence_of(&Device::emulator(EmulatorConfig::default()), case, variant);
        for seed in [0, 7] {
            let device = Device::emulator(EmulatorConfig { seed, races: true, ..EmulatorConfig::default() });
            let (got, _) = recurrence_of(&device, case, variant);
            assert!(got.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()), "{variant}, schedule {seed}");
        }
    }
}

/// Heads a third of a chunk apart do the same as heads that start together.
#[test]
fn skewed_heads_give_the_same_bits() {
    let device = Device::emulator(EmulatorConfig::default());
    for tokens in [1, 32, 33, 64, 133] {
        let case = RecCase::new(RecShape::dense(2, 6, tokens), &BASE, 5);
        let [skewed, together] = ["chunk32_skew", "chunk32"].map(|variant| recurrence_of(&device, &case, variant));
        let bits =
            |(y, state): &(Vec<f32>, Vec<f32>)| -> Vec<u32> { y.iter().chain(state).map(|x| x.to_bits()).collect() };
        assert!(bits(&skewed) == bits(&together), "{tokens} tokens");
    }
}

/// A second pass takes the state from memory and the scratch of the first: the bits are those of two calls.
#[test]
fn a_second_pass_goes_on_where_the_first_ended() {
    const PASS: usize = 4096;
    let whole = RecCase::new(RecShape::dense(1, 1, PASS + 133), &BASE, 9);
    let part = |from: usize, to: usize, state: Vec<f32>| {
        let shape = RecShape { tokens: to - from, ..whole.shape };
        let rows = |data: &[f32], width: usize| data[from * width..to * width].to_vec();
        RecCase {
            qkv: rows(&whole.qkv, shape.qkv_width()),
            gate: rows(&whole.gate, 1),
            beta: rows(&whole.beta, 1),
            state,
            shape,
        }
    };
    let device = Device::emulator(EmulatorConfig::default());
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for variant in &CHUNKED[..5] {
        let (y, state) = recurrence_of(&device, &whole, variant);
        let (first, between) = recurrence_of(&device, &part(0, PASS, whole.state.clone()), variant);
        let (second, last) = recurrence_of(&device, &part(PASS, PASS + 133, between), variant);
        assert!(bits(&y) == bits(&[first, second].concat()), "{variant}: outputs");
        assert!(bits(&state) == bits(&last), "{variant}: state");
    }
}

/// The error of the last quarter of a long call is that of the first one, but for a factor of two.
#[test]
fn the_error_does_not_grow_with_the_position() {
    let shape = RecShape::dense(1, 1, 2048);
    for law in ["base", "slow_gates"] {
        let case = RecCase::new(shape, named(law).unwrap(), 5);
        let want = recurrence(&case).y;
        let largest = want.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        for variant in CHUNKED {
            let (got, _) = recurrence_of(&Device::emulator(EmulatorConfig::default()), &case, variant);
            let errors = want.iter().zip(&got).map(|(w, g)| (w - f64::from(*g)).abs() / largest).collect::<Vec<_>>();
            let quarter = errors.len() / 4;
            let rms = |part: &[f64]| (part.iter().map(|e| e * e).sum::<f64>() / part.len() as f64).sqrt();
            let (first, last) = (rms(&errors[..quarter]), rms(&errors[3 * quarter..]));
            assert!(last <= 2.0 * first, "{variant}, {law}: {first:e} at the start, {last:e} at the end");
        }
    }
}

/// What a chunk writes may be far smaller than what it reads: exponents follow beta v and what is left of the state.
#[test]
fn what_is_not_written_costs_no_digits() {
    let base = || RecCase::new(RecShape::dense(1, 1, 133), &BASE, 3);
    let mut faint = base();
    faint.state.fill(0.0);
    faint.beta.fill(1e-6);
    let mut masked = base();
    let width = masked.shape.qkv_width();
    for token in [7, 40] {
        masked.beta[token] = 0.0;
        masked.qkv[token * width..][..width][256..].iter_mut().for_each(|v| *v *= 1e6);
    }
    let mut wiped = base();
    wiped.gate[0] = -100.0;
    wiped.state.iter_mut().for_each(|s| *s *= 1e6);
    for (name, case) in [("faint beta", faint), ("masked loud values", masked), ("a wiped state", wiped)] {
        let want = recurrence(&case).y;
        let largest = want.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        for variant in CHUNKED {
            let (got, _) = recurrence_of(&Device::emulator(EmulatorConfig::default()), &case, variant);
            let worst = want.iter().zip(&got).map(|(w, g)| (w - f64::from(*g)).abs() / largest).fold(0.0, f64::max);
            let bound = if variant.ends_with("_fast") { 2e-2 } else { 5e-6 };
            assert!(worst <= bound, "{variant}, {name}: {worst:e}");
        }
    }
}
