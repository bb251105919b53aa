//! `mmvq.product/mma`: quantizes the vectors itself and multiplies them on tensor cores, sixteen rows and eight vectors at a
//! time.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], x quantized as `mmvq.quantize` does it; dots of a q8 block in integers
//! Shapes    `ProductParams`; `x` 16-byte aligned, its stride a multiple of 4; n_in a multiple of 128, rows of Q6_K of an even
//!           number of blocks; up to eight columns
//! Mapping   grid at most a block an SM, each with every grid-th tile of 16 rows; tiles come to shared memory by bulk copies. A
//!           warp has the same one to three units of 128 values of every row: of those it keeps all vectors in registers
//! Order     unit: blocks of 32 values ascending, fma; warp: its units ascending; block: warps ascending. It depends on n_in alone
//! Barriers  of the block one behind the first copies, one a group of up to three tiles: warps' sums are written before it and read
//!           behind it, by some of them; two places take turns, and those of the tiles themselves are filled again behind it
//! Budget    128 registers, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/); with one unit the bounds leave 80
//! Promise   Rounding against `plain`: exactness.md#mmvq-on-tensor-cores; a row's bits depend on its own vector alone
//!
//! The first half of the copies starts before the launch ahead has ended, which may write the vectors but not the matrix; the others
//! start behind the quantizing, since loads of the vectors would wait behind them. Rows past the last of a tile are the last one, done
//! again and not stored.

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{bulk, global, grid, shared};

use super::ProductParams;
use super::mma_kquants::{Q4Tile, Q5Tile, Q6Tile};
use super::mma_others::{Q8Tile, Xs4Tile};
use super::mma_vectors::{Unit, quantize};

/// Of warps with one unit: at most 24, one block an SM.
pub const ONE: Bounds = Bounds { threads: 768, min_blocks: 1 };
/// Of warps with two or three, whose vectors take registers.
pub const MORE: Bounds = Bounds { threads: 512, min_blocks: 1 };

/// Rows of a tile.
pub const ROWS: u32 = 16;
/// Columns that a kernel has room for.
pub const COLUMNS: usize = 8;
/// Values of a unit.
pub const UNIT: u32 = 128;
/// Shared memory of a block of sm_90.
const SHARED: u32 = 232_448;
/// Most tiles under way.
const MAX_SLOTS: u32 = 8;
/// Most tiles of a group: between two barriers warps are free to be in different ones, so that loads of one meet products of another.
const MAX_GROUP: u32 = 3;
/// Bytes of a landing counter, with what fills them up to where a copy may start behind it.
const HEAD: u32 = 16;
/// Sums of a warp of a tile.
const SUMS: u32 = ROWS * COLUMNS as u32;
/// Their bytes.
const SUMS_BYTES: u32 = 4 * SUMS;
/// Warps that add them up, a sum a lane.
const PARTS: u32 = SUMS / 32;

/// What a format does for a warp, a tile and a unit.
pub(super) trait Tile {
    /// Values of a block.
    const VALUES: u32;
    /// Bytes of a block.
    const BYTES: u32;
    /// Whether it reads the steps times sums.
    const SUMS: bool;

    /// Which word of a block of 32 codes lane `t` of a group of four has in register `r` < 2.
    fn word(t: u32, r: u32) -> u32;

    /// The lane's codes of block `block` of the unit in the order in which its weights come, from those of [`Self::word`]. All lanes
    /// of the warp call it together.
    #[inline(always)]
    fn order(word: u32, _unit: u32, _block: usize, _lane: u32) -> u32 {
        word
    }

    /// Adds unit `unit` of the rows at `rows`, of which the lane has one in each half of the tile, to its sums: those of the first
    /// row and columns 2 t and 2 t + 1, then those of the second.
    ///
    /// # Safety
    /// The rows are in shared memory, 4-byte aligned, with four bytes behind them; all lanes call it together.
    unsafe fn add(rows: [*const u8; 2], unit: u32, lane: u32, x: &Unit, y: &mut [f32; 4]);
}

