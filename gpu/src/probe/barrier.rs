//! Barriers where the compiler likes to move them, and named barriers.

use super::{BOUNDS, ProbeParams, thread_in_grid};
use cuda_std::{
    barrier, global, kernel,
    launch::Bounds,
    shared, shared_array,
    thread::{self, sync_threads},
    warp,
};

/// Not inlined, so that the two calls below stay calls and the branches around them worth merging.
#[inline(never)]
unsafe fn lead_step(p: *mut u32, k: u32) {
    // SAFETY: the caller's word, which only the calling thread touches between two barriers.
    unsafe { shared::store(p, shared::load(p).wrapping_mul(3).wrapping_add(k)) }
}

/// A barrier between two steps of one thread: jump threading would copy it into both arms of the branch, and a block
/// would wait at two different barriers. With x the block's input word each thread gets `(3 (3 x + 7) + 9) + t`.
///
/// # Safety
/// `input` holds a word a block, `output` a word a thread.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_barrier_branch(p: ProbeParams) {
    let word = shared_array![u32; 1];
    let t = thread::thread_idx_x();
    let lead = t == 0;
    // SAFETY: only the lead touches the word before the second barrier, and nobody writes it after that.
    unsafe {
        if lead {
            shared::store(word, global::load(p.input.add(thread::block_idx_x() as usize)));
            lead_step(word, 7);
        }
        sync_threads();
        if lead {
            lead_step(word, 9);
        }
        sync_threads();
        global::store(p.output.add(thread_in_grid()), shared::load(word).wrapping_add(t));
    }
}

/// A full-warp shuffle whose result half of the warp uses: the shuffle must stay before the branch. Lanes 0 to 15 write
/// the value of lane `lane ^ 16`; the other words of the output stay.
///
/// # Safety
/// `input` and `output` hold a word a thread; whole warps.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_shuffle_half(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: a word for each thread.
    let v = unsafe { global::load(p.input.add(i)) };
    let other = warp::shfl_xor(v, 16);
    if warp::lane_id() < 16 {
        // SAFETY: a word for each thread.
        unsafe { global::store(p.output.add(i), other) };
    }
}

/// Two warps make, two warps use.
pub const NAMED: Bounds = Bounds { threads: 128, min_blocks: 1 };

/// Words that a block of [`probe_barrier_named`] passes on.
pub const NAMED_WORDS: usize = 64 * ROUNDS;
const ROUNDS: usize = 4;
/// "The tile is full" and "the tile is empty"; 0 is `sync_threads`.
const FULL: u32 = 1;
const EMPTY: u32 = 2;

/// Threads 0 to 63 put four tiles of 64 words into one shared tile, one after the other; threads 64 to 127 take each out
/// in reverse. The makers only arrive at `FULL`, the users only arrive at `EMPTY`.
///
/// # Safety
/// Blocks of 128 threads; `input` and `output` hold `[blocks][NAMED_WORDS]`.
#[kernel]
#[launch_bounds(NAMED)]
pub unsafe fn probe_barrier_named(p: ProbeParams) {
    let tile = shared_array![u32; 64];
    let t = thread::thread_idx_x() as usize;
    let base = thread::block_idx_x() as usize * NAMED_WORDS;
    // SAFETY: t % 64 < 64 and round < ROUNDS bound the offsets. The tile's words are written between EMPTY and FULL, read
    // between FULL and EMPTY. Both barriers count 128 threads: 64 that arrive and 64 that wait; in the last round nobody
    // arrives at or waits for EMPTY.
    unsafe {
        if t < 64 {
            for round in 0..ROUNDS {
                if round > 0 {
                    barrier::sync_named(EMPTY, NAMED.threads);
                }
                shared::store(tile.add(t), global::load(p.input.add(base + 64 * round + t)));
                barrier::arrive_named(FULL, NAMED.threads);
            }
        } else {
            for round in 0..ROUNDS {
                barrier::sync_named(FULL, NAMED.threads);
                let v = shared::load(tile.add(127 - t));
                global::store(p.output.add(base + 64 * round + t - 64), v);
                if round + 1 < ROUNDS {
                    barrier::arrive_named(EMPTY, NAMED.threads);
                }
            }
        }
    }
}
