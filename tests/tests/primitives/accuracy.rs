//! Accuracy and special cases of the elementary functions, against f64.
//!
//! `VARVE_ULP_STRIDE` says how many bit patterns to step by (default 8209); 1 tries all 2^32, which takes half an hour.

use crate::rig::corners;
use cuda_std::float;

/// Function, the same in f64, and the largest error in ulp over every argument (what `cuda_std::float` documents).
type Row = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);

const FUNCTIONS: [Row; 7] = [
    ("exp", float::exp, f64::exp, 0.90),
    ("exp2", float::exp2, f64::exp2, 0.88),
    ("log", float::log, f64::ln, 0.94),
    ("rsqrt", float::rsqrt, |x| 1.0 / x.sqrt(), 1.50),
    ("sigmoid", float::sigmoid, sigmoid, 2.41),
    ("silu", float::silu, silu, 3.35),
    ("softplus", float::softplus, |x| if x > 20.0 { x } else { x.exp().ln_1p() }, 1.99),
];

/// Function, argument, value.
type Special = (&'static str, fn(f32) -> f32, f32, f32);

/// Written so that neither a tail nor a limit is lost in f64.
fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

fn silu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid(x) }
}

/// Distance between neighbouring f32 at `x`, one binade beyond the largest included.
fn ulp_at(x: f64) -> f64 {
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).max(-126);
    2f64.powi(exponent - 23)
}

/// Error in ulp. An infinity stands for 2^128: what overflows by rounding is right, what overflows early is not.
fn error(got: f32, want: f64) -> f64 {
    let beyond = 2f64.powi(128);
    let finite = |x: f64| if x.is_infinite() { beyond.copysign(x) } else { x };
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_infinite() && want.abs() >= beyond && got.is_sign_negative() == want.is_sign_negative() {
        return 0.0;
    }
    (finite(f64::from(got)) - finite(want)).abs() / ulp_at(want.abs().min(f64::from(f32::MAX)))
}

fn worst((_, function, exact, _): Row, arguments: impl Iterator<Item = u32>) -> (f64, f32) {
    arguments.map(f32::from_bits).fold((0.0, 0.0), |worst, x| {
        let error = error(function(x), exact(f64::from(x)));
        if error > worst.0 { (error, x) } else { worst }
    })
}

#[test]
fn errors_stay_below_the_documented_ones() {
    let stride: usize = std::env::var("VARVE_ULP_STRIDE").map_or(8209, |text| text.parse().unwrap());
    std::thread::scope(|scope| {
        for row in FUNCTIONS {
            scope.spawn(move || {
                let every = (0..=u32::MAX).step_by(stride);
                let (error, x) = worst(row, every.chain(corners()));
                println!("{}: {error:.4} ulp at {x:e} ({:#010x})", row.0, x.to_bits());
                assert!(error <= row.3, "{}: {error} ulp at {x:e}, documented are {}", row.0, row.3);
            });
        }
    });
}

/// The measure sees a wrong last bit: the results' neighbours are out of bounds.
#[test]
fn a_wrong_last_bit_is_seen() {
    let (_, function, exact, bound) = FUNCTIONS[0];
    let arguments = (0..1000).map(|i| i as f32 * 0.05 - 25.0);
    let seen = arguments.filter(|&x| {
        let wrong = function(x).next_up().next_up();
        error(wrong, exact(f64::from(x))) > bound
    });
    assert_eq!(seen.count(), 1000);
}

#[test]
fn special_values_are_the_documented_ones() {
    let (inf, tiny) = (f32::INFINITY, f32::from_bits(1));
    let cases: [Special; 42] = [
        ("exp", float::exp, 0.0, 1.0),
        ("exp", float::exp, -0.0, 1.0),
        ("exp", float::exp, inf, inf),
        ("exp", float::exp, -inf, 0.0),
        ("exp", float::exp, 88.722_84, inf),
        ("exp", float::exp, -103.972_09, 0.0),
        ("exp", float::exp, -103.97, tiny),
        ("exp", float::exp, f32::MAX, inf),
        ("exp", float::exp, f32::MIN, 0.0),
        ("exp2", float::exp2, 127.0, 2f32.powi(127)),
        ("exp2", float::exp2, 128.0, inf),
        ("exp2", float::exp2, -126.0, f32::MIN_POSITIVE),
        ("exp2", float::exp2, -149.0, tiny),
        ("exp2", float::exp2, -150.0, 0.0),
        ("exp2", float::exp2, inf, inf),
        ("exp2", float::exp2, -inf, 0.0),
        ("log", float::log, 1.0, 0.0),
        ("log", float::log, 0.0, -inf),
        ("log", float::log, -0.0, -inf),
        ("log", float::log, inf, inf),
        ("log", float::log, tiny, -103.278_93),
        ("log", float::log, f32::MAX, 88.722_84),
        ("rsqrt", float::rsqrt, 0.0, inf),
        ("rsqrt", float::rsqrt, -0.0, -inf),
        ("rsqrt", float::rsqrt, inf, 0.0),
        ("rsqrt", float::rsqrt, 0.25, 2.0),
        ("sigmoid", float::sigmoid, 0.0, 0.5),
        ("sigmoid", float::sigmoid, inf, 1.0),
        ("sigmoid", float::sigmoid, -inf, 0.0),
        ("sigmoid", float::sigmoid, -103.97, tiny),
        ("sigmoid", float::sigmoid, f32::MIN, 0.0),
        ("silu", float::silu, 0.0, 0.0),
        ("silu", float::silu, -0.0, -0.0),
        ("silu", float::silu, inf, inf),
        ("silu", float::silu, -inf, -0.0),
        ("silu", float::silu, f32::MAX, f32::MAX),
        ("silu", float::silu, f32::MIN, -0.0),
        ("softplus", float::softplus, inf, inf),
        ("softplus", float::softplus, -inf, 0.0),
        ("softplus", float::softplus, 20.5, 20.5),
        ("softplus", float::softplus, -103.97, tiny),
        ("softplus", float::softplus, 0.0, core::f32::consts::LN_2),
    ];
    for (name, function, x, want) in cases {
        assert_eq!(function(x).to_bits(), want.to_bits(), "{name}({x:e}) is {:e}, documented {want:e}", function(x));
    }
    for (name, function, _, _) in FUNCTIONS {
        assert!(function(f32::NAN).is_nan(), "{name}(NaN)");
        assert!(function(-f32::NAN).is_nan(), "{name}(-NaN)");
    }
    for x in [-tiny, -1.0, -inf] {
        assert!(float::log(x).is_nan() && float::rsqrt(x).is_nan(), "{x:e}");
    }
}

#[test]
fn powers_of_two_are_exact() {
    for n in -149..128 {
        let exact = 2f64.powi(n) as f32;
        assert_eq!(float::exp2(n as f32).to_bits(), exact.to_bits(), "2^{n}");
    }
}
