//! Prints what the emulator costs: `cargo test -p cuda_std --test speed -- --nocapture`.
#![allow(clippy::unwrap_used, clippy::needless_range_loop, missing_docs)]

use std::time::Instant;

use cuda_std::emulator::{self, Launch, Options, memory};
use cuda_std::launch::Bounds;
use cuda_std::{float, global, kernel, shared, shared_array, thread, warp};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Params {
    out: *mut f32, // f32 [blocks][128]
    rounds: u32,
}

const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 1 };

/// # Safety
/// Test kernel.
#[kernel]
#[launch_bounds(BOUNDS)]
unsafe fn barriers(p: Params) {
    for _ in 0..p.rounds {
        thread::sync_threads();
    }
}

/// # Safety
/// Test kernel.
#[kernel]
#[launch_bounds(BOUNDS)]
unsafe fn shuffles(p: Params) {
    let mut v = warp::lane_id();
    for _ in 0..p.rounds {
        v = v.wrapping_add(warp::shfl_xor(v, 1));
    }
    if v == 1 {
        thread::sync_threads();
    }
}

/// The recurrence's shape: 128 threads, 5 barriers a token, 32 state values in registers, rows in shared memory.
///
/// # Safety
/// Test kernel.
#[kernel]
#[launch_bounds(BOUNDS)]
unsafe fn recurrence(p: Params) {
    let t = thread::thread_idx_x() as usize;
    let rows = shared_array![f32; 256];
    let partials = shared_array![f32; 128];
    let mut state = [0.0f32; 32];
    // SAFETY: indices are below 128 (BOUNDS), 256 or the allocation's length; barriers order all accesses.
    unsafe {
        let out = p.out.add(128 * thread::block_idx_x() as usize + t);
        for token in 0..p.rounds {
            thread::sync_threads();
            shared::store(rows.add(t), (token as f32).mul_add(0.01, t as f32));
            shared::store(rows.add(128 + t), 0.5);
            thread::sync_threads();
            let mut acc = 0.0;
            for r in 0..32 {
                acc = float::fma(state[r], shared::load(rows.add(t / 32 * 32 + r)), acc);
            }
            shared::store(partials.add(t), acc);
            thread::sync_threads();
            let mut m = 0.0;
            for g in 0..4 {
                m += shared::load(partials.add(32 * g + t % 32));
            }
            thread::sync_threads();
            let mut o = 0.0;
            for r in 0..32 {
                let k = shared::load(rows.add(t / 32 * 32 + r));
                state[r] = float::fma(0.9, state[r], k * (0.001 - m * 1e-6));
                o = float::fma(state[r], shared::load(rows.add(128 + t / 32 * 32 + r)), o);
            }
            shared::store(partials.add(t), o);
            thread::sync_threads();
            global::store(out, shared::load(partials.add((t + 1) % 128)));
        }
    }
}

#[test]
fn speed() {
    let mut out = memory::alloc(192 * 128 * 4).unwrap();
    let mut time = |name: &str, kernel: &cuda_std::launch::Kernel<Params>, blocks: u32, rounds: u32, unit: f64| {
        let params = Params { out: out.as_mut_ptr(), rounds };
        for seed in [0, 1] {
            let start = Instant::now();
            let options = Options { seed, ..Options::default() };
            // SAFETY: the allocation holds 192 blocks' results.
            let stats = unsafe { emulator::run(kernel, &Launch::new(blocks, 128), params, &options) }.unwrap();
            let s = start.elapsed().as_secs_f64();
            println!(
                "{name} seed {seed}: {s:.3} s, {:.2} ns a unit and thread, {stats:?}",
                s * 1e9 / unit / f64::from(rounds * blocks) / 128.0
            );
        }
    };
    time("barriers, one block", &BARRIERS, 1, 20_000, 1.0);
    time("shuffles, one block", &SHUFFLES, 1, 20_000, 1.0);
    time("recurrence 192 blocks, 257 tokens (unit: shared load)", &RECURRENCE, 192, 257, 101.0);
}
