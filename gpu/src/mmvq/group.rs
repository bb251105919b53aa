//! Groups of four chunks, whose loads are issued before the first of them is used: what the `hoist` kernels share.

use cuda_std::int::opaque;
use cuda_std::thread::{block_idx_x, thread_idx_x};

use super::ProductParams;
use super::call::Call;
use super::pick;
use super::source::Interleaved;
use super::sums::{Rows, finish_picked};

/// Warps of a block.
pub const WARPS: usize = 4;
/// Chunks of a group, one a slot.
const CHUNKS: usize = 4;

/// Loaded words of a group, by chunk and row.
pub(super) type Group<F, const R: usize> = [[<F as Call>::Raw; R]; CHUNKS];

/// A warp's rows and sums, as one of its lanes sees them.
pub(super) struct Warp<F: Call, const R: usize, const P: usize, const T: usize> {
    /// The lane's block of each row's first chunk.
    rows: [*const u8; R],
    x: [Interleaved<T>; P],
    /// Blocks of a row.
    pub(super) blocks: usize,
    first: usize,
    lane: usize,
    sums: [Rows<R, P, T>; CHUNKS],
    format: core::marker::PhantomData<F>,
}

impl<F: Call, const R: usize, const P: usize, const T: usize> Warp<F, R, P, T> {
    /// Blocks of a group.
    pub(super) const BLOCKS: usize = CHUNKS * F::SUB;

    /// The warp that this is.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    pub(super) unsafe fn here(p: &ProductParams) -> Self {
        let (warp, lane) = (thread_idx_x() as usize / 32, thread_idx_x() as usize % 32);
        let first = (block_idx_x() as usize * WARPS + warp) * R;
        let blocks = p.n_in as usize / F::VALUES;
        // SAFETY: nothing writes the copy during the launch.
        unsafe {
            let x = core::array::from_fn(|part| Interleaved::new(p.il, p.n_in as usize, P * T, part * T));
            // A lane's block may be past a short row, but is only read where it is there.
            let row = |r: usize| pick::weights::<F>(p, first + r).wrapping_add(lane / F::LPB * F::BYTES);
            let rows = core::array::from_fn(row);
            let sums = [[[[0.0; T]; P]; R]; CHUNKS];
            Self { rows, x, blocks, first, lane, sums, format: core::marker::PhantomData }
        }
    }

    /// The lane's call.
    #[inline(always)]
    fn q(&self) -> usize {
        self.lane % F::LPB
    }

    /// The lane's block of the chunk that starts with `first`.
    #[inline(always)]
    fn block(&self, first: usize) -> usize {
        first + self.lane / F::LPB
    }

    /// Loads the group that starts with block `first`, all of which is there.
    ///
    /// # Safety
    /// `first + BLOCKS <= blocks`.
    #[inline(always)]
    pub(super) unsafe fn load(&self, first: usize) -> Group<F, R> {
        let first = opaque(first);
        core::array::from_fn(|v| {
            core::array::from_fn(|r| {
                // SAFETY: within the row.
                unsafe {
                    let group = self.rows[r].add(first * F::BYTES);
                    F::load::<true>(group, v * F::SUB * F::BYTES, self.q(), F::lies(v))
                }
            })
        })
    }

    /// Loads what is there of the group that starts with block `first`. A lane behind the row's end loads its last block.
    ///
    /// # Safety
    /// `first` starts a group.
    #[inline(always)]
    pub(super) unsafe fn load_part(&self, first: usize) -> Group<F, R> {
        let mut group = [[F::Raw::default(); R]; CHUNKS];
        for v in 0..CHUNKS {
            let chunk = first + v * F::SUB;
            if chunk < self.blocks {
                let past = (self.block(chunk) + 1).saturating_sub(self.blocks);
                for r in 0..R {
                    // SAFETY: the chunk has a block, and the lane's is moved back to the last one if it is past it.
                    group[v][r] = unsafe {
                        let group = self.rows[r].wrapping_add(first * F::BYTES).wrapping_sub(past * F::BYTES);
                        F::load::<true>(group, v * F::SUB * F::BYTES, self.q(), F::lies(v))
                    };
                }
            }
        }
        group
    }

    /// Adds a whole group.
    ///
    /// # Safety
    /// As [`Self::load`], which loaded it.
    #[inline(always)]
    pub(super) unsafe fn add<const FORM: u8>(&mut self, group: &Group<F, R>, first: usize) {
        let first = opaque(first);
        for v in 0..CHUNKS {
            let weights = group[v].map(|raw| F::decode(&raw, self.q(), F::lies(v)));
            for part in 0..P {
                // SAFETY: the lane's block is there.
                let acts = unsafe { F::gather(&self.x[part], self.block(first + v * F::SUB), self.q()) };
                for r in 0..R {
                    F::apply::<T, FORM>(&weights[r], &acts, &mut self.sums[v % F::SLOTS][r][part]);
                }
            }
        }
    }

    /// Adds what is there of a group. Where a lane has no block its sum stays: by a select after the call, never by a
    /// zero in it. Without `SELECT` the call counts all the same, which is wrong and shows that tests look.
    ///
    /// # Safety
    /// As [`Self::load_part`], which loaded it.
    #[inline(always)]
    pub(super) unsafe fn add_part<const FORM: u8, const SELECT: bool>(&mut self, group: &Group<F, R>, first: usize) {
        for v in 0..CHUNKS {
            let chunk = first + v * F::SUB;
            if chunk < self.blocks {
                let block = self.block(chunk);
                let there = block < self.blocks;
                let weights = group[v].map(|raw| F::decode(&raw, self.q(), F::lies(v)));
                for part in 0..P {
                    // SAFETY: the last block stands in for one past it.
                    let acts = unsafe { F::gather(&self.x[part], block.min(self.blocks - 1), self.q()) };
                    for r in 0..R {
                        let sum = &mut self.sums[v % F::SLOTS][r][part];
                        let mut new = *sum;
                        F::apply::<T, FORM>(&weights[r], &acts, &mut new);
                        for c in 0..T {
                            sum[c] = if there || !SELECT { new[c] } else { sum[c] };
                        }
                    }
                }
            }
        }
    }

    /// Adds up slots and lanes, and stores.
    ///
    /// # Safety
    /// As the kernels; all lanes call it together.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, p: &ProductParams) {
        // SAFETY: this warp alone has these rows.
        unsafe { finish_picked(p, self.first, self.lane, &self.sums, F::SLOTS) };
    }
}
