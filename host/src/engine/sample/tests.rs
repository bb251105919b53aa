//! Settings, greedy choice, odd logits, and the drawn distributions.

#![allow(clippy::unwrap_used)]

use super::*;

fn sampler(sampling: Sampling) -> Sampler {
    Sampler::new(&sampling, 8).unwrap()
}

fn warm(temperature: f32) -> Sampling {
    Sampling { temperature, seed: 11, ..Sampling::default() }
}

const LOGITS: [f32; 8] = [1.0, 2.5, -1.0, 2.0, 0.5, -3.0, 2.4, 0.0];

/// Softmax of the logits at a temperature, in f64.
fn softmax(temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = LOGITS.iter().map(|&l| (f64::from(l) / temperature).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

/// `probabilities` with all but `kept` removed.
fn only(probabilities: &[f64], kept: &[usize]) -> Vec<f64> {
    let sum: f64 = kept.iter().map(|&i| probabilities[i]).sum();
    (0..8).map(|i| if kept.contains(&i) { probabilities[i] / sum } else { 0.0 }).collect()
}

/// Draws 20,000 tokens and returns chi-square against `wanted`; a token of probability 0 must not come.
fn chi_square(sampling: Sampling, wanted: &[f64]) -> f64 {
    let (draws, mut counts, mut sampler) = (20_000, [0u32; 8], sampler(sampling));
    for _ in 0..draws {
        counts[sampler.next(&mut LOGITS.clone()) as usize] += 1;
    }
    let terms = counts.iter().zip(wanted).map(|(&count, &p)| {
        if p == 0.0 {
            assert_eq!(count, 0, "{counts:?}");
            return 0.0;
        }
        let expected = p * f64::from(draws);
        (f64::from(count) - expected).powi(2) / expected
    });
    terms.sum()
}

/// The 99.9th percentile of chi-square with 7 degrees of freedom.
const LIMIT: f64 = 24.32;

#[test]
fn draws_follow_the_softmax_at_each_temperature() {
    for temperature in [0.5f32, 1.0, 2.0] {
        let got = chi_square(warm(temperature), &softmax(f64::from(temperature)));
        assert!(got < LIMIT, "temperature {temperature}: {got}");
    }
    // Negative control: the test tells neighbouring temperatures apart.
    assert!(chi_square(warm(1.0), &softmax(1.1)) > LIMIT);
}

#[test]
fn filters_keep_the_likeliest_and_their_proportions() {
    let p = softmax(1.0); // by size: 1 (.33), 6 (.30), 3 (.20), 0 (.07), 4 (.04), 7 (.03), 2, 5
    let cases = [
        ("top_k 3", Sampling { top_k: 3, ..warm(1.0) }, only(&p, &[1, 3, 6])),
        ("top_k 8", Sampling { top_k: 8, ..warm(1.0) }, p.clone()),
        ("top_p .7", Sampling { top_p: 0.7, ..warm(1.0) }, only(&p, &[1, 3, 6])),
        ("top_p .5", Sampling { top_p: 0.5, ..warm(1.0) }, only(&p, &[1, 6])),
        ("top_p tiny", Sampling { top_p: 1e-6, ..warm(1.0) }, only(&p, &[1])),
        ("min_p .2", Sampling { min_p: 0.2, ..warm(1.0) }, only(&p, &[0, 1, 3, 6])),
        ("min_p 1", Sampling { min_p: 1.0, ..warm(1.0) }, only(&p, &[1])),
        // Within the top 3 the first two have .75 of the probability, of all they have .63.
        ("top_k, then top_p", Sampling { top_k: 3, top_p: 0.7, ..warm(1.0) }, only(&p, &[1, 6])),
        ("top_k and min_p", Sampling { top_k: 3, min_p: 0.8, ..warm(1.0) }, only(&p, &[1, 6])),
    ];
    for (name, sampling, wanted) in cases {
        let got = chi_square(sampling, &wanted);
        assert!(got < LIMIT, "{name}: {got}");
    }
}

#[test]
fn greedy_takes_the_lowest_id_of_the_largest() {
    let next = |logits: &[f32]| sampler(Sampling::default()).next(&mut logits.to_vec());
    assert_eq!(next(&[0.0, 3.0, 1.0, 3.0]), 1);
    assert_eq!(next(&[-0.0, 0.0]), 0);
    assert_eq!(next(&[f32::NEG_INFINITY, -1e30]), 1);
    assert_eq!(next(&LOGITS), sampler(warm(1e-6)).next(&mut LOGITS.clone()));
}

#[test]
fn odd_logits_are_never_chosen_and_never_panic() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let filtered = Sampling { top_k: 2, top_p: 0.9, min_p: 0.1, ..warm(1.0) };
    for sampling in [Sampling::default(), warm(1.0), warm(1e-45), filtered, Sampling { top_p: 0.5, ..warm(1.0) }] {
        let mut s = sampler(sampling);
        for _ in 0..50 {
            assert_eq!(s.next(&mut [nan, -1.0, nan, -inf]), 1);
            assert_eq!(s.next(&mut [0.0, inf, inf, nan]), 1);
            assert_eq!(s.next(&mut [nan, nan]), 0);
            assert_eq!(s.next(&mut [-inf, -inf, nan]), 0);
            assert_eq!(s.next(&mut []), 0);
            assert!(s.next(&mut [f32::MAX, f32::MIN, nan]) == 0);
        }
    }
}

#[test]
fn penalties_and_bias_change_the_named_logits_only() {
    let sampling = Sampling {
        repetition_penalty: 2.0,
        presence_penalty: 0.25,
        frequency_penalty: 0.5,
        logit_bias: vec![(4, 10.0), (7, -100.0), (4, 1.0)],
        ..Sampling::default()
    };
    let mut s = sampler(sampling);
    s.prompt(&[0, 2, 0, 900]);
    [1, 1, 5].into_iter().for_each(|id| s.accept(id));
    let mut logits = LOGITS;
    assert_eq!(s.next(&mut logits), 4);
    // 0, 2: prompt only; 1: twice in the reply; 5: once.
    assert_eq!(logits, [0.5, 1.25 - 1.25, -2.0, 2.0, 11.5, -6.0 - 0.75, 2.4, -100.0]);
}

#[test]
fn a_seed_gives_the_same_tokens() {
    let draw = |seed, n| {
        let mut s = sampler(Sampling { seed, ..warm(1.5) });
        (0..n).map(|_| s.next(&mut LOGITS.clone())).collect::<Vec<_>>()
    };
    assert_eq!(draw(5, 100), draw(5, 100));
    assert_ne!(draw(5, 100), draw(6, 100));
}

#[test]
fn settings_out_of_range_are_named() {
    let fault = |change: fn(&mut Sampling)| {
        let mut sampling = Sampling::default();
        change(&mut sampling);
        Sampler::new(&sampling, 8).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let cases = [
        (fault(|s| s.temperature = f32::NAN), "`temperature` is NaN; it must be from 0 (greedy) to 2"),
        (fault(|s| s.temperature = 2.5), "`temperature` is 2.5"),
        (fault(|s| s.temperature = -0.1), "`temperature` is -0.1"),
        (fault(|s| s.top_p = 0.0), "`top_p` is 0; it must be above 0"),
        (fault(|s| s.top_p = 1.5), "`top_p` is 1.5"),
        (fault(|s| s.min_p = -1.0), "`min_p` is -1"),
        (fault(|s| s.min_p = f32::INFINITY), "`min_p` is inf"),
        (fault(|s| s.top_k = 9), "`top_k` is 9; it must be from 0 (off) to 8"),
        (fault(|s| s.repetition_penalty = 0.0), "`repetition_penalty` is 0"),
        (fault(|s| s.presence_penalty = 3.0), "`presence_penalty` is 3"),
        (fault(|s| s.frequency_penalty = -3.0), "`frequency_penalty` is -3"),
        (fault(|s| s.logit_bias = vec![(8, 0.0)]), "names token 8; ids must be below 8"),
        (fault(|s| s.logit_bias = vec![(1, 101.0)]), "of token 1 is 101"),
    ];
    for (message, wanted) in cases {
        assert!(message.starts_with(wanted) || message.contains(wanted), "{message:?} lacks {wanted:?}");
    }
    let edges = Sampling { temperature: 2.0, top_k: 8, top_p: 1.0, min_p: 1.0, repetition_penalty: 2.0, ..warm(2.0) };
    assert!(Sampler::new(&edges, 8).is_ok());
}
