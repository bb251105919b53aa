//! Steps that the variants of `qsa.topk` share: order keys, a row's record, counts of digits, the choice of a digit, the
//! places of cells.
//!
//! The threshold is found in four rounds of 8 bits. A round counts, for the keys whose higher bits are the threshold's,
//! how many have which next digit; the digit is the largest one that enough cells reach. Counts are of complete blocks;
//! the tail block, whose weight is another, is added where a round's counts come together, and comes last among the ids.

use cuda_std::int::opaque;
use cuda_std::{atomic, global, shared, warp};

use super::{RATIO, TopkParams};

/// Values of a digit.
pub const DIGITS: usize = 256;
/// Rounds, a digit each.
pub const ROUNDS: u32 = 4;
/// [`ROUNDS`], which the compiler takes for an unknown number: were the loop unrolled, a kernel would be three times as
/// long, and none of it is hot.
#[inline(always)]
#[must_use]
pub fn rounds() -> u32 {
    opaque(ROUNDS as usize) as u32
}

/// Cells of a complete block.
const CELLS: u32 = RATIO as u32;
/// Times that lanes with the digit of the first open lane count together before each counts for itself: scores of a row
/// share their top bits, and additions to one word wait for each other.
const TOGETHER: usize = 2;

/// A number that is ordered as scores are; never 0, which stands for no block. NaN and -0 count as 0.
#[inline(always)]
#[must_use]
pub const fn order_key(score: f32) -> u32 {
    // The sum makes +0 of -0.
    let bits = if score.is_nan() { 0 } else { (score + 0.0).to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// What a block of threads must know of its row.
#[derive(Clone, Copy)]
pub struct Row {
    /// Scores of the row.
    pub scores: *const f32,
    /// Ids of the row.
    pub ids: *mut u32,
    /// Complete blocks.
    pub blocks: u32,
    /// Cells of the tail block, which is block `blocks`.
    pub tail: u32,
    /// Cells of the context.
    pub n_kv: u32,
    /// Cells to choose.
    pub width: u32,
}

impl Row {
    /// Row `row` of a call.
    ///
    /// # Safety
    /// `TopkParams` as it says; `row < rows`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of(p: TopkParams, row: u32) -> Self {
        let row = row as usize;
        // SAFETY: the records are `[rows]`, 16 bytes each: position, cells, complete blocks, width.
        let [_, n_kv, n_bid, width] = unsafe { global::load4_nc(p.steps.add(row).cast::<u32>()) };
        let tail = if n_bid < p.max_blocks { n_kv % CELLS } else { 0 };
        // SAFETY: `row < rows`.
        let (scores, ids) = unsafe { (p.scores.add(row * p.max_blocks as usize), p.ids.add(row * p.cap as usize)) };
        Self { scores, ids, blocks: n_bid.min(p.max_blocks), tail, n_kv, width: width.min(p.cap) }
    }

    /// Whether all cells are chosen.
    #[inline(always)]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.n_kv <= self.width
    }

    /// Writes the ids of a row whose cells are all chosen: thread `thread` of `threads` those of its share.
    ///
    /// # Safety
    /// The row is whole; `threads > 0`.
    #[inline(always)]
    pub unsafe fn write_all(&self, thread: u32, threads: u32) {
        let mut i = thread;
        while i < self.n_kv {
            // SAFETY: `i < n_kv <= width <= cap`, one thread an id.
            unsafe { global::store(self.ids.add(i as usize), i) };
            i += threads;
        }
    }

    /// The key of block `block`, which may be the tail.
    ///
    /// # Safety
    /// `block` is below `blocks`, or equal to it where there is a tail.
    #[inline(always)]
    #[must_use]
    pub unsafe fn key(&self, block: u32) -> u32 {
        // SAFETY: the entry is in the row, and written by an earlier launch.
        order_key(unsafe { global::load_nc(self.scores.add(block as usize)) })
    }

    /// The key of the tail block, 0 without one.
    ///
    /// # Safety
    /// The row is one that [`Row::of`] made.
    #[inline(always)]
    #[must_use]
    pub unsafe fn tail_key(&self) -> u32 {
        // SAFETY: there is a tail, so its entry is within `max_blocks`.
        if self.tail > 0 { unsafe { self.key(self.blocks) } } else { 0 }
    }
}

