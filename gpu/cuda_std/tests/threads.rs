//! Indices, parameters, handles, launch limits.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, each_seed, go};
use cuda_std::emulator::{self, Fault, Launch, Limits, Options};
use cuda_std::launch::Bounds;
use cuda_std::{global, kernel, shared, shared_array, thread};

#[test]
fn every_thread_of_a_grid_has_its_own_indices() {
    let launch = Launch { grid: [3, 2, 2], block: [5, 3, 2], dynamic_shared: 0 };
    let seen = Array::<u32>::poisoned(12 * 30 * 6);
    let extents = Array::<u32>::poisoned(6);
    go(&launch, &Options::default(), || {
        let thread = [thread::thread_idx_x(), thread::thread_idx_y(), thread::thread_idx_z()];
        let block = [thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z()];
        let t = thread[0] + 5 * (thread[1] + 3 * thread[2]);
        let b = block[0] + 3 * (block[1] + 2 * block[2]);
        for (i, v) in thread.into_iter().chain(block).enumerate() {
            seen.store((b * 30 + t) as usize * 6 + i, v);
        }
        if b + t == 0 {
            let dims = [thread::block_dim_x(), thread::block_dim_y(), thread::block_dim_z()];
            let grid = [thread::grid_dim_x(), thread::grid_dim_y(), thread::grid_dim_z()];
            for (i, v) in dims.into_iter().chain(grid).enumerate() {
                extents.store(i, v);
            }
        }
    })
    .unwrap();
    assert_eq!(extents.values(), [5, 3, 2, 3, 2, 2]);
    let mut wanted = Vec::new();
    for b in 0..12 {
        for t in 0..30 {
            wanted.extend([t % 5, t / 5 % 3, t / 15, b % 3, b / 3 % 2, b / 6]);
        }
    }
    assert_eq!(seen.values(), wanted);
}

/// Alignment 16, and a gap before each field but the first.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Mixed {
    first: u32,
    second: u64,
    out: *mut u64,
    four: Four,
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Four([u32; 4]);

const MIXED_BOUNDS: Bounds = Bounds { threads: 64, min_blocks: 2 };

/// Returns each field.
///
/// # Safety
/// `out` holds 6 values.
#[kernel(sm = 80)]
#[launch_bounds(MIXED_BOUNDS)]
pub unsafe fn give_fields(p: Mixed) {
    if thread::thread_idx_x() == 0 {
        let fields = [u64::from(p.first), p.second].into_iter().chain(p.four.0.map(u64::from));
        for (i, v) in fields.enumerate() {
            // SAFETY: i < 6.
            unsafe { global::store(p.out.add(i), v) };
        }
    }
}

#[test]
fn a_struct_of_alignment_16_arrives_field_by_field() {
    let out = Array::<u64>::poisoned(6);
    let params = Mixed { first: 1, second: 1 << 40 | 2, out: out.at(0), four: Four([3, 4, 5, 6]) };
    // SAFETY: as the kernel asks.
    unsafe { emulator::run(&GIVE_FIELDS, &Launch::new(1, 64), params, &Options::default()) }.unwrap();
    assert_eq!(out.values(), [1, 1 << 40 | 2, 3, 4, 5, 6]);
}

#[test]
fn the_handle_tells_what_the_source_says() {
    let info = GIVE_FIELDS.info();
    assert_eq!(info.symbol, "give_fields");
    assert_eq!(info.bounds, Bounds { threads: 64, min_blocks: 2 });
    assert_eq!((info.sm, info.params, info.params_bytes), (80, "Mixed", size_of::<Mixed>()));
    assert!(info.file.ends_with("threads.rs") && info.line > 50, "{info:?}");
}

/// What is refused, as (quantity, value, limit).
fn refused(launch: Launch) -> (&'static str, u64, u64) {
    match go(&launch, &Options::default(), || {}) {
        Err(Fault::LaunchLimit { kernel, what, value, limit }) => {
            assert_eq!(kernel, "test_kernel");
            (what, value, limit)
        }
        other => panic!("{launch:?} gave {other:?}"),
    }
}

