//! Device library for GPU kernels written in Rust, with rust-cuda's names and two bodies.
//!
//! Compiled for `nvptx64-nvidia-cuda` each primitive is the PTX instruction named below; compiled for the host the same
//! primitive *executes* on the SIMT [`emulator`], so a kernel is tested on any machine. Every public module here holds
//! one set of primitives, documented once; the bodies are `nvptx/` and `emulator/`.
//!
//! | module | primitives | PTX | least sm | emulation |
//! |---|---|---|---|---|
//! | [`thread`] | indices and extents | `%tid %ctaid %ntid %nctaid` | 75 | values of the running fiber |
//! | [`barrier`] | `sync_threads`, named barriers, fences | `bar.sync bar.arrive membar` | 75 | threads gather, the last one goes on |
//! | [`warp`] | shuffles, sums by them, votes | `shfl.sync vote.sync bar.warp.sync` | 75 | lanes gather, mask and call site checked |
//! | [`warp`] | `redux_*` | `redux.sync` | 80 | as above |
//! | [`shared`] | `shared_array!`, dynamic area, accessors | `.shared`, `ld.shared st.shared` | 75 | an arena a block, ranges checked |
//! | [`global`] | accessors of 1 to 16 bytes | `ld.global(.nc) st.global` | 75 | ranges checked against the registry |
//! | [`copy`] | asynchronous copies | `cp.async` | 80 | lands at the wait that covers it |
//! | [`bulk`] | copies of many bytes, landing counters | `cp.async.bulk mbarrier` | 90a | lands at the first wait for it |
//! | [`mma`] | `ldmatrix_*` | `ldmatrix` | 75 | lanes gather |
//! | [`mma`] | `mma_*` | `mma.sync` | 80 | lanes gather, f32 accumulation with k ascending |
//! | [`barrier`] | `fence_async_shared` | `fence.proxy.async` | 90a | writes since the last one are remembered |
//! | [`grid`] | `let_next_start`, `wait_for_previous` | `griddepcontrol` | 90a | launches run one after the other |
//! | [`cluster`] | `rank`, `sync`, `store` | `barrier.cluster mapa st.shared::cluster` | 90a | blocks gather; range, start and end checked |
//! | [`wgmma`] | `mma_*`, `fence`, `commit`, `wait` | `wgmma` | 90a | warpgroups gather, f32 accumulation with k ascending |
//! | [`atomic`] | read-modify-write, acquire, release | `atom red ld.acquire st.release` | 75 | host atomics |
//! | [`float`] | fma, conversions, exp, log, .. | `fma.rn cvt.rn`, one Rust source | 75 | same bits |
//! | [`int`] | `dp4a`, `prmt`, byte SIMD, bit work | `dp4a prmt ..` | 75 | same bits |
//!
//! A kernel is an `unsafe fn` of one by-value parameter struct:
//!
//! ```
//! use cuda_std::{global, kernel, launch::Bounds, thread};
//!
//! #[repr(C)]
//! #[derive(Clone, Copy)]
//! pub struct ScaleParams {
//!     x: *mut f32, // f32 [len]
//!     len: u32,
//!     factor: f32,
//! }
//!
//! /// # Safety
//! /// `x` points to `len` floats that nothing else touches during the launch.
//! #[kernel]
//! #[launch_bounds(Bounds { threads: 64, min_blocks: 1 })]
//! pub unsafe fn scale(p: ScaleParams) {
//!     let i = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
//!     if i < p.len {
//!         // SAFETY: i < len, and each element belongs to one thread.
//!         unsafe {
//!             let x = p.x.add(i as usize);
//!             global::store(x, global::load(x) * p.factor);
//!         }
//!     }
//! }
//!
//! # #[cfg(not(target_arch = "nvptx64"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cuda_std::emulator::{self, Launch, Options};
//! let mut data = emulator::memory::from_slice(&[1.0f32, 2.0, 3.0])?;
//! let params = ScaleParams { x: data.as_mut_ptr(), len: 3, factor: 2.0 };
//! // SAFETY: the allocation holds three floats and outlives the call.
//! unsafe { emulator::run(&SCALE, &Launch::new(1, 64), params, &Options::default())? };
//! assert_eq!(data.to_vec::<f32>(), [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_ptx, asm_experimental_arch, core_intrinsics, link_llvm_intrinsics, repr_simd, stdarch_nvptx),
    allow(internal_features)
)]

pub use cuda_std_macros::{kernel, launch_bounds};

pub mod atomic;
pub mod barrier;
pub mod bulk;
pub mod cluster;
pub mod copy;
pub mod float;
pub mod global;
pub mod grid;
pub mod int;
pub mod launch;
pub mod mma;
pub mod shared;
pub mod thread;
pub mod warp;
pub mod wgmma;

#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;

#[cfg(target_arch = "nvptx64")]
#[path = "nvptx/mod.rs"]
mod imp;
#[cfg(not(target_arch = "nvptx64"))]
use emulator as imp;
