//! Barriers in branches, named barriers, a shuffle before a branch.

use crate::rig::{UNWRITTEN, noise, rigs};
use varve::backend::Launch;
use varve_gpu::probe::barrier::*;

#[test]
fn a_barrier_between_branches_stays_one_barrier() {
    let mut next = noise(21);
    let input: Vec<u32> = (0..5).map(|_| next()).collect();
    let step = |x: u32, k: u32| x.wrapping_mul(3).wrapping_add(k);
    let expected: Vec<u32> =
        input.iter().flat_map(|&x| (0..128).map(move |t| step(step(x, 7), 9).wrapping_add(t))).collect();
    for rig in rigs() {
        let got = rig.words(&PROBE_BARRIER_BRANCH, Launch::new(5, 128), &input, &vec![UNWRITTEN; 5 * 128]);
        assert_eq!(got, expected, "{rig}");
    }
}

#[test]
fn named_barriers_pass_tiles_from_warps_to_warps() {
    let mut next = noise(22);
    let input: Vec<u32> = (0..3 * NAMED_WORDS).map(|_| next()).collect();
    let expected: Vec<u32> = input.chunks(64).flat_map(|tile| tile.iter().rev().copied()).collect();
    for rig in rigs() {
        let got = rig.words(&PROBE_BARRIER_NAMED, Launch::new(3, 128), &input, &vec![UNWRITTEN; input.len()]);
        assert_eq!(got, expected, "{rig}");
    }
}

#[test]
fn a_shuffle_is_done_by_the_whole_warp_before_half_of_it_goes_on() {
    let mut next = noise(23);
    let input: Vec<u32> = (0..128).map(|_| next()).collect();
    let expected: Vec<u32> = (0..128).map(|i| if i % 32 < 16 { input[i ^ 16] } else { UNWRITTEN }).collect();
    for rig in rigs() {
        let got = rig.words(&PROBE_SHUFFLE_HALF, Launch::new(2, 64), &input, &[UNWRITTEN; 128]);
        assert_eq!(got, expected, "{rig}");
    }
}
