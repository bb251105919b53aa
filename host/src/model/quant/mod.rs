//! f32 values to the blocks of quantized formats, without any knowledge but the values themselves.
//!
//! A block's values are `scale * level` or `scale * code - min`. Finding codes for given scales is rounding; finding the
//! scales is a search: several guesses, for each the scale that fits the codes it leads to best (weighted least squares),
//! and of those the one with the smallest error (`fit.rs`, `affine.rs`, `levels.rs`). A value's error counts by its size
//! plus the root mean square of its sub-block, since large weights tend to meet large activations.
//!
//! Blocks are made independently, in parallel, and the same values always give the same bytes.
//!
//! ```
//! use varve::model::{DType, quant, to_f32};
//! let row: Vec<f32> = (0..256).map(|i| (i as f32 * 0.1).sin()).collect();
//! let blocks = quant::quantize(DType::Q6_K, &row)?;
//! let mut back = Vec::new();
//! to_f32(DType::Q6_K, &blocks, &mut back);
//! assert!(row.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.03));
//! # Ok::<(), quant::Refused>(())
//! ```

mod affine;
mod fit;
mod iq4_nl;
mod iq4_xs;
mod levels;
mod q4_k;
mod q5_k;
mod q6_k;
mod q8_0;

use half::{bf16, f16};
use rayon::prelude::*;

use super::DType;

/// Values below this in magnitude are nearer to zero than to anything else in every format, whose scales are f16.
const TINY: f32 = 1.0 / (1u64 << 40) as f32;
/// Largest magnitude that block formats are given: the smallest of their reaches, 63 * 65504 of the minima of Q4_K.
const LARGEST: f32 = 4.0e6;
/// Blocks that a thread takes at a time, at least.
const TOGETHER: usize = 64;

/// A value that the type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are what the messages show
pub enum Refused {
    /// Infinite, or no number.
    #[error("value {at} is {value}: only finite numbers can be quantized")]
    NotFinite { at: usize, value: f32 },
    /// Beyond what the type's scales reach.
    #[error("value {at} is {value:e}, and {dtype} holds magnitudes up to {largest:e}")]
    TooLarge { at: usize, value: f32, dtype: DType, largest: f32 },
}

impl Refused {
    /// The same of a value with `n` more before it.
    #[must_use]
    pub fn behind(self, n: usize) -> Self {
        match self {
            Self::NotFinite { at, value } => Self::NotFinite { at: at + n, value },
            Self::TooLarge { at, value, dtype, largest } => Self::TooLarge { at: at + n, value, dtype, largest },
        }
    }
}

/// What makes whole blocks, or plain numbers, of values that were checked.
type Make = fn(&[f32]) -> Vec<u8>;

/// What makes the type, if anything does.
fn maker(dtype: DType) -> Option<Make> {
    Some(match dtype {
        DType::F32 => |values| plain(values, f32::to_le_bytes),
        DType::F16 => |values| plain(values, |x| f16::from_f32(x).to_le_bytes()),
        DType::BF16 => |values| plain(values, |x| bf16::from_f32(x).to_le_bytes()),
        DType::Q8_0 => |values| blocks(values, q8_0::block),
        DType::Q4_K => |values| blocks(values, q4_k::block),
        DType::Q5_K => |values| blocks(values, q5_k::block),
        DType::Q6_K => |values| blocks(values, q6_k::block),
        DType::IQ4_NL => |values| blocks(values, iq4_nl::block),
        DType::IQ4_XS => |values| blocks(values, iq4_xs::block),
        _ => return None,
    })
}

/// The largest magnitude that the type takes.
fn largest(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => f32::MAX,
        DType::F16 => f16::MAX.to_f32(),
        DType::BF16 => bf16::MAX.to_f32(),
        _ => LARGEST,
    }
}

/// Whether [`quantize`] makes the type.
#[must_use]
pub fn is_writable(dtype: DType) -> bool {
    maker(dtype).is_some()
}

/// The bytes of whole rows in this type.
///
/// # Errors
/// [`Refused`] names the first value that cannot be held.
///
/// # Panics
/// Where the type is none that [`is_writable`], or the values are no whole number of its blocks.
pub fn quantize(dtype: DType, values: &[f32]) -> Result<Vec<u8>, Refused> {
    let Some(make) = maker(dtype) else { unreachable!("{dtype} was refused when it was asked for") };
    let largest = largest(dtype);
    assert!(values.len().is_multiple_of(dtype.block_len()), "{} values in blocks of {dtype}", values.len());
    match values.par_iter().position_first(|x| !x.is_finite() || x.abs() > largest) {
        None => Ok(make(values)),
        Some(at) if values[at].is_finite() => Err(Refused::TooLarge { at, value: values[at], dtype, largest }),
        Some(at) => Err(Refused::NotFinite { at, value: values[at] }),
    }
}

fn plain<const B: usize>(values: &[f32], bytes: impl Fn(f32) -> [u8; B]) -> Vec<u8> {
    values.iter().flat_map(|&x| bytes(x)).collect()
}

fn blocks<const V: usize, const B: usize>(values: &[f32], block: fn(&[f32; V]) -> [u8; B]) -> Vec<u8> {
    let values = values.as_chunks::<V>().0;
    let mut out = vec![0; values.len() * B];
    let pairs = out.as_chunks_mut::<B>().0.par_iter_mut().zip(values.par_iter());
    pairs.with_min_len(TOGETHER).for_each(|(out, values)| *out = block(values));
    out
}

/// The value of largest magnitude, with its sign; 0 where all are tiny.
fn peak(values: &[f32]) -> f32 {
    let peak = values.iter().fold(0.0f32, |peak, &x| if x.abs() > peak.abs() { x } else { peak });
    if peak.abs() < TINY { 0.0 } else { peak }
}

/// The scale that is stored for `x`: the nearest f16, but among the few smallest ones, which are far apart, none nearer to
/// zero than `x`, so that no code has to be cut off.
fn step(x: f32) -> f16 {
    let near = f16::from_f32(x);
    let short = near.to_f32().abs() < x.abs() && !near.is_normal();
    if short { f16::from_bits(f16::from_f32(x.abs()).to_bits() + 1).copysign(f16::from_f32(x)) } else { near }
}

/// `1 / x`, and 0 for 0.
fn inverse(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { 1.0 / x }
}

/// The nearest integer, halves to even, of a number below 2^22.
fn nearest(x: f32) -> f32 {
    const ROUNDER: f32 = 12_582_912.0; // 1.5 * 2^23: the sum has no bits left for a fraction
    (x + ROUNDER) - ROUNDER
}

/// How much the error of each value counts.
fn weights<const N: usize>(values: &[f32], sub_values: usize) -> [f32; N] {
    let mut weights = [0.0; N];
    for (weights, values) in weights.chunks_mut(sub_values).zip(values.chunks(sub_values)) {
        let mean_square = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        let rms = mean_square.sqrt();
        weights.iter_mut().zip(values).for_each(|(w, x)| *w = rms + x.abs());
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_scales_are_rounded_away_from_zero() {
        let smallest = f16::from_bits(1).to_f32();
        assert_eq!([step(0.0), step(1.0), step(-0.3)], [f16::ZERO, f16::ONE, f16::from_f32(-0.3)]);
        assert_eq!([0.1, 1.0, 1.1, 2.5].map(|x| step(x * smallest).to_f32() / smallest), [1.0, 1.0, 2.0, 3.0]);
        assert_eq!(step(-1.1 * smallest).to_f32(), -2.0 * smallest);
    }
}
