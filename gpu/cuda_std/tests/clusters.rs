//! Clusters: what blocks write to each other is there behind the barrier, and what happens where they miss it.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, SEEDS, seeded};
use cuda_std::emulator::{self, Fault, Launch, Options, Stats};
use cuda_std::launch::{Bounds, Kernel};
use cuda_std::{cluster, kernel, shared, thread};

const BLOCKS: u32 = 4;
const THREADS: u32 = 64;
const BOUNDS: Bounds = Bounds { threads: THREADS, min_blocks: 1 };
/// A word for each block and thread.
const SHARED: u32 = 4 * BLOCKS * THREADS;

#[derive(Clone, Copy)]
pub struct Params {
    out: *mut u32, // [blocks][THREADS]
    /// What the block of this rank does: see the kernels.
    odd_one: u32,
}

/// Threads give each block of the cluster a word, twice, and add up what they are given.
///
/// # Safety
/// `out` as `Params` says; `SHARED` bytes of dynamic shared memory.
#[kernel(sm = 90, cluster = 4)]
#[launch_bounds(BOUNDS)]
pub unsafe fn exchange(p: Params) {
    let (t, rank, given) = (thread::thread_idx_x(), cluster::rank(), shared::dynamic_shared::<u32>());
    let mut sum = 0;
    for turn in 0..2 {
        cluster::sync();
        for to in 0..BLOCKS {
            let word = 1000 * thread::block_idx_x() + 100 * to + turn + t;
            // SAFETY: each word has one writer between two barriers.
            unsafe { cluster::store(given.wrapping_add((rank * THREADS + t) as usize), to, word) };
        }
        cluster::sync();
        for from in 0..BLOCKS {
            // SAFETY: written before the barrier, and next behind another.
            sum += unsafe { shared::load(given.wrapping_add((from * THREADS + t) as usize)) };
        }
    }
    // SAFETY: a thread a word.
    unsafe { cuda_std::global::store(p.out.wrapping_add((thread::block_idx_x() * THREADS + t) as usize), sum) };
}

/// Block `odd_one` ends instead of going to the second barrier.
///
/// # Safety
/// None: it is wrong on purpose.
#[kernel(sm = 90, cluster = 4)]
#[launch_bounds(BOUNDS)]
pub unsafe fn leaves_early(p: Params) {
    cluster::sync();
    if cluster::rank() != p.odd_one {
        cluster::sync();
    }
}

/// Each block writes to block `odd_one` behind a barrier, if there is one, which does nothing but wait there.
///
/// # Safety
/// None: it is wrong on purpose.
#[kernel(sm = 90, cluster = 4)]
#[launch_bounds(BOUNDS)]
pub unsafe fn writes_late(p: Params) {
    if p.out.is_null() {
        cluster::sync();
    }
    if cluster::rank() != p.odd_one {
        // SAFETY: in the dynamic area; that the other block runs is what is wrong.
        unsafe { cluster::store(shared::dynamic_shared::<u32>(), p.odd_one, 1) };
    }
}

/// One thread of a block writes outside of what it may.
///
/// # Safety
/// None: it is wrong on purpose.
#[kernel(sm = 90, cluster = 4)]
#[launch_bounds(BOUNDS)]
pub unsafe fn writes_beyond(p: Params) {
    cluster::sync();
    if cluster::rank() == 0 && thread::thread_idx_x() == 0 {
        let (to, bytes) = if p.odd_one < BLOCKS { (p.odd_one, SHARED) } else { (p.odd_one, 0) };
        let place = shared::dynamic_shared::<u8>().wrapping_add(bytes as usize);
        // SAFETY: beyond the area or the cluster, on purpose.
        unsafe { cluster::store(place.cast::<u32>(), to, 1) };
    }
    cluster::sync();
}

fn go(kernel: &Kernel<Params>, blocks: u32, params: Params, options: &Options) -> Result<Stats, Fault> {
    let launch = Launch { dynamic_shared: SHARED, ..Launch::new(blocks, THREADS) };
    // SAFETY: test kernels touch memory through checked accessors.
    unsafe { emulator::run(kernel, &launch, params, options) }
}

/// The fault of one cluster on one OS thread, whose blocks therefore start in order.
fn fault_of(kernel: &Kernel<Params>, odd_one: u32, out: *mut u32) -> String {
    let options = Options { workers: 1, ..Options::default() };
    go(kernel, BLOCKS, Params { out, odd_one }, &options).expect_err("the kernel is broken on purpose").to_string()
}

#[test]
fn words_reach_every_block_of_the_cluster_and_no_other() {
    let blocks = 12;
    let word = |from: u32, to: u32, turn: u32, t: u32| 1000 * from + 100 * (to % BLOCKS) + turn + t;
    let sum = |block: u32, t: u32| {
        let first = block / BLOCKS * BLOCKS;
        (0..2).flat_map(|turn| (first..first + BLOCKS).map(move |from| word(from, block, turn, t))).sum()
    };
    let expected: Vec<u32> = (0..blocks).flat_map(|block| (0..THREADS).map(move |t| sum(block, t))).collect();
    for seed in SEEDS {
        for workers in [1, 2, 5] {
            let out = Array::<u32>::poisoned((blocks * THREADS) as usize);
            let params = Params { out: out.at(0), odd_one: 0 };
            let stats = go(&EXCHANGE, blocks, params, &Options { workers, ..seeded(seed) }).unwrap();
            assert_eq!((out.values(), stats.blocks), (expected.clone(), 12), "seed {seed}, {workers} workers");
        }
    }
}

#[test]
fn a_grid_is_whole_clusters() {
    let out = Array::<u32>::poisoned(64);
    let fault = go(&EXCHANGE, 5, Params { out: out.at(0), odd_one: 0 }, &Options::default()).unwrap_err();
    assert!(matches!(&fault, Fault::LaunchLimit { value: 1, .. }), "{fault}");
}

#[test]
fn a_block_that_misses_the_barrier_is_a_deadlock() {
    for odd_one in 0..BLOCKS {
        let fault = fault_of(&LEAVES_EARLY, odd_one, std::ptr::null_mut());
        assert!(fault.contains("cluster::sync"), "block {odd_one}: {fault}");
    }
}

#[test]
fn a_block_is_written_to_while_it_runs() {
    let out = Array::<u32>::poisoned(1);
    let fault = fault_of(&WRITES_LATE, 1, out.at(0));
    assert!(fault.contains("block 1 of the cluster has not started: sync first"), "{fault}");
    // The last block completes the barrier and ends before the others are woken.
    let fault = fault_of(&WRITES_LATE, 3, std::ptr::null_mut());
    assert!(fault.contains("block 3 of the cluster has ended"), "{fault}");
}

#[test]
fn words_lie_in_the_dynamic_area_of_a_block_of_the_cluster() {
    let fault = fault_of(&WRITES_BEYOND, 2, std::ptr::null_mut());
    assert!(fault.contains("is not in the 1024 bytes of the block's dynamic shared memory"), "{fault}");
    let fault = fault_of(&WRITES_BEYOND, 4, std::ptr::null_mut());
    assert!(fault.contains("there is no block 4 in a cluster of 4"), "{fault}");
}
