//! Scales for values that are a scale times a level.

use half::f16;

use super::levels::Levels;
use super::{inverse, nearest, peak, step, weights};

/// Guesses on each side of a scale that puts the largest value on an end of the levels.
const GUESSES: i32 = 8;

/// The scale with the smallest weighted error: for each guess, least squares over the levels that it leads to.
pub fn scale<L: Levels>(x: &[f32], w: &[f32]) -> f32 {
    let peak = peak(x);
    if peak == 0.0 {
        return 0.0;
    }
    let guesses = L::ENDS.into_iter().flat_map(|end| (-GUESSES..=GUESSES).map(move |i| end + i as f32 * L::STEP));
    let (mut best, mut best_gain) = (0.0, 0.0);
    for end in guesses {
        let (scale, gain) = refit::<L>(x, w, end / peak);
        if gain > best_gain {
            (best, best_gain) = (scale, gain);
        }
    }
    // The best scale leads to levels of its own.
    let (again, gain) = refit::<L>(x, w, inverse(best));
    if gain > best_gain { again } else { best }
}

/// The best scale for the levels at `per_level`, and the weighted sum of squares that it takes away.
fn refit<L: Levels>(x: &[f32], w: &[f32], per_level: f32) -> (f32, f32) {
    let (mut lx, mut ll) = (0.0f32, 0.0f32);
    for (&x, &w) in x.iter().zip(w) {
        let level = L::next_to(x * per_level);
        lx += w * level * x;
        ll += w * level * level;
    }
    if ll > 0.0 { (lx / ll, lx * lx / ll) } else { (0.0, 0.0) }
}

/// The weighted error of the values at this scale.
fn error<L: Levels>(x: &[f32], w: &[f32], scale: f32) -> f32 {
    let per_level = inverse(scale);
    x.iter().zip(w).map(|(&x, &w)| w * (scale * L::next_to(x * per_level) - x).powi(2)).sum()
}

/// A block's scale and the integer scales of its sub-blocks.
pub struct Scales<const SUBS: usize> {
    /// d, as it is stored.
    pub d: f16,
    /// What d is multiplied by in each sub-block.
    pub subs: [i8; SUBS],
}

impl<const SUBS: usize> Scales<SUBS> {
    /// The levels' scale in sub-block `s`, as a reader computes it.
    pub fn of(&self, s: usize) -> f32 {
        self.d.to_f32() * f32::from(self.subs[s])
    }

    /// Searches them; integer scales are `lowest ..= -lowest - 1`.
    pub fn search<L: Levels, const V: usize>(x: &[f32; V], lowest: i8) -> Self {
        let len = V / SUBS;
        let w: [f32; V] = weights(x, len);
        let sub = |s: usize| (&x[s * len..(s + 1) * len], &w[s * len..(s + 1) * len]);
        let mut wanted = [0.0; SUBS];
        for (s, wanted) in wanted.iter_mut().enumerate() {
            *wanted = scale::<L>(sub(s).0, sub(s).1);
        }
        let mut found = Self { d: step(peak(&wanted) / f32::from(lowest)), subs: [0; SUBS] };
        let d = found.d.to_f32();
        let (low, high) = (f32::from(lowest), -f32::from(lowest) - 1.0);
        for (s, &wanted) in wanted.iter().enumerate() {
            // The nearest integer scale fits best as a rule, a neighbour sometimes.
            let middle = nearest((wanted * inverse(d)).clamp(low, high));
            let near = [middle, middle - 1.0, middle + 1.0].into_iter().filter(|sc| (low..=high).contains(sc));
            let cost = |scale: f32| error::<L>(sub(s).0, sub(s).1, d * scale);
            found.subs[s] = near.map(|sc| (sc, cost(sc))).fold((0.0, f32::INFINITY), cheaper).0 as i8;
        }
        found.refine::<L>(x, &w);
        found
    }

    /// Takes the d that fits the levels best, if that is better once it is an f16.
    fn refine<L: Levels>(&mut self, x: &[f32], w: &[f32]) {
        let len = x.len() / SUBS;
        let (mut lx, mut ll) = (0.0f64, 0.0f64);
        for (s, (x, w)) in x.chunks(len).zip(w.chunks(len)).enumerate() {
            let per_level = inverse(self.of(s));
            for (&x, &w) in x.iter().zip(w) {
                let level = f64::from(L::next_to(x * per_level) * f32::from(self.subs[s]));
                lx += f64::from(w) * level * f64::from(x);
                ll += f64::from(w) * level * level;
            }
        }
        let total = |scales: &Self| -> f32 {
            let subs = x.chunks(len).zip(w.chunks(len)).enumerate();
            subs.map(|(s, (x, w))| error::<L>(x, w, scales.of(s))).sum()
        };
        let other = Self { d: f16::from_f64(if ll > 0.0 { lx / ll } else { 0.0 }), ..*self };
        if other.d.is_finite() && total(&other) < total(self) {
            *self = other;
        }
    }
}

/// The candidate with the smaller cost; the first of equals.
pub fn cheaper<T>(a: (T, f32), b: (T, f32)) -> (T, f32) {
    if b.1 < a.1 { b } else { a }
}
