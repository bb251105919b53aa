//! Values to a block of IQ4_NL.

use half::f16;
use varve_gpu::format::iq4_nl::{BYTES, D_OFF, QS_OFF, VALUES};

use super::levels::Codebook;
use super::{fit, inverse, weights};

/// Searches the scale, then takes the nearest entries of the codebook.
pub fn block(x: &[f32; VALUES]) -> [u8; BYTES] {
    let w: [f32; VALUES] = weights(x, VALUES);
    let d = f16::from_f32(fit::scale::<Codebook>(x, &w));
    let mut out = [0; BYTES];
    out[D_OFF..QS_OFF].copy_from_slice(&d.to_le_bytes());
    codes(x, d.to_f32(), &mut out[QS_OFF..]);
    out
}

/// The codes of 32 values at this scale: the first half of them in the low halves of 16 bytes, the others in the high ones.
pub fn codes(x: &[f32], scale: f32, out: &mut [u8]) {
    let per_level = inverse(scale);
    for (t, out) in out.iter_mut().enumerate() {
        *out = Codebook::code(x[t] * per_level) | Codebook::code(x[t + 16] * per_level) << 4;
    }
}
