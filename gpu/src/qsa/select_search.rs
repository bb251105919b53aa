//! `qsa.select/search`: a warp chooses a token's best blocks: bit by bit it finds the lowest score that is chosen.
//!
//! Math      the `budget` blocks of largest score among those the token sees, equal scores by lower number, ascending
//! Shapes    `SelectParams`
//! Mapping   warp number = token; lane l looks at blocks l, l + 32, ..
//! Order     integers only: the bits of a float >= 0 are ordered as the float is
//! Barriers  none; every lane of a warp does the same number of shuffles and votes
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{global, kernel, warp};

use super::SelectParams;

/// A warp a block: tokens are independent, and each takes its time.
pub const BOUNDS: Bounds = Bounds { threads: 32, min_blocks: 16 };

/// # Safety
/// Shapes as `SelectParams` says, every score of a seen block written; grid `tokens`, block 32.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_select_search(p: SelectParams) {
    let (token, lane) = (block_idx_x(), thread_idx_x());
    let seen = (p.first + token + 1) / p.ratio;
    if seen <= p.budget {
        return; // all are attended; the whole warp
    }
    // SAFETY: one block of threads a token.
    let (scores, chosen) =
        unsafe { (p.scores.add(token as usize * p.stride as usize), p.chosen.add(token as usize * p.budget as usize)) };
    // SAFETY: `i < seen` in every use.
    let key = |i: u32| unsafe { global::load_nc(scores.add(i as usize)) }.to_bits();
    let count = |least: u32| {
        let mut n = 0u32;
        let mut i = lane;
        while i < seen {
            n += u32::from(key(i) >= least);
            i += 32;
        }
        for step in [16, 8, 4, 2, 1] {
            n += warp::shfl_xor(n, step);
        }
        n
    };
    // The largest key that at least `budget` blocks reach.
    let mut least = 0u32;
    for bit in (0..31).rev() {
        let higher = least | 1 << bit;
        if count(higher) >= p.budget {
            least = higher;
        }
    }
    let mut ties = p.budget - count(least + 1);
    let mut written = 0u32;
    let mut first = 0u32;
    while first < seen {
        let i = first + lane;
        let value = if i < seen { key(i) } else { 0 };
        let tie = i < seen && value == least;
        let below = (1u32 << lane) - 1;
        let tied = warp::ballot(tie);
        let take = i < seen && value > least || tie && (tied & below).count_ones() < ties;
        let taken = warp::ballot(take);
        if take {
            // SAFETY: the takers of all rounds are `budget`.
            unsafe { global::store(chosen.add((written + (taken & below).count_ones()) as usize), i) };
        }
        ties -= tied.count_ones().min(ties);
        written += taken.count_ones();
        first += 32;
    }
}