/// Bytes of a place for a tile: its landing counter, the rows, and what is read behind them but not used.
const fn slot_bytes(row_bytes: u32) -> u32 {
    HEAD + ROWS * row_bytes + 16
}

/// Places for tiles, and tiles of a group.
#[derive(Clone, Copy)]
struct Places {
    slots: u32,
    group: u32,
}

impl Places {
    /// For rows of so many bytes beside the sums of `warps` warps: the largest group with two tiles more under way, else groups of one.
    #[inline(always)]
    const fn of(row_bytes: u32, warps: u32) -> Self {
        let mut group = MAX_GROUP;
        loop {
            let room = (SHARED - sums_bytes(group, warps)) / slot_bytes(row_bytes);
            let slots = if room < MAX_SLOTS { room } else { MAX_SLOTS };
            if group == 1 || slots >= group + 2 {
                return Self { slots, group };
            }
            group -= 1;
        }
    }
}

/// Bytes of the sums of two groups.
const fn sums_bytes(group: u32, warps: u32) -> u32 {
    2 * group * warps * SUMS_BYTES
}

/// A block for rows of some length.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Units of a warp.
    pub own: u32,
    /// Threads.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Block {
    /// For rows of `n_in` values in `row_bytes` bytes, with the fewest units a warp; none where they do not fit.
    #[must_use]
    pub fn of(n_in: u32, row_bytes: u32) -> Option<Self> {
        let units = n_in / UNIT;
        let fits = |(own, bounds): &(u32, Bounds)| units.is_multiple_of(*own) && units / own <= bounds.threads / 32;
        let (own, _) = [(1, ONE), (2, MORE), (3, MORE)].into_iter().find(fits)?;
        let warps = units / own;
        let Places { slots, group } = Places::of(row_bytes, warps);
        let shared_bytes = sums_bytes(group, warps) + slots * slot_bytes(row_bytes);
        let there = n_in.is_multiple_of(UNIT) && units > 0 && slots >= 2;
        there.then_some(Self { own, threads: 32 * warps, shared_bytes })
    }
}

/// Kernels of [`body`], a line each, and `INSTANCES`, the list of them: name and handle, format's type and name, units of a warp.
macro_rules! instances {
    ($($name:ident $handle:ident $tile:ident $format:ident $own:literal $bounds:ident;)*) => {
        $(
            /// An instance of the file's body.
            ///
            /// # Safety
            /// Shapes, alignment and room as `ProductParams` says; grid, block and shared memory as the file's header says.
            #[cuda_std::kernel(sm = 90)]
            #[launch_bounds($bounds)]
            pub unsafe fn $name(p: ProductParams) {
                // SAFETY: same contract.
                unsafe { body::<$tile, $own>(p) }
            }
        )*

        /// The kernels of this file: `rows` is the units of a warp.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static INSTANCES: &[super::Instance] = &[$(super::Instance {
            format: super::Format::$format,
            columns: COLUMNS,
            rows: $own,
            kernel: &$handle,
        }),*];
    };
}

instances! {
    mmvq_product_mma_q8_0_u1 MMVQ_PRODUCT_MMA_Q8_0_U1 Q8Tile Q8_0 1 ONE;
    mmvq_product_mma_q8_0_u2 MMVQ_PRODUCT_MMA_Q8_0_U2 Q8Tile Q8_0 2 MORE;
    mmvq_product_mma_q8_0_u3 MMVQ_PRODUCT_MMA_Q8_0_U3 Q8Tile Q8_0 3 MORE;
    mmvq_product_mma_q4_k_u1 MMVQ_PRODUCT_MMA_Q4_K_U1 Q4Tile Q4_K 1 ONE;
    mmvq_product_mma_q4_k_u2 MMVQ_PRODUCT_MMA_Q4_K_U2 Q4Tile Q4_K 2 MORE;
    mmvq_product_mma_q4_k_u3 MMVQ_PRODUCT_MMA_Q4_K_U3 Q4Tile Q4_K 3 MORE;
    mmvq_product_mma_q5_k_u1 MMVQ_PRODUCT_MMA_Q5_K_U1 Q5Tile Q5_K 1 ONE;
    mmvq_product_mma_q5_k_u2 MMVQ_PRODUCT_MMA_Q5_K_U2 Q5Tile Q5_K 2 MORE;
    mmvq_product_mma_q5_k_u3 MMVQ_PRODUCT_MMA_Q5_K_U3 Q5Tile Q5_K 3 MORE;
    mmvq_product_mma_q6_k_u1 MMVQ_PRODUCT_MMA_Q6_K_U1 Q6Tile Q6_K 1 ONE;
    mmvq_product_mma_q6_k_u2 MMVQ_PRODUCT_MMA_Q6_K_U2 Q6Tile Q6_K 2 MORE;
    mmvq_product_mma_q6_k_u3 MMVQ_PRODUCT_MMA_Q6_K_U3 Q6Tile Q6_K 3 MORE;
    mmvq_product_mma_iq4_xs_u1 MMVQ_PRODUCT_MMA_IQ4_XS_U1 Xs4Tile IQ4_XS 1 ONE;
    mmvq_product_mma_iq4_xs_u2 MMVQ_PRODUCT_MMA_IQ4_XS_U2 Xs4Tile IQ4_XS 2 MORE;
}

