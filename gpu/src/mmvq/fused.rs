//! `mmvq.product/fused`: starts beside the launch before it and brings the matrix through shared memory; quantizes one or two
//! vectors itself.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`; up to two x are quantized as `mmvq.quantize` does it
//! Shapes    `ProductParams`; up to two `x` 16-byte aligned, their stride a multiple of 4
//! Mapping   grid at most a block an SM, block 640: rows are dealt to the warps in runs of neighbours. A warp has two pieces of
//!           rows in shared memory, which bulk copies bring; lane l plays four lanes of the module's order, 4 (l / 4) .. + 3, of
//!           slot l % 4: they share scales and 16 bytes of a column's codes
//! Order     the module's: a 4 x 4 transpose brings the slots of a lane together at the end of a row
//! Barriers  of the block two, behind the landing counters and behind the vectors; of the warp one a piece, before its place is
//!           filled again
//! Budget    96 registers, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`
//!
//! Here are the kernels of one column, and what all share; those of two, four and eight are in fused_c2.rs, fused_c4.rs and
//! fused_c8.rs, with fewer warps, since their sums take registers. The copies of the first pieces start before the launch ahead
//! has ended, which may write the vectors but not the matrix; those of the second ones, where vectors are quantized, start
//! behind that, since loads of vectors would wait behind them. From four columns on two rows go side by side, since what is
//! read of the columns is the larger part. A copy goes from the multiple of 16 below a piece to the one above it, whatever the
//! format's alignment; what the matrix has behind its last multiple of 16, a lane brings.

use cuda_std::barrier::sync_threads;
use cuda_std::int::opaque;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{bulk, global, grid, shared, warp};

use super::ProductParams;
use super::fused_instances::instances;
use super::fused_kquants::{Q3Quad, Q4Quad, Q5Quad, Q6Quad};
use super::fused_others::{Q8Quad, Xs4Quad};
use super::fused_quads::{Lane, Quad};
#[cfg(not(target_arch = "nvptx64"))]
use super::fused_vectors::vector_bytes;
use super::fused_vectors::{Group, quantize, take};
use super::sums::finish;
use super::{fused_c2, fused_c4, fused_c8};

/// Twenty warps, one block an SM.
pub const BOUNDS: Bounds = Bounds { threads: 640, min_blocks: 1 };

instances! {
    BOUNDS;
    mmvq_product_fused_q6_k_t1 MMVQ_PRODUCT_FUSED_Q6_K_T1 Q6Quad Q6_K 1 1;
    mmvq_product_fused_q5_k_t1 MMVQ_PRODUCT_FUSED_Q5_K_T1 Q5Quad Q5_K 1 1;
    mmvq_product_fused_q4_k_t1 MMVQ_PRODUCT_FUSED_Q4_K_T1 Q4Quad Q4_K 1 1;
    mmvq_product_fused_q3_k_t1 MMVQ_PRODUCT_FUSED_Q3_K_T1 Q3Quad Q3_K 1 1;
    mmvq_product_fused_q8_0_t1 MMVQ_PRODUCT_FUSED_Q8_0_T1 Q8Quad Q8_0 1 1;
    mmvq_product_fused_iq4_xs_t1 MMVQ_PRODUCT_FUSED_IQ4_XS_T1 Xs4Quad IQ4_XS 1 1;
}

/// Bounds of a kernel for `columns` columns.
#[must_use]
pub const fn bounds(columns: usize) -> Bounds {
    match columns {
        1 => BOUNDS,
        2 => fused_c2::BOUNDS,
        4 => fused_c4::BOUNDS,
        _ => fused_c8::BOUNDS,
    }
}

/// Warps of its block.
#[must_use]
pub const fn warps(columns: usize) -> u32 {
    bounds(columns).threads / 32
}

/// The kernels of all files.
#[cfg(not(target_arch = "nvptx64"))]
pub const ALL: [&[super::Instance]; 4] = [INSTANCES, fused_c2::INSTANCES, fused_c4::INSTANCES, fused_c8::INSTANCES];

