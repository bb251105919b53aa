//! Asynchronous copies: groups, zero fill, and missing waits.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, each_seed, fault_of, words};
use cuda_std::copy::{
    cp_async_commit, cp_async_wait_all, cp_async_wait_group, cp_async4, cp_async16, cp_async16_zfill,
};
use cuda_std::emulator::{Access, Fault, Space};
use cuda_std::{shared, shared_array, thread};

#[test]
fn double_buffered_groups_deliver_every_block_of_tokens() {
    const STEPS: usize = 9;
    let data: Vec<u32> = words(1).take(STEPS * 256).collect();
    let (input, out) = (Array::from(&data), Array::<u32>::poisoned(STEPS * 256));
    each_seed(1, 64, || {
        let buffers = shared_array![u32; 512];
        let t = thread::thread_idx_x() as usize;
        let buffer = |step: usize| buffers.wrapping_add(step % 2 * 256);
        // SAFETY: 64 pieces of 16 bytes a step; the buffer refilled was last read before the second barrier of the step
        // before.
        unsafe {
            cp_async16(buffer(0).add(4 * t), input.at(4 * t));
            cp_async_commit();
            for step in 0..STEPS {
                if step + 1 < STEPS {
                    cp_async16(buffer(step + 1).add(4 * t), input.at(256 * (step + 1) + 4 * t));
                }
                cp_async_commit();
                cp_async_wait_group::<1>();
                thread::sync_threads();
                for i in 0..4 {
                    out.store(256 * step + 64 * i + t, shared::load(buffer(step).add(64 * i + t)));
                }
                thread::sync_threads();
            }
        }
    });
    assert_eq!(out.values(), data);
}

#[test]
fn zero_fill_reads_only_the_valid_bytes() {
    // The allocation ends after 3 words: reading more would be out of range.
    let (input, out) = (Array::from(&[11u32, 12, 13]), Array::<u32>::poisoned(16));
    each_seed(1, 4, || {
        let staged = shared_array![u32; 16];
        let t = thread::thread_idx_x() as usize;
        // SAFETY: 16 bytes a thread; valid bytes 0, 4, 8, 12 of the input.
        unsafe {
            cp_async16_zfill(staged.add(4 * t), input.at(0), 4 * t as u32);
            cp_async_wait_all();
            for i in 4 * t..4 * t + 4 {
                out.store(i, shared::load(staged.add(i)));
            }
        }
    });
    assert_eq!(out.values(), [0, 0, 0, 0, 11, 0, 0, 0, 11, 12, 0, 0, 11, 12, 13, 0]);
}

#[test]
fn four_byte_copies_gather_single_words() {
    let (input, out) = (Array::from(&[1u32, 2, 3, 4, 5, 6, 7, 8]), Array::<u32>::poisoned(8));
    each_seed(1, 8, || {
        let staged = shared_array![u32; 8];
        let t = thread::thread_idx_x() as usize;
        // SAFETY: one word a thread; each thread reads what the other one copied, after wait and barrier.
        unsafe {
            cp_async4(staged.add(t), input.at(7 - t));
            cp_async_commit();
            cp_async_wait_group::<0>();
            thread::sync_threads();
            out.store(t, shared::load(staged.add(t ^ 1)));
        }
    });
    assert_eq!(out.values(), [7, 8, 5, 6, 3, 4, 1, 2]);
}

#[test]
fn a_copy_lands_at_its_wait_and_not_before() {
    let input = Array::from(&[1u32; 4]);
    // What the source holds at the wait is what arrives: a kernel that counts on an early landing fails.
    let out = Array::<u32>::poisoned(1);
    each_seed(1, 1, || {
        let staged = shared_array![u32; 4];
        // SAFETY: one thread; the write to the source between issue and wait is what is tested.
        unsafe {
            input.store(0, 1);
            cp_async16(staged, input.at(0));
            input.store(0, 2);
            cp_async_wait_all();
            out.store(0, shared::load(staged));
        }
    });
    assert_eq!(out.values(), [2]);
}

