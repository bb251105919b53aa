//! Atomic operations, and messages that need their ordering.

use crate::rig::{Rig, UNWRITTEN, noise, rigs};
use cuda_std::launch::Kernel;
use varve::backend::Launch;
use varve_gpu::probe::{ProbeParams, atomic::*};

/// Start values of one set of eight words: sums start off zero, so that a lost start shows.
const START: [u32; 8] = [5, 0x3f00_0000, 3, 50, 0, !0, 0, 77];

fn values(threads: usize) -> Vec<u32> {
    let mut next = noise(81);
    (0..threads).map(|_| next() % 61 + 1).collect()
}

/// Runs the kernel and checks the words that do not depend on the order, and that the additions came one after another.
fn every_operation_adds_up(rig: &Rig, kernel: &'static Kernel<ProbeParams>, launch: Launch) {
    let input = values((launch.grid[0] * launch.block[0]) as usize);
    let mut start = [START, START].concat();
    start.resize(ATOMIC_WORDS + 2 * input.len(), UNWRITTEN);
    let got = rig.words(kernel, launch, &input, &start);
    let sum: u32 = input.iter().sum();
    let bits = input.iter().fold(0, |m, v| m | 1 << (v % 32));
    let expected = [
        5 + sum,
        (0.5 + sum as f32).to_bits(),
        *input.iter().max().unwrap().max(&3),
        *input.iter().min().unwrap().min(&50),
        bits,
        !bits,
        input.len() as u32,
    ];
    for (set, name) in got[..ATOMIC_WORDS].chunks(8).zip(["relaxed", "acquire and release"]) {
        assert_eq!(set[..7], expected, "{} on {rig}, {name}", kernel.symbol());
        assert!(input.contains(&set[7]), "{} on {rig}, {name}: exchanged {}", kernel.symbol(), set[7]);
    }
    for (form, name) in ["relaxed", "acquire and release"].into_iter().enumerate() {
        let rows = got[ATOMIC_WORDS..].chunks(2).zip(&input);
        let mut steps: Vec<(u32, u32)> = rows.map(|(old, v)| (old[form], *v)).collect();
        steps.sort_unstable();
        let end = steps.iter().fold(5, |at, &(old, v)| {
            assert_eq!(old, at, "{} on {rig}, {name}: an addition gave back a wrong value", kernel.symbol());
            at + v
        });
        assert_eq!(end, 5 + sum);
    }
}

#[test]
fn atomics_on_global_memory_lose_nothing() {
    for rig in rigs() {
        every_operation_adds_up(&rig, &PROBE_ATOMIC_GLOBAL, Launch::new(3, 96));
    }
}

#[test]
fn atomics_on_shared_memory_lose_nothing() {
    for rig in rigs() {
        every_operation_adds_up(&rig, &PROBE_ATOMIC_SHARED, Launch::new(1, 192));
    }
}

#[test]
fn the_block_with_the_last_ticket_sees_what_all_wrote() {
    const BLOCKS: usize = 9;
    const THREADS: usize = 64;
    let input = values(BLOCKS * THREADS);
    let expected: Vec<u32> = (0..THREADS).map(|t| (0..BLOCKS).map(|b| 2 * input[b * THREADS + t]).sum()).collect();
    for rig in rigs() {
        let (input, mut messages) = (rig.upload(&input), rig.upload(&[UNWRITTEN; BLOCKS * THREADS]));
        let (mut flag, mut output) = (rig.upload(&[0]), rig.upload(&[UNWRITTEN; THREADS]));
        let params = MessageParams {
            input: input.as_ptr(),
            messages: messages.as_mut_ptr(),
            flag: flag.as_mut_ptr(),
            output: output.as_mut_ptr(),
        };
        rig.launch(&PROBE_MESSAGE_TICKET, Launch::new(BLOCKS as u32, THREADS as u32), params);
        assert_eq!(output.read().unwrap(), expected, "{rig}");
        assert_eq!(flag.read().unwrap(), [BLOCKS as u32], "{rig}");
    }
}

#[test]
fn a_raised_flag_shows_what_was_written_before_it() {
    const THREADS: usize = 64;
    let input = values(THREADS);
    let expected: Vec<u32> = input.iter().map(|v| 3 * v).collect();
    for rig in rigs() {
        let (input, mut messages) = (rig.upload(&input), rig.upload(&[UNWRITTEN; THREADS]));
        let (mut flag, mut output) = (rig.upload(&[0]), rig.upload(&[UNWRITTEN; THREADS]));
        let params = MessageParams {
            input: input.as_ptr(),
            messages: messages.as_mut_ptr(),
            flag: flag.as_mut_ptr(),
            output: output.as_mut_ptr(),
        };
        rig.launch(&PROBE_MESSAGE_FLAG, Launch::new(2, THREADS as u32), params);
        assert_eq!(output.read().unwrap(), expected, "{rig}");
    }
}
