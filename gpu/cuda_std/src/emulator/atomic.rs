//! Atomic operations: the host's own, so that blocks on different OS threads are atomic to each other.

use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};

use super::block::{Block, Source, Status, raise, suspend};
use super::context;
use super::fault::Access;
use super::global;

/// The word at `p`, after its range and alignment were checked.
#[inline(always)]
fn word<'a>(p: *const u32, source: Source) -> &'a AtomicU32 {
    check(p as usize, source);
    // SAFETY: within a registered range or the block's arena, aligned to 4; others access it by atomics only.
    unsafe { AtomicU32::from_ptr(p.cast_mut()) }
}

/// [`word`] in the block's shared memory.
#[inline(never)]
fn shared_word<'a>(p: *const u32, source: Source) -> &'a AtomicU32 {
    // SAFETY: the running block; the reference ends before anything else uses it.
    if let Err(fault) = unsafe { (*context::block()).check_shared(p as usize, 4, Access::Atomic, source) } {
        raise(fault);
    }
    // SAFETY: within the block's arena, aligned to 4; others access it by atomics only.
    unsafe { AtomicU32::from_ptr(p.cast_mut()) }
}

#[inline(never)]
fn check(address: usize, source: Source) {
    // SAFETY: the running block; the reference ends before anything else uses it.
    let block = unsafe { &mut *context::block() };
    if block.shared_offset(address).is_none() {
        global::check::<4>(address, Access::Atomic, source);
    } else if let Err(fault) = block.check_shared(address, 4, Access::Atomic, source) {
        raise(fault);
    }
}

/// Lets the other threads run, after a look at memory that may have to be repeated.
#[inline(never)]
pub(super) fn poll(source: Source) {
    let block: *mut Block = context::block();
    let linear = context::with(|c| c.linear.get());
    let set = |status, ready: bool| {
        // SAFETY: the running block; the reference ends with the closure.
        let block = unsafe { &mut *block };
        block.threads[linear as usize].status = status;
        if ready {
            block.ready.push(linear as u16);
            block.polls += 1;
        }
    };
    set(Status::Polling(source), true);
    suspend();
    set(Status::Runnable, false);
}

macro_rules! operations {
    ($($relaxed:ident, $acq_rel:ident($($arg:ident),*): $ty:ty = $operation:expr;)*) => {$(
        operations!(@one $relaxed, Ordering::Relaxed, ($($arg),*), $ty, $operation);
        operations!(@one $acq_rel, Ordering::AcqRel, ($($arg),*), $ty, $operation);
    )*};
    (@one $name:ident, $order:expr, ($($arg:ident),*), $ty:ty, $operation:expr) => {
        /// Host body of the operation of this name in [`atomic`](crate::atomic).
        ///
        /// # Safety
        /// Nothing but atomics races with the access; range and alignment are checked.
        #[inline(always)]
        #[track_caller]
        pub(crate) unsafe fn $name(p: *mut $ty, $($arg: $ty),*) -> $ty {
            let operation: fn(&AtomicU32, Ordering, Source, $(operations!(@ty $arg $ty)),*) -> $ty = $operation;
            let source = Location::caller();
            operation(word(p.cast_const().cast(), source), $order, source, $($arg),*)
        }
    };
    (@ty $arg:ident $ty:ty) => { $ty };
}

operations! {
    add_u32, add_u32_acq_rel(v): u32 = |word, order, _, v| word.fetch_add(v, order);
    add_f32, add_f32_acq_rel(v): f32 = |word, order, _, v| {
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let sum = (f32::from_bits(seen) + v).to_bits();
            match word.compare_exchange_weak(seen, sum, order, Ordering::Relaxed) {
                Ok(old) => return f32::from_bits(old),
                Err(now) => seen = now,
            }
        }
    };
    max_u32, max_u32_acq_rel(v): u32 = |word, order, _, v| word.fetch_max(v, order);
    min_u32, min_u32_acq_rel(v): u32 = |word, order, _, v| word.fetch_min(v, order);
    or_u32, or_u32_acq_rel(v): u32 = |word, order, _, v| word.fetch_or(v, order);
    and_u32, and_u32_acq_rel(v): u32 = |word, order, _, v| word.fetch_and(v, order);
    exch_u32, exch_u32_acq_rel(v): u32 = |word, order, source, v| {
        let old = word.swap(v, order);
        if old == v {
            poll(source);
        }
        old
    };
    cas_u32, cas_u32_acq_rel(expected, new): u32 = |word, order, source, expected, new| {
        let failure = if order == Ordering::Relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        match word.compare_exchange(expected, new, order, failure) {
            Ok(old) => old,
            Err(old) => {
                poll(source);
                old
            }
        }
    };
}

/// Host body of [`atomic::add_shared_u32`](crate::atomic::add_shared_u32).
///
/// # Safety
/// Nothing but atomics races with the access; range and alignment are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn add_shared_u32(p: *mut u32, v: u32) {
    shared_word(p, Location::caller()).fetch_add(v, Ordering::Relaxed);
}

/// Host body of [`atomic::load_acquire_u32`](crate::atomic::load_acquire_u32).
///
/// # Safety
/// Nothing but atomics races with the access; range and alignment are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn load_acquire_u32(p: *const u32) -> u32 {
    let source = Location::caller();
    let word = word(p, source);
    poll(source);
    word.load(Ordering::Acquire)
}

/// Host body of [`atomic::store_release_u32`](crate::atomic::store_release_u32).
///
/// # Safety
/// Nothing but atomics races with the access; range and alignment are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn store_release_u32(p: *mut u32, v: u32) {
    word(p, Location::caller()).store(v, Ordering::Release);
}
