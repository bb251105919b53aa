//! Products of a warpgroup that only a GPU would get wrong: each breach of the protocol is a fault.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, fault_of, go};
use cuda_std::emulator::{Fault, Launch, Options};
use cuda_std::wgmma::{self, Descriptor};
use cuda_std::{barrier, copy, shared, shared_array, thread};

/// Starts of tiles in dynamic shared memory.
fn tile(offset: usize) -> *mut u16 {
    shared::dynamic_shared::<u16>().wrapping_add(offset / 2)
}

/// Runs one block of `threads` with 16 KiB of dynamic shared memory.
fn run(threads: u32, options: &Options, body: impl Fn() + Sync) -> Result<(), Fault> {
    go(&Launch { dynamic_shared: 16 * 1024, ..Launch::new(1, threads) }, options, body).map(|_| ())
}

/// The fault of a block of 128 threads.
fn fault(body: impl Fn() + Sync) -> Fault {
    run(128, &Options::default(), body).expect_err("the kernel is broken on purpose")
}

/// Writes the first 64 x 64 B as the running block, without making it visible.
fn write(value: u16) {
    for i in (thread::thread_idx_x() as usize..64 * 64).step_by(thread::block_dim_x() as usize) {
        // SAFETY: within the dynamic area; each element is written by one thread.
        unsafe { shared::store(tile(2 * i), value) };
    }
}

/// A product with the B that [`write`] wrote.
#[track_caller]
fn multiply(acc: &mut [f32; 32], b: Descriptor) {
    // SAFETY: breaches are what the tests are about.
    unsafe { wgmma::mma_m64n64k16_f16::<false>(acc, [0; 4], b, true) };
}

#[test]
fn writes_need_a_fence_and_then_a_barrier() {
    let kernel = |before: bool, after: bool, barrier: bool| {
        move || {
            thread::sync_threads();
            write(0);
            if before {
                barrier::fence_async_shared();
            }
            if barrier {
                thread::sync_threads();
            }
            if after {
                barrier::fence_async_shared();
            }
            wgmma::fence();
            multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024));
            wgmma::commit();
            wgmma::wait::<0>();
        }
    };
    run(128, &Options::default(), kernel(true, false, true)).unwrap();
    for (before, after, barrier) in [(false, false, true), (false, true, true), (true, false, false)] {
        let fault = fault(kernel(before, after, barrier));
        let Fault::MissingFence { problem, .. } = &fault else { panic!("{fault}") };
        assert!(problem.contains("mma_m64n64k16_f16 reads B at shared offset 0"), "{problem}");
    }
}

#[test]
fn one_writer_without_a_fence_is_named() {
    let fault = fault(|| {
        write(0);
        if thread::thread_idx_x() != 77 {
            barrier::fence_async_shared();
        }
        thread::sync_threads();
        wgmma::fence();
        multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024).advance(32));
    });
    let Fault::MissingFence { problem, .. } = &fault else { panic!("{fault}") };
    assert!(problem.ends_with("which thread (77, 0, 0) wrote"), "{problem}");
}

#[test]
fn a_write_after_a_product_needs_its_own_fence() {
    let kernel = |second: usize| {
        move || {
            for (round, offset) in [0, second].into_iter().enumerate() {
                if round == 0 {
                    write(0);
                    barrier::fence_async_shared();
                } else if thread::thread_idx_x() == 3 {
                    // SAFETY: within the dynamic area.
                    unsafe { shared::store(tile(offset), 0u16) };
                }
                thread::sync_threads();
                wgmma::fence();
                multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024));
                wgmma::commit();
                wgmma::wait::<0>();
                thread::sync_threads();
            }
        }
    };
    assert!(matches!(fault(kernel(1024)), Fault::MissingFence { .. }));
    run(128, &Options::default(), kernel(12 * 1024)).unwrap(); // not in B
}

#[test]
fn landed_copies_need_a_fence() {
    let source = Array::<u16>::from(&[0; 64 * 64]);
    let kernel = |fence: bool| {
        let source = &source;
        move || {
            for unit in (thread::thread_idx_x() as usize..512).step_by(128) {
                // SAFETY: both ranges are inside, multiples of 16 bytes.
                unsafe { copy::cp_async16(tile(16 * unit), source.at(8 * unit).cast_const()) };
            }
            copy::cp_async_wait_all();
            if fence {
                barrier::fence_async_shared();
            }
            thread::sync_threads();
            wgmma::fence();
            multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024));
            wgmma::commit();
            wgmma::wait::<0>();
        }
    };
    run(128, &Options::default(), kernel(true)).unwrap();
    assert!(matches!(fault(kernel(false)), Fault::MissingFence { .. }));
}

/// Which barrier a fence came before is the race detector's to know, and so is a write while others may still read.
#[test]
fn writes_race_with_products() {
    let kernel = |ordered: bool, late: bool| {
        move || {
            let second = thread::thread_idx_x() >= 128;
            if second {
                for i in (thread::thread_idx_x() as usize - 128..64 * 64).step_by(128) {
                    // SAFETY: within the dynamic area; each element is written by one thread.
                    unsafe { shared::store(tile(2 * i), 0u16) };
                }
                barrier::fence_async_shared();
            }
            if ordered {
                thread::sync_threads();
            } else if second {
                // SAFETY: the four warps of the second warpgroup.
                unsafe { barrier::sync_named(1, 128) };
            }
            if !second {
                wgmma::fence();
                multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024));
                wgmma::commit();
                wgmma::wait::<0>();
            } else if late {
                // SAFETY: within the dynamic area; races on purpose.
                unsafe { shared::store(tile(512), 0u16) };
            }
        }
    };
    let options = Options { races: true, ..Options::default() };
    run(256, &options, kernel(true, false)).unwrap();
    for (ordered, late) in [(true, true), (false, false)] {
        let fault = run(256, &options, kernel(ordered, late)).expect_err("no barrier on one side of the product");
        assert!(matches!(fault, Fault::Race { .. }), "{fault}");
    }
}

