//! Integer operations.

use super::{BOUNDS, ProbeParams, put, row, thread_in_grid};
use cuda_std::{int, kernel};

/// Words that [`probe_int_bytes`] writes for each thread.
pub const BYTES_RESULTS: usize = 13;

/// Of a, b, c: dp4a, dp4a of unsigned bytes, of unsigned with signed ones, prmt(a, b, c), vadd4, vsub4, vsubss4, vabsdiffu4, vcmpeq4, vmaxs4, vmins4,
/// vmaxu4, vminu4.
///
/// # Safety
/// `input` holds `[threads][3]`, `output` `[threads][BYTES_RESULTS]`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_int_bytes(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [a, b, c] = unsafe { row(p, i) };
    let results = [
        int::dp4a(a.cast_signed(), b.cast_signed(), c.cast_signed()).cast_unsigned(),
        int::dp4a_u32(a, b, c),
        int::dp4a_us(a, b.cast_signed(), c.cast_signed()).cast_unsigned(),
        int::prmt(a, b, c),
        int::vadd4(a, b),
        int::vsub4(a, b),
        int::vsubss4(a, b),
        int::vabsdiffu4(a, b),
        int::vcmpeq4(a, b),
        int::vmaxs4(a, b),
        int::vmins4(a, b),
        int::vmaxu4(a, b),
        int::vminu4(a, b),
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}

/// Words that [`probe_int_bits`] writes for each thread.
pub const BITS_RESULTS: usize = 7;

/// Of a, b, c: funnel shifts left and right of b:a by c, popc, clz and brev of a, bits c % 40 .. + b % 40 of a, upper half
/// of a * b.
///
/// # Safety
/// `input` holds `[threads][3]`, `output` `[threads][BITS_RESULTS]`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_int_bits(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [a, b, c] = unsafe { row(p, i) };
    let results = [
        int::funnel_shift_l(a, b, c),
        int::funnel_shift_r(a, b, c),
        int::popc(a),
        int::clz(a),
        int::brev(a),
        int::bfe_u32(a, c % 40, b % 40),
        int::mul_hi_u32(a, b),
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}
