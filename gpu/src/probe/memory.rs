//! Global and shared memory: scalar and vector accesses, static and dynamic areas, a parameter struct with gaps.

use super::{BOUNDS, ProbeParams, put, thread_in_grid};
use cuda_std::{
    global, kernel,
    launch::Bounds,
    shared, shared_array,
    thread::{self, sync_threads},
};

/// Words that [`probe_global_scalar`] reads and writes for each thread.
pub const SCALAR_WORDS: usize = 8;

/// Copies 32 bytes as scalars of every width: u8, i8, u16, u32, u64, f32, f64 (offsets 0, 1, 2, 4, 8, 16, 24), the
/// one-, two-, four- and eight-byte ones once more (20 to 23, 20 to 21 for the bytes) through the read-only cache.
///
/// # Safety
/// `input` and `output` hold `[threads][SCALAR_WORDS]`, 8-byte aligned.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_global_scalar(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: every offset is inside the thread's 32 bytes and a multiple of the width; nothing writes the input.
    unsafe {
        let (from, to) = (p.input.add(i * SCALAR_WORDS).cast::<u8>(), p.output.add(i * SCALAR_WORDS).cast::<u8>());
        global::store(to, global::load(from));
        global::store(to.add(1).cast::<i8>(), global::load(from.add(1).cast::<i8>()));
        global::store(to.add(2).cast::<u16>(), global::load(from.add(2).cast::<u16>()));
        global::store(to.add(4).cast::<u32>(), global::load_nc(from.add(4).cast::<u32>()));
        global::store(to.add(8).cast::<u64>(), global::load(from.add(8).cast::<u64>()));
        global::store(to.add(16).cast::<f32>(), global::load(from.add(16).cast::<f32>()));
        global::store(to.add(20).cast::<u8>(), global::load_nc(from.add(20)));
        global::store(to.add(21).cast::<i8>(), global::load_nc(from.add(21).cast::<i8>()));
        global::store(to.add(22).cast::<i16>(), global::load_nc(from.add(22).cast::<i16>()));
        global::store(to.add(24).cast::<f64>(), global::load_nc(from.add(24).cast::<f64>()));
    }
}

/// Words that [`probe_global_vector`] reads and writes for each thread.
pub const VECTOR_WORDS: usize = 12;

/// Copies 12 words as 4 + 2 + 2 + 4 vectors (the last six through the read-only cache), each with its elements reversed.
///
/// # Safety
/// `input` and `output` hold `[threads][VECTOR_WORDS]`, 16-byte aligned.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_global_vector(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: 48 bytes a thread: offsets 0 and 8 words are multiples of 16 bytes, 4 and 6 of 8; nothing writes the input.
    unsafe {
        let (from, to) = (p.input.add(i * VECTOR_WORDS), p.output.add(i * VECTOR_WORDS));
        global::prefetch_l2(from);
        let [a, b, c, d] = global::load4(from);
        global::store4(to, [d, c, b, a]);
        let [a, b] = global::load2(from.add(4).cast::<f32>());
        global::store2(to.add(4).cast::<f32>(), [b, a]);
        let [a, b] = global::load2_nc(from.add(6));
        global::store2(to.add(6), [b, a]);
        let [a, b, c, d] = global::load4_nc(from.add(8).cast::<f32>());
        global::store4(to.add(8).cast::<f32>(), [d, c, b, a]);
    }
}

/// Words that [`probe_global_ordered`] reads and writes for each thread.
pub const ORDERED_WORDS: usize = 8;

/// Copies 8 words by the ordered loads: a u32 xor its top byte with its sign, two u16, two words exchanged, four in reverse; and
/// loads the first one again for nothing.
///
/// # Safety
/// `input` and `output` hold `[threads][ORDERED_WORDS]`, 16-byte aligned.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_global_ordered(p: ProbeParams) {
    let i = thread_in_grid();
    // SAFETY: 32 bytes a thread: every offset is inside and a multiple of the width; nothing writes the input.
    unsafe {
        let (from, to) = (p.input.add(i * ORDERED_WORDS).cast::<u8>(), p.output.add(i * ORDERED_WORDS));
        let word = global::load_nc_ordered(from.cast::<u32>());
        let halves = [0, 2].map(|at| global::load_nc_ordered(from.add(4 + at).cast::<u16>()));
        let pair = global::load2_nc_ordered(from.add(8).cast::<u32>());
        let [a, b, c, d] = global::load4_nc_ordered(from.add(16).cast::<u32>());
        let signed = global::load_nc_ordered(from.add(3).cast::<i8>());
        global::load_nc_ordered(from.cast::<u32>()); // stays: nothing tells LLVM that it is of no use
        global::store(to, word ^ (i32::from(signed)).cast_unsigned());
        global::store(to.add(1), u32::from(halves[0]) | u32::from(halves[1]) << 16);
        global::store2(to.add(2), [pair[1], pair[0]]);
        global::store4(to.add(4), [d, c, b, a]);
    }
}

/// Threads of a block of [`probe_shared_reverse`].
pub const REVERSE: Bounds = Bounds { threads: 256, min_blocks: 1 };

