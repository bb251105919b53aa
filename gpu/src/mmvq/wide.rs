//! `mmvq.product/wide`: one vector, which it quantizes itself; a lane takes 64 values of a row at once, whose dots it sums as
//! integers as far as one scale goes.
//!
//! Math      y[r] = sum over k of W[r][k] x[k], x quantized as `mmvq.quantize` does it; dots of one scale in integers
//! Shapes    `ProductParams`; `x` 16-byte aligned; n_in a multiple of 64; one column
//! Mapping   grid at most a block an SM; rows are dealt to the warps in runs of neighbours. `R` rows of a run, 32 / R lanes each,
//!           come to a place in shared memory by one bulk copy; lane k of a row has units k, k + 32 / R, .. of 64 values
//! Order     lane: its units ascending, in each its pieces ascending, fma; row: lanes by halves, 16 / R first. It depends on n_in
//!           and R alone
//! Barriers  of the block one, behind the landing counters and the vector; of the warp one a group of rows, before its place is
//!           filled again
//! Budget    80 registers, 48 where two blocks of 20 warps have room on an SM, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `plain`: exactness.md#mmvq-by-64-values; a row's bits depend on the vector, n_in and R alone
//!
//! Copies start before the launch ahead has ended, which may write the vector but not the matrix: all those of a block that has
//! room beside that launch's, else those of half of its warps; the others start behind the quantizing, since loads of the vector
//! would wait behind them. A copy goes from the multiple of 16 below a group of rows to the one above it; what the matrix has
//! behind its last multiple of 16, a lane brings.

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{bulk, global, grid, shared, warp};

use super::ProductParams;
use super::wide_kquants::{Q3Wide, Q4Wide, Q5Wide, Q6Wide};
use super::wide_others::{Q8Wide, Xs4Wide};
use super::wide_vectors::{Vector, quantize, vector_bytes};

/// At most 24 warps; two blocks of up to 12 have room on an SM.
pub const ALONE: Bounds = Bounds { threads: 768, min_blocks: 1 };
/// At most 20 warps, and two such blocks have room on an SM: for formats of which 80 rows of 2,560 values fit half of its shared memory.
pub const BESIDE: Bounds = Bounds { threads: 640, min_blocks: 2 };

/// Values of a unit.
pub const UNIT: u32 = 64;
/// Most units of a row that a lane adds up, each in up to two roundings.
#[cfg(not(target_arch = "nvptx64"))]
const MAX_STEPS: u32 = 12;
/// Shared memory of a block of sm_90.
const SHARED: u32 = 232_448;
/// That of each of two: the next call's block starts beside this one's, with its first rows under way.
const HALF: u32 = 115_712;
/// Most groups of rows under way in a warp.
const MAX_SLOTS: u32 = 4;
/// Bytes of a landing counter, with what fills them up to where a copy may start behind it.
const HEAD: u32 = 16;

/// What a format does for a lane and a unit.
pub(super) trait Wide {
    /// Values of a block.
    const VALUES: u32;
    /// Bytes of a block.
    const BYTES: u32;
    /// Whether the four pieces of 16 values of a unit are 32 values apart, and two units take turns in 128; else they are neighbours.
    const SPLIT: bool;
    /// Whether words of codes alternate between the first and the second half of a block of 32.
    const INTERLEAVED: bool = false;
    /// Whether it reads the steps times sums.
    const SUMS: bool = false;
    /// Whether it reads [`Self::offset`] times sums.
    const OFFSETS: bool = false;

    /// What the step of a piece, or where they are neighbours of a block of 32, is multiplied by: a power of two.
    #[inline(always)]
    fn step_scale(_i: u32) -> f32 {
        1.0
    }

    /// What the sum of the codes of a piece is multiplied by.
    #[inline(always)]
    fn offset(_i: u32) -> i32 {
        0
    }

    /// Where unit `unit` of a row lies: the byte that its block or blocks start at, and its number there.
    #[inline(always)]
    fn place(unit: u32) -> (u32, u32) {
        let units = Self::VALUES / UNIT;
        (unit / units * Self::BYTES, unit % units)
    }

