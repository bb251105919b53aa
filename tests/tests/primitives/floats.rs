//! f32 operations. The elementary functions' accuracy is `accuracy.rs`; here every device must give the host's bits.

use crate::rig::{check_float_rows, corners, noise, rigs};
use cuda_std::float;
use varve_gpu::probe::float::*;

/// Corners, evenly spread bit patterns, and as many from the range where exp is finite; more on a card.
fn arguments() -> Vec<[u32; 1]> {
    let count = if rigs()[0].device.caps().is_emulator { 1 << 11 } else { 1 << 20 };
    let mut next = noise(51);
    let mut rows: Vec<[u32; 1]> = corners().into_iter().map(|b| [b]).collect();
    rows.extend((0..count).map(|_| [next()]));
    rows.extend((0..count).map(|_| [(next() as f32 / 4.295e7 - 50.0).to_bits()]));
    rows.truncate(rows.len() / 64 * 64);
    rows
}

#[test]
fn functions_of_one_argument_have_the_hosts_bits() {
    let rows = arguments();
    check_float_rows::<1, UNARY_RESULTS>(&PROBE_FLOAT_UNARY, 64, &rows, |i| {
        let x = f32::from_bits(rows[i][0]);
        [
            float::exp(x),
            float::exp2(x),
            float::log(x),
            1.0 / x.sqrt(),
            float::sigmoid(x),
            float::silu(x),
            float::softplus(x),
            x.sqrt(),
            x.round_ties_even(),
            x.floor(),
            x.abs(),
            (x as i32) as f32,
        ]
    });
}

/// Of two numbers the one that `better` prefers, by the total order (-0 below +0); a NaN loses.
fn pick(a: f32, b: f32, larger: bool) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a.total_cmp(&b).is_gt() == larger => a,
        _ => b,
    }
}

#[test]
fn operations_of_two_and_three_arguments_round_once() {
    let corners = corners();
    let mut next = noise(52);
    let mut rows: Vec<[u32; 3]> = Vec::new();
    for &a in &corners {
        rows.extend(corners.iter().map(|&b| [a, b, next()]));
    }
    // Products that a sum nearly cancels: a fused and an unfused result differ in every bit.
    for _ in 0..4096 {
        let (a, b) = (next() & 0x007f_ffff | 0x3f80_0000, next() & 0x007f_ffff | 0x4000_0000);
        let c = -(f32::from_bits(a) * f32::from_bits(b));
        rows.push([a, b, c.to_bits()]);
    }
    rows.truncate(rows.len() / 64 * 64);
    let fused = |i: usize| {
        let [a, b, c] = rows[i].map(f32::from_bits);
        (a.mul_add(b, c), a * b + c)
    };
    assert!((0..rows.len()).filter(|&i| fused(i).0.to_bits() != fused(i).1.to_bits()).count() > 3000);
    check_float_rows::<3, BINARY_RESULTS>(&PROBE_FLOAT_BINARY, 64, &rows, |i| {
        let [a, b, _] = rows[i].map(f32::from_bits);
        let (fused, unfused) = fused(i);
        [a + b, a - b, a * b, a / b, fused, unfused, pick(a, b, true), pick(a, b, false)]
    });
}
