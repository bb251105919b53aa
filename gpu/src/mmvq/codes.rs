//! Codes of blocks of 32 values in the bits of `mmvq.quantize`, with one division a block: for kernels that quantize vectors
//! themselves.

use cuda_std::{float, int};

use super::quantize::{clamp_half, code, unlimited_code};

/// `num / den`, rounded to nearest, from the reciprocal of `den` rounded to nearest (Markstein): exact while neither the
/// remainder nor anything else leaves the range of normal numbers.
#[inline(always)]
fn quotient(num: f32, den: f32, reciprocal: f32) -> f32 {
    let about = num * reciprocal;
    float::fma(float::fma(-about, den, num), reciprocal, about)
}

/// Codes of `N` values of each of `B` blocks, whose largest magnitudes are `largest`, and the blocks' steps. Blocks go side by side, so
/// that what one waits for the others fill. Zeros take the way of numbers of ordinary size, where steps are below the largest f16
/// and no code needs its limits.
#[inline(always)]
pub(super) fn codes<const B: usize, const N: usize>(x: [[f32; N]; B], largest: [f32; B]) -> [([i32; N], f32); B] {
    const CODES: f32 = 127.0;
    let nonzero = largest.map(|largest| if largest == 0.0 { 1.0 } else { largest });
    let made: [([i32; N], f32); B] = if nonzero.iter().all(|&largest| largest > 1e-18 && largest < 8e6) {
        core::array::from_fn(|b| {
            let step = quotient(nonzero[b], CODES, 1.0 / CODES);
            let reciprocal = 1.0 / step;
            (x[b].map(|x| unlimited_code(quotient(x, step, reciprocal))), step)
        })
    } else {
        core::array::from_fn(|b| {
            let step = clamp_half(nonzero[b] / CODES);
            (x[b].map(|x| code(x / step)), step)
        })
    };
    core::array::from_fn(|b| (made[b].0, if largest[b] == 0.0 { 0.0 } else { made[b].1 }))
}

/// The word of four codes, the first one lowest.
#[inline(always)]
pub(super) fn word(codes: [i32; 4]) -> u32 {
    let [q0, q1, q2, q3] = codes.map(i32::cast_unsigned);
    int::prmt(int::prmt(q0, q1, 0x0040), int::prmt(q2, q3, 0x0040), 0x5410)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quantizer's own steps.
    fn plain(x: [f32; 8], largest: f32) -> ([i32; 8], f32) {
        let step = clamp_half(largest / 127.0);
        (x.map(|x| if largest == 0.0 { 0 } else { code(x / step) }), step)
    }

    #[test]
    fn codes_and_steps_are_those_of_the_quantizer() {
        let bits = (0..).scan(1u32, |state, _: u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(*state)
        });
        let mut numbers = bits.map(f32::from_bits);
        let (mut next, mut ordinary) = (|| numbers.next().unwrap_or_default(), 0);
        for i in 0..400_000 {
            // Of any size, or within a block of a largest number as it comes; ties, zeros, NaN and infinities among them.
            let largest = if i % 5 == 0 { [127.0, 0.0, f32::INFINITY, 8e6, 1e-18][i / 5 % 5] } else { next().abs() };
            let largest = if largest.is_nan() { 3.0 } else { largest };
            let part = |k: f32| largest * (k / 127.0);
            let x = [largest, next() % largest, part(0.5), part(-2.5), part(63.5), f32::NAN, 0.0, -largest];
            // Beside a block of ordinary size and beside one that is not.
            let [beside, other] = [[1.0; 8], [1e30; 8]].map(|beside| codes([x, beside], [largest, beside[0]])[0]);
            let want = plain(x, largest);
            for got in [codes([x], [largest])[0], beside, other] {
                assert_eq!((got.0, got.1.to_bits()), (want.0, want.1.to_bits()), "{x:?}");
            }
            ordinary += u32::from(largest > 1e-18 && largest < 8e6);
        }
        assert!(ordinary > 100_000, "{ordinary} took the short way");
    }

    #[test]
    fn a_word_has_its_first_code_lowest() {
        assert_eq!(word([1, -2, 127, -127]), u32::from_le_bytes([1, 0xfe, 127, 0x81]));
    }
}