    /// Adds a unit to a sum: number `unit` of the block at byte `at` of `rows`.
    ///
    /// # Safety
    /// The block is in shared memory, with one word behind it; `rows` is 16-byte aligned, `at` as the format's blocks are; the vector
    /// has the unit.
    unsafe fn add(rows: *const u8, at: u32, unit: u32, x: Vector, sum: f32) -> f32;
}

/// Bytes of a place for `r` rows: its landing counter, 16-byte units that cover them, and a word behind that is read but not used.
const fn slot_bytes(row_bytes: u32, r: u32) -> u32 {
    HEAD + (r * row_bytes + 15 + 4).next_multiple_of(16) + 16
}

/// Most threads of a block that another one has registers beside.
const fn beside(bounds: Bounds) -> u32 {
    if bounds.min_blocks > 1 { bounds.threads } else { bounds.threads / 2 }
}

/// Bytes of dynamic shared memory of a block with `slots` places a warp, and whether another block has room beside it, which its
/// registers leave to blocks of up to `most` threads.
#[inline(always)]
const fn room(n_in: u32, slots: u32, warps: u32, slot_bytes: u32, most: u32) -> (u32, bool) {
    let bytes = vector_bytes(n_in) + slots * warps * slot_bytes;
    (bytes, bytes <= HALF && 32 * warps <= most)
}

/// Places of a warp.
#[inline(always)]
fn slots(row_bytes: u32, n_in: u32, warps: u32, r: u32) -> u32 {
    let of_a_slot = warps * slot_bytes(row_bytes, r);
    let beside = |shared: u32| shared.saturating_sub(vector_bytes(n_in)) / of_a_slot;
    let room = if beside(HALF) > 0 { beside(HALF) } else { beside(SHARED) };
    if room < MAX_SLOTS { room } else { MAX_SLOTS }
}

/// A block for a matrix.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Rows side by side in a warp.
    pub rows: u32,
    /// Threads.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Block {
    /// For `n_out` rows of `n_in` values on `sms` SMs; none where there is no kernel for the format, or rows do not fit.
    #[must_use]
    pub fn of(format: super::Format, [n_in, n_out]: [u32; 2], sms: u32) -> Option<Self> {
        const SCHEDULERS: u32 = 4;
        /// Steps of a warp that it takes as long as: groups that have to wait for a place, and the next call's block for this one's end.
        const WAIT: u32 = 8;
        /// Those of a round of quantizing.
        const ROUND: u32 = 5;
        let (values, bytes) = format.block();
        let (units, row_bytes) = (n_in / UNIT, n_in / values as u32 * bytes as u32);
        let block = |(warps, rows): (u32, u32)| {
            let slots = slots(row_bytes, n_in, warps, rows);
            let (groups, units_a_lane) = (n_out.div_ceil(sms * warps).div_ceil(rows), units.div_ceil(32 / rows));
            let bounds = INSTANCES.iter().find(|i| i.format == format && i.rows == rows as usize)?.kernel.info().bounds;
            let (shared_bytes, is_beside) = room(n_in, slots, warps, slot_bytes(row_bytes, rows), beside(bounds));
            // Of the busiest scheduler.
            let steps = warps.div_ceil(SCHEDULERS) * groups * units_a_lane
                + WAIT * (u32::from(groups > slots) + u32::from(!is_beside))
                + ROUND * n_in.div_ceil(4 * 32 * warps);
            let fits = units_a_lane <= MAX_STEPS && slots > 0 && 32 * warps <= bounds.threads;
            fits.then_some((steps, Self { rows, threads: 32 * warps, shared_bytes }))
        };
        let best = |warps: &[u32]| {
            let blocks = warps.iter().flat_map(|&warps| [1, 4].map(|rows| (warps, rows)));
            blocks.filter_map(block).min_by_key(|&(steps, _)| steps).map(|(_, block)| block)
        };
        // Fewer warps wait for each other's latencies, but may be all that there is room for.
        best(&[24, 20, 16, 12]).or_else(|| best(&[8, 4])).filter(|_| n_in.is_multiple_of(UNIT))
    }
}

