//! Scales and minima of Q4_K and Q5_K, whose values are a scale times a code, less a minimum.

use half::f16;
use varve_gpu::format::PACKED_BYTES;

use super::fit::cheaper;
use super::{inverse, nearest, peak, step, weights};

const SUBS: usize = 8;
const LEN: usize = 32;
const VALUES: usize = SUBS * LEN;
/// Largest integer scale and minimum.
const HIGHEST: f32 = 63.0;
/// Guesses on each side of the scale that spreads the codes from the smallest value to the largest, a tenth of a code apart.
const GUESSES: i32 = 12;

/// What a block stores beside the codes.
pub struct Affine {
    d: f16,
    dmin: f16,
    /// Integer scale and minimum of each sub-block, 0..=63.
    subs: [[u8; 2]; SUBS],
}

/// A line through codes: `scale * code - min`.
#[derive(Clone, Copy)]
struct Line {
    scale: f32,
    min: f32,
}

impl Line {
    fn code(self, x: f32, per_code: f32, highest: f32) -> f32 {
        nearest(((x + self.min) * per_code).clamp(0.0, highest))
    }

    fn error(self, x: &[f32], w: &[f32], highest: f32) -> f32 {
        let per_code = inverse(self.scale);
        let square = |x: f32| (self.scale * self.code(x, per_code, highest) - self.min - x).powi(2);
        x.iter().zip(w).map(|(&x, &w)| w * square(x)).sum()
    }

    /// The line with the smallest weighted error: for each guess, least squares over the codes that it leads to.
    fn search(x: &[f32], w: &[f32], highest: f32) -> Self {
        let low = x.iter().copied().fold(0.0, f32::min);
        let high = x.iter().copied().fold(low, f32::max);
        let flat = Self { scale: 0.0, min: -low };
        if high == low {
            return flat;
        }
        let guess = |i: i32| Self { scale: (high - low) / (highest + i as f32 * 0.1), min: -low };
        let lines = (-GUESSES..=GUESSES).map(|i| guess(i).refit(x, w, highest));
        let costs = lines.map(|line| (line, line.error(x, w, highest)));
        costs.fold((flat, flat.error(x, w, highest)), cheaper).0
    }

    /// The line through the codes that this one leads to.
    fn refit(self, x: &[f32], w: &[f32], highest: f32) -> Self {
        let per_code = inverse(self.scale);
        let (mut sw, mut sx, mut sq, mut sqq, mut sqx) = (0.0f32, 0.0f32, 0.0f32, 0.0f32, 0.0f32);
        for (&x, &w) in x.iter().zip(w) {
            let q = self.code(x, per_code, highest);
            sw += w;
            sx += w * x;
            sq += w * q;
            sqq += w * q * q;
            sqx += w * q * x;
        }
        let determinant = sw * sqq - sq * sq;
        if determinant <= 0.0 {
            return self; // all values have one code
        }
        let line = Self { scale: (sw * sqx - sx * sq) / determinant, min: (sq * sqx - sqq * sx) / determinant };
        // A minimum is stored without sign: where it would be negative, the line starts at zero.
        if line.min >= 0.0 { line } else { Self { scale: sqx / sqq, min: 0.0 } }
    }
}

impl Affine {
    /// Searches for codes up to `highest`.
    pub fn search(x: &[f32; VALUES], highest: f32) -> Self {
        let mut found = Self { d: f16::ZERO, dmin: f16::ZERO, subs: [[0; 2]; SUBS] };
        if peak(x) == 0.0 {
            return found;
        }
        let w: [f32; VALUES] = weights(x, LEN);
        let sub = |s: usize| (&x[s * LEN..(s + 1) * LEN], &w[s * LEN..(s + 1) * LEN]);
        let mut lines = [Line { scale: 0.0, min: 0.0 }; SUBS];
        for (s, line) in lines.iter_mut().enumerate() {
            *line = Line::search(sub(s).0, sub(s).1, highest);
        }
        let largest = |of: fn(&Line) -> f32| step(lines.iter().map(of).fold(0.0, f32::max) / HIGHEST);
        (found.d, found.dmin) = (largest(|line| line.scale), largest(|line| line.min));
        let per_step = [inverse(found.d.to_f32()), inverse(found.dmin.to_f32())];
        for (s, line) in lines.iter().enumerate() {
            let middle = [line.scale * per_step[0], line.min * per_step[1]].map(|x| nearest(x.clamp(0.0, HIGHEST)));
            let near = [0.0, -1.0, 1.0].map(|i| [0.0, -1.0, 1.0].map(|j| [middle[0] + i, middle[1] + j]));
            let near = near.into_iter().flatten().filter(|pair| pair.iter().all(|x| (0.0..=HIGHEST).contains(x)));
            let candidates = near.map(|pair| {
                let pair = pair.map(|x| x as u8);
                (pair, found.line(pair).error(sub(s).0, sub(s).1, highest))
            });
            found.subs[s] = candidates.fold(([0; 2], f32::INFINITY), cheaper).0;
        }
        found.refine(x, &w, highest);
        found
    }

