//! Routing, planning and combining in f64 and in integers: see `varve_gpu::moe` for the rules.

use std::cmp::Ordering;

use varve_gpu::moe::{NO_PAIR, TILE, TILE_WORDS};

use super::near::{Near, TINY, U};
use super::out_norm::sigmoid;

/// A token's experts, best first, and their weights.
#[must_use]
pub fn router(logits: &[f32], k: usize, renormalise: bool) -> (Vec<u32>, Vec<Near>) {
    // NaN below -infinity, equal logits by ascending id.
    let rank = |x: f32| if x.is_nan() { (0, 0.0) } else { (1, x) };
    let order = |a: &usize, b: &usize| {
        rank(logits[*b]).partial_cmp(&rank(logits[*a])).unwrap_or(Ordering::Equal).then(a.cmp(b))
    };
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(order);
    ids.truncate(k);
    let number = |x: f32| if x.is_nan() { f64::NEG_INFINITY } else { f64::from(x) };
    let max = number(logits[ids[0]]);
    let parts: Vec<_> = logits.iter().map(|&x| Part::new(number(x), max)).collect();
    let all = Part::sum(&parts);
    let chosen: Vec<_> = ids.iter().map(|&id| parts[id]).collect();
    let among = if renormalise { Part::sum(&chosen) } else { all };
    // The sum's additions (a lane's, five over lanes), exponentials and quotients; each sum counts for itself.
    let steps = 2.0 * ((logits.len() / 32 + 5 + k) as f64 + all.far + among.far) + 12.0;
    let weight = |part: &Part| {
        let value = if among.e == 0.0 { 0.0 } else { part.e / among.e };
        Near::rounded(value, value, steps + part.far)
    };
    let weights = chosen.iter().map(weight).collect();
    (ids.into_iter().map(|id| id as u32).collect(), weights)
}

/// An exponential, and its argument's magnitude: the difference of two logits is rounded, so the exponential has that
/// many more roundings.
#[derive(Clone, Copy)]
struct Part {
    e: f64,
    far: f64,
}

impl Part {
    fn new(logit: f64, max: f64) -> Self {
        if logit == f64::NEG_INFINITY {
            Self { e: 0.0, far: 0.0 }
        } else {
            Self { e: (logit - max).exp(), far: max - logit }
        }
    }

    /// The sum, and the mean distance by weight.
    fn sum(parts: &[Self]) -> Self {
        let e: f64 = parts.iter().map(|part| part.e).sum();
        let far = parts.iter().map(|part| if part.e == 0.0 { 0.0 } else { part.e * part.far }).sum::<f64>();
        Self { e, far: if e == 0.0 { 0.0 } else { far / e } }
    }
}

/// The tiles of a plan, one after the other.
#[must_use]
pub fn plan(ids: &[u32], experts: usize) -> Vec<u32> {
    let mut tiles = Vec::new();
    for expert in 0..experts as u32 {
        let pairs: Vec<u32> = (0..ids.len() as u32).filter(|&pair| ids[pair as usize] == expert).collect();
        for some in pairs.chunks(TILE) {
            let mut tile = [NO_PAIR; TILE_WORDS];
            tile[0] = expert;
            tile[1..=some.len()].copy_from_slice(some);
            tiles.extend(tile);
        }
    }
    tiles
}

/// SiLU of the gate times the other half.
#[must_use]
pub fn silu_mul(gate: f32, up: f32) -> Near {
    Near::silu(f64::from(gate), 0.0).times(f64::from(up))
}

/// One element of the weighted sum and the gated shared expert.
#[must_use]
pub fn combine(weights: &[f32], down: &[f32], shared_gate: f32, shared: f32) -> Near {
    let terms = weights.iter().zip(down).map(|(&w, &x)| f64::from(w) * f64::from(x));
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
    let last = sigmoid(f64::from(shared_gate)) * f64::from(shared);
    let steps = (weights.len() + 6) as f64;
    let near = Near::rounded(sum + last, size + last.abs(), steps);
    Near { slack: near.slack + TINY * (steps + f64::from(shared).abs()) + U * TINY, ..near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_nan_and_infinities_are_ordered() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let (ids, weights) = router(&[nan, 1.0, -inf, 1.0, 0.0], 5, true);
        assert_eq!(ids, [1, 3, 4, 2, 0]);
        let total: f64 = weights.iter().map(|x| x.value).sum();
        assert!((total - 1.0).abs() < 1e-15 && weights[3].value == 0.0 && weights[4].value == 0.0);
        let (ids, weights) = router(&[nan, -inf, nan], 3, false);
        assert_eq!((ids, weights.iter().map(|x| x.value).sum()), (vec![1, 0, 2], 0.0));
        assert!(router(&[0.0, inf], 2, false).1.iter().all(|x| x.value.is_nan()));
        let (_, weights) = router(&[0.0, 0.0, 0.0, -0.0], 2, false);
        assert_eq!(weights.iter().map(|x| x.value).collect::<Vec<_>>(), [0.25, 0.25]);
    }

    #[test]
    fn a_plan_by_hand() {
        let ids = [1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 3];
        let n = NO_PAIR;
        let want = [
            [0, 1, n, n, n, n, n, n, n],
            [1, 0, 2, 3, 4, 5, 6, 7, 8],
            [1, 9, n, n, n, n, n, n, n],
            [3, 10, n, n, n, n, n, n, n],
        ];
        assert_eq!(plan(&ids, 4), want.concat());
    }

    #[test]
    fn elements_by_hand() {
        let near = combine(&[0.5, 0.25], &[2.0, 4.0], 0.0, 6.0);
        assert_eq!(near.value, 5.0);
        assert!(near.slack < 50.0 * U);
        assert_eq!(silu_mul(0.0, 3.0).value, 0.0);
    }
}