/// Kernels of [`body`], a line each, and `INSTANCES`, the list of them: name and handle, format's type and name, rows side by side,
/// bounds.
macro_rules! instances {
    ($($name:ident $handle:ident $wide:ident $format:ident $rows:literal $bounds:ident;)*) => {
        $(
            /// An instance of the file's body.
            ///
            /// # Safety
            /// Shapes, alignment and room as `ProductParams` says; grid, block and shared memory as the file's header says.
            #[cuda_std::kernel(sm = 90)]
            #[launch_bounds($bounds)]
            pub unsafe fn $name(p: ProductParams) {
                // SAFETY: same contract.
                unsafe { body::<$wide, $rows>(p, beside($bounds)) }
            }
        )*

        /// The kernels of this file.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static INSTANCES: &[super::Instance] = &[$(super::Instance {
            format: super::Format::$format,
            columns: 1,
            rows: $rows,
            kernel: &$handle,
        }),*];
    };
}

instances! {
    mmvq_product_wide_q8_0_r1 MMVQ_PRODUCT_WIDE_Q8_0_R1 Q8Wide Q8_0 1 ALONE;
    mmvq_product_wide_q8_0_r4 MMVQ_PRODUCT_WIDE_Q8_0_R4 Q8Wide Q8_0 4 ALONE;
    mmvq_product_wide_q3_k_r1 MMVQ_PRODUCT_WIDE_Q3_K_R1 Q3Wide Q3_K 1 ALONE;
    mmvq_product_wide_q3_k_r4 MMVQ_PRODUCT_WIDE_Q3_K_R4 Q3Wide Q3_K 4 BESIDE;
    mmvq_product_wide_q4_k_r1 MMVQ_PRODUCT_WIDE_Q4_K_R1 Q4Wide Q4_K 1 ALONE;
    mmvq_product_wide_q4_k_r4 MMVQ_PRODUCT_WIDE_Q4_K_R4 Q4Wide Q4_K 4 ALONE;
    mmvq_product_wide_q5_k_r1 MMVQ_PRODUCT_WIDE_Q5_K_R1 Q5Wide Q5_K 1 ALONE;
    mmvq_product_wide_q5_k_r4 MMVQ_PRODUCT_WIDE_Q5_K_R4 Q5Wide Q5_K 4 ALONE;
    mmvq_product_wide_q6_k_r1 MMVQ_PRODUCT_WIDE_Q6_K_R1 Q6Wide Q6_K 1 ALONE;
    mmvq_product_wide_q6_k_r4 MMVQ_PRODUCT_WIDE_Q6_K_R4 Q6Wide Q6_K 4 ALONE;
    mmvq_product_wide_iq4_xs_r1 MMVQ_PRODUCT_WIDE_IQ4_XS_R1 Xs4Wide IQ4_XS 1 ALONE;
    mmvq_product_wide_iq4_xs_r4 MMVQ_PRODUCT_WIDE_IQ4_XS_R4 Xs4Wide IQ4_XS 4 BESIDE;
}

/// A warp's rows, which lie one behind the other, and the places that groups of them come to in turn.
#[derive(Clone, Copy)]
struct Rows {
    /// Where they start, and the matrix's end.
    start: *const u8,
    end: *const u8,
    ring: *mut u8,
    rows: u32,
    row_bytes: u32,
}

impl Rows {
    /// Place `slot`: landing counter, and where rows are.
    #[inline(always)]
    fn place<const R: u32>(&self, slot: u32) -> (*mut bulk::Landing, *mut u8) {
        let start = self.ring.wrapping_add((slot * slot_bytes(self.row_bytes, R)) as usize);
        (start.cast(), start.wrapping_add(HEAD as usize))
    }

    /// Where the group from row `first` on starts.
    #[inline(always)]
    fn from(&self, first: u32) -> *const u8 {
        self.start.wrapping_add(first as usize * self.row_bytes as usize)
    }

