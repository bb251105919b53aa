//! Probes: small kernels that run each primitive of `cuda_std` and write down what it gave.
//!
//! `tests/tests/primitives` runs them on the emulator and on a GPU and compares with plain definitions; without mma both
//! give the same bits. Nothing else launches them.

use cuda_std::{global, launch::Bounds, thread};

pub mod atomic;
pub mod barrier;
#[cfg(any(not(target_arch = "nvptx64"), cuda_sm = "80"))]
pub mod copy;
pub mod float;
pub mod index;
pub mod int;
pub mod memory;
pub mod mma;
pub mod panic;
pub mod warp;
#[cfg(any(not(target_arch = "nvptx64"), cuda_sm = "90a"))]
pub mod wgmma;

/// Launch parameters of most probes: words in, words out, both 16-byte aligned; each kernel says how many.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProbeParams {
    /// u32 or the bits of f32.
    pub input: *const u32,
    /// u32 or the bits of f32.
    pub output: *mut u32,
}

const _: () = assert!(size_of::<ProbeParams>() == 16);

/// Bounds of the probes: any number of blocks up to this size.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 1 };

/// Index of the thread in a grid along x.
#[inline(always)]
fn thread_in_grid() -> usize {
    (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x()) as usize
}

/// Reads thread `i`'s row of `input`, u32 `[threads][N]`.
///
/// # Safety
/// `input` holds `N * (i + 1)` words.
#[inline(always)]
unsafe fn row<const N: usize>(p: ProbeParams, i: usize) -> [u32; N] {
    let mut words = [0; N];
    for k in 0..N {
        // SAFETY: the row is inside, by contract.
        words[k] = unsafe { global::load(p.input.add(i * N + k)) };
    }
    words
}

/// Writes thread `i`'s row of `output`, u32 `[threads][N]`.
///
/// # Safety
/// `output` holds `N * (i + 1)` words, and only this thread writes the row.
#[inline(always)]
unsafe fn put<const N: usize>(p: ProbeParams, i: usize, words: [u32; N]) {
    for k in 0..N {
        // SAFETY: the row is inside, by contract.
        unsafe { global::store(p.output.add(i * N + k), words[k]) };
    }
}

/// Every probe, in the order of the files.
#[cfg(not(target_arch = "nvptx64"))]
pub static KERNELS: &[cuda_std::launch::KernelInfo] = &[
    atomic::PROBE_ATOMIC_GLOBAL.info(),
    atomic::PROBE_ATOMIC_SHARED.info(),
    atomic::PROBE_MESSAGE_TICKET.info(),
    atomic::PROBE_MESSAGE_FLAG.info(),
    barrier::PROBE_BARRIER_BRANCH.info(),
    barrier::PROBE_BARRIER_NAMED.info(),
    barrier::PROBE_SHUFFLE_HALF.info(),
    copy::PROBE_COPY_PIPELINE.info(),
    copy::PROBE_COPY_TAIL.info(),
    float::PROBE_FLOAT_UNARY.info(),
    float::PROBE_FLOAT_BINARY.info(),
    float::PROBE_FLOAT_NARROW.info(),
    float::PROBE_FLOAT_WIDEN.info(),
    float::PROBE_FLOAT_TF32.info(),
    index::PROBE_INDEX.info(),
    int::PROBE_INT_BYTES.info(),
    int::PROBE_INT_BITS.info(),
    memory::PROBE_GLOBAL_SCALAR.info(),
    memory::PROBE_GLOBAL_VECTOR.info(),
    memory::PROBE_GLOBAL_ORDERED.info(),
    memory::PROBE_SHARED_REVERSE.info(),
    memory::PROBE_SHARED_VECTOR.info(),
    memory::PROBE_SHARED_DYNAMIC.info(),
    memory::PROBE_FIELDS.info(),
    mma::PROBE_LDMATRIX.info(),
    mma::PROBE_MMA_F16.info(),
    mma::PROBE_MMA_BF16.info(),
    mma::PROBE_MMA_TF32.info(),
    mma::PROBE_MMA_S8_K16.info(),
    mma::PROBE_MMA_S8.info(),
    panic::PROBE_PANIC_INDEX.info(),
    panic::PROBE_PANIC_UNWRAP.info(),
    warp::PROBE_WARP_SHUFFLE.info(),
    warp::PROBE_WARP_SEGMENT.info(),
    warp::PROBE_WARP_MASKED.info(),
    warp::PROBE_WARP_VOTE.info(),
    warp::PROBE_WARP_SUM.info(),
    warp::PROBE_WARP_REDUX.info(),
    wgmma::PROBE_WGMMA_N32.info(),
    wgmma::PROBE_WGMMA_N64.info(),
    wgmma::PROBE_WGMMA_N128.info(),
    wgmma::PROBE_WGMMA_TRANS_N64.info(),
    wgmma::PROBE_WGMMA_TRANS_N128.info(),
    wgmma::PROBE_WGMMA_CHAIN.info(),
];
