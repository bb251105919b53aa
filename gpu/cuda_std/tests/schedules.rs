//! Schedules, races, panics: kernels that are broken on purpose, and the fault that names each.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::time::{Duration, Instant};

use common::{Array, SEEDS, discard, fault_of, go, seeded};
use cuda_std::barrier::{arrive_named, sync_named, sync_threads};
use cuda_std::copy::{cp_async_wait_all, cp_async16};
use cuda_std::emulator::{Access, Fault, Launch, Options, check_schedules};
use cuda_std::{shared, shared_array, thread, warp};

/// Sums neighbours through shared memory, with or without the barrier that this needs.
fn neighbours(with_barrier: bool, options: &Options) -> Result<Vec<u8>, Fault> {
    let out = Array::<u32>::poisoned(64);
    go(&Launch::new(1, 64), options, || {
        let slots = shared_array![u32; 64];
        let t = thread::thread_idx_x() as usize;
        // SAFETY: t < 64; without the barrier it is broken on purpose.
        unsafe {
            shared::store(slots.add(t), t as u32);
            if with_barrier {
                sync_threads();
            }
            warp::sync_warp(warp::FULL_MASK);
            out.store(t, shared::load(slots.add((t + 32) % 64)));
        }
    })?;
    Ok(out.values().into_iter().flat_map(u32::to_le_bytes).collect())
}

#[test]
fn a_missing_barrier_shows_as_a_result_that_depends_on_the_schedule() {
    let check = |barrier| check_schedules("neighbours", &SEEDS, &Options::default(), |o| neighbours(barrier, o));
    assert_eq!(check(true).unwrap().len(), 256);
    let fault = check(false).unwrap_err();
    let Fault::ScheduleDependent { kernel, first: 0, second, .. } = &fault else { panic!("{fault}") };
    assert_eq!(kernel, "neighbours");
    // And each schedule by itself is reproducible.
    for seed in [0, *second] {
        assert_eq!(neighbours(false, &seeded(seed)).unwrap(), neighbours(false, &seeded(seed)).unwrap());
    }
}

/// Options with the race detector on.
fn detecting(seed: u64) -> Options {
    Options { races: true, ..seeded(seed) }
}

