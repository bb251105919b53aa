//! Random numbers by counter: element `i` of an array is a pure function of seed, array and `i`.
//!
//! So any element can be recomputed alone, arrays fill in parallel, and a longer array starts with the shorter one.
//! Words are SplitMix64 (Steele, Lea, Flood 2014); normals are Box-Muller in f64. The same binary gives the same bits;
//! across C libraries `ln`, `sin` and `cos` may differ in their last bit, rarely visible after rounding to f32.

use std::f64::consts::TAU;

/// Which array of a case a number belongs to: the same index in two arrays gives independent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Array {
    /// q rows.
    Query = 1,
    /// k rows.
    Key,
    /// v rows.
    Value,
    /// Log decay.
    Gate,
    /// Beta.
    Beta,
    /// State before the call.
    State,
    /// Raw output gate of the norm.
    Z,
    /// Gain of the norm.
    Gamma,
    /// Recurrence output, where the norm is tested alone.
    Output,
    /// Which tokens a law singles out.
    Pick,
    /// Directions that keys share.
    Direction,
}

/// The numbers of one array.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    key: u64,
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64, a bijection.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Random {
    /// Numbers of `array` under `seed`.
    #[must_use]
    pub const fn new(seed: u64, array: Array) -> Self {
        Self { key: mix(mix(seed.wrapping_add(STEP)) ^ (array as u64).wrapping_mul(STEP)) }
    }

    /// Word `i`.
    #[must_use]
    pub const fn bits(&self, i: u64) -> u64 {
        mix(self.key.wrapping_add(i.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// Uniform in (0, 1), both ends excluded, 52 bits.
    #[must_use]
    pub fn uniform(&self, i: u64) -> f64 {
        ((self.bits(i) >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
    }

    /// Standard normal `i`: both members of a pair come from uniforms `2 (i / 2)` and the next.
    #[must_use]
    pub fn normal(&self, i: u64) -> f64 {
        let (cos, sin) = self.normal_pair(i / 2);
        if i.is_multiple_of(2) { cos } else { sin }
    }

    fn normal_pair(&self, pair: u64) -> (f64, f64) {
        let radius = (-2.0 * self.uniform(2 * pair).ln()).sqrt();
        let (sin, cos) = (TAU * self.uniform(2 * pair + 1)).sin_cos();
        (radius * cos, radius * sin)
    }

    /// Normals `first ..` into `out`: the values of [`normal`](Self::normal), two for one logarithm where they pair up.
    pub fn normals(&self, first: u64, out: &mut [f64]) {
        let mut i = first;
        let mut rest = out.iter_mut();
        if !i.is_multiple_of(2)
            && let Some(x) = rest.next()
        {
            *x = self.normal(i);
            i += 1;
        }
        while let Some(x) = rest.next() {
            let (cos, sin) = self.normal_pair(i / 2);
            *x = cos;
            if let Some(next) = rest.next() {
                *next = sin;
            }
            i += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_element_can_be_recomputed_alone() {
        let random = Random::new(7, Array::Key);
        for (first, n) in [(0, 9), (1, 8), (5, 2), (6, 1), (7, 1), (3, 0)] {
            let mut some = vec![0.0; n];
            random.normals(first, &mut some);
            for (i, x) in some.iter().enumerate() {
                assert_eq!(x.to_bits(), random.normal(first + i as u64).to_bits(), "from {first}, {i}");
            }
        }
    }

    #[test]
    fn arrays_and_seeds_are_independent() {
        let word = |seed, array| Random::new(seed, array).bits(0);
        let words = [word(0, Array::Query), word(0, Array::Key), word(1, Array::Query), word(1, Array::Key)];
        for i in 0..4 {
            for j in 0..i {
                assert_ne!(words[i], words[j], "{i} {j}");
            }
        }
        assert_eq!(word(1, Array::Key), word(1, Array::Key));
        let (q, k) = (Random::new(3, Array::Query), Random::new(3, Array::Key));
        let correlation: f64 = (0..20_000).map(|i| q.normal(i) * k.normal(i)).sum::<f64>() / 20_000.0;
        assert!(correlation.abs() < 0.03, "{correlation}");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let random = Random::new(11, Array::Value);
        let n = 100_000u64;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        let close = |got: f64, want: f64, by: f64| assert!((got - want).abs() < by, "{got}, expected {want}");
        close(mean(&|i| random.uniform(i)), 0.5, 0.005);
        close(mean(&|i| random.uniform(i).powi(2)), 1.0 / 3.0, 0.005);
        close(mean(&|i| random.normal(i)), 0.0, 0.015);
        close(mean(&|i| random.normal(i).powi(2)), 1.0, 0.02);
        close(mean(&|i| random.normal(i).powi(4)), 3.0, 0.15);
        close(mean(&|i| random.normal(2 * i) * random.normal(2 * i + 1)), 0.0, 0.015);
        assert!((0..n).all(|i| (0.0..1.0).contains(&random.uniform(i)) && random.uniform(i) > 0.0));
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // SplitMix64 seeded with 1234567: the published first outputs (Rosetta Code and the reference C program).
        let random = Random { key: 1_234_567 };
        assert_eq!(random.bits(0), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(1), 3_203_168_211_198_807_973);
        assert_eq!(random.bits(2), 9_817_491_932_198_370_423);
    }
}
