//! What the emulator's tests share.
#![allow(dead_code, reason = "each test binary uses a part")]

use cuda_std::emulator::memory::{self, Allocation};
use cuda_std::emulator::{self, Fault, Launch, Options, Stats};
use cuda_std::global::{self, Word};

/// Schedules that tests run.
pub const SEEDS: [u64; 4] = [0, 1, 2, 77];

/// A device array that test kernels share.
pub struct Array<T>(Allocation, std::marker::PhantomData<T>);

impl<T: Word> Array<T> {
    /// An array with these elements.
    pub fn from(data: &[T]) -> Self {
        Self(memory::from_slice(data).unwrap(), std::marker::PhantomData)
    }

    /// `len` poisoned elements.
    pub fn poisoned(len: usize) -> Self {
        Self(memory::alloc(len * size_of::<T>()).unwrap(), std::marker::PhantomData)
    }

    /// Address of element `i`, which may be out of range.
    pub fn at(&self, i: usize) -> *mut T {
        self.0.as_ptr::<T>().cast_mut().wrapping_add(i)
    }

    /// Reads element `i` with the accessor.
    #[track_caller]
    pub fn load(&self, i: usize) -> T {
        // SAFETY: the emulator checks range and alignment.
        unsafe { global::load(self.at(i)) }
    }

    /// Writes element `i` with the accessor.
    #[track_caller]
    pub fn store(&self, i: usize, v: T) {
        // SAFETY: as in `load`; test kernels give each element to one thread.
        unsafe { global::store(self.at(i), v) }
    }

    /// The elements.
    pub fn values(&self) -> Vec<T> {
        self.0.to_vec()
    }
}

/// Options with this seed.
pub fn seeded(seed: u64) -> Options {
    Options { seed, ..Options::default() }
}

/// Runs `body` as every thread.
pub fn go(launch: &Launch, options: &Options, body: impl Fn() + Sync) -> Result<Stats, Fault> {
    // SAFETY: test kernels touch memory through checked accessors, and share it as the tests say.
    unsafe { emulator::launch("test_kernel", launch, options, body) }
}

/// Runs `body` as a grid of `blocks` x `threads` under each schedule of [`SEEDS`], expecting no fault.
pub fn each_seed(blocks: u32, threads: u32, body: impl Fn() + Sync) {
    for seed in SEEDS {
        go(&Launch::new(blocks, threads), &seeded(seed), &body).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

/// The fault of one block of `threads` threads.
pub fn fault_of(threads: u32, body: impl Fn() + Sync) -> Fault {
    go(&Launch::new(1, threads), &Options::default(), body).expect_err("the kernel is broken on purpose")
}

/// Pseudo-random words, the same in every run.
pub fn words(seed: u32) -> impl Iterator<Item = u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.wrapping_mul(0x2c1b_3c6d)
    })
}

/// Drops a result that only its computation matters of.
pub fn discard<T>(_: T) {}
