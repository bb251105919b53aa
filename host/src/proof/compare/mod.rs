//! Comparisons whose results are values: what differs, how much, where. No NaN gets lost on the way.
//!
//! Results are arrays without gaps whose element `i` belongs to head `i / 128 mod heads`, as outputs
//! `[tokens][heads][128]` and states `[128][heads][128]` both are. Largest differences go by head as well, since a quiet
//! head hides behind a loud one.

mod bits;
mod distance;
mod near;

use half::f16;
use rayon::prelude::*;

pub use bits::{bits, dense_rows, gaps_untouched, written};
pub use distance::{Distance, Worst, distance, elementwise, normed, peaks};
pub use near::share;

/// An element of a kernel's result.
pub trait Value: Copy + Sync {
    /// Its bits.
    fn bits(self) -> u32;
    /// Its value.
    fn to_f64(self) -> f64;
}

impl Value for f32 {
    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Value for u32 {
    fn bits(self) -> u32 {
        self
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Value for u16 {
    /// Twice, as words of poison hold its halves.
    fn bits(self) -> u32 {
        u32::from(self) * 0x1_0001
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Value for f16 {
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// How a result fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Two arrays of different length were compared.
    #[error("{got} values, expected {expected}")]
    Length {
        /// Of the result.
        got: usize,
        /// Of what it is compared with.
        expected: usize,
    },
    /// Bits differ. NaN equals NaN here, since a GPU makes 0x7fffffff of what x86 makes 0xffc00000.
    #[error("{count} of {len} values differ in bits, first at {at}: {got:#010x}, expected {expected:#010x}")]
    Bits {
        /// Values that differ.
        count: usize,
        /// Values compared.
        len: usize,
        /// Index of the first.
        at: usize,
        /// Bits of the result there.
        got: u32,
        /// Bits of the base there.
        expected: u32,
    },
    /// NaN where the reference is a number.
    #[error("{count} values are NaN, first at {at}, where the reference is {reference:e}")]
    Nan {
        /// Values that are NaN.
        count: usize,
        /// Index of the first.
        at: usize,
        /// The reference there.
        reference: f64,
    },
    /// A number, or infinity of the wrong sign, where the reference is NaN or infinite.
    #[error("{got:e} at {at}, where the reference is {reference}")]
    Number {
        /// Index of the first.
        at: usize,
        /// The result there.
        got: f64,
        /// The reference there.
        reference: f64,
    },
    /// Elements that still hold the poison they had before the call.
    #[error("{count} values were never written, first at {at}")]
    Unwritten {
        /// Values that hold poison.
        count: usize,
        /// Index of the first.
        at: usize,
    },
    /// Elements outside the operand that no longer hold their poison.
    #[error("{count} values outside the operand were overwritten, first at {at} with {got:#010x}")]
    Overwritten {
        /// Values that changed.
        count: usize,
        /// Index of the first, from the start of the buffer.
        at: usize,
        /// Bits found there.
        got: u32,
    },
    /// The difference exceeds its bound.
    #[error("{measure} {error:.3e} exceeds {bound:.1e} at {at}")]
    TooFar {
        /// Which difference.
        measure: &'static str,
        /// The difference.
        error: f64,
        /// What is allowed.
        bound: f64,
        /// Index of the worst element.
        at: usize,
    },
}

fn same_length(got: usize, expected: usize) -> Result<(), Failure> {
    if got == expected { Ok(()) } else { Err(Failure::Length { got, expected }) }
}

/// Indices below `len` for which `holds` is true: the first, and how many. In parallel, since results of a long call have
/// millions of elements.
fn first_and_count(len: usize, holds: impl Fn(usize) -> bool + Sync) -> Option<(usize, usize)> {
    const CHUNK: usize = 1 << 16;
    let chunk = |i: usize| {
        let mut found = None;
        for at in (i * CHUNK..len.min((i + 1) * CHUNK)).filter(|&at| holds(at)) {
            let (first, count) = found.unwrap_or((at, 0));
            found = Some((first, count + 1));
        }
        found
    };
    let both = |a: Option<(usize, usize)>, b: Option<(usize, usize)>| match (a, b) {
        (Some((first, m)), Some((second, n))) => Some((first.min(second), m + n)),
        (one, None) | (None, one) => one,
    };
    (0..len.div_ceil(CHUNK)).into_par_iter().map(chunk).reduce(|| None, both)
}
