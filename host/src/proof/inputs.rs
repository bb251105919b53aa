//! Laws of inputs for the recurrence: what is drawn, and what is made hard on purpose.
//!
//! A law fixes a distribution for keys, gates, betas, values and the state; sizes and seed come from the case. The
//! lists are data, so a new law is one line here and reaches every variant of every operation that uses it.

use super::random::{Array, Random};
use varve_gpu::geometry::HEAD_DIM;

/// How raw key rows are made, before they are normalised to `x / sqrt(sum x^2 + 1e-6)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Independent normals.
    Random,
    /// One direction a head plus this much normal noise.
    Coherent(f64),
    /// One direction a head in every token.
    Same,
    /// One direction a head, its sign changing with every token.
    Flipped,
    /// Two directions a head, the second in every third token, plus 1e-3 of normal noise.
    Clusters,
    /// Random, but every fourth key row is zero.
    SomeZero,
    /// Random, but k and q rows of tokens 0, 5, 63, 64, 69 are zero.
    ZeroVectors,
    /// k and q rows so small (1e-4 an element) that the 1e-6 of the normalisation counts.
    Faint,
}

/// How log decays are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gates {
    /// `-0.02 - 0.8 u^3`, u uniform, times this factor.
    Cubic(f64),
    /// As `Cubic(1)`, but one in twenty is -100: the head forgets all.
    Reset,
    /// `-exp(u)`, u uniform in -3 .. 0.5.
    LogUniform,
    /// The same value everywhere.
    Constant(f64),
    /// 0 and this value in turn, over tokens and heads.
    Alternate(f64),
    /// -25.76 (a decay of 6.5e-12) in tokens 10 to 13, else -0.01.
    TinyDecay,
    /// -60 in every third token, else -1e-4.
    Spikes,
}

/// How betas are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Betas {
    /// Sigmoid of a normal.
    Sigmoid,
    /// Uniform in (0, 1).
    Uniform,
    /// The same value everywhere.
    Constant(f64),
    /// 0 or 1, each half of the time.
    ZeroOrOne,
}

/// A law of inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inputs {
    /// Name in case lists and results.
    pub name: &'static str,
    /// Law of key rows.
    pub keys: Keys,
    /// Law of log decays.
    pub gates: Gates,
    /// Law of betas.
    pub betas: Betas,
    /// Standard deviation of the state before the call.
    pub state: f64,
    /// Standard deviation of v.
    pub value: f64,
    /// Tokens at the end of the call with gate 0 and beta 0, as a padded batch has them.
    pub padding: usize,
}

/// The inputs of ordinary use: normal q, k, v; gates `-0.02 - 0.8 u^3`; state 0.05 normal.
pub const BASE: Inputs = Inputs {
    name: "base",
    keys: Keys::Random,
    gates: Gates::Cubic(1.0),
    betas: Betas::Sigmoid,
    state: 0.05,
    value: 1.0,
    padding: 0,
};

/// The base with scaled state and v.
const fn scaled(name: &'static str, state: f64, value: f64) -> Inputs {
    Inputs { name, state: BASE.state * state, value, ..BASE }
}

/// Inputs that strain range, cancellation and growth.
pub const STRESS: &[Inputs] = &[
    scaled("state_x0.01", 0.01, 1.0),
    scaled("state_x50", 50.0, 1.0),
    scaled("state_zero", 0.0, 1.0),
    scaled("v_x50", 1.0, 50.0),
    scaled("v_state_x1e-20", 1e-20, 1e-20),
    scaled("v_state_x1e5", 1e5, 1e5),
    Inputs { name: "slow_gates", gates: Gates::Cubic(1e-3), ..BASE },
    Inputs { name: "coherent_keys", keys: Keys::Coherent(0.15), ..BASE },
    Inputs { name: "reset_gates", gates: Gates::Reset, ..BASE },
    Inputs { name: "gate_zero", gates: Gates::Constant(0.0), ..BASE },
    Inputs { name: "beta_zero", betas: Betas::Constant(0.0), ..BASE },
    Inputs { name: "beta_faint", betas: Betas::Constant(1e-6), state: 0.0, ..BASE },
    Inputs { name: "beta_one", betas: Betas::Constant(1.0), ..BASE },
    Inputs { name: "beta_zero_or_one", betas: Betas::ZeroOrOne, ..BASE },
    Inputs { name: "zero_keys", keys: Keys::SomeZero, ..BASE },
    Inputs { name: "flipped_keys", keys: Keys::Flipped, ..BASE },
];

/// What the laws of published faults share: gates, betas and state as those reports drew them.
const REPORTED: Inputs = Inputs { name: "", gates: Gates::LogUniform, betas: Betas::Uniform, state: 0.3, ..BASE };

