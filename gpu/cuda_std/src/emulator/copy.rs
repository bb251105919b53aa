//! Asynchronous copies: recorded at their issue, carried out at the wait that covers them.

use std::panic::Location;

use super::block::{Block, Source, raise};
use super::context;
use super::fault::{Access, Fault};
use super::global::check_bytes;

/// A copy under way.
pub(crate) struct Copy {
    dst: usize,
    src: usize,
    bytes: usize,
    /// Bytes that come from `src`; the rest become zero.
    valid: usize,
    /// Number of the group it belongs to, counted by the thread's commits.
    group: u32,
    source: Source,
}

/// Host body of [`copy::cp_async4`](crate::copy::cp_async4).
///
/// # Safety
/// Nothing races with the copy; ranges and alignment are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn cp_async4(dst: *mut u8, src: *const u8) {
    issue(dst as usize, src as usize, 4, 4, Location::caller());
}

/// Host body of [`copy::cp_async16`](crate::copy::cp_async16).
///
/// # Safety
/// Nothing races with the copy; ranges and alignment are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn cp_async16(dst: *mut u8, src: *const u8) {
    issue(dst as usize, src as usize, 16, 16, Location::caller());
}

/// Host body of [`copy::cp_async16_zfill`](crate::copy::cp_async16_zfill).
///
/// # Safety
/// Nothing races with the copy; ranges and alignment are checked.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn cp_async16_zfill(dst: *mut u8, src: *const u8, valid_bytes: u32) {
    issue(dst as usize, src as usize, 16, valid_bytes as usize, Location::caller());
}

#[inline(never)]
fn issue(dst: usize, src: usize, bytes: usize, valid: usize, source: Source) {
    // SAFETY: the running block; the reference ends before anything else uses it.
    let block = unsafe { &mut *context::block() };
    if valid > bytes {
        let problem = format!("{valid} valid bytes of {bytes}");
        raise(Fault::BadOperand { place: block.place(source), primitive: "cp_async", problem });
    }
    check_destination(dst, bytes, source);
    check_bytes(src, valid, bytes, Access::Copy, source);
    // SAFETY: as above.
    let block = unsafe { &mut *context::block() };
    let offset = dst - block.arena.base() as usize;
    block.arena.set_pending(offset, bytes, true);
    let thread = &mut block.threads[context::with(|c| c.linear.get()) as usize];
    thread.copies.push(Copy { dst, src, bytes, valid, group: thread.groups, source });
}

/// Checks `bytes` bytes that a copy is to write: in an array, aligned to their number, no other copy under way.
pub(crate) fn check_destination(dst: usize, bytes: usize, source: Source) {
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    if let Err(fault) = block.check_shared(dst, bytes, Access::Copy, source) {
        raise(fault);
    }
}

/// Host body of [`copy::cp_async_commit`](crate::copy::cp_async_commit).
#[inline(always)]
pub(crate) fn cp_async_commit() {
    // SAFETY: the running block; the reference ends here.
    let block = unsafe { &mut *context::block() };
    block.threads[context::with(|c| c.linear.get()) as usize].groups += 1;
}

/// Host body of [`copy::cp_async_wait_group`](crate::copy::cp_async_wait_group).
#[inline(always)]
#[track_caller]
pub(crate) fn cp_async_wait_group<const N: u32>() {
    land(Some(N), Location::caller());
}

/// Host body of [`copy::cp_async_wait_all`](crate::copy::cp_async_wait_all).
#[inline(always)]
#[track_caller]
pub(crate) fn cp_async_wait_all() {
    land(None, Location::caller());
}

/// Lands the running thread's copies: all but those of the newest `keep` committed groups and the open one, or all.
#[inline(never)]
fn land(keep: Option<u32>, source: Source) {
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    let linear = context::with(|c| c.linear.get());
    let thread = &mut block.threads[linear as usize];
    let landing = match keep {
        None => thread.copies.len(),
        Some(keep) => {
            let first_kept = thread.groups.saturating_sub(keep);
            thread.copies.partition_point(|copy| copy.group < first_kept)
        }
    };
    let base = block.arena.base() as usize;
    for i in 0..landing {
        let Copy { dst, src, bytes, valid, .. } = block.threads[linear as usize].copies[i];
        // SAFETY: both ranges were checked at the issue: `src` is registered for `valid` bytes, `dst` is in the arena.
        unsafe {
            (dst as *mut u8).copy_from_nonoverlapping(src as *const u8, valid);
            (dst as *mut u8).add(valid).write_bytes(0, bytes - valid);
        }
        block.arena.set_pending(dst - base, bytes, false);
        block.wrote(linear, dst - base, bytes);
        if block.races.is_some()
            && let Err(fault) = block.check_race(linear, dst - base, bytes, Access::Copy, source)
        {
            raise(fault);
        }
    }
    block.threads[linear as usize].copies.drain(..landing);
}

impl Block {
    /// The thread that has a copy under way to some of the bytes at `address`, and where it was issued.
    pub(crate) fn issuer_of(&self, address: usize, bytes: usize) -> Option<([u32; 3], Source)> {
        let of_a_thread = self.threads.iter().zip(0..).find_map(|(thread, linear)| {
            let copy = thread.copies.iter().find(|c| c.dst < address + bytes && address < c.dst + c.bytes)?;
            Some((self.thread_index(linear), copy.source))
        });
        of_a_thread.or_else(|| self.bulk_issuer_of(address, bytes))
    }

    /// The fault of a thread that exits with copies or products under way.
    pub(crate) fn unwaited(&mut self, linear: u32) -> Option<Fault> {
        let copies = &self.threads[linear as usize].copies;
        let Some(source) = copies.first().map(|copy| copy.source) else {
            return self.under_way(linear, "exits", "its end".to_owned());
        };
        let problem =
            format!("the thread exits with {} asynchronous copies under way, the first issued here", copies.len());
        Some(Fault::MissingWait { place: self.place_of(linear, source.to_string()), problem })
    }
}