/// Dynamic shared memory of the block of a kernel with room for `columns` columns, 1, 2, 4 or 8, for matrices of `n_in` columns;
/// 0 where there is none.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub const fn shared_of(format: super::Format, columns: usize, n_in: u32) -> u32 {
    match columns {
        1 => shared(format, n_in),
        2 => fused_c2::shared(format, n_in),
        4 => fused_c4::shared(format, n_in),
        _ => fused_c8::shared(format, n_in),
    }
}

/// Most columns that the kernels quantize themselves. More are quantized by a launch of its own.
pub const QUANTIZES: usize = 2;

/// Bytes of a piece of a row: `STEPS` times four chunks.
const fn piece_bytes<F: Quad>() -> u32 {
    F::STEPS * F::STEP_BLOCKS * F::BYTES as u32
}

/// Bytes of a piece's place in the ring: its landing counter, 16-byte units that cover it, and a word behind it that is read
/// but not used.
const fn slot_bytes<F: Quad>() -> u32 {
    HEAD + (piece_bytes::<F>() + 15 + 4).next_multiple_of(16)
}

/// Bytes of a landing counter, with what fills them up to where a copy may start behind it.
pub(super) const HEAD: u32 = 16;
/// Row of a piece that is not there: above all numbers of rows, and a multiple of two with others behind it.
const NONE: u32 = u32::MAX << 8;
/// Pieces under way in a warp: one is used while the next one comes.
const SLOTS: u32 = 2;

/// Dynamic shared memory of a block: the rings, then the vectors.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) const fn shared_bytes<F: Quad>(columns: usize, n_in: u32) -> u32 {
    warps(columns) * SLOTS * slot_bytes::<F>() + vector_bytes::<F>(columns as u32, n_in)
}

/// A warp's rows, which lie one behind the other in pieces, and its ring of those under way.
#[derive(Clone, Copy)]
struct Rows {
    /// Where they start, and the matrix's end.
    start: *const u8,
    end: *const u8,
    ring: *mut u8,
    rows: u32,
    /// Bytes of a row, and pieces of one.
    row_bytes: u32,
    pieces: u32,
}

/// One piece.
#[derive(Clone, Copy)]
struct Piece {
    /// Number of its row in the run, and of the piece in the row.
    row: u32,
    piece: u32,
    /// Its place in the ring.
    slot: u32,
}

/// A place in the ring.
#[derive(Clone, Copy)]
struct Slot {
    landing: *mut bulk::Landing,
    bytes: *mut u8,
}

impl Rows {
    /// Slot `slot`.
    #[inline(always)]
    fn slot<F: Quad>(&self, slot: u32) -> Slot {
        let start = self.ring.wrapping_add((slot * slot_bytes::<F>()) as usize);
        Slot { landing: start.cast(), bytes: start.wrapping_add(HEAD as usize) }
    }

    /// Piece `n` of those of all rows, `R` of which go side by side; it comes to slot `n` modulo the slots.
    #[inline(always)]
    fn piece<F: Quad, const R: u32>(&self, n: u32) -> Piece {
        let (side, m) = (n / (R * self.pieces) * R, n % (R * self.pieces));
        let slot = n % SLOTS;
        if side + R <= self.rows {
            Piece { row: side + m % R, piece: m / R, slot }
        } else if m < self.pieces {
            Piece { row: side, piece: m, slot }
        } else {
            Piece { row: NONE, piece: 0, slot }
        }
    }

    /// The one behind it.
    #[inline(always)]
    fn behind<F: Quad, const R: u32>(&self, Piece { row, piece, slot }: Piece) -> Piece {
        let slot = if slot + 1 == SLOTS { 0 } else { slot + 1 };
        if row % R + 1 < R && row + 1 < self.rows {
            Piece { row: row + 1, piece, slot }
        } else if piece + 1 < self.pieces {
            Piece { row: row - row % R, piece: piece + 1, slot }
        } else {
            Piece { row: row - row % R + R, piece: 0, slot }
        }
    }