/// Keys that repeat while nothing decays: the triangular factor of a chunk is all ones.
const fn undamped(name: &'static str, keys: Keys) -> Inputs {
    Inputs { name, keys, gates: Gates::Constant(0.0), betas: Betas::Constant(1.0), ..REPORTED }
}

/// Inputs on which other implementations of this recurrence failed, from their public reports.
pub const REPORTED_FAULTS: &[Inputs] = &[
    undamped("k01_same_key", Keys::Same),
    undamped("k01_flip_key", Keys::Flipped),
    undamped("k01_clusters", Keys::Clusters),
    Inputs { name: "k02_gate_one", gates: Gates::Constant(0.0), ..REPORTED },
    Inputs { name: "k02_gate_mixed", gates: Gates::Alternate(-3.0), ..REPORTED },
    Inputs { name: "k04_tiny_decay", gates: Gates::TinyDecay, ..REPORTED },
    Inputs { name: "k04_steady_minus2", gates: Gates::Constant(-2.0), ..REPORTED },
    Inputs { name: "k04_spikes", gates: Gates::Spikes, ..REPORTED },
    Inputs { name: "k28_padding", padding: 14, ..REPORTED },
    Inputs { name: "k30_zero_vectors", keys: Keys::ZeroVectors, ..REPORTED },
    Inputs { name: "k30_faint_rows", keys: Keys::Faint, ..REPORTED },
];

/// The law of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Inputs> {
    [&BASE].into_iter().chain(STRESS).chain(REPORTED_FAULTS).find(|inputs| inputs.name == name)
}

/// A row of 128 elements.
pub type Row = [f64; HEAD_DIM];

fn normals(random: Random, row: usize) -> Row {
    let mut out = [0.0; HEAD_DIM];
    random.normals((row * HEAD_DIM) as u64, &mut out);
    out
}

/// Row `row` of an array of normals with standard deviation `size`.
#[must_use]
pub fn scaled_normals(seed: u64, array: Array, row: usize, size: f64) -> Row {
    normals(Random::new(seed, array), row).map(|x| size * x)
}

fn unit(row: Row) -> Row {
    let scale = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
    row.map(|x| x * scale)
}

impl Inputs {
    /// Normalised q row of a token and key head; `row` is `token * key_heads + head`.
    #[must_use]
    pub fn query(&self, seed: u64, token: usize, row: usize) -> Row {
        let raw = normals(Random::new(seed, Array::Query), row);
        unit(match self.keys {
            Keys::ZeroVectors if zero_vector(token) => [0.0; HEAD_DIM],
            Keys::Faint => raw.map(|x| 1e-4 * x),
            _ => raw,
        })
    }

    /// Normalised k row of a token and key head; `row` is `token * key_heads + head`.
    #[must_use]
    pub fn key(&self, seed: u64, token: usize, head: usize, row: usize) -> Row {
        let raw = || normals(Random::new(seed, Array::Key), row);
        let direction = |i: usize| normals(Random::new(seed, Array::Direction), 2 * head + i);
        let plus_noise = |mut base: Row, noise: f64| {
            base.iter_mut().zip(raw()).for_each(|(x, n)| *x += noise * n);
            base
        };
        unit(match self.keys {
            Keys::Random => raw(),
            Keys::Coherent(noise) => plus_noise(direction(0), noise),
            Keys::Same => direction(0),
            Keys::Flipped => direction(0).map(|x| if token.is_multiple_of(2) { x } else { -x }),
            Keys::Clusters => plus_noise(direction(usize::from(token.is_multiple_of(3))), 1e-3),
            Keys::SomeZero if token % 4 == 1 => [0.0; HEAD_DIM],
            Keys::ZeroVectors if zero_vector(token) => [0.0; HEAD_DIM],
            Keys::SomeZero | Keys::ZeroVectors => raw(),
            Keys::Faint => raw().map(|x| 1e-4 * x),
        })
    }

    /// v row of a token and value head; `row` is `token * value_heads + head`.
    #[must_use]
    pub fn value(&self, seed: u64, row: usize) -> Row {
        scaled_normals(seed, Array::Value, row, self.value)
    }

    /// Log decay of a token and value head; `i` is `token * value_heads + head`.
    #[must_use]
    pub fn gate(&self, seed: u64, tokens: usize, token: usize, head: usize, i: u64) -> f64 {
        if self.is_padding(tokens, token) {
            return 0.0;
        }
        let uniform = Random::new(seed, Array::Gate).uniform(i);
        let cubic = |factor: f64| factor * (-0.02 - 0.8 * uniform.powi(3));
        match self.gates {
            Gates::Cubic(factor) => cubic(factor),
            Gates::Reset if Random::new(seed, Array::Pick).uniform(i) < 0.05 => -100.0,
            Gates::Reset => cubic(1.0),
            Gates::LogUniform => -(-3.0 + 3.5 * uniform).exp(),
            Gates::Constant(value) => value,
            Gates::Alternate(value) => {
                if (token + head).is_multiple_of(2) {
                    value
                } else {
                    0.0
                }
            }
            Gates::TinyDecay => {
                if (10..14).contains(&token) {
                    -25.76
                } else {
                    -0.01
                }
            }
            Gates::Spikes => {
                if token.is_multiple_of(3) {
                    -60.0
                } else {
                    -1e-4
                }
            }
        }
    }

