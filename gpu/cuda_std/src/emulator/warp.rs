//! Warp collectives: the lanes named by the mask leave their operands in slots, the last one to arrive computes all
//! results and releases the others.

use std::panic::Location;

use super::block::{Block, Primitive, Source, Status, raise, suspend};
use super::context;
use super::fault::Fault;
use super::memory::POISON;

/// Words a lane can pass: an mma takes ten.
pub(crate) const SLOT_WORDS: usize = 12;
/// Operands, then results, of the 32 lanes.
pub(crate) type Slots = [[u32; SLOT_WORDS]; 32];

/// Lanes that gather at one primitive.
struct Group {
    primitive: &'static Primitive,
    mask: u32,
    arrived: u32,
    source: Source,
}

/// A warp of the block.
pub(crate) struct Warp {
    /// Lanes that exist: all, but for the last warp of a block whose size is no multiple of 32.
    pub exist: u32,
    slots: Slots,
    groups: Vec<Group>,
    /// Line from which the first lane reached each barrier, and the barrier's generation then.
    sources: [Option<(u32, Source)>; super::block::BARRIERS],
}

impl Warp {
    pub fn new(lanes: u32) -> Self {
        let exist = u32::MAX >> (32 - lanes);
        Self { exist, slots: [[POISON; SLOT_WORDS]; 32], groups: Vec::new(), sources: Default::default() }
    }

    /// Whether every lane so far reached this generation of a barrier from `source`.
    #[inline]
    pub fn same_source(&mut self, barrier: usize, generation: u32, source: Source) -> bool {
        match self.sources[barrier] {
            Some((seen, first)) if seen == generation => std::ptr::eq(first, source) || first == source,
            _ => {
                self.sources[barrier] = Some((generation, source));
                true
            }
        }
    }

    /// The primitive that lanes of this warp wait at.
    pub fn waits_for(&self) -> Option<&'static Primitive> {
        self.groups.first().map(|g| g.primitive)
    }
}

/// Leaves `words` in the running lane's slot, waits for the lanes of `mask`, and takes the slot's words as the last lane's
/// `compute(slots, lanes)` left them.
#[inline(always)]
pub(crate) fn gather(
    primitive: &'static Primitive,
    mask: u32,
    words: &mut [u32],
    compute: fn(&mut Slots, u32),
    source: Source,
) {
    // As at barriers, the switch is inlined into the kernel.
    if leave(primitive, mask, words, compute, source) {
        suspend();
    }
    take(words);
}

/// The first half of [`gather`]: true where the thread must be suspended now.
#[inline(never)]
fn leave(
    primitive: &'static Primitive,
    mask: u32,
    words: &[u32],
    compute: fn(&mut Slots, u32),
    source: Source,
) -> bool {
    let block = context::block();
    let linear = context::with(|c| c.linear.get());
    // SAFETY: the running block; this exclusive reference ends before the thread is suspended.
    unsafe { (*block).gather(linear, primitive, mask, words, compute, source) }.unwrap_or_else(|fault| raise(fault))
}

/// The second half of [`gather`]: the running lane's results.
#[inline]
fn take(words: &mut [u32]) {
    let block = context::block();
    let linear = context::with(|c| c.linear.get()) as usize;
    // SAFETY: the running block, read only.
    let warp = unsafe { &(&(*block).warps)[linear / 32] };
    words.copy_from_slice(&warp.slots[linear % 32][..words.len()]);
}

