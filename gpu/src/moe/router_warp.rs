//! `moe.router/warp`: a warp chooses a token's experts.
//!
//! Math      p = softmax(logits[t]); ids[t] = the k largest, equal ones by ascending id; weights[t] = p[ids], divided
//!           by their sum if asked to. A NaN logit is the lowest and has p = 0, as -infinity has; where no logit is
//!           above
//!           -infinity all weights are 0, where one is +infinity they are NaN. The ids are distinct in any case.
//! Shapes    `RouterParams`; up to 32 PER experts
//! Mapping   warp w of the grid = token w; lane l holds experts PER l .. PER l + PER - 1
//! Order     sum of exp(z - max): a lane's ascending, then xor 16, 8, 4, 2, 1; p = e / sum; sum of the chosen by rank
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; a token's bits do not depend on the call's others

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel, warp};

use super::RouterParams;

/// Four warps.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Tokens of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// A key orders logits as an unsigned number: 0 is no expert (or one chosen already), then NaN, then -infinity.
const NOBODY: u32 = 0;
const NAN: u32 = 1;
const NEG_INFINITY: u32 = !f32::NEG_INFINITY.to_bits();

/// # Safety
/// Shapes and aliasing as `RouterParams` says, at most 128 experts; a warp a token, blocks of `BOUNDS`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_router_warp_e128(p: RouterParams) {
    // SAFETY: same contract.
    unsafe { body::<4>(p) }
}

/// # Safety
/// As [`moe_router_warp_e128`], at most 256 experts.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_router_warp_e256(p: RouterParams) {
    // SAFETY: same contract.
    unsafe { body::<8>(p) }
}

/// # Safety
/// As [`moe_router_warp_e128`], at most 512 experts.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_router_warp_e512(p: RouterParams) {
    // SAFETY: same contract.
    unsafe { body::<16>(p) }
}

/// # Safety
/// As [`moe_router_warp_e128`], at most 1,024 experts.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_router_warp_e1024(p: RouterParams) {
    // SAFETY: same contract.
    unsafe { body::<32>(p) }
}

#[inline(always)]
unsafe fn body<const PER: usize>(p: RouterParams) {
    let (token, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, warp::lane_id());
    if token >= p.tokens {
        return; // a whole warp, and no barrier follows
    }
    let (row, first) = (token as usize * p.logits_stride as usize, lane as usize * PER);
    let mut keys = [NOBODY; PER];
    for j in 0..PER {
        if first + j < p.experts as usize {
            // SAFETY: an expert of a token of the call; nothing writes the logits.
            keys[j] = key(unsafe { global::load_nc(p.logits.add(row + first + j)) });
        }
    }
    let mut best = largest(&keys);
    let mut top = warp_max(best);
    let max = value(top);
    let mut sum = 0.0f32;
    for j in 0..PER {
        sum += exponential(keys[j], max);
    }
    let sum = warp::sum_xor(sum);
    let (mut chosen_sum, mut mine) = (0.0f32, (0u32, 0.0f32));
    for rank in 0..p.k {
        if rank > 0 {
            top = warp_max(best);
        }
        // Lanes hold ascending ranges: the lowest of those with the largest key has the lowest such expert.
        let owner = warp::ballot(best == top).trailing_zeros();
        let mut place = 0u32;
        if lane == owner {
            place = take(&mut keys, top);
            best = largest(&keys);
        }
        let id = owner * PER as u32 + warp::shfl_idx(place, owner);
        let weight = ratio(exponential(top, max), sum);
        chosen_sum += weight;
        if lane == rank {
            mine = (id, weight);
        }
    }
    if lane < p.k {
        let weight = if p.renormalise != 0 { ratio(mine.1, chosen_sum) } else { mine.1 };
        // SAFETY: `lane < k`, a token of the call; one writer an element.
        unsafe {
            global::store(p.ids.add(token as usize * p.ids_stride as usize + lane as usize), mine.0);
            global::store(p.weights.add(token as usize * p.weights_stride as usize + lane as usize), weight);
        }
    }
}

#[inline(always)]
fn key(logit: f32) -> u32 {
    let bits = (logit + 0.0).to_bits(); // -0 becomes 0: they are equal
    if logit.is_nan() {
        NAN
    } else if bits >> 31 != 0 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// The logit of a key; a NaN for `NAN`.
#[inline(always)]
fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 != 0 { key ^ 1 << 31 } else { !key })
}

/// `exp(logit - max)`, 0 for what counts as -infinity.
#[inline(always)]
fn exponential(key: u32, max: f32) -> f32 {
    if key <= NEG_INFINITY { 0.0 } else { float::exp(value(key) - max) }
}

/// `x / sum`, 0 of nothing.
#[inline(always)]
fn ratio(x: f32, sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { x / sum }
}

#[inline(always)]
fn largest<const PER: usize>(keys: &[u32; PER]) -> u32 {
    let mut best = keys[0];
    for j in 1..PER {
        best = if keys[j] > best { keys[j] } else { best };
    }
    best
}

/// The first place of `top`, which is taken from the list.
#[inline(always)]
fn take<const PER: usize>(keys: &mut [u32; PER], top: u32) -> u32 {
    let mut place = PER as u32;
    for j in 0..PER {
        if place == PER as u32 && keys[j] == top {
            place = j as u32;
            keys[j] = NOBODY;
        }
    }
    place
}

#[inline(always)]
fn warp_max(v: u32) -> u32 {
    let step = |v: u32, mask: u32| {
        let other = warp::shfl_xor(v, mask);
        if other > v { other } else { v }
    };
    step(step(step(step(step(v, 16), 8), 4), 2), 1)
}
