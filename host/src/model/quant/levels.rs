//! What a code can stand for before it is scaled: integers, or the entries of a codebook.

use varve_gpu::format::{KV, q6_k};

use super::nearest;

/// The levels of a format.
pub trait Levels {
    /// The lowest and the highest level.
    const ENDS: [f32; 2];
    /// How far guesses of a scale are apart, in levels of its largest value.
    const STEP: f32;

    /// The level next to `x`.
    fn next_to(x: f32) -> f32;
}

/// The integers from -32 to 31 of Q6_K.
pub struct SixBits;

impl Levels for SixBits {
    const ENDS: [f32; 2] = [-(q6_k::CODE_BIAS as f32), q6_k::CODE_BIAS as f32 - 1.0];
    const STEP: f32 = 0.1;

    fn next_to(x: f32) -> f32 {
        nearest(x.clamp(Self::ENDS[0], Self::ENDS[1]))
    }
}

/// The codebook of IQ4_NL and IQ4_XS.
pub struct Codebook;

/// Where the next code begins: halfway between neighbouring entries.
const BORDERS: [f32; 15] = {
    let (mut borders, mut i) = ([0.0; 15], 0);
    while i < borders.len() {
        borders[i] = (KV[i] as f32 + KV[i + 1] as f32) / 2.0;
        i += 1;
    }
    borders
};

impl Codebook {
    /// The code whose entry is next to `x`.
    pub fn code(x: f32) -> u8 {
        // Four halvings of the sorted borders.
        let mut code = 0;
        for half in [8, 4, 2, 1] {
            code += if x > BORDERS[code + half - 1] { half } else { 0 };
        }
        code as u8
    }
}

impl Levels for Codebook {
    const ENDS: [f32; 2] = [KV[0] as f32, KV[15] as f32];
    const STEP: f32 = 1.5;

    fn next_to(x: f32) -> f32 {
        f32::from(KV[usize::from(Self::code(x))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_level_is_the_nearest() {
        for i in -1500..1500 {
            let x = i as f32 * 0.1;
            let distance = |level: f32| (level - x).abs();
            let best = KV.iter().map(|&level| distance(level.into())).fold(f32::INFINITY, f32::min);
            assert_eq!(distance(Codebook::next_to(x)), best, "{x}");
            let best = (-32i8..=31).map(|level| distance(level.into())).fold(f32::INFINITY, f32::min);
            assert_eq!(distance(SixBits::next_to(x)), best, "{x}");
        }
    }
}
