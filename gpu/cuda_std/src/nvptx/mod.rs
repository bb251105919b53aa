//! The GPU bodies of the primitives: LLVM's `llvm.nvvm` intrinsics where there is one, else inline assembly.
//!
//! Intrinsics carry `convergent` themselves; inline assembly gets it from the builder (its pass `convergent`). Options on
//! `asm!` are as few as its meaning allows: `pure` only on arithmetic of one lane and on loads of constant memory, `nomem`
//! on register-only instructions, nothing else on what synchronises or touches memory.
//!
//! rustc 1.95.0 refuses vectors in the signatures of foreign functions and has no pointers of an address space, so
//! `ldmatrix`, `cp.async`, the f16x2 `cvt` and `mma` are assembly although LLVM has intrinsics for them.

pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod bulk;
pub(crate) mod cluster;
pub(crate) mod copy;
pub(crate) mod float;
pub(crate) mod global;
pub(crate) mod grid;
pub(crate) mod int;
pub(crate) mod mma;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod warp;
pub(crate) mod wgmma;

mod vector;

/// A panic ends the kernel with a fault that the host sees at its next call; a loop would hang the GPU.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` has no precondition.
    unsafe { core::arch::nvptx::trap() }
}

/// Stops the build of a module below sm_80 when a kernel in it uses the caller. It is generic so that it is checked
/// where it is instantiated, thus only if some kernel reaches it: call it as `require_sm80::<()>()`.
#[inline(always)]
fn require_sm80<T>() {
    const {
        assert!(cfg!(cuda_sm = "80"), "a kernel uses a primitive that needs sm_80: mark it #[kernel(sm = 80)]");
    }
}

/// As [`require_sm80`], for Hopper's own instructions.
#[inline(always)]
fn require_sm90a<T>() {
    const {
        assert!(cfg!(cuda_sm = "90a"), "a kernel uses a primitive that needs sm_90a: mark it #[kernel(sm = 90)]");
    }
}

unsafe extern "C" {
    /// No function: the builder (its pass `shared`) puts the address space cast here that Rust has no words for.
    safe fn __shared_address(p: *const u8) -> u32;
}

/// The address within the block's shared memory that a generic pointer into it stands for.
#[inline(always)]
fn shared_address(p: *const u8) -> u32 {
    __shared_address(p)
}