#[test]
fn launches_beyond_the_hardware_are_refused_by_name() {
    let base = Launch::new(1, 32);
    assert_eq!(refused(Launch { grid: [1 << 31, 1, 1], ..base }), ("grid x", 1 << 31, (1 << 31) - 1));
    assert_eq!(refused(Launch { grid: [1, 65_536, 1], ..base }), ("grid y", 65_536, 65_535));
    assert_eq!(refused(Launch { grid: [1, 1, 65_536], ..base }), ("grid z", 65_536, 65_535));
    assert_eq!(refused(Launch { grid: [1, 0, 1], ..base }), ("grid y", 0, 1));
    assert_eq!(refused(Launch { block: [1025, 1, 1], ..base }), ("block x", 1025, 1024));
    assert_eq!(refused(Launch { block: [1, 1, 65], ..base }), ("block z", 65, 64));
    assert_eq!(refused(Launch { block: [32, 33, 1], ..base }), ("threads of a block", 1056, 1024));
    assert_eq!(refused(Launch { block: [1024, 1024, 64], ..base }), ("threads of a block", 1 << 26, 1024));
    let shared = ("dynamic shared memory in bytes", 300 * 1024, 232_448);
    assert_eq!(refused(Launch { dynamic_shared: 300 * 1024, ..base }), shared);
}

#[test]
fn a_block_larger_than_the_kernels_bounds_is_refused() {
    let out = Array::<u64>::poisoned(6);
    let params = Mixed { first: 0, second: 0, out: out.at(0), four: Four([0; 4]) };
    // SAFETY: nothing runs.
    let outcome = unsafe { emulator::run(&GIVE_FIELDS, &Launch::new(1, 96), params, &Options::default()) };
    let Err(Fault::LaunchLimit { kernel, what, value: 96, limit: 64 }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((kernel.as_str(), what), ("give_fields", "threads of a block (the kernel's bounds)"));
}

#[test]
fn static_shared_memory_is_limited_by_itself_and_together_with_dynamic() {
    let launch = Launch::new(1, 32);
    let too_much = go(&launch, &Options::default(), || {
        let _ = shared_array![u8; 40_000];
        let _ = shared_array![f32; 3_000];
    });
    let Err(Fault::LaunchLimit { what, value: 52_000, limit: 49_152, .. }) = too_much else { panic!("{too_much:?}") };
    assert_eq!(what, "static shared memory in bytes");

    let limits = Limits { shared_optin_bytes: 101_376, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let body = || {
        let _ = shared_array![u32; 1024];
    };
    go(&Launch { dynamic_shared: 101_376 - 4096, ..launch }, &options, body).unwrap();
    let too_much = go(&Launch { dynamic_shared: 101_376 - 4080, ..launch }, &options, body);
    let Err(Fault::LaunchLimit { value: 101_392, limit: 101_376, .. }) = too_much else { panic!("{too_much:?}") };
}

#[test]
fn stats_count_blocks_threads_and_static_shared_memory() {
    let stats = go(&Launch::new(7, 96), &Options::default(), || {
        let a = shared_array![u8; 20];
        // SAFETY: every thread writes the same value.
        unsafe { shared::store(a, 1) };
        thread::sync_threads();
    })
    .unwrap();
    assert_eq!((stats.blocks, stats.threads, stats.static_shared), (7, 7 * 96, 32));
    assert!(stats.resumes >= 7 * 96);
}

#[test]
fn each_block_runs_once_whatever_the_schedule() {
    let runs = Array::<u32>::from(&[0; 1000]);
    each_seed(1000, 1, || {
        let b = thread::block_idx_x() as usize;
        runs.store(b, runs.load(b) + 1);
    });
    assert!(runs.values().iter().all(|&n| n == common::SEEDS.len() as u32));
}
