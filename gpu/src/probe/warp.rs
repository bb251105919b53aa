//! Shuffles, votes and reductions of a warp.

use super::{BOUNDS, ProbeParams, put, row, thread_in_grid};
use cuda_std::{kernel, warp};

/// Words that [`probe_warp_shuffle`] and [`probe_warp_segment`] write for each thread.
pub const SHUFFLE_RESULTS: usize = 5;

/// Full-warp shuffles of a value by an operand of the lane's own: xor, idx, up, down of the word, xor of its f32.
///
/// # Safety
/// `input` holds `[threads][2]`: value, operand; `output` `[threads][SHUFFLE_RESULTS]`; whole warps.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_warp_shuffle(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [v, operand] = unsafe { row(p, i) };
    let results = [
        warp::shfl_xor(v, operand),
        warp::shfl_idx(v, operand),
        warp::shfl_up(v, operand),
        warp::shfl_down(v, operand),
        warp::shfl_xor(f32::from_bits(v), operand).to_bits(),
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}

/// Shuffles within segments: xor in 8 lanes, idx in 8, up in 16, down in 4, idx of the i32 in 2.
///
/// # Safety
/// As [`probe_warp_shuffle`].
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_warp_segment(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [v, operand] = unsafe { row(p, i) };
    let results = [
        warp::shfl_xor_width(v, operand, 8),
        warp::shfl_idx_width(v, operand, 8),
        warp::shfl_up_width(v, operand, 16),
        warp::shfl_down_width(v, operand, 4),
        warp::shfl_idx_width(v.cast_signed(), operand, 2).cast_unsigned(),
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}

/// Words that [`probe_warp_masked`] writes for each thread.
pub const MASKED_RESULTS: usize = 4;

/// The halves of a warp take different ways, each with its own mask. Lower half: `xor 5`, ballot, any, all among its
/// lanes; upper half: `down 1`, ballot, any, all. The predicate is the lowest bit of the value. The highest lane's `down`
/// is left out (0 instead), since it reads beyond the warp.
///
/// # Safety
/// `input` holds `[threads]`, `output` `[threads][MASKED_RESULTS]`; whole warps.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_warp_masked(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [v] = unsafe { row(p, i) };
    let odd = v & 1 == 1;
    let lane = warp::lane_id();
    let results = if lane < 16 {
        let mask = 0x0000_ffff;
        let moved = warp::shfl_xor_masked(mask, v, 5);
        let any = u32::from(warp::any_masked(mask, odd));
        [moved, warp::ballot_masked(mask, odd), any, u32::from(warp::all_masked(mask, odd))]
    } else {
        let mask = 0xffff_0000;
        let moved = warp::shfl_down_masked(mask, v, 1);
        let any = u32::from(warp::any_masked(mask, odd));
        let moved = if lane == 31 { 0 } else { moved };
        [moved, warp::ballot_masked(mask, odd), any, u32::from(warp::all_masked(mask, odd))]
    };
    warp::sync_warp(warp::FULL_MASK);
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}

/// Words that [`probe_warp_vote`] writes for each thread.
pub const VOTE_RESULTS: usize = 4;

/// Lane id; ballot, any and all of the value's lowest bit.
///
/// # Safety
/// `input` holds `[threads]`, `output` `[threads][VOTE_RESULTS]`; whole warps.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_warp_vote(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [v] = unsafe { row(p, i) };
    let odd = v & 1 == 1;
    let results = [warp::lane_id(), warp::ballot(odd), u32::from(warp::any(odd)), u32::from(warp::all(odd))];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}

/// Words that [`probe_warp_sum`] writes for each thread.
pub const SUM_RESULTS: usize = 2;

/// Butterfly sum and maximum of an f32.
///
/// # Safety
/// `input` holds `[threads]`, `output` `[threads][SUM_RESULTS]`; whole warps.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_warp_sum(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [v] = unsafe { row(p, i) };
    let v = f32::from_bits(v);
    // SAFETY: see above.
    unsafe { put(p, i, [warp::sum_xor(v).to_bits(), warp::max_xor(v).to_bits()]) }
}

/// Words that [`probe_warp_redux`] writes for each thread.
pub const REDUX_RESULTS: usize = 9;

/// `redux`: add, min, max, and, or, xor of u32; add, min, max of i32.
///
/// # Safety
/// `input` holds `[threads]`, `output` `[threads][REDUX_RESULTS]`; whole warps.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_warp_redux(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a row for each thread, by contract, here and below.
    let [v] = unsafe { row(p, i) };
    let s = v.cast_signed();
    let results = [
        warp::redux_add_u32(v),
        warp::redux_min_u32(v),
        warp::redux_max_u32(v),
        warp::redux_and_u32(v),
        warp::redux_or_u32(v),
        warp::redux_xor_u32(v),
        warp::redux_add_i32(s).cast_unsigned(),
        warp::redux_min_i32(s).cast_unsigned(),
        warp::redux_max_i32(s).cast_unsigned(),
    ];
    // SAFETY: see above.
    unsafe { put(p, i, results) }
}