    /// Where a piece starts, and its bytes.
    #[inline(always)]
    fn place<F: Quad>(&self, Piece { row, piece, .. }: Piece) -> (*const u8, u32) {
        let before = piece * piece_bytes::<F>();
        let at = row as usize * self.row_bytes as usize + before as usize;
        (self.start.wrapping_add(at), (self.row_bytes - before).min(piece_bytes::<F>()))
    }

    /// One lane: starts the copy of a piece, if it exists.
    ///
    /// # Safety
    /// Its slot has no reader, its landing counter is made, and the piece before there was waited for.
    #[inline(always)]
    #[track_caller]
    unsafe fn start_copy<F: Quad>(&self, piece: Piece) {
        if piece.row >= self.rows {
            return;
        }
        let ((from, bytes), slot) = (self.place::<F>(piece), self.slot::<F>(piece.slot));
        let (off, end) = ((from.addr() % 16) as u32, from.wrapping_add(bytes as usize));
        let start = from.wrapping_sub(off as usize);
        let tail = if end == self.end { (self.end.addr() % 16) as u32 } else { 0 };
        let whole = (off + bytes - tail).next_multiple_of(16);
        // SAFETY: inside the matrix, from and to multiples of 16; the slot has room. A block has more than 32 bytes, so that at
        // least 16 are copied.
        unsafe {
            bulk::copy(slot.bytes, start, whole, slot.landing);
            let mut at = whole as usize;
            while at < (whole + tail) as usize {
                shared::store(slot.bytes.add(at).cast::<u16>(), global::load_nc(start.add(at).cast()));
                at += 2;
            }
        }
    }
}