/// Each thread writes its index and the block's input word to shared memory and reads those of thread 255 - t: their sum.
///
/// # Safety
/// Blocks of 256 threads; `input` holds a word a block, `output` a word a thread.
#[kernel]
#[launch_bounds(REVERSE)]
pub unsafe fn probe_shared_reverse(p: ProbeParams) {
    let (t, block) = (thread::thread_idx_x(), thread::block_idx_x() as usize);
    let indices = shared_array![u32; 256];
    let words = shared_array![u32; 256];
    // SAFETY: t < 256; each element has one writer before the barrier and one reader after it.
    unsafe {
        shared::store(indices.add(t as usize), t);
        shared::store(words.add(t as usize), global::load(p.input.add(block)));
        sync_threads();
        let other = 255 - t as usize;
        let sum = shared::load(indices.add(other)).wrapping_add(shared::load(words.add(other)));
        global::store(p.output.add(thread_in_grid()), sum);
    }
}

/// Words that [`probe_shared_vector`] and [`probe_shared_dynamic`] read and write for each thread.
pub const SHARED_WORDS: usize = 8;

/// Threads of a block of [`probe_shared_vector`] and [`probe_shared_dynamic`].
pub const SHARED: Bounds = Bounds { threads: 64, min_blocks: 1 };

/// Passes 8 words to thread 63 - t of the block through the area at `tile`: 4 + 2 as vectors, 1 as a word, 1 as two u16.
///
/// # Safety
/// Blocks of 64 threads; `tile` is 2048 bytes of shared memory, 16-byte aligned.
#[inline(always)]
unsafe fn pass_on(p: ProbeParams, tile: *mut u32) {
    let t = thread::thread_idx_x() as usize;
    // SAFETY: t < 64, so all offsets are inside the tile; vectors start at multiples of their size; each word has one
    // writer before the barrier and one reader after it.
    unsafe {
        let from = p.input.add(thread_in_grid() * SHARED_WORDS);
        shared::store4(tile.add(4 * t).cast::<f32>(), global::load4(from.cast::<f32>()));
        shared::store2(tile.add(256 + 2 * t), global::load2(from.add(4)));
        shared::store(tile.add(384 + t), global::load(from.add(6)));
        let last = global::load(from.add(7));
        shared::store(tile.add(448 + t).cast::<u16>(), last as u16);
        shared::store(tile.add(448 + t).cast::<u16>().add(1), (last >> 16) as u16);
        sync_threads();
        let o = 63 - t;
        let [a, b, c, d] = shared::load4(tile.add(4 * o));
        let [e, f] = shared::load2(tile.add(256 + 2 * o).cast::<f32>());
        let g = shared::load(tile.add(384 + o));
        let h = shared::load(tile.add(448 + o).cast::<u16>());
        let i = shared::load(tile.add(448 + o).cast::<u16>().add(1));
        let last = u32::from(h) | u32::from(i) << 16;
        put(p, thread_in_grid(), [a, b, c, d, e.to_bits(), f.to_bits(), g, last]);
    }
}

/// [`pass_on`] through a static array.
///
/// # Safety
/// Blocks of 64 threads; `input` and `output` hold `[threads][SHARED_WORDS]`, 16-byte aligned.
#[kernel]
#[launch_bounds(SHARED)]
pub unsafe fn probe_shared_vector(p: ProbeParams) {
    let tile = shared_array![u32; 512];
    // SAFETY: the array has 2048 bytes; the rest by contract.
    unsafe { pass_on(p, tile) }
}

/// Dynamic shared bytes of [`probe_shared_dynamic`].
pub const DYNAMIC_BYTES: u32 = 2048;

/// [`pass_on`] through the dynamic area, beside a static array that must not overlap it.
///
/// # Safety
/// As [`probe_shared_vector`], launched with [`DYNAMIC_BYTES`] of dynamic shared memory.
#[kernel]
#[launch_bounds(SHARED)]
pub unsafe fn probe_shared_dynamic(p: ProbeParams) {
    let guard = shared_array![u32; 64];
    let t = thread::thread_idx_x() as usize;
    // SAFETY: t < 64, and only thread t touches guard[t]; the dynamic area is 2048 bytes by contract.
    unsafe {
        shared::store(guard.add(t), t as u32);
        pass_on(p, shared::dynamic_shared());
        if shared::load(guard.add(t)) != t as u32 {
            global::store(p.output.add(thread_in_grid() * SHARED_WORDS), 0xdead_beef);
        }
    }
}

/// Four words on 16 bytes.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Words4(pub [u32; 4]);

/// A parameter struct with gaps: offsets 0, 8, 16, 32, size 48, alignment 16. Real kernels have no gaps; this one shows
/// that both sides place the fields alike.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FieldsParams {
    /// At 0.
    pub word: u32,
    /// At 8.
    pub long: u64,
    /// At 16.
    pub words: Words4,
    /// At 32: seven words.
    pub output: *mut u32,
}

const _: () = assert!(size_of::<FieldsParams>() == 48 && align_of::<FieldsParams>() == 16);

/// Writes the fields: word, lower and upper half of long, the four words.
///
/// # Safety
/// One thread; `output` holds 7 words.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_fields(p: FieldsParams) {
    let [a, b, c, d] = p.words.0;
    let out = ProbeParams { input: core::ptr::null(), output: p.output };
    // SAFETY: seven words, by contract.
    unsafe { put(out, 0, [p.word, p.long as u32, (p.long >> 32) as u32, a, b, c, d]) }
}
