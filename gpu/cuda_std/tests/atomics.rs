//! Atomic operations, polling within a block and between blocks.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::time::Duration;

use common::{Array, SEEDS, discard, each_seed, fault_of, go, seeded};
use cuda_std::emulator::{Access, Fault, Launch, Options};
use cuda_std::{atomic, shared, shared_array, thread};

#[test]
fn operations_of_many_blocks_are_all_counted() {
    let n = SEEDS.len() as u32;
    let x = Array::from(&[0u32, 0, u32::MAX, 0, u32::MAX, 0, 0]);
    let sum = Array::from(&[0.0f32; 2]);
    each_seed(64, 64, || {
        let i = thread::block_idx_x() * 64 + thread::thread_idx_x();
        // SAFETY: only atomics touch the words.
        unsafe {
            atomic::add_u32(x.at(0), 1);
            atomic::max_u32(x.at(1), i);
            atomic::min_u32(x.at(2), i + 7);
            atomic::or_u32(x.at(3), 1 << (i % 32));
            atomic::and_u32(x.at(4), !(1 << (i % 16)));
            atomic::add_u32_acq_rel(x.at(5), 2);
            atomic::max_u32_acq_rel(x.at(6), i);
            atomic::add_f32(sum.at(0), 0.5);
            atomic::add_f32_acq_rel(sum.at(1), 0.25);
        }
    });
    assert_eq!(x.values(), [4096 * n, 4095, 7, u32::MAX, 0xffff_0000, 8192 * n, 4095]);
    assert_eq!(sum.values(), [2048.0 * n as f32, 1024.0 * n as f32]);
}

#[test]
fn operations_give_the_value_before() {
    let x = Array::from(&[10u32]);
    let out = Array::<u32>::poisoned(9);
    go(&Launch::new(1, 1), &Options::default(), || {
        // SAFETY: one thread.
        let seen = unsafe {
            let p = x.at(0);
            [
                atomic::add_u32(p, 5),            // 15
                atomic::exch_u32(p, 3),           // 3
                atomic::cas_u32(p, 4, 9),         // stays
                atomic::cas_u32_acq_rel(p, 3, 8), // 8
                atomic::or_u32_acq_rel(p, 7),     // 15
                atomic::and_u32_acq_rel(p, 6),    // 6
                atomic::min_u32_acq_rel(p, 2),    // 2
                atomic::exch_u32_acq_rel(p, 1),   // 1
                atomic::load_acquire_u32(p),
            ]
        };
        for (i, v) in seen.into_iter().enumerate() {
            out.store(i, v);
        }
        // SAFETY: one thread.
        unsafe { atomic::store_release_u32(x.at(0), 77) };
    })
    .unwrap();
    assert_eq!(out.values(), [10, 15, 3, 3, 8, 15, 6, 2, 1]);
    assert_eq!(x.values(), [77]);
}

#[test]
fn a_lock_in_shared_memory_is_handed_around_by_polling() {
    let out = Array::from(&[0u32; 2]);
    let rounds = SEEDS.len() as u32;
    each_seed(2, 64, || {
        let lock = shared_array![u32; 1];
        // SAFETY: the count is touched under the lock only; the lock by atomics after its initialisation.
        unsafe {
            if thread::thread_idx_x() == 0 {
                shared::store(lock, 0);
            }
            thread::sync_threads();
            while atomic::cas_u32_acq_rel(lock, 0, 1) != 0 {}
            let block = thread::block_idx_x() as usize;
            out.store(block, out.load(block) + 1);
            atomic::store_release_u32(lock, 0);
        }
    });
    assert_eq!(out.values(), [64 * rounds; 2]);
}

#[test]
fn additions_in_shared_memory_are_all_counted() {
    let out = Array::<u32>::poisoned(2);
    each_seed(2, 96, || {
        let count = shared_array![u32; 1];
        // SAFETY: only atomics touch the count between the barriers.
        unsafe {
            if thread::thread_idx_x() == 0 {
                shared::store(count, 0);
            }
            thread::sync_threads();
            atomic::add_shared_u32(count, thread::thread_idx_x());
            thread::sync_threads();
            if thread::thread_idx_x() == 95 {
                out.store(thread::block_idx_x() as usize, shared::load(count));
            }
        }
    });
    assert_eq!(out.values(), [96 * 95 / 2; 2], "each block its own");
}

/// A block waits for all others: more blocks than OS threads, each polling until the last has come.
#[test]
fn blocks_that_wait_for_each_other_all_get_their_turn() {
    for seed in SEEDS {
        for workers in [1, 2] {
            let arrived = Array::from(&[0u32]);
            let out = Array::<u32>::poisoned(40);
            let options = Options { workers, ..seeded(seed) };
            go(&Launch::new(40, 32), &options, || {
                // SAFETY: only atomics touch the counter.
                unsafe {
                    if thread::thread_idx_x() == 0 {
                        atomic::add_u32_acq_rel(arrived.at(0), 1);
                        while atomic::load_acquire_u32(arrived.at(0)) < 40 {}
                    }
                }
                thread::sync_threads();
                if thread::thread_idx_x() == 31 {
                    // SAFETY: as above.
                    out.store(thread::block_idx_x() as usize, unsafe { atomic::load_acquire_u32(arrived.at(0)) });
                }
            })
            .unwrap();
            assert_eq!(out.values(), [40; 40], "seed {seed}, {workers} workers");
        }
    }
}

#[test]
fn polling_for_ever_is_a_deadlock() {
    let flag = Array::from(&[0u32]);
    let options = Options { poll_limit: Duration::from_millis(50), ..Options::default() };
    let fault = go(&Launch::new(3, 2), &options, || {
        // SAFETY: only atomics touch the flag.
        while thread::thread_idx_x() == 0 && unsafe { atomic::load_acquire_u32(flag.at(0)) } == 0 {}
        thread::sync_threads();
    })
    .expect_err("nobody sets the flag");
    let Fault::Deadlock { threads, .. } = &fault else { panic!("{fault}") };
    assert!(threads[0].doing.starts_with("polls memory") && threads[1].doing.starts_with("waits at sync_threads"));
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn atomics_are_checked_like_accessors() {
    let x = Array::from(&[0u32; 2]);
    let fault = fault_of(1, || discard(unsafe { atomic::add_u32(x.at(2), 1) }));
    assert!(matches!(fault, Fault::OutOfRange { access: Access::Atomic, bytes: 4, .. }), "{fault}");
    let fault = fault_of(1, || discard(unsafe { atomic::or_u32(x.at(0).cast::<u8>().wrapping_add(1).cast(), 1) }));
    assert!(matches!(fault, Fault::Misaligned { .. }), "{fault}");
    let fault = fault_of(1, || discard(unsafe { atomic::add_u32(shared_array![u32; 4].wrapping_add(4), 1) }));
    assert!(matches!(fault, Fault::OutOfRange { .. }), "{fault}");
    let fault = fault_of(1, || unsafe { atomic::add_shared_u32(shared_array![u32; 4].wrapping_add(4), 1) });
    assert!(matches!(fault, Fault::OutOfRange { access: Access::Atomic, .. }), "{fault}");
    let fault = fault_of(1, || unsafe { atomic::add_shared_u32(x.at(0), 1) });
    assert!(matches!(fault, Fault::OutOfRange { .. }), "global memory: {fault}");
}