/// The kernels of all files: `T` columns, `R` rows of a warp side by side.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn body<F: Quad, const R: usize, const T: usize>(p: ProductParams) {
    let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
    grid::let_next_start();
    let shared = shared::dynamic_shared::<u8>();
    let vectors = shared.wrapping_add((warps(T) * SLOTS * slot_bytes::<F>()) as usize);
    // The first `extra` warps have a row more; warps are numbered across the blocks, so that no SM has many of them.
    let (all, me) = (grid_dim_x() * warps(T), warp * grid_dim_x() + block_idx_x());
    let (share, extra) = (p.n_out / all, p.n_out % all);
    let first = me * share + me.min(extra);
    let blocks = p.n_in / F::VALUES as u32;
    let row_bytes = blocks * F::BYTES as u32;
    let run = Rows {
        start: p.w.wrapping_add(first as usize * row_bytes as usize),
        end: p.w.wrapping_add(p.n_out as usize * row_bytes as usize),
        ring: shared.wrapping_add((warp * SLOTS * slot_bytes::<F>()) as usize),
        rows: share + u32::from(me < extra),
        row_bytes,
        pieces: blocks.div_ceil(F::STEPS * F::STEP_BLOCKS),
    };
    let first_piece = |run: &Rows, n| if R == 1 { run.piece::<F, 1>(n) } else { run.piece::<F, 2>(n) };
    let start = |slot| {
        // SAFETY: a lane a slot; nobody else looks before the barrier.
        unsafe {
            bulk::init(run.slot::<F>(slot).landing);
            run.start_copy::<F>(first_piece(&run, slot));
        }
    };
    // SAFETY: the vectors' place is the block's own.
    unsafe {
        if T <= QUANTIZES {
            if lane == 0 {
                start(lane);
            }
            grid::wait_for_previous();
            quantize::<F, T>(&p, vectors);
            if lane > 0 && lane < SLOTS {
                start(lane);
            }
        } else {
            if lane < SLOTS {
                start(lane);
            }
            take::<F, T>(&p, vectors);
        }
    }
    sync_threads();
    let (mut now, mut next) = (first_piece(&run, 0), first_piece(&run, SLOTS));
    let behind = |piece| if R == 1 { run.behind::<F, 1>(piece) } else { run.behind::<F, 2>(piece) };
    let (here, mut parity, mut row) = (Lane::new(lane), 0, 0);
    while row < run.rows {
        let side = (run.rows - row).min(R as u32);
        let mut a = [[[0.0f32; 4]; T]; R];
        for piece in 0..run.pieces {
            let mut at = [run.slot::<F>(now.slot); R];
            let mut off = [0; R];
            for r in 0..R {
                // A row that is not there is the one before, and its sums are dropped.
                if (r as u32) < side {
                    at[r] = run.slot::<F>(now.slot);
                    off[r] = (run.place::<F>(now).0.addr() % 16) as u32;
                    // SAFETY: the counter was made before the barrier; every phase is waited for.
                    unsafe { bulk::wait(at[r].landing, parity) };
                    now = behind(now);
                    parity ^= u32::from(now.slot == 0);
                } else {
                    (at[r], off[r]) = (at[r - 1], off[r - 1]);
                }
            }
            let before = piece * F::STEPS * F::STEP_BLOCKS;
            // Of few vectors the steps are unrolled; many have their sums in the registers that this takes.
            let steps = if T <= 2 { F::STEPS } else { opaque(F::STEPS as usize) as u32 };
            let mut step = 0;
            while step < steps && before + step * F::STEP_BLOCKS < blocks {
                let (group, block) = (before + step * F::STEP_BLOCKS, F::block(here));
                if group + block < blocks {
                    // SAFETY: the blocks are in the pieces, which have landed; the vectors are there.
                    unsafe {
                        let weights: [_; R] = core::array::from_fn(|r| {
                            F::load(at[r].bytes, off[r] + (step * F::STEP_BLOCKS + block) * F::BYTES as u32, here)
                        });
                        let x = Group::<T>::of::<F>(vectors, group / F::STEP_BLOCKS);
                        for c in 0..T {
                            F::add(&weights, x, c, here, &mut a);
                        }
                    }
                }
                step += 1;
            }
            warp::sync_warp(warp::FULL_MASK);
            for r in 0..R as u32 {
                if r < side {
                    if lane == 0 {
                        // SAFETY: the slots that were read last are the next ones, behind the warp's barrier.
                        unsafe { run.start_copy::<F>(next) };
                    }
                    next = behind(next);
                }
            }
        }
        let mut sums = [[[0.0f32; T]; 1]; R];
        for r in 0..R {
            for c in 0..T {
                sums[r][0][c] = slots_of_a_lane(a[r][c], lane);
            }
        }
        let none = [[[0.0f32; T]; 1]; R];
        let own = ProductParams { n_out: first + run.rows, ..p };
        // SAFETY: this warp alone has the rows; all its lanes are here.
        unsafe { finish(&own, (first + row) as usize, lane as usize, &[sums, none, none, none], 1) };
        row += side;
    }
}

/// Lane l has, of slot l % 4, the sums of lanes 4 (l / 4) .. + 3 of the module's order, and gets those of all slots of lane l,
/// added in order.
#[inline(always)]
fn slots_of_a_lane(a: [f32; 4], lane: u32) -> f32 {
    let (odd, upper) = (lane % 2 == 1, lane / 2 % 2 == 1);
    // Pairs of slots (0, 1) or (2, 3), of lanes of the own parity.
    let swap = |keep: f32, give: f32, mine_is_second: bool, off: u32| {
        let other = warp::shfl_xor(give, off);
        if mine_is_second { [other, keep] } else { [keep, other] }
    };
    let pick = |second: bool, a: f32, b: f32| if second { b } else { a };
    let low = swap(pick(odd, a[0], a[1]), pick(odd, a[1], a[0]), odd, 1);
    let high = swap(pick(odd, a[2], a[3]), pick(odd, a[3], a[2]), odd, 1);
    let [a0, a2] = swap(pick(upper, low[0], high[0]), pick(upper, high[0], low[0]), upper, 2);
    let [a1, a3] = swap(pick(upper, low[1], high[1]), pick(upper, high[1], low[1]), upper, 2);
    ((a0 + a1) + a2) + a3
}