/// A block's tiles: every grid-th from its own number on, and the places that they come to in turn.
#[derive(Clone, Copy)]
struct Tiles {
    w: *const u8,
    ring: *mut u8,
    row_bytes: u32,
    n_out: u32,
    count: u32,
}

impl Tiles {
    /// First row of the block's tile `i`.
    #[inline(always)]
    fn first(&self, i: u32) -> u32 {
        (block_idx_x() + i * grid_dim_x()) * ROWS
    }

    /// Place `slot`: landing counter, and where the rows are.
    #[inline(always)]
    fn place(&self, slot: u32) -> (*mut bulk::Landing, *mut u8) {
        let start = self.ring.wrapping_add((slot * slot_bytes(self.row_bytes)) as usize);
        (start.cast(), start.wrapping_add(HEAD as usize))
    }

    /// One thread: starts the copy of tile `i` to place `slot`, if the tile exists.
    ///
    /// # Safety
    /// The place has no reader, its landing counter is made, and the tile before there was waited for by this thread.
    #[inline(always)]
    #[track_caller]
    unsafe fn start_copy(&self, i: u32, slot: u32) {
        if i >= self.count {
            return;
        }
        let (first, (landing, to)) = (self.first(i), self.place(slot));
        let from = self.w.wrapping_add(first as usize * self.row_bytes as usize);
        let bytes = ROWS.min(self.n_out - first) * self.row_bytes;
        let whole = bytes & !15;
        // SAFETY: sixteen rows are a multiple of 16 bytes, and so is where they start; a row has more than 16. What the last tile has
        // behind its last multiple of 16, the thread brings.
        unsafe {
            bulk::copy(to, from, whole, landing);
            let mut at = whole as usize;
            while at < bytes as usize {
                shared::store(to.add(at).cast::<u16>(), global::load_nc(from.add(at).cast()));
                at += 2;
            }
        }
    }
}

