//! Conversions between f32, f16, bf16 and tf32 against their definitions.

use crate::rig::{check_float_rows, check_rows, corners, noise, rigs};
use cuda_std::float;
use varve_gpu::probe::float::*;

/// A format of 16 bits with `mantissa` explicit bits.
#[derive(Clone, Copy)]
struct Format {
    mantissa: u32,
    bias: i32,
}

const F16: Format = Format { mantissa: 10, bias: 15 };
const BF16: Format = Format { mantissa: 7, bias: 127 };
const NAN16: u16 = 0x7fff;

impl Format {
    fn infinity(self) -> u16 {
        0x7fff & !((1 << self.mantissa) - 1)
    }

    /// The value of non-negative bits up to infinity, which counts as the next power of two.
    fn magnitude(self, bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> self.mantissa), f64::from(bits & ((1 << self.mantissa) - 1)));
        let unit = 2f64.powi(1 - self.bias - self.mantissa as i32);
        if exponent == 0 {
            fraction * unit
        } else {
            (f64::from(1u16 << self.mantissa) + fraction) * unit * 2f64.powi(exponent - 1)
        }
    }

    fn value(self, bits: u16) -> f32 {
        let magnitude = match bits & 0x7fff {
            m if m > self.infinity() => f32::NAN,
            m if m == self.infinity() => f32::INFINITY,
            m => self.magnitude(m) as f32,
        };
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    }

    /// Nearest, of two equally near ones the one with even bits: by search among all values.
    fn nearest(self, x: f32) -> u16 {
        if x.is_nan() {
            return NAN16;
        }
        let size = f64::from(x.abs()).min(self.magnitude(self.infinity()));
        let (mut low, mut high) = (0, self.infinity());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if self.magnitude(middle) <= size { &mut low } else { &mut high }) = middle;
        }
        let (below, above) = (size - self.magnitude(low), self.magnitude(high) - size);
        let up = above < below || (above == below && high.is_multiple_of(2));
        (if up { high } else { low }) | if x.is_sign_negative() { 0x8000 } else { 0 }
    }
}

/// f32 at, between and right beside all values of `format`, of both signs.
fn borders(format: Format) -> Vec<f32> {
    let mut all = Vec::new();
    for bits in 0..format.infinity() {
        let low = format.magnitude(bits);
        let middle = ((low + format.magnitude(bits + 1)) / 2.0) as f32;
        all.extend([low as f32, middle.next_down(), middle, middle.next_up()]);
    }
    all.extend(corners().into_iter().map(f32::from_bits));
    let mut next = noise(61);
    all.extend((0..20_000).map(|_| f32::from_bits(next())));
    let negative: Vec<f32> = all.iter().map(|x| -x).collect();
    all.extend(negative);
    all
}

#[test]
fn every_f16_has_its_value() {
    for bits in 0..=u16::MAX {
        let (got, want) = (float::f16_to_f32(bits), F16.value(bits));
        assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{bits:#06x}: {got:e}, {want:e}");
    }
}

#[test]
fn every_bf16_has_its_value() {
    for bits in 0..=u16::MAX {
        let (got, want) = (float::bf16_to_f32(bits), BF16.value(bits));
        assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{bits:#06x}: {got:e}, {want:e}");
    }
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    for x in borders(F16) {
        assert_eq!(float::f32_to_f16(x), F16.nearest(x), "f16 of {x:e} ({:#010x})", x.to_bits());
    }
    for x in borders(BF16) {
        assert_eq!(float::f32_to_bf16(x), BF16.nearest(x), "bf16 of {x:e} ({:#010x})", x.to_bits());
    }
}

/// tf32 by definition: 10 explicit mantissa bits, to nearest, ties away from zero.
fn tf32(x: f32) -> u32 {
    let (kept, cut) = (x.to_bits() & !0x1fff, x.to_bits() & 0x1fff);
    match x {
        _ if x.is_nan() => 0x7fff_ffff,
        _ if cut >= 0x1000 => kept + 0x2000, // the next one up in magnitude, across binades
        _ => kept,
    }
}

#[test]
fn tf32_rounds_ties_away_from_zero() {
    let mut next = noise(62);
    let mut rows: Vec<[u32; 1]> = corners().into_iter().map(|b| [b]).collect();
    for _ in 0..1000 {
        let upper = next() & !0x1fff;
        rows.extend([0, 1, 0xfff, 0x1000, 0x1001, 0x1fff].map(|cut| [upper | cut]));
    }
    rows.truncate(rows.len() / 64 * 64);
    check_rows::<1, 1>(&PROBE_FLOAT_TF32, 64, &rows, |i| [tf32(f32::from_bits(rows[i][0]))]);
}

#[test]
fn conversions_in_kernels_have_the_defined_bits() {
    // On a card all borders; the emulator runs the functions that the tests above have tried on all of them.
    let keep = if rigs()[0].device.caps().is_emulator { 101 } else { 1 };
    let mut next = noise(63);
    let all = borders(F16).into_iter().chain(borders(BF16)).step_by(keep);
    let mut rows: Vec<[u32; 2]> = all.map(|a| [a.to_bits(), next()]).collect();
    rows.truncate(rows.len() / 64 * 64);
    let pair = |lo: u16, hi: u16| u32::from(lo) | u32::from(hi) << 16;
    check_rows::<2, NARROW_RESULTS>(&PROBE_FLOAT_NARROW, 64, &rows, |i| {
        let [a, b] = rows[i].map(f32::from_bits);
        [
            u32::from(F16.nearest(a)),
            u32::from(BF16.nearest(a)),
            pair(F16.nearest(a), F16.nearest(b)),
            pair(BF16.nearest(a), BF16.nearest(b)),
        ]
    });
    check_float_rows::<2, WIDEN_RESULTS>(&PROBE_FLOAT_WIDEN, 64, &rows, |i| {
        let (lo, hi) = (rows[i][1] as u16, (rows[i][1] >> 16) as u16);
        let (f_lo, b_lo) = (F16.value(lo), BF16.value(lo));
        [f_lo, b_lo, f_lo, F16.value(hi), b_lo, BF16.value(hi)]
    });
}