/// The two accesses of a race.
fn race(threads: u32, body: impl Fn(usize, *mut u32) + Sync) -> (Access, Access) {
    for seed in SEEDS {
        let outcome = go(&Launch::new(1, threads), &detecting(seed), || {
            body(thread::thread_idx_x() as usize, shared_array![u32; 256]);
        });
        let fault = outcome.expect_err("the kernel is broken on purpose");
        let Fault::Race { place, access, other, other_access, other_source, .. } = &fault else { panic!("{fault}") };
        assert_ne!(place.thread, *other);
        assert!(place.source.contains("schedules.rs") && other_source.contains("schedules.rs"));
        if seed == SEEDS[SEEDS.len() - 1] {
            return (*other_access, *access);
        }
    }
    unreachable!("SEEDS is not empty");
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn races_are_named_under_every_schedule() {
    let (first, second) = race(64, |t, a| unsafe {
        shared::store(a.add(t), 1);
        let _ = shared::load(a.add((t + 32) % 64)); // no barrier
    });
    assert!(first != second, "{first} and {second}");
    let both = race(64, |_, a| unsafe { shared::store(a, 1) });
    assert_eq!(both, (Access::Write, Access::Write));
    // Written again while others may still read: the second barrier is missing.
    race(64, |t, a| unsafe {
        for round in 0..4u32 {
            shared::store(a.add(t), round);
            sync_threads();
            let _ = shared::load(a.add((t + 1) % 64));
        }
    });
    // sync_warp orders a warp, not a block.
    race(64, |t, a| unsafe {
        shared::store(a.add(t), 1);
        warp::sync_warp(warp::FULL_MASK);
        let _ = shared::load(a.add((t + 32) % 64));
    });
    // A shuffle orders no memory.
    race(32, |t, a| unsafe {
        shared::store(a.add(t), 1);
        let _ = warp::shfl_xor(t as u32, 1);
        let _ = shared::load(a.add((t + 1) % 32));
    });
    // A copy's bytes belong to its thread until a barrier after the wait.
    let input = Array::from(&[1u32; 256]);
    race(64, |t, a| unsafe {
        cp_async16(a.add(4 * t), input.at(4 * t));
        cp_async_wait_all();
        warp::sync_warp(warp::FULL_MASK);
        if t >= 32 {
            let _ = shared::load(a.add(4 * (t - 32)));
        }
    });
}

#[test]
fn the_race_detector_accuses_no_correct_kernel() {
    let input = Array::from(&[1u32; 256]);
    for seed in SEEDS {
        go(&Launch::new(3, 96), &detecting(seed), || {
            let a = shared_array![u32; 512];
            let bytes = shared_array![u8; 96];
            let t = thread::thread_idx_x() as usize;
            // SAFETY: barriers of each kind separate writing from reading, as noted.
            unsafe {
                shared::store(bytes.add(t), t as u8); // neighbouring bytes of one word
                for round in 0..3 {
                    shared::store(a.add(t), round);
                    sync_threads();
                    assert_eq!(shared::load(a.add((t + 40) % 96)), round);
                    sync_threads();
                }
                assert_eq!(shared::load(bytes.add(95 - t)), 95 - t as u8);
                shared::store(a.add(100 + t), 1);
                warp::sync_warp(warp::FULL_MASK);
                let _ = shared::load(a.add(100 + (t ^ 1)));
                // Warp 0 hands over to warp 1 by named barrier 1, warp 2 has no part in it.
                match t / 32 {
                    0 => {
                        shared::store4(a.add(256 + 4 * t), [7; 4]);
                        arrive_named(1, 64);
                    }
                    1 => {
                        sync_named(1, 64);
                        assert_eq!(shared::load2(a.add(256 + 4 * (t - 32) + 2)), [7, 7]);
                    }
                    _ => {}
                }
                sync_threads();
                if t < 64 {
                    cp_async16(a.add(4 * t), input.at(4 * t));
                }
                cp_async_wait_all();
                sync_threads();
                assert_eq!(shared::load(a.add(t)), 1);
            }
        })
        .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

#[test]
fn a_panic_is_named_and_ends_only_the_launch() {
    let start = Instant::now();
    let data = [1u32, 2, 3];
    let fault = fault_of(64, || {
        let i = thread::thread_idx_x() as usize / 63 * 3;
        sync_threads();
        assert!(data[i] > 0);
        sync_threads();
    });
    let Fault::Panic { place, message } = &fault else { panic!("{fault}") };
    assert_eq!((place.kernel.as_str(), place.block, place.thread), ("test_kernel", [0; 3], [63, 0, 0]));
    assert!(message.contains("index out of bounds: the len is 3 but the index is 3"), "{message}");
    assert!(place.source.contains("schedules.rs"), "{}", place.source);

    let nothing: Option<u32> = std::hint::black_box(None);
    let fault = fault_of(1, || discard(nothing.unwrap()));
    assert!(matches!(&fault, Fault::Panic { message, .. } if message.contains("`None`")), "{fault}");
    assert!(start.elapsed() < Duration::from_secs(1));
    go(&Launch::new(4, 64), &Options::default(), sync_threads).unwrap();
}

#[test]
fn the_fault_of_the_lowest_block_is_reported() {
    for _ in 0..20 {
        let fault = go(&Launch::new(64, 32), &Options::default(), || {
            assert!(thread::block_idx_x() < 5, "block {}", thread::block_idx_x());
        });
        let Err(Fault::Panic { place, message }) = fault else { panic!("{fault:?}") };
        assert_eq!((place.block, message.as_str()), ([5, 0, 0], "block 5"));
    }
}

#[test]
fn values_on_the_stacks_of_stopped_threads_are_dropped() {
    let alive = std::sync::Arc::new(());
    let fault = fault_of(64, || {
        let _held = alive.clone();
        if thread::thread_idx_x() == 40 {
            panic!("on purpose");
        }
        sync_threads();
    });
    assert!(matches!(fault, Fault::Panic { .. }), "{fault}");
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}

#[test]
fn a_launch_inside_a_kernel_is_refused() {
    let fault = fault_of(1, || discard(go(&Launch::new(1, 1), &Options::default(), || {})));
    assert!(matches!(&fault, Fault::Panic { message, .. } if message.contains("kernel")), "{fault}");
}

#[test]
#[should_panic(expected = "outside a kernel launch")]
fn primitives_outside_a_kernel_panic() {
    sync_threads();
}

#[test]
fn twenty_runs_give_the_same_bits() {
    let run = |seed| {
        let out = Array::<f32>::poisoned(128);
        go(&Launch::new(2, 64), &seeded(seed), || {
            let t = thread::thread_idx_x();
            let v = warp::sum_xor(1.0 / (1 + t) as f32);
            out.store((thread::block_idx_x() * 64 + t) as usize, v);
        })
        .unwrap();
        out.values().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let first = run(0);
    assert!((0..20).all(|seed| run(seed) == first));
}
