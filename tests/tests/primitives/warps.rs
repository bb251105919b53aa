//! Shuffles, votes, reductions.

use crate::rig::{check_float_rows, check_rows, corners, noise_rows};
use varve_gpu::probe::warp::*;

const LANES: usize = 32;

/// How a lane finds the lane it reads.
#[derive(Clone, Copy)]
enum Way {
    Xor,
    Idx,
    Up,
    Down,
}

/// The source lane by the pseudocode of PTX's `shfl.sync`, for segments of `width` lanes.
fn source(way: Way, lane: usize, operand: u32, width: usize) -> usize {
    let b = (operand & 31) as usize;
    let segment_mask = 31 & !(width - 1);
    let first = lane & segment_mask;
    let last = first | (31 & !segment_mask);
    let (j, inside) = match way {
        Way::Up => (lane.wrapping_sub(b), lane >= first + b),
        Way::Down => (lane + b, lane + b <= last),
        Way::Xor => (lane ^ b, (lane ^ b) <= last),
        Way::Idx => (first | (b & !segment_mask), true),
    };
    if inside { j } else { lane }
}

/// Values and operands of 4 warps; the operands stay below 32.
fn values() -> Vec<[u32; 2]> {
    noise_rows::<2>(11, 4 * LANES).into_iter().map(|[v, operand]| [v, operand % 32]).collect()
}

fn read(rows: &[[u32; 2]], i: usize, way: Way, width: usize) -> u32 {
    let (warp, lane) = (i / LANES, i % LANES);
    rows[warp * LANES + source(way, lane, rows[i][1], width)][0]
}

#[test]
fn shuffles_read_the_lane_that_ptx_says() {
    let rows = values();
    let xor = |i| read(&rows, i, Way::Xor, 32);
    check_rows::<2, SHUFFLE_RESULTS>(&PROBE_WARP_SHUFFLE, 64, &rows, |i| {
        [xor(i), read(&rows, i, Way::Idx, 32), read(&rows, i, Way::Up, 32), read(&rows, i, Way::Down, 32), xor(i)]
    });
}

#[test]
fn shuffles_stay_in_their_segments() {
    let rows = values();
    check_rows::<2, SHUFFLE_RESULTS>(&PROBE_WARP_SEGMENT, 64, &rows, |i| {
        [
            read(&rows, i, Way::Xor, 8),
            read(&rows, i, Way::Idx, 8),
            read(&rows, i, Way::Up, 16),
            read(&rows, i, Way::Down, 4),
            read(&rows, i, Way::Idx, 2),
        ]
    });
}

/// Warps whose predicates (the lowest bits) are mixed, all false, all true, and one true in each half.
fn predicates() -> Vec<[u32; 1]> {
    let mut rows = noise_rows::<1>(5, 4 * LANES);
    for (i, [v]) in rows.iter_mut().enumerate() {
        *v = match i / LANES {
            0 => *v,
            1 => *v & !1,
            2 => *v | 1,
            _ => *v & !1 | u32::from(i % LANES == 3 || i % LANES == 30),
        };
    }
    rows
}

fn votes(rows: &[[u32; 1]], warp: usize, lanes: std::ops::Range<usize>) -> (u32, u32, u32) {
    let ballot = lanes.clone().fold(0, |b, lane| b | (rows[warp * LANES + lane][0] & 1) << lane);
    let all = lanes.fold(0u32, |m, lane| m | 1 << lane);
    (ballot, u32::from(ballot != 0), u32::from(ballot == all))
}

#[test]
fn votes_count_all_lanes() {
    let rows = predicates();
    check_rows::<1, VOTE_RESULTS>(&PROBE_WARP_VOTE, 128, &rows, |i| {
        let (ballot, any, all) = votes(&rows, i / LANES, 0..32);
        [(i % LANES) as u32, ballot, any, all]
    });
}

#[test]
fn halves_of_a_warp_can_take_different_ways() {
    let rows = predicates();
    check_rows::<1, MASKED_RESULTS>(&PROBE_WARP_MASKED, 64, &rows, |i| {
        let (warp, lane) = (i / LANES, i % LANES);
        let upper = lane >= 16;
        let (ballot, any, all) = votes(&rows, warp, if upper { 16..32 } else { 0..16 });
        let moved = match (upper, lane) {
            (false, _) => rows[warp * LANES + (lane ^ 5)][0],
            (true, 31) => 0,
            (true, _) => rows[i + 1][0],
        };
        [moved, ballot, any, all]
    });
}

#[test]
fn butterflies_add_in_the_documented_order() {
    let mut rows: Vec<[u32; 1]> = corners().chunks_exact(LANES).flatten().map(|&b| [b]).collect();
    rows.extend(noise_rows::<1>(3, 2 * LANES));
    let plain = |i: f32| [(i * 0.37 - 3.0).to_bits()];
    rows.extend((0..LANES).map(|i| plain(i as f32)));
    rows.truncate(rows.len() / 64 * 64);
    check_float_rows::<1, SUM_RESULTS>(&PROBE_WARP_SUM, 64, &rows, |i| {
        let mut sum: Vec<f32> = rows[i / LANES * LANES..][..LANES].iter().map(|[b]| f32::from_bits(*b)).collect();
        let numbers: Vec<f32> = sum.iter().copied().filter(|x| !x.is_nan()).collect();
        for step in [16, 8, 4, 2, 1] {
            sum = (0..LANES).map(|lane| sum[lane] + sum[lane ^ step]).collect();
        }
        let largest = numbers.iter().copied().max_by(f32::total_cmp).unwrap_or(f32::NAN);
        [sum[i % LANES], largest]
    });
}

#[test]
fn redux_reduces_all_lanes() {
    let rows = [noise_rows::<1>(8, 3 * LANES), vec![[0x8000_0000]; LANES]].concat();
    check_rows::<1, REDUX_RESULTS>(&PROBE_WARP_REDUX, 64, &rows, |i| {
        let lanes = || rows[i / LANES * LANES..][..LANES].iter().map(|[v]| *v);
        let signed = || lanes().map(u32::cast_signed);
        let add = lanes().fold(0, u32::wrapping_add);
        [
            add,
            lanes().min().unwrap(),
            lanes().max().unwrap(),
            lanes().fold(!0, |a, b| a & b),
            lanes().fold(0, |a, b| a | b),
            lanes().fold(0, |a, b| a ^ b),
            add,
            signed().min().unwrap().cast_unsigned(),
            signed().max().unwrap().cast_unsigned(),
        ]
    });
}