/// The threshold as far as it is found: its upper digits, then zeros.
#[derive(Clone, Copy)]
pub struct Found {
    /// Upper digits.
    pub key: u32,
    /// Cells of blocks above it in the digits that are found.
    pub above: u32,
}

impl Found {
    /// Before the first round.
    pub const START: Self = Self { key: 0, above: 0 };

    /// Whether a key counts in the round that looks at bits `shift` and up: the same digits above them.
    #[inline(always)]
    #[must_use]
    pub const fn holds(self, key: u32, shift: u32) -> bool {
        key != 0 && ((key ^ self.key) >> shift) >> 8 == 0
    }

    /// With the next digit, chosen by a warp: the largest that blocks of `width` cells reach, else 0. `cells` are those
    /// of the round by digit.
    ///
    /// # Safety
    /// All lanes of the warp are here with the same values; `cells` is u32 `[DIGITS]` in shared memory, a multiple of 16.
    #[inline(always)]
    #[must_use]
    pub unsafe fn with_digit(self, cells: *const u32, width: u32, shift: u32) -> Self {
        // Lane l looks at digits 255 - 8 l down to 248 - 8 l.
        let lane = warp::lane_id();
        let top = DIGITS as u32 - 1 - 8 * lane;
        // SAFETY: `top` is 7 to 255 and 8 n - 1.
        let (high, low) =
            unsafe { (shared::load4(cells.add(top as usize - 3)), shared::load4(cells.add(top as usize - 7))) };
        let cells = [high[3], high[2], high[1], high[0], low[3], low[2], low[1], low[0]];
        let mut mine = 0u32;
        for j in 0..8 {
            mine += cells[j];
        }
        let mut upto = mine;
        for j in 0..5 {
            let before = warp::shfl_up(upto, 1 << j);
            upto += if lane >> j > 0 { before } else { 0 };
        }
        let reaches = warp::ballot(self.above + upto >= width);
        let chosen = if reaches == 0 { 31 } else { reaches.trailing_zeros() };
        let (mut above, mut digit, mut open) = (self.above + upto - mine, top, true);
        for j in 0..7 {
            open &= above + cells[j] < width;
            above += if open { cells[j] } else { 0 };
            digit -= u32::from(open);
        }
        let (digit, above) = (warp::shfl_idx(digit, chosen), warp::shfl_idx(above, chosen));
        Self { key: self.key | digit << shift, above }
    }
}

/// Counts keys of a warp, `N` a lane, into `digits`: those that hold, by the digit at `shift`.
///
/// # Safety
/// All lanes of the warp are here; `digits` is u32 `[DIGITS]` in shared memory that others only add to meanwhile.
#[inline(always)]
pub unsafe fn count<const N: usize>(keys: [u32; N], found: Found, shift: u32, digits: *mut u32) {
    for k in 0..N {
        let (digit, mut open) = (keys[k] >> shift & 255, found.holds(keys[k], shift));
        // SAFETY: a digit is below `DIGITS`.
        let place = unsafe { digits.add(digit as usize) };
        for _ in 0..TOGETHER {
            let lanes = warp::ballot(open);
            if lanes == 0 {
                break; // the whole warp
            }
            let first = lanes.trailing_zeros();
            let wanted = warp::shfl_idx(digit, first);
            let alike = open && digit == wanted;
            let together = warp::ballot(alike).count_ones();
            if warp::lane_id() == first {
                // SAFETY: as the caller says.
                unsafe { atomic::add_shared_u32(place, together) };
            }
            open &= !alike;
        }
        if open {
            // SAFETY: as the caller says.
            unsafe { atomic::add_shared_u32(place, 1) };
        }
    }
}

/// Sum over the warp in every lane.
#[inline(always)]
#[must_use]
pub fn sum(v: u32) -> u32 {
    let mut v = v;
    for j in 0..5 {
        v += warp::shfl_xor(v, 16 >> j);
    }
    v
}

