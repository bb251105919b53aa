//! Bulk copies: recorded at their issue, carried out when the first thread waits for them.

use std::panic::Location;

use super::block::{Block, Primitive, Source, Status, raise, suspend};
use super::context;
use super::copy::check_destination;
use super::fault::{Access, Fault, Index};
use super::global::check_bytes;
use crate::bulk::Landing;

static WAIT: Primitive = Primitive { name: "bulk::wait", aligned: false };

/// A landing counter of the block.
pub(crate) struct Counter {
    /// Offset in the arena.
    offset: usize,
    /// Phases that are over.
    over: u32,
    /// The current phase's copy.
    copy: Option<Copy>,
    /// What the last copy's issuer knew, for the race detector.
    known: Vec<u32>,
    /// Threads that wait for a copy to be issued.
    waiting: Vec<u16>,
}

struct Copy {
    dst: usize,
    src: usize,
    bytes: usize,
    issuer: u32,
    source: Source,
}

/// Host body of [`bulk::init`](crate::bulk::init).
///
/// # Safety
/// None on the host: breaches are faults.
#[track_caller]
pub(crate) unsafe fn init(landing: *mut Landing) {
    let source = Location::caller();
    // SAFETY: the running block; the reference ends with this function.
    let block = unsafe { &mut *context::block() };
    let made = block.check_shared(landing as usize, 8, Access::Write, source).and_then(|()| {
        let offset = landing as usize - block.arena.base() as usize;
        if block.landings.iter().any(|counter| counter.offset == offset) {
            return Err(block.landing_fault("bulk::init", format!("shared offset {offset} is one already"), source));
        }
        block.landings.push(Counter { offset, over: 0, copy: None, known: Vec::new(), waiting: Vec::new() });
        Ok(())
    });
    if let Err(fault) = made {
        raise(fault);
    }
}

/// Host body of [`bulk::copy`](crate::bulk::copy).
///
/// # Safety
/// Nothing races with the copy; ranges and alignment are checked.
#[track_caller]
pub(crate) unsafe fn copy(dst: *mut u8, src: *const u8, bytes: u32, landing: *mut Landing) {
    let (dst, src, bytes, source) = (dst as usize, src as usize, bytes as usize, Location::caller());
    // SAFETY: the running block; the reference ends before anything else uses it.
    let block = unsafe { &mut *context::block() };
    if bytes == 0 || !bytes.is_multiple_of(16) {
        raise(block.landing_fault("bulk::copy", format!("{bytes} bytes: a multiple of 16 above 0 is needed"), source));
    }
    for at in (0..bytes).step_by(16) {
        check_destination(dst + at, 16, source);
    }
    check_bytes(src, bytes, 16, Access::Copy, source);
    // SAFETY: as above.
    let block = unsafe { &mut *context::block() };
    if let Err(fault) = block.issue_bulk(Copy { dst, src, bytes, issuer: 0, source }, landing as usize) {
        raise(fault);
    }
}

/// Host body of [`bulk::wait`](crate::bulk::wait).
///
/// # Safety
/// None on the host: breaches are faults.
#[track_caller]
pub(crate) unsafe fn wait(landing: *mut Landing, parity: u32) {
    let source = Location::caller();
    loop {
        // SAFETY: the running block; the reference ends before the thread lets others run.
        let block = unsafe { &mut *context::block() };
        match block.wait_bulk(landing as usize, parity, source) {
            Ok(true) => return,
            Ok(false) => suspend(),
            Err(fault) => raise(fault),
        }
    }
}

impl Block {
    fn landing_fault(&self, primitive: &'static str, problem: String, source: Source) -> Fault {
        Fault::BadOperand { place: self.place(source), primitive, problem }
    }

    /// Number of the counter at `address`.
    fn landing_at(&self, primitive: &'static str, address: usize, source: Source) -> Result<usize, Fault> {
        let offset = address.wrapping_sub(self.arena.base() as usize);
        let found = self.landings.iter().position(|counter| counter.offset == offset);
        found.ok_or_else(|| self.landing_fault(primitive, "this is no landing counter; init makes one".into(), source))
    }

    fn issue_bulk(&mut self, copy: Copy, landing: usize) -> Result<(), Fault> {
        let linear = context::with(|c| c.linear.get());
        let at = self.landing_at("bulk::copy", landing, copy.source)?;
        if let Some(other) = &self.landings[at].copy {
            let problem = format!(
                "the phase has a copy already, by thread {} at {}; wait for it first",
                Index(self.thread_index(other.issuer)),
                other.source
            );
            return Err(self.landing_fault("bulk::copy", problem, copy.source));
        }
        let offset = copy.dst - self.arena.base() as usize;
        self.check_race(linear, offset, copy.bytes, Access::Copy, copy.source)?;
        self.landings[at].known = self.races.as_mut().map_or_else(Vec::new, |races| races.tell(linear));
        self.arena.set_pending(offset, copy.bytes, true);
        self.landings[at].copy = Some(Copy { issuer: linear, ..copy });
        let waiting = std::mem::take(&mut self.landings[at].waiting);
        for &thread in &waiting {
            self.threads[usize::from(thread)].status = Status::Runnable;
        }
        self.ready.extend(&waiting);
        Ok(())
    }

    /// Whether the phase of this parity is over, after landing the copy that makes it so. Where there is none yet the thread
    /// must be suspended; the copy's issue lets it run again.
    fn wait_bulk(&mut self, landing: usize, parity: u32, source: Source) -> Result<bool, Fault> {
        let linear = context::with(|c| c.linear.get());
        let at = self.landing_at("bulk::wait", landing, source)?;
        if self.landings[at].over % 2 == parity % 2 {
            let Some(Copy { dst, src, bytes, .. }) = self.landings[at].copy.take() else {
                self.landings[at].waiting.push(linear as u16);
                self.threads[linear as usize].status = Status::Waiting(&WAIT, source);
                return Ok(false);
            };
            // SAFETY: both ranges were checked at the issue.
            unsafe { (dst as *mut u8).copy_from_nonoverlapping(src as *const u8, bytes) };
            let offset = dst - self.arena.base() as usize;
            self.arena.set_pending(offset, bytes, false);
            self.landings[at].over += 1;
        }
        if let Some(races) = &mut self.races {
            races.learn(linear, &self.landings[at].known);
        }
        Ok(true)
    }

    /// The thread that has a bulk copy under way to some of the bytes at `address`, and where it was issued.
    pub(crate) fn bulk_issuer_of(&self, address: usize, bytes: usize) -> Option<([u32; 3], Source)> {
        let copies = self.landings.iter().filter_map(|counter| counter.copy.as_ref());
        let mut over = copies.filter(|copy| copy.dst < address + bytes && address < copy.dst + copy.bytes);
        over.next().map(|copy| (self.thread_index(copy.issuer), copy.source))
    }

    /// The fault of a block whose last thread exits with bulk copies under way.
    pub(crate) fn unlanded(&self) -> Option<Fault> {
        let copy = self.landings.iter().find_map(|counter| counter.copy.as_ref())?;
        let problem = "the block ends with a bulk copy under way, issued here".to_owned();
        Some(Fault::MissingWait { place: self.place_of(copy.issuer, copy.source.to_string()), problem })
    }
}
