//! Atomic operations, and messages that depend on their ordering.

use super::{BOUNDS, ProbeParams, thread_in_grid};
use cuda_std::{
    atomic, barrier, global, kernel, shared, shared_array,
    thread::{self, sync_threads},
};

/// Words that all threads work on: one each for add, f32 add, max, min, or, and, a compare-and-swap loop that adds 1, an
/// exchange; then the same again with acquire and release.
pub const ATOMIC_WORDS: usize = 16;

/// Does every operation with `v` on the words at `w`; returns what both additions gave back.
///
/// # Safety
/// `w` points to [`ATOMIC_WORDS`] words of global or shared memory that only atomics touch meanwhile.
#[inline(always)]
unsafe fn every_operation(w: *mut u32, v: u32) -> [u32; 2] {
    // SAFETY: sixteen words, by contract.
    unsafe {
        let relaxed = atomic::add_u32(w, v);
        atomic::add_f32(w.add(1).cast(), v as f32);
        atomic::max_u32(w.add(2), v);
        atomic::min_u32(w.add(3), v);
        atomic::or_u32(w.add(4), 1 << (v % 32));
        atomic::and_u32(w.add(5), !(1 << (v % 32)));
        let mut seen = 0;
        loop {
            let found = atomic::cas_u32(w.add(6), seen, seen + 1);
            if found == seen {
                break;
            }
            seen = found;
        }
        atomic::exch_u32(w.add(7), v);
        let ordered = atomic::add_u32_acq_rel(w.add(8), v);
        atomic::add_f32_acq_rel(w.add(9).cast(), v as f32);
        atomic::max_u32_acq_rel(w.add(10), v);
        atomic::min_u32_acq_rel(w.add(11), v);
        atomic::or_u32_acq_rel(w.add(12), 1 << (v % 32));
        atomic::and_u32_acq_rel(w.add(13), !(1 << (v % 32)));
        let mut seen = 0;
        loop {
            let found = atomic::cas_u32_acq_rel(w.add(14), seen, seen + 1);
            if found == seen {
                break;
            }
            seen = found;
        }
        atomic::exch_u32_acq_rel(w.add(15), v);
        [relaxed, ordered]
    }
}

/// Every operation on words of global memory.
///
/// # Safety
/// `input` holds a word a thread; `output` holds the [`ATOMIC_WORDS`], with their start values, then `[threads][2]` for
/// what the additions give back.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_atomic_global(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: by contract; rows behind the words belong to one thread each.
    unsafe {
        let [relaxed, ordered] = every_operation(p.output, global::load(p.input.add(i)));
        let back = p.output.add(ATOMIC_WORDS + 2 * i);
        global::store(back, relaxed);
        global::store(back.add(1), ordered);
    }
}

/// Every operation on words of shared memory.
///
/// # Safety
/// One block; `input` and `output` as [`probe_atomic_global`].
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_atomic_shared(p: ProbeParams) {
    let words = shared_array![u32; ATOMIC_WORDS];
    let t = thread::thread_idx_x() as usize;
    // SAFETY: by contract; the words are set before the first barrier and read after the second, atomics between.
    unsafe {
        if t < ATOMIC_WORDS {
            shared::store(words.add(t), global::load(p.output.add(t)));
        }
        sync_threads();
        let [relaxed, ordered] = every_operation(words, global::load(p.input.add(t)));
        sync_threads();
        if t < ATOMIC_WORDS {
            global::store(p.output.add(t), shared::load(words.add(t)));
        }
        let back = p.output.add(ATOMIC_WORDS + 2 * t);
        global::store(back, relaxed);
        global::store(back.add(1), ordered);
    }
}

/// Launch parameters of the message probes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MessageParams {
    /// u32 `[threads of the grid]`
    pub input: *const u32,
    /// u32 `[threads of the grid]`, what the blocks tell each other.
    pub messages: *mut u32,
    /// One word, 0 before the launch.
    pub flag: *mut u32,
    /// u32 `[threads of a block]`
    pub output: *mut u32,
}

const _: () = assert!(size_of::<MessageParams>() == 32);

/// Each block writes twice its input and takes a ticket; the block with the last ticket adds up what all blocks wrote:
/// thread t the words of all threads t. Right only when the ticket's addition releases and acquires.
///
/// # Safety
/// Sizes as the parameters say.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_message_ticket(p: MessageParams) {
    let ticket = shared_array![u32; 1];
    let (t, i) = (thread::thread_idx_x(), thread_in_grid());
    // SAFETY: each message word has one writer, and is read only by the last block, which the ticket orders after all
    // writers; the ticket is written before the second barrier and read after it.
    unsafe {
        global::store(p.messages.add(i), global::load(p.input.add(i)).wrapping_mul(2));
        sync_threads();
        if t == 0 {
            shared::store(ticket, atomic::add_u32_acq_rel(p.flag, 1));
        }
        sync_threads();
        if shared::load(ticket) == thread::grid_dim_x() - 1 {
            let mut sum = 0u32;
            for block in 0..thread::grid_dim_x() {
                sum = sum.wrapping_add(global::load(p.messages.add((block * thread::block_dim_x() + t) as usize)));
            }
            global::store(p.output.add(t as usize), sum);
        }
    }
}

/// Block 0 writes three times its input and raises the flag; block 1 waits for the flag and reads what block 0 wrote.
///
/// # Safety
/// Two blocks that fit on the device together; sizes as the parameters say.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_message_flag(p: MessageParams) {
    let t = thread::thread_idx_x() as usize;
    // SAFETY: the messages are written before the release, read after the acquire that saw it.
    unsafe {
        if thread::block_idx_x() == 0 {
            global::store(p.messages.add(t), global::load(p.input.add(t)).wrapping_mul(3));
            barrier::fence_device();
            sync_threads();
            if t == 0 {
                atomic::store_release_u32(p.flag, 1);
            }
        } else {
            if t == 0 {
                while atomic::load_acquire_u32(p.flag) == 0 {}
            }
            sync_threads();
            barrier::fence_block();
            global::store(p.output.add(t), global::load(p.messages.add(t)));
        }
    }
}