/// Counts of the digits above `digit`, in every lane of a warp. Lane l reads words l, l + 32, ...
///
/// # Safety
/// All lanes of the warp are here; `digits` is u32 `[DIGITS]` in shared memory.
#[inline(always)]
#[must_use]
pub unsafe fn beyond(digits: *const u32, digit: u32) -> u32 {
    let mut mine = 0u32;
    for j in 0..DIGITS as u32 / 32 {
        let at = 32 * j + warp::lane_id();
        // SAFETY: `at < DIGITS`.
        let n = unsafe { shared::load(digits.add(at as usize)) };
        mine += if at > digit { n } else { 0 };
    }
    sum(mine)
}

/// Clears a warp's counts: lane l the words that it reads in [`beyond`].
///
/// # Safety
/// All lanes of the warp are here; `digits` is u32 `[DIGITS]` in shared memory that only this warp uses meanwhile.
#[inline(always)]
pub unsafe fn clear(digits: *mut u32) {
    for j in 0..DIGITS / 32 {
        // SAFETY: below `DIGITS`; a lane a word.
        unsafe { shared::store(digits.add(32 * j + warp::lane_id() as usize), 0u32) };
    }
    warp::sync_warp(warp::FULL_MASK);
}

/// Complete blocks before the next one of a warp.
#[derive(Clone, Copy)]
pub struct Place {
    /// Those above the threshold.
    pub above: u32,
    /// Those that equal it.
    pub ties: u32,
}

impl Place {
    /// Before the first block.
    pub const START: Self = Self { above: 0, ties: 0 };

    /// With the blocks of the warps before `warp` of the block of threads; `warps` holds each one's counts.
    ///
    /// # Safety
    /// All lanes of the warp are here; `warps` is u32 `[warps][2]` in shared memory, of which the first `warp` pairs are
    /// written.
    #[inline(always)]
    #[must_use]
    pub unsafe fn behind_warps(self, warps: *const u32, warp: u32) -> Self {
        let lane = warp::lane_id();
        let mut pair = [0u32; 2];
        if lane < warp {
            // SAFETY: `lane < warp`, which is at most 31.
            pair = unsafe { shared::load2(warps.add(2 * lane as usize)) };
        }
        Self { above: self.above + sum(pair[0]), ties: self.ties + sum(pair[1]) }
    }

    /// Counts a warp's keys.
    #[inline(always)]
    #[must_use]
    pub fn with_keys<const N: usize>(self, keys: [u32; N], threshold: u32) -> Self {
        let mut place = self;
        for k in 0..N {
            let key = keys[k];
            let reach = warp::ballot(key != 0 && key >= threshold);
            if reach == 0 {
                continue; // the whole warp
            }
            let above = warp::ballot(key > threshold).count_ones();
            place = Self { above: place.above + above, ties: place.ties + reach.count_ones() - above };
        }
        place
    }

    /// Writes the cells of a warp's blocks that are chosen, and goes behind them. Lane l's key k is of block
    /// `first + 32 k + l`.
    ///
    /// # Safety
    /// All lanes of the warp are here; `found` is the whole threshold of the row, and `self` what is before `first`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn write<const N: usize>(self, keys: [u32; N], first: u32, found: Found, row: Row) -> Self {
        let mut place = self;
        let lower = (1u32 << warp::lane_id()) - 1;
        for k in 0..N {
            let key = keys[k];
            let reach = warp::ballot(key != 0 && key >= found.key);
            if reach == 0 {
                continue; // the whole warp
            }
            let above = warp::ballot(key > found.key);
            let ties = reach & !above;
            let before = Self {
                above: place.above + (above & lower).count_ones(),
                ties: place.ties + (ties & lower).count_ones(),
            };
            if key != 0 && key >= found.key {
                // SAFETY: the places before are the blocks' before this one.
                unsafe { before.put(first + 32 * k as u32 + warp::lane_id(), CELLS, key > found.key, found, row) };
            }
            place = Self { above: place.above + above.count_ones(), ties: place.ties + ties.count_ones() };
        }
        place
    }

    /// Writes the cells of the tail block, if they are chosen: `self` is what is before it, all complete blocks.
    ///
    /// # Safety
    /// One thread a row; `found` is the whole threshold, `key` the tail's.
    #[inline(always)]
    pub unsafe fn write_tail(self, key: u32, found: Found, row: Row) {
        if key != 0 && key >= found.key {
            // SAFETY: as the caller says.
            unsafe { self.put(row.blocks, row.tail, key > found.key, found, row) };
        }
    }

    /// Writes the cells of one block: all of them if it is above the threshold, else what is left of those that tie.
    ///
    /// # Safety
    /// As [`Place::write`], for a block of `cells` cells that reaches the threshold.
    #[inline(always)]
    unsafe fn put(self, block: u32, cells: u32, is_above: bool, found: Found, row: Row) {
        let tied = row.width - found.above;
        let before = (CELLS * self.ties).min(tied);
        let cells = if is_above { cells } else { cells.min(tied - before) };
        let start = (CELLS * self.above + before) as usize;
        for i in 0..CELLS {
            if i < cells {
                // SAFETY: the cells of blocks above the threshold are `found.above`, those that tie `tied` at most, so
                // the place is below `width`, which is at most `cap`; one thread an id.
                unsafe { global::store(row.ids.add(start + i as usize), CELLS * block + i) };
            }
        }
    }
}