/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn body<F: Tile, const OWN: usize>(p: ProductParams) {
    let (me, lane, warps) = (thread_idx_x() / 32, thread_idx_x() % 32, block_dim_x() / 32);
    grid::let_next_start();
    let sums = shared::dynamic_shared::<f32>();
    let row_bytes = p.n_in / F::VALUES * F::BYTES;
    let Places { slots, group } = Places::of(row_bytes, warps);
    let tiles = Tiles {
        w: p.w,
        ring: sums.cast::<u8>().wrapping_add(sums_bytes(group, warps) as usize),
        row_bytes,
        n_out: p.n_out,
        count: (p.n_out.div_ceil(ROWS) - block_idx_x()).div_ceil(grid_dim_x()),
    };
    let starts_copies = thread_idx_x() == block_dim_x() - 32;
    let start = |slots: core::ops::Range<u32>| {
        for slot in slots {
            // SAFETY: one thread; nobody else looks before the barrier.
            unsafe {
                bulk::init(tiles.place(slot).0);
                tiles.start_copy(slot, slot);
            }
        }
    };
    let early = (slots.min(tiles.count) / 2).max(1);
    if starts_copies {
        start(0..early);
    }
    grid::wait_for_previous();
    // SAFETY: the vectors are there; all lanes of the warp are here.
    let x: [Unit; OWN] = core::array::from_fn(|u| unsafe {
        let unit = me + u as u32 * warps;
        // Of several units the choice would go through local memory.
        if OWN == 1 { quantize::<F, true>(&p, unit, lane) } else { quantize::<F, false>(&p, unit, lane) }
    });
    if starts_copies {
        start(early..slots);
    }
    sync_threads();
    let (mut slot, mut parity, mut of_group, mut first) = (0, 0, sums, 0);
    while first < tiles.count {
        let (here, first_slot) = (group.min(tiles.count - first), slot);
        for i in 0..here {
            let (landing, place) = tiles.place(slot);
            let last = (ROWS - 1).min(p.n_out - 1 - tiles.first(first + i));
            let row =
                |half: u32| place.wrapping_add(((lane / 4 + 8 * half).min(last) * row_bytes) as usize).cast_const();
            let rows = [row(0), row(1)];
            let mut y = [0.0f32; 4];
            // SAFETY: the counter was made before the barrier, and every phase is waited for; the rows have landed. The warp's sums are its
            // own up to the group's barrier; those of the group before the last one were read before the last barrier.
            unsafe {
                bulk::wait(landing, parity);
                for u in 0..OWN {
                    F::add(rows, me + u as u32 * warps, lane, &x[u], &mut y);
                }
                shared::store4(of_group.wrapping_add(((i * warps + me) * SUMS + 4 * lane) as usize), y);
            }
            slot += 1;
            if slot == slots {
                (slot, parity) = (0, parity ^ 1);
            }
        }
        sync_threads();
        if starts_copies {
            for i in 0..here {
                let freed = first_slot + i;
                // SAFETY: behind the barrier nobody reads the places of the group.
                unsafe { tiles.start_copy(first + i + slots, if freed < slots { freed } else { freed - slots }) };
            }
        }
        let mut part = me;
        while part < here * PARTS {
            let of_tile = of_group.wrapping_add((part / PARTS * warps * SUMS) as usize);
            // SAFETY: behind the barrier all sums of the group are there; one warp a part.
            unsafe { finish(&p, tiles.first(first + part / PARTS), part % PARTS * 32 + lane, warps, of_tile) };
            part += warps;
        }
        first += here;
        of_group = if of_group == sums { sums.wrapping_add((group * warps * SUMS) as usize) } else { sums };
    }
}

/// Adds number `at` of the warps' sums of a tile in order, then what is to be added, and stores.
///
/// # Safety
/// Those of every warp are at `sums`; nobody else has the result.
#[inline(always)]
unsafe fn finish(p: &ProductParams, first: u32, at: u32, warps: u32, sums: *const f32) {
    // SAFETY: same contract.
    let of = |warp: u32| unsafe { shared::load(sums.wrapping_add((warp * SUMS + at) as usize)) };
    // Four at a time, so that their loads are under way together.
    let four = |warp: u32| core::array::from_fn::<f32, 4, _>(|i| of(warp + i as u32));
    let (mut total, mut warp) = if warps < 4 {
        (of(0), 1)
    } else {
        let [a, b, c, d] = four(0);
        (((a + b) + c) + d, 4)
    };
    while warp + 3 < warps {
        let [a, b, c, d] = four(warp);
        total = (((total + a) + b) + c) + d;
        warp += 4;
    }
    while warp < warps {
        total += of(warp);
        warp += 1;
    }
    // As the lanes of a product have them: four each.
    let (lane, i) = (at / 4, at % 4);
    let (row, column) = (first + lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
    if row < p.n_out && column < p.columns {
        // SAFETY: row and column exist, one lane an element; `add` may be `y`.
        unsafe {
            if !p.add.is_null() {
                total += global::load(p.add.add(column as usize * p.add_stride as usize + row as usize));
            }
            global::store(p.y.add(column as usize * p.y_stride as usize + row as usize), total);
        }
    }
}
