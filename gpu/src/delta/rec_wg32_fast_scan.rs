//! `delta.rec/wg32_fast`, second launch: the scan of `delta.rec/wg32` with one f16 product in place of three.
//!
//! Math      as `delta.rec/tc32`
//! Shapes    `RecParams` with scratch; any head counts with value_heads a multiple of key_heads, any token count, any batch
//! Mapping   as `delta.rec/wg32`
//! Products  `wgmma` m64nNk16 on single f16 scaled by powers of two, but P D with both parts of D, whose sum may cancel. The
//!           tensor cores add the kept part of D to the state, which so has a scale that bounds give before D is known
//! Order     P D comes behind the state's product, for which the next chunk waits; outputs are written while that of the next
//!           chunk runs
//! Barriers  none of the block after the start: two named ones a stage (`chunk_ring.rs`)
//! Budget    255 registers, 0 B shared but a ring of stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`: 2e-2, 2e-3 on ordinary inputs (docs/src/exactness.md)

use cuda_std::barrier::fence_async_shared;
use cuda_std::wgmma::{self, Descriptor};
use cuda_std::{grid, int, kernel};

use super::RecParams;
use super::chunk::{COLUMN_BLOCK, DECAY, KEYS, P, REST, T, fragments};
use super::chunk_ring::{Ring, Stage};
use super::chunk_scan::{
    Given, SETTLED, Scaled, Steps, TOKEN_TILES, Tokens, outputs, read, whole_decay, write_outputs,
};
use super::chunk_walk::{BOUNDS, Products, walk};
use super::rec_wg32_scan::{ALIGN, start_chunk_product, start_update};
use crate::geometry::HEAD_DIM;

/// Stages of the ring: one waits for the outputs of the chunk before.
pub const STAGES: usize = 4;

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, scratch as `delta_rec_wg32_fast_prep` left it; grid `[value_heads * SPLIT,
/// sequences]`, block `THREADS`, dynamic shared memory `shared_bytes(false, ALIGN, STAGES)`.
#[kernel(sm = 90, cluster = 2)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_fast_scan(p: RecParams) {
    grid::let_next_start();
    // SAFETY: same contract.
    unsafe { walk::<Single, false, ALIGN, STAGES>(p) }
}

/// Products of single f16 by `wgmma`.
struct Single;

impl Products<false> for Single {
    #[inline(always)]
    unsafe fn scan<const ALIGN: usize, const STAGES: usize>(
        ring: Ring<false, ALIGN, STAGES>,
        chunks: usize,
        state: &mut Scaled,
        warp: usize,
    ) {
        let first = int::opaque(0); // else the compiler makes the first round anew
        let mut chunk = first;
        let mut before = Late::none(ring.stage(first));
        // SAFETY: a stage holds its chunk until it is given back; registers of products are left alone until their waits.
        unsafe {
            while chunk < chunks {
                let stage = ring.stage(chunk);
                ring.wait_full(stage);
                let given = Given::read(stage.scalars, stage.values, warp);
                let mut xq = [0.0f32; 8 * TOKEN_TILES]; // X, then Q S
                start_state_product(&mut xq, state, stage.keys);
                // While it runs.
                let whole = whole_decay(stage.scalars);
                let steps = Steps::new::<false>(&given, state);
                wgmma::wait::<0>();
                wgmma::hold(&mut xq);

                let turn = steps.turn_ahead(whole, state);
                let right = steps.right_side(&xq[..4 * TOKEN_TILES]);
                let mut sums = [0.0f32; 4 * TOKEN_TILES];
                start_chunk_product::<false, false>(stage.head, T, &right, &mut sums);
                // While it runs.
                let rest = turn.scale_rest(read(stage.scalars, REST));
                let carried = steps.carried(&read(stage.scalars, DECAY), &xq[4 * TOKEN_TILES..]);
                wgmma::wait::<0>();
                wgmma::hold(&mut sums);

                let [d, kept] = steps.corrections(&rest, &sums);
                wgmma::hold(&mut state.s);
                start_update::<false>(stage.keys, &kept, &mut state.s, true);
                // While it runs. The branch also keeps ptxas from taking what follows before the product.
                if chunk > first {
                    before.write(warp);
                }
                let mut pd = [0.0f32; 4 * TOKEN_TILES];
                start_chunk_product::<true, false>(stage.head, P, &d, &mut pd);
                turn.bound(&kept, state);
                wgmma::wait::<0>();
                wgmma::hold(&mut state.s);
                wgmma::hold(&mut pd);
                if chunk > first {
                    ring.give_back(before.stage);
                }
                before = Late { stage, carried, pd, of_corrections: steps.of_corrections() };
                if chunk % SETTLED == SETTLED - 1 {
                    state.settle();
                }
                chunk += 1;
            }
            before.write(warp);
            ring.give_back(before.stage);
        }
    }

    #[inline(always)]
    fn make_visible() {
        fence_async_shared();
    }
}

/// Outputs of a chunk that the next one writes.
struct Late {
    stage: Stage,
    /// See [`Steps::carried`].
    carried: Tokens,
    pd: Tokens,
    /// See [`Steps::of_corrections`].
    of_corrections: f32,
}

impl Late {
    /// Before the first chunk, whose stage is `stage`.
    #[inline(always)]
    fn none(stage: Stage) -> Self {
        let zeros = [0.0f32; 4 * TOKEN_TILES];
        Self { stage, carried: zeros, pd: zeros, of_corrections: 0.0 }
    }

    /// Writes them in place of v.
    ///
    /// # Safety
    /// The stage is not given back.
    #[inline(always)]
    unsafe fn write(&self, warp: usize) {
        // SAFETY: the caller's.
        unsafe { write_outputs(self.stage.values, warp, &outputs(&self.carried, &self.pd, self.of_corrections)) };
    }
}

/// Starts the product of the state with the k, q images at `keys`, a group of its own. All fragments come first: the state's
/// registers are those of its own product, for whose end ptxas would wait at each step.
///
/// # Safety
/// A stage holds the images; `sums` is left alone until the wait.
#[inline(always)]
unsafe fn start_state_product(sums: &mut [f32; 8 * TOKEN_TILES], state: &Scaled, keys: *const u8) {
    let mut a = [[0u32; 4]; HEAD_DIM / 16];
    for step in 0..HEAD_DIM / 16 {
        [a[step], _] = fragments::<false>(&state.s[8 * step..8 * step + 4], &state.s[8 * step + 4..8 * step + 8]);
    }
    wgmma::fence();
    let keys = Descriptor::k_major::<128>(keys.wrapping_add(KEYS[0]), 1024);
    for step in 0..HEAD_DIM / 16 {
        let at = step / 4 * COLUMN_BLOCK + step % 4 * 32;
        // SAFETY: the caller's.
        unsafe { wgmma::mma_m64n64k16_f16::<false>(sums, a[step], keys.advance(at), step > 0) };
    }
    wgmma::commit();
}
