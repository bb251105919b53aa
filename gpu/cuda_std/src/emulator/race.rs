//! The race detector for shared memory: vector clocks of the threads, and the last accesses of each word.
//!
//! Barriers, named barriers, `sync_warp` and bulk copies (from issue to wait) order accesses; shuffles, votes and mma do not, as on the hardware. Atomic
//! operations are not recorded. A word remembers its last write and two reads, so a race can escape, but none is invented.

use super::block::{Block, Source};
use super::fault::{Access, Fault};

/// An access by a thread at a time of its own clock, to some bytes of the word.
#[derive(Clone, Copy)]
struct Record {
    thread: u16,
    bytes: u8,
    access: Access,
    clock: u32,
    source: Source,
}

#[derive(Clone, Copy, Default)]
struct WordRecord {
    write: Option<Record>,
    reads: [Option<Record>; 2],
}

/// The detector's state for a block.
pub(crate) struct Races {
    threads: usize,
    /// `clocks[t * threads + u]`: what thread t knows of thread u's clock.
    clocks: Vec<u32>,
    /// What the threads that arrived at each barrier knew.
    barriers: Vec<Vec<u32>>,
    words: Vec<WordRecord>,
}

fn join(into: &mut [u32], from: &[u32]) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

impl Races {
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            clocks: vec![0; threads * threads],
            barriers: vec![vec![0; threads]; super::block::BARRIERS],
            words: Vec::new(),
        }
    }

    pub fn start(&mut self) {
        self.clocks.fill(0);
        for t in 0..self.threads {
            self.clocks[t * self.threads + t] = 1;
        }
        for barrier in &mut self.barriers {
            barrier.fill(0);
        }
        self.words.clear();
    }

    fn clock(&mut self, thread: u32) -> &mut [u32] {
        let start = thread as usize * self.threads;
        &mut self.clocks[start..start + self.threads]
    }

    /// The thread reaches a barrier: what it did is known to whoever leaves the barrier.
    pub fn arrive(&mut self, barrier: usize, thread: u32) {
        let start = thread as usize * self.threads;
        join(&mut self.barriers[barrier], &self.clocks[start..start + self.threads]);
        self.clocks[start + thread as usize] += 1;
    }

    /// The threads leave the barrier, which is then as new.
    pub fn release(&mut self, barrier: usize, threads: impl Iterator<Item = u32>) {
        let known = std::mem::take(&mut self.barriers[barrier]);
        for thread in threads {
            join(self.clock(thread), &known);
        }
        self.barriers[barrier] = known;
        self.barriers[barrier].fill(0);
    }

    /// What the thread did until now, for those who hear of it by other means than a barrier.
    pub fn tell(&mut self, thread: u32) -> Vec<u32> {
        let known = self.clock(thread).to_vec();
        self.clock(thread)[thread as usize] += 1;
        known
    }

    /// The thread hears what another one told.
    pub fn learn(&mut self, thread: u32, known: &[u32]) {
        join(self.clock(thread), known);
    }

    /// The lanes of a warp order their accesses.
    pub fn sync_warp(&mut self, warp: u32, lanes: u32) {
        let threads: Vec<u32> = super::warp::lanes(lanes).map(|lane| 32 * warp + lane as u32).collect();
        let mut known = vec![0; self.threads];
        for &t in &threads {
            join(&mut known, self.clock(t));
        }
        for &t in &threads {
            join(self.clock(t), &known);
            self.clock(t)[t as usize] += 1;
        }
    }

    /// Records an access to the bytes of one word; gives the access that it races with.
    fn record(&mut self, word: usize, new: Record) -> Option<Record> {
        if self.words.len() <= word {
            self.words.resize(word + 1, WordRecord::default());
        }
        let clock = &self.clocks[usize::from(new.thread) * self.threads..][..self.threads];
        let ordered = |old: &Record| old.thread == new.thread || clock[usize::from(old.thread)] >= old.clock;
        let races = |old: &Record| old.bytes & new.bytes != 0 && !ordered(old);
        let WordRecord { write, reads } = &mut self.words[word];
        if new.access == Access::Read {
            let race = write.filter(races);
            let slot = usize::from(!reads[0].as_ref().is_none_or(ordered));
            let merged = reads[slot].filter(|old| (old.thread, old.clock) == (new.thread, new.clock));
            reads[slot] = Some(Record { bytes: new.bytes | merged.map_or(0, |old| old.bytes), ..new });
            race
        } else {
            let race = [*write, reads[0], reads[1]].into_iter().flatten().find(races);
            let merged = write.filter(|old| (old.thread, old.clock) == (new.thread, new.clock));
            *write = Some(Record { bytes: new.bytes | merged.map_or(0, |old| old.bytes), ..new });
            for read in reads {
                *read = read.filter(|old| old.bytes & !new.bytes != 0);
            }
            race
        }
    }
}

impl Block {
    /// Records an access of thread `linear` to shared memory.
    ///
    /// # Errors
    /// [`Fault::Race`] where an earlier access of another thread to the same bytes is not ordered before it.
    pub(crate) fn check_race(
        &mut self,
        linear: u32,
        offset: usize,
        bytes: usize,
        access: Access,
        source: Source,
    ) -> Result<(), Fault> {
        let Some(races) = &mut self.races else { return Ok(()) };
        let clock = races.clock(linear)[linear as usize];
        for word in offset / 4..(offset + bytes).div_ceil(4) {
            let touched = (0..4).filter(|b| (offset..offset + bytes).contains(&(4 * word + b)));
            let touched = touched.fold(0, |mask, b| mask | 1 << b);
            let new = Record { thread: linear as u16, bytes: touched, access, clock, source };
            if let Some(old) = races.record(word, new) {
                return Err(Fault::Race {
                    place: self.place_of(linear, source.to_string()),
                    access,
                    offset: 4 * word + (old.bytes & touched).trailing_zeros() as usize,
                    other: self.thread_index(u32::from(old.thread)),
                    other_access: old.access,
                    other_source: old.source.to_string(),
                });
            }
        }
        Ok(())
    }
}