/// The blocks of one warp: `32 per` of them in a row.
#[derive(Clone, Copy)]
pub struct Share {
    /// The first.
    pub first: u32,
    /// The one behind the last that there is.
    pub end: u32,
    /// Blocks of a lane, some of which may not be there.
    pub per: u32,
}

impl Share {
    /// Warp number `warp` of `warps` that share `blocks` blocks evenly.
    #[inline(always)]
    #[must_use]
    pub const fn of(blocks: u32, warp: u32, warps: u32) -> Self {
        let per = blocks.div_ceil(32 * warps);
        let first = warp * 32 * per;
        let end = first + 32 * per;
        Self { first, end: if end < blocks { end } else { blocks }, per }
    }

    /// The lane's keys k to k + 3, 0 for blocks that are not there, read from the scores.
    ///
    /// # Safety
    /// The share is one of the row's complete blocks.
    #[inline(always)]
    #[must_use]
    pub unsafe fn keys4(self, row: Row, k: u32) -> [u32; 4] {
        // SAFETY: same contract.
        unsafe { self.keys::<4>(row, k) }
    }

    /// As [`Share::keys4`], `N` keys, whose scores are under way at the same time.
    ///
    /// # Safety
    /// As [`Share::keys4`].
    #[inline(always)]
    #[must_use]
    pub unsafe fn keys<const N: usize>(self, row: Row, k: u32) -> [u32; N] {
        let first = self.first + 32 * k + warp::lane_id();
        let last = row.blocks.saturating_sub(1);
        let mut scores = [0.0f32; N];
        for j in 0..N {
            // SAFETY: at most the row's last complete block, or the first entry of a row without any.
            scores[j] = unsafe { global::load_nc(row.scores.add((first + 32 * j as u32).min(last) as usize)) };
        }
        let mut keys = [0u32; N];
        for j in 0..N {
            let key = order_key(scores[j]);
            keys[j] = if first + 32 * (j as u32) < self.end { key } else { 0 };
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::{Share, order_key};

    #[test]
    fn keys_are_ordered_as_scores_are() {
        let scores = [f32::NEG_INFINITY, -1e9, -1.0, -f32::MIN_POSITIVE, 0.0, 1e-45, 1.0, 1e9, f32::INFINITY];
        let keys = scores.map(order_key);
        assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]), "{keys:x?}");
        assert!(keys[0] > 0, "0 stands for no block");
        assert_eq!([f32::NAN, -f32::NAN, -0.0].map(order_key), [order_key(0.0); 3]);
    }

    #[test]
    fn shares_are_all_blocks_once() {
        for (blocks, warps) in [(0, 32), (1, 32), (1023, 32), (1025, 32), (33_792, 32), (4097, 256)] {
            let shares: Vec<_> = (0..warps).map(|w| Share::of(blocks, w, warps)).collect();
            let all: Vec<u32> = shares.iter().flat_map(|share| share.first..share.end).collect();
            assert!(all.into_iter().eq(0..blocks), "{blocks} over {warps}");
            assert!(shares.iter().all(|s| s.first + 32 * s.per >= s.end));
        }
    }
}
