//! What the emulator costs: `cargo run -p cuda_std --example speed`.
//!
//! CPU time is the process's, from /proc, to 10 ms; on a machine that others use it is the figure to compare.
#![allow(clippy::needless_range_loop, missing_docs)]

use std::time::Instant;

use cuda_std::emulator::{self, Launch, Options, memory};
use cuda_std::launch::{Bounds, Kernel};
use cuda_std::{barrier, float, global, kernel, mma, shared, shared_array, thread, warp, wgmma};

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

/// # Safety
/// Test kernel.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
unsafe fn products(p: Params) {
    let mut c = [0.0; 4];
    for _ in 0..p.rounds {
        c = mma::mma_m16n8k16_f16([0x3c00_3c00; 4], [0x3c00_3c00; 2], c);
    }
    if c[0] < 0.0 {
        thread::sync_threads();
    }
}

/// Bytes of B, 64 x 64.
const TILE: u32 = 8192;

/// # Safety
/// Test kernel.
#[kernel(sm = 90)]
#[launch_bounds(BOUNDS)]
unsafe fn group_products(p: Params) {
    let tile = shared::dynamic_shared::<f32>();
    let mut acc = [0.0; 32];
    // SAFETY: the dynamic area is `TILE` bytes; each thread writes its own 16 bytes of each 2048.
    unsafe {
        for i in 0..TILE as usize / 2048 {
            shared::store4(tile.add(512 * i + 4 * thread::thread_idx_x() as usize), [0.0; 4]);
        }
        barrier::fence_async_shared();
        thread::sync_threads();
        let b = wgmma::Descriptor::k_major::<128>(tile, 1024);
        for _ in 0..p.rounds {
            wgmma::fence();
            wgmma::mma_m64n64k16_f16::<false>(&mut acc, [0x3c00_3c00; 4], b, true);
            wgmma::commit();
            wgmma::wait::<0>();
        }
    }
    if acc[0] < 0.0 {
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

/// CPU seconds that the process has used, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: f64 = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

struct Case {
    name: &'static str,
    kernel: &'static Kernel<Params>,
    blocks: u32,
    rounds: u32,
    /// Steps of interest in a round of a thread, and what they are.
    units: u32,
    unit: &'static str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const CASES: [Case; 5] = [
        Case { name: "products", kernel: &PRODUCTS, blocks: 1, rounds: 50_000, units: 1, unit: "mma m16n8k16" },
        Case {
            name: "group products",
            kernel: &GROUP_PRODUCTS,
            blocks: 1,
            rounds: 20_000,
            units: 1,
            unit: "wgmma m64n64k16",
        },
        Case { name: "barriers", kernel: &BARRIERS, blocks: 1, rounds: 100_000, units: 1, unit: "barrier" },
        Case { name: "shuffles", kernel: &SHUFFLES, blocks: 1, rounds: 100_000, units: 1, unit: "shuffle" },
        Case {
            name: "recurrence",
            kernel: &RECURRENCE,
            blocks: 192,
            rounds: 257,
            units: 96,
            unit: "fma or mul with its shared load",
        },
    ];
    let mut out = memory::alloc(192 * 128 * 4)?;
    for Case { name, kernel, blocks, rounds, units, unit } in &CASES {
        for (seed, races) in [(0, false), (1, false), (0, true)] {
            let rounds = if races { rounds / 10 } else { *rounds };
            let options = Options { seed, races, ..Options::default() };
            let params = Params { out: out.as_mut_ptr(), rounds };
            let launch = Launch { dynamic_shared: TILE, ..Launch::new(*blocks, 128) };
            let (start, cpu) = (Instant::now(), cpu_seconds());
            // SAFETY: the allocation holds 192 blocks' results.
            let stats = unsafe { emulator::run(kernel, &launch, params, &options) }?;
            let wall = start.elapsed().as_secs_f64();
            let cpu = cpu.zip(cpu_seconds()).map_or(wall, |(before, after)| after - before);
            let each = cpu * 1e9 / (f64::from(*units) * f64::from(rounds) * f64::from(blocks * 128));
            println!(
                "{name}, {blocks} blocks x 128 threads x {rounds} rounds, seed {seed}, races {races}: {wall:.3} s wall, {cpu:.2} s CPU, {each:.2} ns CPU a thread and {unit}, {} resumes",
                stats.resumes
            );
        }
    }
    Ok(())
}
