//! Barriers, and what happens where threads miss one.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, each_seed, fault_of};
use cuda_std::barrier::{arrive_named, fence_block, fence_device, sync_named, sync_threads};
use cuda_std::emulator::Fault;
use cuda_std::{shared, shared_array, thread};

/// Every thread passes its value to the next one, `rounds` times.
fn pass_on(threads: u32, rounds: u32) {
    let out = Array::<u32>::poisoned(2 * threads as usize);
    each_seed(2, threads, || {
        let slots = shared_array![u32; 1024];
        let t = thread::thread_idx_x();
        let mut v = t;
        for _ in 0..rounds {
            // SAFETY: t < 1024; the barriers separate writing from reading.
            unsafe { shared::store(slots.add(t as usize), v) };
            sync_threads();
            // SAFETY: as above.
            v = unsafe { shared::load(slots.add(((t + 1) % threads) as usize)) };
            sync_threads();
        }
        out.store((thread::block_idx_x() * threads + t) as usize, v);
    });
    let wanted = (0..2 * threads).map(|i| (i % threads + rounds) % threads);
    assert!(out.values().into_iter().eq(wanted), "{threads} threads, {rounds} rounds");
}

#[test]
fn sync_threads_orders_what_threads_exchange() {
    for threads in [1, 2, 31, 32, 33, 100, 128, 1024] {
        pass_on(threads, 5);
    }
}

#[test]
fn named_barriers_hand_over_between_producers_and_consumers() {
    const FULL: u32 = 1;
    const EMPTY: u32 = 3;
    let out = Array::<u32>::poisoned(20 * 32);
    each_seed(1, 96, || {
        let slots = shared_array![u32; 32];
        let t = thread::thread_idx_x() as usize;
        for round in 0..20 {
            // SAFETY: warp 0 writes between Empty and Full, warp 1 reads between Full and Empty, warp 2 uses neither.
            unsafe {
                match t / 32 {
                    0 => {
                        if round > 0 {
                            sync_named(EMPTY, 64);
                        }
                        shared::store(slots.add(t), (round * 100 + t) as u32);
                        fence_block();
                        arrive_named(FULL, 64);
                    }
                    1 => {
                        sync_named(FULL, 64);
                        out.store(32 * round + t % 32, shared::load(slots.add(t % 32)));
                        if round < 19 {
                            arrive_named(EMPTY, 64);
                        }
                    }
                    _ => fence_device(),
                }
            }
        }
    });
    assert!(out.values().into_iter().eq((0..20 * 32).map(|i| i / 32 * 100 + i % 32)));
}

#[test]
fn a_named_barrier_counts_the_last_partial_warp_as_a_whole_one() {
    // SAFETY: both warps of the block take part.
    each_seed(1, 40, || unsafe { sync_named(2, 64) });
}

#[test]
fn a_thread_that_exits_before_a_barrier_is_a_deadlock() {
    let fault = fault_of(64, || {
        if thread::thread_idx_x() != 37 {
            sync_threads();
        }
    });
    let Fault::Deadlock { kernel, block, threads } = &fault else { panic!("{fault}") };
    assert_eq!((kernel.as_str(), *block, threads.len()), ("test_kernel", [0; 3], 64));
    assert_eq!(threads[37].doing, "has exited");
    assert!(threads[36].doing.starts_with("waits at sync_threads (") && threads[36].doing.contains("barriers.rs"));
    let text = fault.to_string();
    assert!(text.contains("threads (0, 0, 0) to (36, 0, 0) (37): each waits at sync_threads"), "{text}");
    assert!(text.contains("thread (37, 0, 0) has exited"), "{text}");
}

#[test]
fn warps_that_wait_at_different_barriers_are_a_deadlock() {
    let fault = fault_of(64, || {
        if thread::thread_idx_x() < 32 {
            sync_threads();
        } else {
            // SAFETY: broken on purpose.
            unsafe { sync_named(4, 64) }
        }
    });
    let Fault::Deadlock { threads, .. } = &fault else { panic!("{fault}") };
    assert!(threads[0].doing.starts_with("waits at sync_threads"));
    assert!(threads[63].doing.starts_with("waits at sync_named"));
}

#[test]
#[allow(clippy::if_same_then_else, reason = "the two lines are what is tested")]
fn lanes_that_reach_a_barrier_from_different_lines_are_divergent() {
    let fault = fault_of(32, || {
        if thread::thread_idx_x() < 16 {
            sync_threads();
        } else {
            sync_threads();
        }
    });
    let Fault::Divergence { primitive: "sync_threads", threads, .. } = &fault else { panic!("{fault}") };
    assert_ne!(threads[15].doing, threads[16].doing);
    // Whole warps may come from different lines.
    each_seed(1, 64, || {
        if thread::thread_idx_x() < 32 {
            sync_threads();
        } else {
            sync_threads();
        }
    });
}

#[test]
fn wrong_operands_of_named_barriers_are_named() {
    for (id, threads, word) in
        [(0, 32, "ids are"), (16, 32, "ids are"), (1, 48, "multiple"), (1, 0, "multiple"), (1, 96, "has 64")]
    {
        // SAFETY: broken on purpose.
        let fault = fault_of(64, || unsafe { sync_named(id, threads) });
        let Fault::BadOperand { primitive: "sync_named", problem, .. } = &fault else { panic!("{fault}") };
        assert!(problem.contains(word), "{problem}");
    }
    // SAFETY: broken on purpose.
    let fault = fault_of(96, || unsafe { sync_named(1, if thread::thread_idx_x() < 32 { 64 } else { 96 }) });
    let Fault::BadOperand { place, problem, .. } = &fault else { panic!("{fault}") };
    assert_eq!((place.thread, problem.as_str()), ([32, 0, 0], "96 threads, but others at barrier 1 say 64"));
}
