//! f32 operations, elementary functions, conversions.

use super::{BOUNDS, ProbeParams, put, row, thread_in_grid};
use cuda_std::{float, kernel};

/// Words that [`probe_float_unary`] writes for each thread.
pub const UNARY_RESULTS: usize = 12;

/// exp, exp2, log, rsqrt, sigmoid, silu, softplus, sqrt, rint, floor, abs, to_i32 (as a float) of an f32.
///
/// # Safety
/// `input` holds `[threads]`, `output` `[threads][UNARY_RESULTS]`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_float_unary(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [x] = unsafe { row(p, i) }.map(f32::from_bits);
    let results = [
        float::exp(x),
        float::exp2(x),
        float::log(x),
        float::rsqrt(x),
        float::sigmoid(x),
        float::silu(x),
        float::softplus(x),
        float::sqrt(x),
        float::rint(x),
        float::floor(x),
        float::abs(x),
        float::to_i32(x) as f32,
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results.map(f32::to_bits)) }
}

/// Words that [`probe_float_binary`] writes for each thread.
pub const BINARY_RESULTS: usize = 8;

/// a + b, a - b, a * b, a / b, fma(a, b, c), `a * b + c` unfused, max(a, b), min(a, b).
///
/// # Safety
/// `input` holds `[threads][3]`, `output` `[threads][BINARY_RESULTS]`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_float_binary(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [a, b, c] = unsafe { row(p, i) }.map(f32::from_bits);
    let results = [a + b, a - b, a * b, a / b, float::fma(a, b, c), a * b + c, float::max(a, b), float::min(a, b)];
    // SAFETY: see above.
    unsafe { put(p, i, results.map(f32::to_bits)) }
}

/// Words that [`probe_float_narrow`] writes for each thread.
pub const NARROW_RESULTS: usize = 4;

/// Of f32 a and b: f16 bits and bf16 bits of a, f16x2 and bf16x2 of (a, b).
///
/// # Safety
/// `input` holds `[threads][2]`, `output` `[threads][NARROW_RESULTS]`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_float_narrow(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [a, b] = unsafe { row(p, i) }.map(f32::from_bits);
    let results = [
        u32::from(float::f32_to_f16(a)),
        u32::from(float::f32_to_bf16(a)),
        float::f32x2_to_f16x2(a, b),
        float::f32x2_to_bf16x2(a, b),
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}

/// Words that [`probe_float_widen`] writes for each thread.
pub const WIDEN_RESULTS: usize = 6;

/// Of the second of two words, as two halves: f16 and bf16 value of the lower one, both f16 values, both bf16 values.
///
/// # Safety
/// `input` holds `[threads][2]`, `output` `[threads][WIDEN_RESULTS]`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_float_widen(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [_, pair] = unsafe { row(p, i) };
    let [lo, hi] = float::f16x2_to_f32x2(pair);
    let [bf_lo, bf_hi] = float::bf16x2_to_f32x2(pair);
    let results = [float::f16_to_f32(pair as u16), float::bf16_to_f32(pair as u16), lo, hi, bf_lo, bf_hi];
    // SAFETY: see above.
    unsafe { put(p, i, results.map(f32::to_bits)) }
}

/// tf32 bits of an f32.
///
/// # Safety
/// `input` and `output` hold a word a thread.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_float_tf32(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract.
    unsafe {
        let [x] = row(p, i);
        put(p, i, [float::f32_to_tf32(f32::from_bits(x))]);
    }
}