/// A kernel that multiplies; `steps` says what comes beside the product.
fn protocol(steps: impl Fn(&dyn Fn()) + Sync) -> Result<(), Fault> {
    run(128, &Options::default(), || {
        write(0);
        barrier::fence_async_shared();
        thread::sync_threads();
        let b = Descriptor::k_major::<128>(tile(0), 1024);
        steps(&|| multiply(&mut [0.0; 32], b));
    })
}

#[test]
fn products_are_fenced_committed_and_waited_for() {
    protocol(|product| {
        wgmma::fence();
        product();
        wgmma::commit();
        product();
        wgmma::commit();
        wgmma::wait::<1>();
        wgmma::wait::<0>();
        thread::sync_threads();
    })
    .unwrap();
    let unfenced = protocol(|product| product()).expect_err("no fence");
    assert!(unfenced.to_string().contains("no wgmma::fence since"), "{unfenced}");
    let unfenced = protocol(|product| {
        wgmma::fence();
        product();
        wgmma::commit();
        wgmma::wait::<0>();
        product();
    });
    assert!(unfenced.expect_err("no second fence").to_string().contains("no wgmma::fence since"));
    let uncommitted = protocol(|product| {
        wgmma::fence();
        product();
        wgmma::wait::<0>();
    });
    let uncommitted = uncommitted.expect_err("no commit");
    let Fault::MissingWait { problem, .. } = &uncommitted else { panic!("{uncommitted}") };
    assert_eq!(problem, "the thread exits with 1 warpgroup products not committed");
    let unwaited = protocol(|product| {
        wgmma::fence();
        product();
        wgmma::commit();
        product();
        wgmma::commit();
        wgmma::wait::<1>();
        thread::sync_threads();
    });
    let unwaited = unwaited.expect_err("no wait");
    let Fault::MissingWait { problem, .. } = &unwaited else { panic!("{unwaited}") };
    assert_eq!(problem, "the thread reaches a barrier with 1 groups of warpgroup products not waited for");
}

#[test]
fn a_warpgroup_multiplies_together() {
    let without = |absent: fn(u32) -> bool| {
        protocol(move |product| {
            if !absent(thread::thread_idx_x()) {
                wgmma::fence();
                product();
            }
        })
        .expect_err("threads are missing")
    };
    for fault in [without(|t| t == 5), without(|t| t >= 96)] {
        let Fault::Divergence { primitive: "mma_m64n64k16_f16", threads, .. } = &fault else { panic!("{fault}") };
        assert_eq!(threads.len(), 128);
    }
    let lines = protocol(|product| {
        wgmma::fence();
        if thread::thread_idx_x() < 32 {
            product()
        } else {
            multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024))
        }
    });
    assert!(matches!(lines, Err(Fault::Divergence { .. })), "{lines:?}");
    let differing = run(128, &Options::default(), || {
        wgmma::fence();
        let group = if thread::thread_idx_x() < 32 { 1024 } else { 2048 };
        multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), group));
    });
    let differing = differing.expect_err("two descriptors").to_string();
    assert!(differing.contains("gave another descriptor"), "{differing}");
    let short = run(96, &Options::default(), || {
        wgmma::fence();
        multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(0), 1024));
    });
    assert!(short.expect_err("three warps").to_string().contains("only 96 threads"));
}

#[test]
fn descriptors_are_checked() {
    let problem = |descriptor: fn() -> Descriptor| {
        let fault = fault(move || {
            wgmma::fence();
            multiply(&mut [0.0; 32], descriptor());
        });
        fault.to_string()
    };
    let start = problem(|| Descriptor::k_major::<128>(tile(512), 1024));
    assert!(start.contains("starts at shared offset 512, which is no multiple of 1024"), "{start}");
    let stride = problem(|| Descriptor::k_major::<64>(tile(512), 256));
    assert!(stride.contains("a stride of 256 bytes"), "{stride}");
    let step = problem(|| Descriptor::k_major::<128>(tile(0), 1024).advance(8));
    assert!(step.contains("advanced by 8 bytes"), "{step}");
    let major = problem(|| Descriptor::mn_major_128(tile(0), 0, 1024));
    assert!(major.contains("TRANS_B is false, but B is MN-major"), "{major}");
    let end = fault(|| {
        write(0);
        barrier::fence_async_shared();
        thread::sync_threads();
        wgmma::fence();
        multiply(&mut [0.0; 32], Descriptor::k_major::<128>(tile(8192), 2048));
    });
    assert!(matches!(end, Fault::OutOfRange { bytes: 16, .. }), "{end}");
    let beside = fault(|| {
        let _ = shared_array![u16; 8];
        let _ = Descriptor::k_major::<128>(tile(0), 1024);
    });
    assert!(beside.to_string().contains("static shared arrays"), "{beside}");
    let elsewhere = fault_of(128, || {
        let _ = Descriptor::k_major::<128>(&0u16, 1024);
    });
    assert!(elsewhere.to_string().contains("is not in the block's shared memory"), "{elsewhere}");
}