    /// Beta of a token and value head; `i` is `token * value_heads + head`.
    #[must_use]
    pub fn beta(&self, seed: u64, tokens: usize, token: usize, i: u64) -> f64 {
        if self.is_padding(tokens, token) {
            return 0.0;
        }
        let random = Random::new(seed, Array::Beta);
        match self.betas {
            Betas::Sigmoid => 1.0 / (1.0 + (-random.normal(i)).exp()),
            Betas::Uniform => random.uniform(i),
            Betas::Constant(value) => value,
            Betas::ZeroOrOne => (random.bits(i) >> 63) as f64,
        }
    }

    fn is_padding(&self, tokens: usize, token: usize) -> bool {
        token >= tokens.saturating_sub(self.padding)
    }
}

fn zero_vector(token: usize) -> bool {
    matches!(token, 0 | 5 | 63 | 64 | 69)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = &'static Inputs> {
        [&BASE].into_iter().chain(STRESS).chain(REPORTED_FAULTS)
    }

    #[test]
    fn names_are_unique_and_laws_differ() {
        let names: BTreeSet<_> = all().map(|inputs| inputs.name).collect();
        assert_eq!(names.len(), all().count());
        assert_eq!(named("reset_gates").map(|inputs| inputs.gates), Some(Gates::Reset));
        assert_eq!(named("no_such_law"), None);
        for (i, a) in all().enumerate() {
            for b in all().skip(i + 1) {
                let unnamed = |inputs: &Inputs| Inputs { name: "", ..*inputs };
                assert_ne!(unnamed(a), unnamed(b), "{} and {}", a.name, b.name);
            }
        }
    }

    #[test]
    fn every_law_keeps_the_kernels_contract() {
        for inputs in all() {
            for token in 0..80 {
                for head in 0..3 {
                    let i = token * 3 + head;
                    let gate = inputs.gate(1, 80, token, head, i as u64);
                    assert!(gate.is_finite() && gate <= 0.0, "{}: gate {gate}", inputs.name);
                    let beta = inputs.beta(1, 80, token, i as u64);
                    assert!((0.0..=1.0).contains(&beta), "{}: beta {beta}", inputs.name);
                    for row in [inputs.query(1, token, i), inputs.key(1, token, head, i)] {
                        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
                        assert!(norm <= 1.0 + 0.5f64.powi(20), "{}: norm {norm}", inputs.name);
                    }
                }
            }
        }
    }

    #[test]
    fn laws_do_what_their_names_say() {
        let cosine = |inputs: &Inputs, a: usize, b: usize| -> f64 {
            let (x, y) = (inputs.key(5, a, 0, a), inputs.key(5, b, 0, b));
            x.iter().zip(y).map(|(x, y)| x * y).sum()
        };
        let law = |name| named(name).expect("a law of the list");
        assert!(cosine(&BASE, 1, 2).abs() < 0.4);
        assert!(cosine(law("k01_same_key"), 1, 2) > 0.999_999);
        assert!(cosine(law("k01_flip_key"), 1, 2) < -0.999_999);
        assert!(cosine(law("k01_clusters"), 1, 2) > 0.999, "tokens 1 and 2 share a direction");
        assert!(cosine(law("k01_clusters"), 1, 3).abs() < 0.4, "token 3 has the other");
        assert!((0.9..0.999).contains(&cosine(law("coherent_keys"), 1, 2)));
        assert_eq!(law("zero_keys").key(5, 1, 0, 1), [0.0; HEAD_DIM]);
        assert_eq!(law("k30_zero_vectors").query(5, 64, 64), [0.0; HEAD_DIM]);
        let faint = law("k30_faint_rows").key(5, 1, 0, 1).iter().map(|x| x * x).sum::<f64>();
        assert!((0.3..0.8).contains(&faint), "1.28e-6 / (1.28e-6 + 1e-6): {faint}");
        let resets = (0..10_000).filter(|&i| law("reset_gates").gate(5, 10_000, i, 0, i as u64) == -100.0).count();
        assert!((400..600).contains(&resets), "{resets}");
        let padded = law("k28_padding");
        assert_eq!((padded.gate(5, 64, 50, 0, 0), padded.beta(5, 64, 50, 0)), (0.0, 0.0));
        assert!(padded.gate(5, 64, 49, 0, 0) < 0.0 && padded.beta(5, 64, 49, 0) > 0.0);
    }
}
