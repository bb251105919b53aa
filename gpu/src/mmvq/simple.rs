//! The call of Q8_0: eight codes as they are.

use cuda_std::{float, int};

use super::Format;
use super::call::{Acts, Align, Call, RawWord, load, to_float};
use super::source::Source;
use crate::format::q8_0;

/// Q8_0: call q of 4 has words 2 q and 2 q + 1 of the codes.
pub struct Q8Zero;

/// Words of a call of [`Q8Zero`].
#[derive(Clone, Copy, Default)]
pub struct Raw {
    q: [RawWord; 2],
    d: u16,
}

/// Integers of a call of [`Q8Zero`].
#[derive(Clone, Copy)]
pub struct Weights {
    q: [i32; 2],
    d: f32,
}

impl Call for Q8Zero {
    const FORMAT: Format = Format::Q8_0;
    const VALUES: usize = q8_0::VALUES;
    const BYTES: usize = q8_0::BYTES;
    const LPB: usize = 4;
    type Raw = Raw;
    type Weights = Weights;
    type Acts<const T: usize> = Acts<2, 1, 0, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, at: Align) -> Raw {
        // SAFETY: 8 q + 7 < 32 bytes of codes; alignment by contract.
        unsafe {
            let word = |i: usize| RawWord::load::<ORDERED>(block.wrapping_add(q8_0::QS_OFF + 8 * q + 4 * i + off), at);
            Raw { q: [word(0), word(1)], d: load::<ORDERED, u16>(block.wrapping_add(q8_0::D_OFF + off).cast()) }
        }
    }

    #[inline(always)]
    fn decode(raw: &Raw, _q: usize, at: Align) -> Weights {
        Weights { q: raw.q.map(|word| word.whole(at).cast_signed()), d: float::f16_to_f32(raw.d) }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        // SAFETY: same contract; one block of activations a block of weights.
        unsafe { Acts { u: [x.word(block, 2 * q), x.word(block, 2 * q + 1)], d: [x.step(block)], e: [] } }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &Weights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        for c in 0..T {
            let n = int::dp4a(w.q[1], x.u[1][c], int::dp4a(w.q[0], x.u[0][c], 0));
            a[c] = float::fma(w.d * x.d[0][c], to_float::<FORM>(n), a[c]);
        }
    }
}