    /// One lane: starts the copy of the group from row `first` on to place `slot`, if there is such a row.
    ///
    /// # Safety
    /// The place has no reader, its landing counter is made, and the group before there was waited for.
    #[inline(always)]
    #[track_caller]
    unsafe fn start_copy<const R: u32>(&self, first: u32, slot: u32) {
        if first >= self.rows {
            return;
        }
        let (from, bytes) = (self.from(first), R.min(self.rows - first) * self.row_bytes);
        let (off, end) = ((from.addr() % 16) as u32, from.wrapping_add(bytes as usize));
        let (start, (landing, to)) = (from.wrapping_sub(off as usize), self.place::<R>(slot));
        let tail = if end == self.end { (end.addr() % 16) as u32 } else { 0 };
        let whole = (off + bytes - tail).next_multiple_of(16);
        // SAFETY: inside the matrix, from and to multiples of 16; the place has room. A row has more than 32 bytes, so that at least
        // 16 are copied.
        unsafe {
            bulk::copy(to, start, whole, landing);
            let mut at = whole as usize;
            while at < (whole + tail) as usize {
                shared::store(to.add(at).cast::<u16>(), global::load_nc(start.add(at).cast()));
                at += 2;
            }
        }
    }
}

/// `most_beside`: [`beside`] of the kernel's bounds.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn body<F: Wide, const R: u32>(p: ProductParams, most_beside: u32) {
    let (warp, lane, warps) = (thread_idx_x() / 32, thread_idx_x() % 32, block_dim_x() / 32);
    grid::let_next_start();
    let vector = shared::dynamic_shared::<u8>();
    let row_bytes = p.n_in / F::VALUES * F::BYTES;
    let slots = slots(row_bytes, p.n_in, warps, R);
    let (_, is_beside) = room(p.n_in, slots, warps, slot_bytes(row_bytes, R), most_beside);
    // The first `extra` warps have a row more; warps are numbered across the blocks, so that no SM has many of them.
    let (all, me) = (grid_dim_x() * warps, warp * grid_dim_x() + block_idx_x());
    let (share, extra) = (p.n_out / all, p.n_out % all);
    let first = me * share + me.min(extra);
    let ring_off = vector_bytes(p.n_in) + warp * slots * slot_bytes(row_bytes, R);
    let run = Rows {
        start: p.w.wrapping_add(first as usize * row_bytes as usize),
        end: p.w.wrapping_add(p.n_out as usize * row_bytes as usize),
        ring: vector.wrapping_add(ring_off as usize),
        rows: share + u32::from(me < extra),
        row_bytes,
    };
    let start = || {
        if lane < slots {
            // SAFETY: a lane a place; nobody else looks before the barrier.
            unsafe {
                bulk::init(run.place::<R>(lane).0);
                run.start_copy::<R>(lane * R, lane);
            }
        }
    };
    let early = is_beside || warp < warps / 2;
    if early {
        start();
    }
    grid::wait_for_previous();
    // SAFETY: the vector's place is the block's own.
    unsafe { quantize::<F>(&p, vector) };
    if !early {
        start();
    }
    sync_threads();
    let (units, lanes) = (p.n_in / UNIT, 32 / R);
    let (own, k) = (lane / lanes, lane % lanes);
    let (mut slot, mut parity, mut group) = (0, 0, 0);
    while group < run.rows {
        let ((landing, rows), last) = (run.place::<R>(slot), (run.rows - group - 1).min(R - 1));
        let row = (run.from(group).addr() % 16) as u32 + own.min(last) * row_bytes;
        // SAFETY: the counter was made before the barrier; every phase is waited for.
        unsafe { bulk::wait(landing, parity) };
        let (mut unit, mut sum) = (k, 0.0);
        while unit < units {
            let (at, of_block) = F::place(unit);
            // SAFETY: the row has landed; the vector is there.
            sum = unsafe { F::add(rows, row + at, of_block, Vector::of(vector, p.n_in, unit), sum) };
            unit += lanes;
        }
        warp::sync_warp(warp::FULL_MASK);
        if lane == 0 {
            // SAFETY: the place was read last before the warp's barrier.
            unsafe { run.start_copy::<R>(group + slots * R, slot) };
        }
        let mut off = lanes / 2;
        while off > 0 {
            sum += warp::shfl_xor(sum, off);
            off /= 2;
        }
        if k == 0 && own <= last {
            let row = (first + group + own) as usize;
            // SAFETY: the row exists, one lane an element; `add` may be `y`.
            unsafe {
                if !p.add.is_null() {
                    sum += global::load(p.add.add(row));
                }
                global::store(p.y.add(row), sum);
            }
        }
        group += R;
        slot += 1;
        if slot == slots {
            (slot, parity) = (0, parity ^ 1);
        }
    }
}
