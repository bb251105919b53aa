//! Asynchronous copies.

use super::{ProbeParams, put, row, thread_in_grid};
use cuda_std::{
    copy, global, kernel,
    launch::Bounds,
    shared, shared_array,
    thread::{self, sync_threads},
};

/// Bounds of both probes.
pub const COPY: Bounds = Bounds { threads: 128, min_blocks: 1 };

/// Tiles of 512 words that [`probe_copy_pipeline`] takes.
pub const PIPELINE_TILES: usize = 7;
/// Words of a tile: 4 a thread.
pub const TILE_WORDS: usize = 512;
const STAGES: usize = 3;

/// Copies tiles through three stages of shared memory, two copies ahead of their use, and writes each thread's four words
/// to the place of thread 127 - t of the same tile.
///
/// # Safety
/// One block of 128 threads; `input` and `output` hold `[PIPELINE_TILES][TILE_WORDS]`, 16-byte aligned.
#[kernel(sm = 80)]
#[launch_bounds(COPY)]
pub unsafe fn probe_copy_pipeline(p: ProbeParams) {
    let stages = shared_array![u32; STAGES * TILE_WORDS];
    let t = thread::thread_idx_x() as usize;
    let fetch = |tile: usize| {
        if tile < PIPELINE_TILES {
            // SAFETY: 4 t + 3 < TILE_WORDS, multiples of 16 bytes. The stage was last read before the barrier that every
            // thread has passed since.
            unsafe {
                let to = stages.add(tile % STAGES * TILE_WORDS + 4 * t);
                copy::cp_async16(to, p.input.add(tile * TILE_WORDS + 4 * t));
            }
        }
        copy::cp_async_commit(); // an empty group at the end keeps the count
    };
    fetch(0);
    fetch(1);
    for tile in 0..PIPELINE_TILES {
        copy::cp_async_wait_group::<1>();
        sync_threads(); // everyone's part of this tile has landed, and everyone has read the tile before
        fetch(tile + 2);
        // SAFETY: same ranges; the tile landed before the barrier.
        unsafe {
            let v = shared::load4(stages.add(tile % STAGES * TILE_WORDS + 4 * (127 - t)));
            global::store4(p.output.add(tile * TILE_WORDS + 4 * t), v);
        }
    }
    copy::cp_async_wait_all();
}

/// Words that [`probe_copy_tail`] reads for each thread, and those it writes.
pub const TAIL_INPUT: usize = 8;
/// See [`TAIL_INPUT`].
pub const TAIL_OUTPUT: usize = 5;

/// Copies the first 0 to 16 bytes of the thread's words 0 to 3 and zeros beyond (the count is word 5), and word 4 alone
/// by a 4-byte copy; writes the five words that arrived.
///
/// # Safety
/// One block of 128 threads; `input` holds `[128][TAIL_INPUT]`, 16-byte aligned, `output` `[128][TAIL_OUTPUT]`.
#[kernel(sm = 80)]
#[launch_bounds(COPY)]
pub unsafe fn probe_copy_tail(p: ProbeParams) {
    let wide = shared_array![u32; 512];
    let single = shared_array![u32; 128];
    let t = thread::thread_idx_x() as usize;
    // SAFETY: t < 128; each thread reads back only what it copied itself, after its own wait.
    unsafe {
        let [_, _, _, _, _, bytes, _, _] = row::<TAIL_INPUT>(p, t);
        let from = p.input.add(t * TAIL_INPUT);
        copy::cp_async16_zfill(wide.add(4 * t), from, bytes);
        copy::cp_async4(single.add(t), from.add(4));
        copy::cp_async_wait_all();
        let [a, b, c, d] = shared::load4(wide.add(4 * t));
        put(p, thread_in_grid(), [a, b, c, d, shared::load(single.add(t))]);
    }
}