impl Block {
    /// True where the thread must be suspended.
    #[inline]
    fn gather(
        &mut self,
        linear: u32,
        primitive: &'static Primitive,
        mask: u32,
        words: &[u32],
        compute: fn(&mut Slots, u32),
        source: Source,
    ) -> Result<bool, Fault> {
        let warp = &mut self.warps[linear as usize / 32];
        let lane = linear % 32;
        if mask >> lane & 1 == 0 {
            let problem = format!("mask {mask:#010x} does not name the calling lane {lane}");
            return Err(Fault::BadOperand { place: self.place(source), primitive: primitive.name, problem });
        }
        if primitive.aligned && warp.exist != u32::MAX {
            let problem = format!("the block's last warp has only {} threads", warp.exist.count_ones());
            return Err(Fault::BadOperand { place: self.place(source), primitive: primitive.name, problem });
        }
        warp.slots[lane as usize][..words.len()].copy_from_slice(words);
        let alike = |g: &Group| {
            std::ptr::eq(g.primitive, primitive) && g.mask == mask && (!primitive.aligned || g.source == source)
        };
        // Lanes that wait elsewhere may still come here, unless they in turn wait for this one.
        if warp.groups.iter().any(|g| g.mask >> lane & 1 == 1 && g.arrived & mask != 0 && !alike(g)) {
            self.threads[linear as usize].status = Status::Waiting(primitive, source);
            return Err(self.scattered(linear, primitive));
        }
        let at = match warp.groups.iter().position(alike) {
            Some(at) => at,
            None => {
                warp.groups.push(Group { primitive, mask, arrived: 0, source });
                warp.groups.len() - 1
            }
        };
        let group = &mut warp.groups[at];
        group.arrived |= 1 << lane;
        let lanes = mask & warp.exist;
        if group.arrived != lanes {
            self.threads[linear as usize].status = Status::Waiting(primitive, source);
            return Ok(true);
        }
        warp.groups.swap_remove(at);
        compute(&mut warp.slots, lanes);
        if let Some(races) = &mut self.races
            && std::ptr::eq(primitive, &SYNC_WARP)
        {
            races.sync_warp(linear / 32, lanes);
        }
        let draws = self.ready.draws();
        let mut rest = if draws { lanes } else { lanes & !(1 << lane) };
        while rest != 0 {
            let t = linear / 32 * 32 + rest.trailing_zeros();
            self.threads[t as usize].status = Status::Runnable;
            self.ready.push(t as u16);
            rest &= rest - 1;
        }
        Ok(draws)
    }
}

/// The lanes of a mask, ascending.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32usize).filter(move |lane| mask >> lane & 1 == 1)
}

/// Host body of [`warp::lane_id`](crate::warp::lane_id).
#[inline(always)]
#[must_use]
pub(crate) fn lane_id() -> u32 {
    context::with(|c| c.linear.get()) % 32
}

static SYNC_WARP: Primitive = Primitive { name: "sync_warp", aligned: false };

/// Host body of [`warp::sync_warp`](crate::warp::sync_warp).
#[inline(always)]
#[track_caller]
pub(crate) fn sync_warp(mask: u32) {
    gather(&SYNC_WARP, mask, &mut [], |_, _| {}, Location::caller());
}

/// Applies a shuffle: `from(lane, operand, first, last)` is the lane to read, by the lane's segment `first..=last`; where it
/// is `None` the lane keeps its own value. Slots hold value, operand, width.
fn shuffle(slots: &mut Slots, lanes_in: u32, from: fn(u32, u32, u32, u32) -> Option<u32>) {
    let values = slots.map(|s| s[0]);
    for lane in lanes(lanes_in) {
        let [_, operand, width, ..] = slots[lane];
        let first = lane as u32 & !(width - 1);
        let from = from(lane as u32, operand % 32, first, first + width - 1).unwrap_or(lane as u32);
        slots[lane][0] = if lanes_in >> from & 1 == 1 { values[from as usize] } else { POISON };
    }
}

macro_rules! shuffles {
    ($($name:ident, $primitive:ident, $source:expr;)*) => {$(
        static $primitive: Primitive = Primitive { name: stringify!($name), aligned: false };

        /// Host body of the shuffle of this name in [`warp`](crate::warp), for 32 bits.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub(crate) fn $name(mask: u32, v: u32, operand: u32, width: u32) -> u32 {
            let source = Location::caller();
            if !(width.is_power_of_two() && width <= 32) {
                bad_width(&$primitive, width, source);
            }
            let mut words = [v, operand, width];
            gather(&$primitive, mask, &mut words, |slots, lanes| shuffle(slots, lanes, $source), source);
            words[0]
        }
    )*};
}

