//! The tokens that may come next, and what narrows them down.

use std::cmp::Ordering;

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    /// Probability relative to the likeliest token: e^((logit - largest) / temperature), 0 to 1.
    pub(super) weight: f32,
}

/// Likelier first; of equals the lower id.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id))
}

fn total(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|c| f64::from(c.weight)).sum()
}

/// Collects the `k` likeliest tokens of `all`, by id. Keeps at most four times as many, never sorts the vocabulary.
pub(super) fn collect_top_k(all: impl Iterator<Item = Candidate>, k: usize, out: &mut Vec<Candidate>) {
    let most = k.saturating_mul(4).max(64);
    let mut least = f32::NEG_INFINITY; // the k-th likeliest so far: an equal one with a higher id loses
    for candidate in all.filter(|c| c.weight > 0.0) {
        if candidate.weight > least {
            out.push(candidate);
            if out.len() == most {
                least = keep(out, k);
            }
        }
    }
    if out.len() > k {
        keep(out, k);
    }
    out.sort_unstable_by_key(|c| c.id);
}

/// Keeps the `k` likeliest, in no order, and returns the least weight among them.
fn keep(out: &mut Vec<Candidate>, k: usize) -> f32 {
    let (_, &mut last, _) = out.select_nth_unstable_by(k - 1, order);
    out.truncate(k);
    last.weight
}

/// Keeps the likeliest tokens that together have probability `p` among the candidates, at least one.
pub(super) fn keep_top_p(candidates: &mut Vec<Candidate>, p: f32) {
    let total = total(candidates);
    let enough = f64::from(p) * total;
    // All tokens below this weight together hold less than 1 - p: the wanted ones are among the others.
    let negligible = (1.0 - f64::from(p)) * total / candidates.len().max(1) as f64;
    candidates.retain(|c| f64::from(c.weight) >= negligible);
    let (mut sorted, mut sum) = (0, 0.0);
    while sorted < candidates.len() {
        // Sort the next few only: mostly they are enough.
        let rest = &mut candidates[sorted..];
        let few = rest.len().min((sorted * 3).max(32));
        if few < rest.len() {
            rest.select_nth_unstable_by(few - 1, order);
        }
        rest[..few].sort_unstable_by(order);
        for (at, candidate) in rest[..few].iter().enumerate() {
            sum += f64::from(candidate.weight);
            if sum >= enough {
                candidates.truncate(sorted + at + 1);
                return;
            }
        }
        sorted += few;
    }
}

/// The token at `unit` (in [0, 1)) of the candidates' total weight; `None` without any weight.
pub(super) fn pick(candidates: &[Candidate], unit: f64) -> Option<u32> {
    let wanted = unit * total(candidates);
    let mut sum = 0.0;
    let mut last = None;
    for candidate in candidates.iter().filter(|c| c.weight > 0.0) {
        sum += f64::from(candidate.weight);
        last = Some(candidate.id);
        if wanted < sum {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(n: u32) -> Vec<Candidate> {
        // Scattered weights with many ties and some zeros.
        (0..n).map(|id| Candidate { id, weight: (id.wrapping_mul(2_654_435_761) >> 16) as f32 % 97.0 / 96.0 }).collect()
    }

    fn sorted(mut all: Vec<Candidate>) -> Vec<Candidate> {
        all.sort_by(order);
        all
    }

    #[test]
    fn top_k_equals_sorting_everything() {
        for n in [1, 5, 63, 1000, 5000] {
            for k in [1, 2, 7, 64, 999, 5000] {
                let mut out = Vec::new();
                collect_top_k(candidates(n).into_iter(), k, &mut out);
                let mut wanted = sorted(candidates(n));
                wanted.retain(|c| c.weight > 0.0);
                wanted.truncate(k);
                wanted.sort_by_key(|c| c.id);
                assert_eq!(out, wanted, "n {n}, k {k}");
            }
        }
    }

    #[test]
    fn top_p_equals_sorting_everything() {
        for n in [1, 5, 100, 5000] {
            for p in [1e-6, 0.1, 0.5, 0.9, 0.999, 1.0] {
                let mut out = candidates(n);
                keep_top_p(&mut out, p);
                let all = sorted(candidates(n));
                let (enough, mut sum, mut wanted) = (f64::from(p) * total(&candidates(n)), 0.0, Vec::new());
                for candidate in all {
                    wanted.push(candidate);
                    sum += f64::from(candidate.weight);
                    if sum >= enough {
                        break;
                    }
                }
                assert_eq!(out, wanted, "n {n}, p {p}");
            }
        }
    }

    #[test]
    fn zero_weights_are_never_picked() {
        let list =
            |weights: &[f32]| (0..).zip(weights).map(|(id, &weight)| Candidate { id, weight }).collect::<Vec<_>>();
        let of = |weights: &[f32], unit| pick(&list(weights), unit);
        assert_eq!([0.0, 0.49, 0.5, 0.999_999].map(|u| of(&[0.0, 1.0, 0.0, 1.0, 0.0], u)), [1, 1, 3, 3].map(Some));
        assert_eq!(of(&[0.0, 1.0, 0.0], 1.0), Some(1)); // rounding can make the product equal to the sum
        assert_eq!(of(&[0.0], 0.5), None);
        assert_eq!(of(&[], 0.5), None);
    }
}