    /// The line of a sub-block of these integers, as a reader computes it.
    fn line(&self, [scale, min]: [u8; 2]) -> Line {
        Line { scale: self.d.to_f32() * f32::from(scale), min: self.dmin.to_f32() * f32::from(min) }
    }

    fn total(&self, x: &[f32], w: &[f32], highest: f32) -> f32 {
        let subs = self.subs.iter().zip(x.chunks(LEN).zip(w.chunks(LEN)));
        subs.map(|(&pair, (x, w))| self.line(pair).error(x, w, highest)).sum()
    }

    /// Takes the d and dmin that fit the codes best, if they are better once they are f16.
    fn refine(&mut self, x: &[f32], w: &[f32], highest: f32) {
        // x is about d a - dmin b with a = scale * code, b = min: two equations.
        let (mut aa, mut ab, mut bb, mut ax, mut bx) = (0.0f64, 0.0f64, 0.0f64, 0.0f64, 0.0f64);
        for (&pair, (x, w)) in self.subs.iter().zip(x.chunks(LEN).zip(w.chunks(LEN))) {
            let line = self.line(pair);
            let per_code = inverse(line.scale);
            for (&x, &w) in x.iter().zip(w) {
                let a = f64::from(f32::from(pair[0]) * line.code(x, per_code, highest));
                let (b, x, w) = (f64::from(pair[1]), f64::from(x), f64::from(w));
                aa += w * a * a;
                ab += w * a * b;
                bb += w * b * b;
                ax += w * a * x;
                bx += w * b * x;
            }
        }
        let determinant = aa * bb - ab * ab;
        let (d, dmin) = if determinant > 1e-9 * aa * bb {
            ((bb * ax - ab * bx) / determinant, (ab * ax - aa * bx) / determinant)
        } else if aa > 0.0 && bb == 0.0 {
            (ax / aa, 0.0)
        } else {
            return;
        };
        let other = Self { d: f16::from_f64(d), dmin: f16::from_f64(dmin), subs: self.subs };
        let usable = |x: f16| x.is_finite() && x.to_f32() >= 0.0;
        if usable(other.d) && usable(other.dmin) && other.total(x, w, highest) < self.total(x, w, highest) {
            *self = other;
        }
    }

    /// The codes of the values.
    pub fn codes(&self, x: &[f32; VALUES], highest: f32) -> [u8; VALUES] {
        let mut codes = [0; VALUES];
        for (s, &pair) in self.subs.iter().enumerate() {
            let line = self.line(pair);
            let per_code = inverse(line.scale);
            for t in s * LEN..(s + 1) * LEN {
                codes[t] = line.code(x[t], per_code, highest) as u8;
            }
        }
        codes
    }

    /// d and dmin as stored, and the twelve bytes of the integers: the reverse of `scale_and_min`.
    pub fn stored(&self) -> ([u8; 2], [u8; 2], [u8; PACKED_BYTES]) {
        let mut packed = [0; PACKED_BYTES];
        for (s, &[scale, min]) in self.subs.iter().enumerate() {
            if s < 4 {
                packed[s] |= scale;
                packed[s + 4] |= min;
            } else {
                packed[s + 4] |= scale & 15 | (min & 15) << 4;
                packed[s - 4] |= scale >> 4 << 6;
                packed[s] |= min >> 4 << 6;
            }
        }
        (self.d.to_le_bytes(), self.dmin.to_le_bytes(), packed)
    }
}

#[cfg(test)]
mod tests {
    use varve_gpu::format::scale_and_min;

    use super::*;

    #[test]
    fn packed_integers_are_read_back() {
        let mut affine = Affine { d: f16::ONE, dmin: f16::ONE, subs: [[0; 2]; SUBS] };
        for round in 0..64 {
            for (s, pair) in (0..).zip(&mut affine.subs) {
                *pair = [(round + 9 * s) % 64, (5 * round + 23 * s + 1) % 64].map(|x: u32| x as u8);
            }
            let (_, _, packed) = affine.stored();
            for (s, pair) in affine.subs.iter().enumerate() {
                assert_eq!(scale_and_min(&packed, 0, s), (pair[0], pair[1]), "sub-block {s}");
            }
        }
    }
}
