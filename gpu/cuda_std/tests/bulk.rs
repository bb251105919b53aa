//! Bulk copies: phases of a landing counter, order between issuer, readers and the next copy, breaches.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, SEEDS, fault_of, go, seeded, words};
use cuda_std::bulk::{self, Landing};
use cuda_std::emulator::{Access, Fault, Launch, Options, Space};
use cuda_std::{shared, shared_array, thread, warp};

/// A ring of two tiles of 64 words, each with its counter.
fn ring() -> (*mut u32, *mut Landing) {
    (shared_array![u32; 128], shared_array![Landing; 2])
}

/// Two warps read tile after tile that thread 0 copies; without `in_order` it does not wait for the readers.
fn pipeline(input: &Array<u32>, out: &Array<u32>, steps: usize, in_order: bool) {
    let ((tiles, landings), t) = (ring(), thread::thread_idx_x() as usize);
    let start = |step: usize| {
        if t == 0 && step < steps {
            let at = step % 2;
            // SAFETY: 256 bytes, the tile's readers are behind a barrier.
            unsafe { bulk::copy(tiles.wrapping_add(64 * at), input.at(64 * step), 256, landings.wrapping_add(at)) };
        }
    };
    if t == 0 {
        // SAFETY: before the barrier nobody looks.
        unsafe {
            bulk::init(landings);
            bulk::init(landings.add(1));
        }
    }
    start(0);
    start(1);
    thread::sync_threads();
    for step in 0..steps {
        let at = step % 2;
        // SAFETY: phase step / 2 of the tile; each thread reads one word and owns one of `out`.
        unsafe {
            bulk::wait(landings.add(at), (step / 2 % 2) as u32);
            out.store(64 * step + t, shared::load(tiles.add(64 * at + (t ^ 33))));
        }
        if in_order {
            thread::sync_threads();
        }
        start(step + 2);
    }
}

#[test]
fn tiles_arrive_in_order_under_every_schedule() {
    const STEPS: usize = 7;
    let data: Vec<u32> = words(3).take(64 * STEPS).collect();
    let (input, out) = (Array::from(&data), Array::<u32>::poisoned(64 * STEPS));
    for seed in SEEDS {
        for races in [false, true] {
            let options = Options { races, ..seeded(seed) };
            go(&Launch::new(1, 64), &options, || pipeline(&input, &out, STEPS, true)).unwrap();
        }
        let want: Vec<u32> = (0..64 * STEPS).map(|i| data[i ^ 33]).collect();
        assert_eq!(out.values(), want);
    }
}

#[test]
fn a_copy_over_a_tile_that_others_still_read_is_a_race() {
    let (input, out) = (Array::from(&vec![1u32; 64 * 8]), Array::<u32>::poisoned(64 * 8));
    let raced = SEEDS.into_iter().any(|seed| {
        let options = Options { races: true, ..seeded(seed) };
        let ended = go(&Launch::new(1, 64), &options, || pipeline(&input, &out, 8, false));
        matches!(ended, Err(Fault::Race { .. }))
    });
    assert!(raced, "no schedule showed it");
}

#[test]
fn a_reader_that_did_not_wait_itself_races_with_the_copy() {
    let input = Array::from(&[7u32; 64]);
    let options = Options { races: true, ..Options::default() };
    let ended = go(&Launch::new(1, 2), &options, || {
        let (tiles, landings) = ring();
        // SAFETY: thread 1 reads without a wait or a barrier, which is what is tested.
        unsafe {
            if thread::thread_idx_x() == 0 {
                bulk::init(landings);
                bulk::copy(tiles, input.at(0), 16, landings);
                bulk::wait(landings, 0);
            } else {
                let _ = shared::load(tiles);
            }
        }
    });
    let fault = ended.expect_err("no order between the copy and the read");
    assert!(matches!(fault, Fault::Race { other_access: Access::Copy, .. }), "{fault}");
}

