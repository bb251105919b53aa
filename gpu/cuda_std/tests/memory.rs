//! Shared and global memory: accessors, poison, ranges, alignment, canaries.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, discard, each_seed, fault_of, go, words};
use cuda_std::emulator::{Access, Fault, Launch, Options, Space, memory};
use cuda_std::global::{self, Word};
use cuda_std::{shared, shared_array, thread};

/// Copies 64 values through shared memory, with the scalar accessors of `T`.
fn round_trip<T: Word + PartialEq + std::fmt::Debug>(make: impl Fn(u32) -> T) {
    let data: Vec<T> = words(7).take(64).map(make).collect();
    let (input, out) = (Array::from(&data), Array::<T>::poisoned(64));
    let launch = Launch { dynamic_shared: 64 * size_of::<T>() as u32, ..Launch::new(1, 64) };
    go(&launch, &Options::default(), || {
        let t = thread::thread_idx_x() as usize;
        let staged = shared::dynamic_shared::<T>();
        // SAFETY: t < 64, each element has one thread; after the barrier nobody writes shared memory.
        unsafe {
            shared::store(staged.add(t), if t < 32 { input.load(t) } else { global::load_nc(input.at(t)) });
            thread::sync_threads();
            out.store(63 - t, shared::load(staged.add(63 - t)));
        }
    })
    .unwrap();
    assert_eq!(out.values(), data);
}

#[test]
fn scalars_of_every_type_keep_their_bits() {
    round_trip(|w| w as u8);
    round_trip(|w| w as u16);
    round_trip(|w| w);
    round_trip(|w| u64::from(w) << 32 | u64::from(!w));
    round_trip(|w| w as i8);
    round_trip(|w| w as i16);
    round_trip(|w| w.cast_signed());
    round_trip(|w| i64::from(w) << 31);
    round_trip(|w| f32::from_bits(w & 0x7f7f_ffff));
    round_trip(f64::from);
}

#[test]
fn vector_accesses_move_all_their_elements() {
    let data: Vec<u32> = words(8).take(16 * 32).collect();
    let (input, out) = (Array::from(&data), Array::<u32>::poisoned(16 * 32));
    each_seed(1, 32, || {
        let staged = shared_array![u32; 16 * 32];
        let t = 16 * thread::thread_idx_x() as usize;
        // SAFETY: 16 words a thread, all vectors aligned; after the barrier nobody writes shared memory.
        unsafe {
            shared::store4(staged.add(t), global::load4(input.at(t)));
            shared::store4(staged.add(t + 4), global::load4_nc(input.at(t + 4)));
            shared::store2(staged.add(t + 8), global::load2(input.at(t + 8)));
            shared::store2(staged.add(t + 10), global::load2_nc(input.at(t + 10)));
            shared::store4(staged.add(t + 12).cast::<f32>(), global::load4(input.at(t + 12).cast::<f32>()));
            global::prefetch_l2(input.at(t));
            thread::sync_threads();
            let t = 16 * 31 - t;
            global::store4(out.at(t), shared::load4(staged.add(t)));
            global::store2(out.at(t + 4), shared::load2(staged.add(t + 4)));
            global::store2(out.at(t + 6), shared::load2(staged.add(t + 6)));
            global::store4(out.at(t + 8), shared::load4(staged.add(t + 8)));
            global::store4(out.at(t + 12), shared::load4(staged.add(t + 12)));
        }
    });
    assert_eq!(out.values(), data);
}

#[test]
fn every_site_is_its_own_array_and_fresh_in_each_block() {
    let out = Array::<u32>::poisoned(8 * 3);
    fn site_in_a_function() -> *mut f32 {
        shared_array![f32; 5]
    }
    each_seed(8, 1, || {
        let (a, b) = (shared_array![f32; 4], shared_array![f64; 4]);
        assert!(a.addr() % 16 == 0 && b.addr() % 16 == 0 && a.addr() != b.addr());
        assert_eq!(site_in_a_function(), site_in_a_function());
        let block = thread::block_idx_x() as usize;
        // SAFETY: one thread; reading uninitialised shared memory is what is tested.
        unsafe {
            for (i, p) in [a, b.cast(), site_in_a_function()].into_iter().enumerate() {
                out.store(3 * block + i, u32::from(shared::load(p).is_nan()));
                shared::store(p, 1.0);
            }
        }
    });
    assert_eq!(out.values(), [1; 24]);
}