shuffles! {
    // PTX compares with the segment's last lane only, so that xor can read a lower segment.
    shfl_xor, SHFL_XOR, |lane, operand, _, last| Some(lane ^ operand).filter(|&from| from <= last);
    shfl_idx, SHFL_IDX, |_, operand, first, last| Some(first | (operand & (last - first)));
    shfl_up, SHFL_UP, |lane, operand, first, _| lane.checked_sub(operand).filter(|&from| from >= first);
    shfl_down, SHFL_DOWN, |lane, operand, _, last| Some(lane + operand).filter(|&from| from <= last);
}

#[cold]
#[inline(never)]
fn bad_width(primitive: &'static Primitive, width: u32, source: Source) -> ! {
    // SAFETY: the running block, read only.
    let place = unsafe { (*context::block()).place(source) };
    let problem = format!("width {width} is none of 1, 2, 4, 8, 16, 32");
    raise(Fault::BadOperand { place, primitive: primitive.name, problem })
}

static BALLOT: Primitive = Primitive { name: "ballot", aligned: false };
static ANY: Primitive = Primitive { name: "any", aligned: false };
static ALL: Primitive = Primitive { name: "all", aligned: false };

fn votes(slots: &mut Slots, lanes_in: u32) {
    let ballot = lanes(lanes_in).fold(0, |ballot, lane| ballot | slots[lane][0] << lane);
    for lane in lanes(lanes_in) {
        slots[lane][..2].copy_from_slice(&[ballot, lanes_in]);
    }
}

#[inline(always)]
fn vote(primitive: &'static Primitive, mask: u32, p: bool, source: Source) -> [u32; 2] {
    let mut words = [u32::from(p), 0];
    gather(primitive, mask, &mut words, votes, source);
    words
}

/// Host body of [`warp::ballot_masked`](crate::warp::ballot_masked).
#[inline(always)]
#[track_caller]
#[must_use]
pub(crate) fn ballot(mask: u32, p: bool) -> u32 {
    vote(&BALLOT, mask, p, Location::caller())[0]
}

/// Host body of [`warp::any_masked`](crate::warp::any_masked).
#[inline(always)]
#[track_caller]
#[must_use]
pub(crate) fn any(mask: u32, p: bool) -> bool {
    vote(&ANY, mask, p, Location::caller())[0] != 0
}

/// Host body of [`warp::all_masked`](crate::warp::all_masked).
#[inline(always)]
#[track_caller]
#[must_use]
pub(crate) fn all(mask: u32, p: bool) -> bool {
    let [ballot, lanes] = vote(&ALL, mask, p, Location::caller());
    ballot == lanes
}

macro_rules! reductions {
    ($($name:ident, $primitive:ident, $ty:ty, $combine:expr;)*) => {$(
        static $primitive: Primitive = Primitive { name: stringify!($name), aligned: false };

        /// Host body of the reduction of this name in [`warp`](crate::warp).
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub(crate) fn $name(mask: u32, v: $ty) -> $ty {
            let mut words = [v as u32];
            gather(&$primitive, mask, &mut words, |slots, lanes_in| {
                let combine: fn($ty, $ty) -> $ty = $combine;
                let all = lanes(lanes_in).map(|lane| slots[lane][0] as $ty).reduce(combine);
                for lane in lanes(lanes_in) {
                    slots[lane][0] = all.unwrap_or_default() as u32;
                }
            }, Location::caller());
            words[0] as $ty
        }
    )*};
}

reductions! {
    redux_add_u32, REDUX_ADD_U32, u32, u32::wrapping_add;
    redux_min_u32, REDUX_MIN_U32, u32, Ord::min;
    redux_max_u32, REDUX_MAX_U32, u32, Ord::max;
    redux_add_i32, REDUX_ADD_I32, i32, i32::wrapping_add;
    redux_min_i32, REDUX_MIN_I32, i32, Ord::min;
    redux_max_i32, REDUX_MAX_I32, i32, Ord::max;
    redux_and_u32, REDUX_AND_U32, u32, |a, b| a & b;
    redux_or_u32, REDUX_OR_U32, u32, |a, b| a | b;
    redux_xor_u32, REDUX_XOR_U32, u32, |a, b| a ^ b;
}