/// The thread and the text of a missing wait.
fn missing_wait(body: impl Fn(*mut u32, &Array<u32>) + Sync) -> ([u32; 3], String) {
    let input = Array::from(&[5u32; 64]);
    let fault = fault_of(2, || body(shared_array![u32; 64], &input));
    let Fault::MissingWait { place, problem } = &fault else { panic!("{fault}") };
    assert!(place.source.contains("copies.rs"), "{}", place.source);
    (place.thread, problem.clone())
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn missing_waits_are_named() {
    let (thread, problem) = missing_wait(|staged, input| unsafe {
        cp_async16(staged.add(4 * thread::thread_idx_x() as usize), input.at(0));
        cp_async_commit();
        let _ = shared::load(staged); // no wait
    });
    assert_eq!(thread, [0; 3]);
    assert!(problem.contains("read of 4 bytes at shared offset") && problem.contains("thread (0, 0, 0)"), "{problem}");

    let (thread, problem) = missing_wait(|staged, input| unsafe {
        if thread::thread_idx_x() == 0 {
            cp_async16(staged.add(8), input.at(0));
        }
        thread::sync_threads(); // a barrier is no wait
        if thread::thread_idx_x() == 1 {
            let _ = shared::load2(staged.add(10));
        }
        thread::sync_threads();
        cp_async_wait_all();
    });
    assert_eq!(thread, [1, 0, 0]);
    assert!(problem.contains("thread (0, 0, 0) has an asynchronous copy"), "{problem}");

    let (_, problem) = missing_wait(|staged, input| unsafe {
        cp_async4(staged, input.at(0));
        shared::store(staged, 1);
    });
    assert!(problem.starts_with("write of"), "{problem}");

    let (_, problem) = missing_wait(|staged, input| unsafe {
        cp_async4(staged, input.at(0));
        cp_async16(staged, input.at(0));
    });
    assert!(problem.starts_with("asynchronous copy of 16 bytes"), "{problem}");

    // The wait covers the older group only.
    let (_, problem) = missing_wait(|staged, input| unsafe {
        if thread::thread_idx_x() == 1 {
            return;
        }
        cp_async4(staged, input.at(0));
        cp_async_commit();
        cp_async4(staged.add(1), input.at(0));
        cp_async_commit();
        cp_async_wait_group::<1>();
        assert_eq!(shared::load(staged), 5);
        let _ = shared::load(staged.add(1));
    });
    assert!(problem.starts_with("read of"), "{problem}");

    // An uncommitted copy belongs to no group that wait_group covers.
    let (_, problem) = missing_wait(|staged, input| unsafe {
        if thread::thread_idx_x() == 0 {
            cp_async4(staged, input.at(0));
            cp_async_wait_group::<0>();
            let _ = shared::load(staged);
        }
    });
    assert!(problem.starts_with("read of"), "{problem}");

    let (thread, problem) = missing_wait(|staged, input| unsafe {
        if thread::thread_idx_x() == 1 {
            cp_async4(staged, input.at(0));
            cp_async4(staged.add(1), input.at(0));
        }
    });
    assert_eq!(thread, [1, 0, 0]);
    assert!(problem.contains("exits with 2 asynchronous copies under way"), "{problem}");
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn ranges_and_alignment_of_copies_are_checked_at_the_issue() {
    let input = Array::from(&[5u32; 8]);
    let staged = || shared_array![u32; 8];
    let fault = fault_of(1, || unsafe { cp_async16(staged(), input.at(8)) });
    assert!(
        matches!(fault, Fault::OutOfRange { space: Space::Global, access: Access::Copy, bytes: 16, .. }),
        "{fault}"
    );
    let fault = fault_of(1, || unsafe { cp_async16(staged(), input.at(2)) });
    assert!(matches!(fault, Fault::Misaligned { space: Space::Global, bytes: 16, .. }), "{fault}");
    let fault = fault_of(1, || unsafe { cp_async16(staged().add(1), input.at(0)) });
    assert!(matches!(fault, Fault::Misaligned { space: Space::Shared, bytes: 16, .. }), "{fault}");
    let fault = fault_of(1, || unsafe { cp_async4(staged().add(8), input.at(0)) });
    assert!(matches!(fault, Fault::OutOfRange { space: Space::Shared, .. }), "{fault}");
    let fault = fault_of(1, || unsafe { cp_async16_zfill(staged(), input.at(4), 20) });
    assert!(matches!(fault, Fault::BadOperand { .. }), "{fault}");
}