#[test]
fn a_thread_waits_for_a_copy_that_comes_later() {
    let (input, out) = (Array::from(&[5u32; 4]), Array::<u32>::poisoned(33));
    for seed in SEEDS {
        go(&Launch::new(1, 33), &seeded(seed), || {
            let ((tiles, landings), t) = (ring(), thread::thread_idx_x() as usize);
            // SAFETY: the counter is made before the barrier; the copy is issued behind it, perhaps after others wait.
            unsafe {
                if t == 32 {
                    bulk::init(landings);
                }
                thread::sync_threads();
                if t == 32 {
                    bulk::copy(tiles, input.at(0), 16, landings);
                }
                bulk::wait(landings, 0);
                out.store(t, shared::load(tiles.add(t % 4)));
            }
        })
        .unwrap();
        assert_eq!(out.values(), [5; 33]);
    }
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn breaches_are_named() {
    let input = Array::from(&[5u32; 64]);
    let bad = |body: &(dyn Fn(*mut u32, *mut Landing) + Sync)| {
        let fault = fault_of(1, || {
            let (tiles, landings) = ring();
            body(tiles, landings);
        });
        let Fault::BadOperand { primitive, problem, .. } = &fault else { panic!("{fault}") };
        (*primitive, problem.clone())
    };
    let (primitive, problem) = bad(&|tiles, landings| unsafe { bulk::copy(tiles, input.at(0), 16, landings) });
    assert!(primitive == "bulk::copy" && problem.contains("no landing counter"), "{primitive}: {problem}");
    let (primitive, problem) = bad(&|_, landings| unsafe { bulk::wait(landings, 0) });
    assert!(primitive == "bulk::wait" && problem.contains("no landing counter"), "{primitive}: {problem}");
    let (_, problem) = bad(&|_, landings| unsafe {
        bulk::init(landings);
        bulk::init(landings);
    });
    assert!(problem.contains("is one already"), "{problem}");
    for bytes in [0, 8, 24] {
        let (_, problem) = bad(&|tiles, landings| unsafe {
            bulk::init(landings);
            bulk::copy(tiles, input.at(0), bytes, landings);
        });
        assert!(problem.contains("a multiple of 16 above 0"), "{problem}");
    }
    let (_, problem) = bad(&|tiles, landings| unsafe {
        bulk::init(landings);
        bulk::copy(tiles, input.at(0), 16, landings);
        bulk::copy(tiles.add(4), input.at(4), 16, landings);
    });
    assert!(problem.contains("the phase has a copy already"), "{problem}");

    let missing = |body: &(dyn Fn(*mut u32, *mut Landing) + Sync)| {
        let fault = fault_of(1, || {
            let (tiles, landings) = ring();
            unsafe {
                bulk::init(landings);
                bulk::copy(tiles, input.at(0), 32, landings);
            }
            body(tiles, landings);
        });
        let Fault::MissingWait { problem, .. } = &fault else { panic!("{fault}") };
        problem.clone()
    };
    let problem = missing(&|tiles, _| {
        let _ = unsafe { shared::load(tiles.add(7)) };
    });
    assert!(problem.contains("to which thread (0, 0, 0) has an asynchronous copy under way"), "{problem}");
    assert!(missing(&|_, _| {}).contains("the block ends with a bulk copy under way"));

    let outside = |dst: usize, src: usize, bytes: u32| {
        fault_of(1, || unsafe {
            let (tiles, landings) = ring();
            bulk::init(landings);
            bulk::copy(tiles.add(dst), input.at(src), bytes, landings);
        })
    };
    let fault = outside(0, 56, 48);
    assert!(matches!(fault, Fault::OutOfRange { space: Space::Global, access: Access::Copy, .. }), "{fault}");
    let fault = outside(124, 0, 32);
    assert!(matches!(fault, Fault::OutOfRange { space: Space::Shared, access: Access::Copy, .. }), "{fault}");
    let fault = outside(1, 0, 16);
    assert!(matches!(fault, Fault::Misaligned { space: Space::Shared, .. }), "{fault}");
    let fault = outside(0, 1, 16);
    assert!(matches!(fault, Fault::Misaligned { space: Space::Global, .. }), "{fault}");

    // A wait for a copy that nobody issues.
    let fault = fault_of(1, || unsafe {
        let (_, landings) = ring();
        bulk::init(landings);
        bulk::wait(landings, 0);
    });
    let Fault::Deadlock { threads, .. } = &fault else { panic!("{fault}") };
    assert!(threads[0].doing.contains("waits at bulk::wait"), "{fault}");
}

#[test]
fn lanes_of_a_warp_may_each_have_a_counter() {
    let data: Vec<u32> = words(9).take(128).collect();
    let (input, out) = (Array::from(&data), Array::<u32>::poisoned(128));
    for seed in SEEDS {
        go(&Launch::new(1, 32), &seeded(seed), || {
            let (tiles, landings) = (shared_array![u32; 128], shared_array![Landing; 32]);
            let t = warp::lane_id() as usize;
            // SAFETY: a counter and 16 bytes a lane; read behind the own wait.
            unsafe {
                bulk::init(landings.add(t));
                bulk::copy(tiles.add(4 * t), input.at(4 * t), 16, landings.add(t));
                bulk::wait(landings.add(t), 0);
                for i in 4 * t..4 * t + 4 {
                    out.store(i, shared::load(tiles.add(i)));
                }
            }
        })
        .unwrap();
        assert_eq!(out.values(), data);
    }
}
