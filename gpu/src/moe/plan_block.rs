//! `moe.plan/block`: one block groups the pairs by expert and cuts each group into tiles, a stable counting sort.
//!
//! Math      expert e's pairs, ascending, in tiles of `TILE`; tiles by ascending expert; the last of each filled up
//!           with
//!           `NO_PAIR`
//! Shapes    `PlanParams`; any ids
//! Mapping   warp w takes the w-th run of pairs, 32 at a time: a lane a pair, counting; then a thread an expert; then
//!           the warps over their runs again, placing. A block has as many warps as its pairs fill, up to 8
//! Order     integers only: the result does not depend on the number of warps
//! Barriers  three, by all threads: behind the counts, behind the totals, behind the first tiles; nothing returns early
//! Budget    40 registers, 40,960 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_dim_x, thread_idx_x};
use cuda_std::{global, kernel, shared, shared_array, warp};

use super::{MAX_EXPERTS, NO_PAIR, PlanParams, TILE, TILE_WORDS};

/// One block of up to 8 warps: that many counts of 1,024 experts fit beside the totals.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 1 };
/// Most warps of the block.
pub const WARPS: usize = BOUNDS.threads as usize / 32;
/// Most pairs: far below where an index overflows.
pub const MAX_PAIRS: usize = 1 << 24;