#[test]
fn fresh_global_memory_is_nan() {
    let x = Array::<f32>::poisoned(33);
    assert!(x.values().into_iter().all(f32::is_nan));
}

/// Space, access, address and width of an out-of-range fault, and its text.
fn out_of_range(fault: &Fault) -> (Space, Access, usize, usize, String) {
    let Fault::OutOfRange { place, space, access, address, bytes, .. } = fault else { panic!("{fault}") };
    assert_eq!((place.kernel.as_str(), place.block, place.thread), ("test_kernel", [0; 3], [3, 0, 0]));
    assert!(place.source.contains("memory.rs"), "{}", place.source);
    (*space, *access, *address, *bytes, fault.to_string())
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn global_accesses_out_of_range_are_named() {
    let x = Array::from(&[0u32; 64]);
    let only_thread_3 = |f: &(dyn Fn() + Sync)| {
        fault_of(32, || {
            if thread::thread_idx_x() == 3 {
                f();
            }
        })
    };
    for offset in [64, 65, 1000, usize::MAX] {
        let fault = only_thread_3(&|| discard(x.load(offset)));
        assert_eq!(out_of_range(&fault).1, Access::Read);
        let fault = only_thread_3(&|| x.store(offset, 1));
        let (space, access, address, bytes, text) = out_of_range(&fault);
        assert_eq!((space, access, address, bytes), (Space::Global, Access::Write, x.at(offset).addr(), 4));
        assert!(text.contains("allocation of 256 bytes") || offset > 64, "{text}");
    }
    // A vector that starts inside and ends outside (62 is a multiple of 2: 8 bytes fit, 16 do not).
    let fault = only_thread_3(&|| unsafe { global::store4(x.at(64), [0; 4]) });
    assert_eq!(out_of_range(&fault).3, 16);
    let fault = only_thread_3(&|| discard(unsafe { global::load(std::ptr::null::<u32>()) }));
    assert_eq!(out_of_range(&fault).2, 0);
    let fault = only_thread_3(&|| discard(unsafe { global::load(shared_array![u32; 4]) }));
    assert!(out_of_range(&fault).4.contains("of the block's shared memory"));
    let freed = Array::from(&[0u32; 4]).at(0).addr();
    let fault = only_thread_3(&|| discard(unsafe { global::load_nc(freed as *const u32) }));
    assert_eq!(out_of_range(&fault).2, freed);
}

#[test]
fn shared_accesses_out_of_range_are_named() {
    let only_thread_3 = |f: &(dyn Fn(*mut u32) + Sync)| {
        fault_of(32, || {
            let a = shared_array![u32; 5];
            if thread::thread_idx_x() == 3 {
                f(a);
            }
        })
    };
    // Behind the array is a gap, even if it is not a multiple of 16 bytes long.
    for offset in [5, 6, 8, 11, 1 << 20, usize::MAX] {
        // SAFETY: broken on purpose.
        let fault = only_thread_3(&|a| discard(unsafe { shared::load(a.wrapping_add(offset)) }));
        let (space, access, _, bytes, _) = out_of_range(&fault);
        assert_eq!((space, access, bytes), (Space::Shared, Access::Read, 4), "{offset}");
    }
    // SAFETY: broken on purpose.
    let fault = only_thread_3(&|a| unsafe { shared::store4(a.wrapping_add(4), [0; 4]) });
    assert_eq!(out_of_range(&fault).1, Access::Write);
    let x = Array::from(&[0u32; 4]);
    // SAFETY: broken on purpose.
    let fault = only_thread_3(&|_| discard(unsafe { shared::load(x.at(0)) }));
    assert!(out_of_range(&fault).4.contains("not in the block's shared memory"));
    // There is no dynamic area in this launch.
    for offset in [0, usize::MAX] {
        let fault = only_thread_3(&|_| {
            // SAFETY: broken on purpose.
            discard(unsafe { shared::load(shared::dynamic_shared::<u8>().wrapping_add(offset)) });
        });
        assert_eq!(out_of_range(&fault).3, 1, "{offset}");
    }
}

#[test]
#[allow(clippy::undocumented_unsafe_blocks, reason = "each kernel here is broken on purpose")]
fn misaligned_accesses_are_named() {
    let x = Array::from(&[0u32; 64]);
    let check = |space: Space, width: usize, f: &(dyn Fn() + Sync)| {
        let fault = fault_of(1, f);
        let Fault::Misaligned { space: got, bytes, .. } = &fault else { panic!("{fault}") };
        assert_eq!((*got, *bytes), (space, width));
    };
    check(Space::Global, 16, &|| discard(unsafe { global::load4(x.at(2)) }));
    check(Space::Global, 16, &|| unsafe { global::store4(x.at(1), [0; 4]) });
    check(Space::Global, 8, &|| discard(unsafe { global::load2_nc(x.at(1)) }));
    check(Space::Global, 4, &|| discard(unsafe { global::load(x.at(0).cast::<u8>().wrapping_add(2).cast::<u32>()) }));
    check(Space::Shared, 16, &|| discard(unsafe { shared::load4(shared_array![f32; 32].wrapping_add(2)) }));
    check(Space::Shared, 8, &|| unsafe { shared::store2(shared_array![f32; 32].wrapping_add(1), [0.0; 2]) });
}

#[test]
fn registered_host_memory_can_be_touched_while_it_is_registered() {
    let mut host = [1u32, 2, 3, 4];
    let p = host.as_mut_ptr().expose_provenance();
    let double = || {
        let p = std::ptr::with_exposed_provenance_mut::<u32>(p).wrapping_add(thread::thread_idx_x() as usize);
        // SAFETY: registered below; one element a thread.
        unsafe { global::store(p, 2 * global::load(p)) }
    };
    {
        // SAFETY: nothing else uses `host` while the registration lives.
        let _registration = unsafe { memory::register(host.as_mut_ptr().cast(), 16) }.unwrap();
        go(&Launch::new(1, 4), &Options::default(), double).unwrap();
    }
    assert_eq!(host, [2, 4, 6, 8]);
    assert!(matches!(fault_of(4, double), Fault::OutOfRange { .. }));
}

#[test]
fn guard_bytes_that_a_kernel_overwrites_are_found_after_the_launch() {
    for offset in [-1isize, 64, 70] {
        let x = Array::from(&[0u8; 64]);
        let fault = fault_of(1, || {
            x.store(0, 1);
            // SAFETY: broken on purpose, though inside what the host allocated: the guards.
            unsafe { x.at(0).offset(offset).write(0) }
        });
        let Fault::Canary { kernel, base, len: 64, offset: found } = &fault else { panic!("{fault}") };
        assert_eq!((kernel.as_str(), *base, *found), ("test_kernel", x.at(0).addr(), offset));
    }
}

#[test]
fn launches_in_several_os_threads_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for n in 0..8u32 {
            scope.spawn(move || {
                for round in 0..30 {
                    let x = Array::from(&vec![n; 64 * (1 + round)]);
                    go(&Launch::new(1 + round as u32, 64), &common::seeded(u64::from(n)), || {
                        let i = (thread::block_idx_x() * 64 + thread::thread_idx_x()) as usize;
                        let v = x.load(i);
                        thread::sync_threads();
                        x.store(i, v + 1);
                    })
                    .unwrap();
                    assert!(x.values().into_iter().all(|v| v == n + 1));
                    let fault = fault_of(1, || x.store(64 * (1 + round), 0));
                    assert!(matches!(fault, Fault::OutOfRange { .. }), "{fault}");
                }
            });
        }
    });
}