/// # Safety
/// Shapes and aliasing as `PlanParams` says; one block of 1 to 8 whole warps.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_plan_block(p: PlanParams) {
    let counts = shared_array![u32; WARPS * MAX_EXPERTS]; // [warp][expert]: pairs of the run, then of the runs before
    let totals = shared_array![u32; MAX_EXPERTS]; // [expert]: pairs
    let first_tiles = shared_array![u32; MAX_EXPERTS]; // [expert]
    let (thread, lane) = (thread_idx_x() as usize, warp::lane_id());
    let (warp, warps) = (thread / 32, block_dim_x() as usize / 32);
    let experts = p.experts as usize;
    let run = p.pairs.div_ceil(32 * warps as u32) * 32;
    let (start, end) = ((warp as u32 * run).min(p.pairs), ((warp as u32 + 1) * run).min(p.pairs));
    let mine = counts.wrapping_add(warp * MAX_EXPERTS);

    let mut e = lane as usize;
    while e < experts {
        // SAFETY: `e < MAX_EXPERTS` in this warp's row.
        unsafe { shared::store(mine.add(e), 0u32) };
        e += 32;
    }
    warp::sync_warp(warp::FULL_MASK);
    let mut base = start;
    while base < end {
        // SAFETY: all lanes of the warp are here; the ids are `PlanParams`'.
        let group = unsafe { Group::of(p, base + lane, end) };
        if group.leads(lane) {
            // SAFETY: the expert is below `experts`; of the lanes with this expert one writes, between warp barriers.
            unsafe {
                let count = mine.add(group.expert as usize);
                shared::store(count, shared::load(count) + group.len());
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        base += 32;
    }
    sync_threads();

    let mut e = thread;
    while e < experts {
        let mut total = 0u32;
        for w in 0..warps {
            // SAFETY: `w < WARPS`, `e < MAX_EXPERTS`; after the barrier only this thread touches the column.
            unsafe {
                let count = counts.add(w * MAX_EXPERTS + e);
                let n = shared::load(count);
                shared::store(count, total);
                total += n;
            }
        }
        // SAFETY: `e < MAX_EXPERTS`; one writer.
        unsafe { shared::store(totals.add(e), total) };
        e += thread_count(warps);
    }
    sync_threads();

    if warp == 0 {
        // SAFETY: all lanes of the first warp are here; totals are complete, first tiles have no other writer.
        unsafe { scan(totals, first_tiles, experts, p.n_tiles) };
    }
    sync_threads();

    let mut base = start;
    while base < end {
        // SAFETY: as in the counting pass.
        let group = unsafe { Group::of(p, base + lane, end) };
        let mut place = 0u32;
        if group.mask >> lane & 1 != 0 {
            // SAFETY: the expert is below `experts`; nothing writes before the warp barrier.
            place = unsafe { shared::load(mine.add(group.expert as usize)) };
        }
        warp::sync_warp(warp::FULL_MASK);
        if group.mask >> lane & 1 != 0 {
            let rank = place as usize + group.before(lane) as usize;
            // SAFETY: `rank` is below the expert's total, so the tile is below `max_tiles`; one pair a place. The count
            // has one writer.
            unsafe {
                let first = shared::load(first_tiles.add(group.expert as usize)) as usize;
                global::store(p.tiles.add((first + rank / TILE) * TILE_WORDS + 1 + rank % TILE), base + lane);
                if group.leads(lane) {
                    shared::store(mine.add(group.expert as usize), place + group.len());
                }
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        base += 32;
    }
    let mut e = thread;
    while e < experts {
        // SAFETY: `e < experts`; both arrays are complete.
        let (total, first) =
            unsafe { (shared::load(totals.add(e)) as usize, shared::load(first_tiles.add(e)) as usize) };
        // SAFETY: the tiles of one expert, whose places below `total` are the placing lanes'.
        unsafe { frame(p.tiles, e as u32, first, total) };
        e += thread_count(warps);
    }
}

#[inline(always)]
fn thread_count(warps: usize) -> usize {
    warps * 32
}

/// The lanes of a warp whose pairs have the same expert.
#[derive(Clone, Copy)]
struct Group {
    expert: u32,
    /// Those lanes; without the calling one if its pair has no expert.
    mask: u32,
}

impl Group {
    /// The calling lane's group, for pair `pair < end`.
    ///
    /// # Safety
    /// All lanes of the warp call it; `end <= p.pairs`.
    #[inline(always)]
    unsafe fn of(p: PlanParams, pair: u32, end: u32) -> Self {
        let mut expert = u32::MAX;
        if pair < end {
            // SAFETY: `pair < pairs`; nothing writes the ids.
            expert = unsafe { global::load_nc(p.ids.add(pair as usize)) };
        }
        let valid = expert < p.experts;
        let mut mask = warp::ballot(valid);
        let bits = 32 - (p.experts - 1).leading_zeros();
        for bit in 0..bits {
            let set = expert >> bit & 1 != 0;
            let with = warp::ballot(set);
            mask &= if set { with } else { !with };
        }
        Self { expert, mask: if valid { mask } else { 0 } }
    }

    /// Lanes of the group below `lane`.
    #[inline(always)]
    fn before(self, lane: u32) -> u32 {
        (self.mask & ((1 << lane) - 1)).count_ones()
    }

    #[inline(always)]
    fn len(self) -> u32 {
        self.mask.count_ones()
    }

    #[inline(always)]
    fn leads(self, lane: u32) -> bool {
        self.mask >> lane & 1 != 0 && self.before(lane) == 0
    }
}

/// First tiles from totals, by the lanes of one warp: a lane a run of experts, then a scan over the lanes.
///
/// # Safety
/// All lanes of one warp call it; `totals[.. experts]` is written and not changed, nobody else touches `first_tiles`.
#[inline(always)]
unsafe fn scan(totals: *const u32, first_tiles: *mut u32, experts: usize, n_tiles: *mut u32) {
    let lane = warp::lane_id();
    let run = experts.div_ceil(32);
    let (start, end) = ((lane as usize * run).min(experts), ((lane as usize + 1) * run).min(experts));
    let mut sum = 0u32;
    for e in start..end {
        // SAFETY: `e < experts`.
        sum += unsafe { shared::load(totals.add(e)) }.div_ceil(TILE as u32);
    }
    let mut through = sum;
    for step in [1, 2, 4, 8, 16] {
        let other = warp::shfl_up(through, step);
        if lane >= step {
            through += other;
        }
    }
    let mut first = through - sum;
    for e in start..end {
        // SAFETY: `e < experts`, in this lane's run.
        unsafe {
            shared::store(first_tiles.add(e), first);
            first += shared::load(totals.add(e)).div_ceil(TILE as u32);
        }
    }
    if lane == 31 {
        // SAFETY: one word, one writer.
        unsafe { global::store(n_tiles, through) };
    }
}

/// What an expert's tiles hold beside pairs: the expert, and `NO_PAIR` behind the last pair.
///
/// # Safety
/// `tiles` has the expert's `total` places from tile `first` on; nobody else writes those words.
#[inline(always)]
unsafe fn frame(tiles: *mut u32, expert: u32, first: usize, total: usize) {
    let last = first + total.div_ceil(TILE);
    for tile in first..last {
        // SAFETY: a tile of this expert.
        unsafe { global::store(tiles.add(tile * TILE_WORDS), expert) };
    }
    let mut rank = total;
    while !rank.is_multiple_of(TILE) {
        // SAFETY: within the expert's last tile.
        unsafe { global::store(tiles.add((first + rank / TILE) * TILE_WORDS + 1 + rank % TILE), NO_PAIR) };
        rank += 1;
    }
}
