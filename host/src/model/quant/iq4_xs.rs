//! Values to a block of IQ4_XS.

use varve_gpu::format::iq4_xs::{BYTES, D_OFF, QS_OFF, SCALE_BIAS, SCALES_H_OFF, SCALES_L_OFF, SUB_VALUES, VALUES};

use super::fit::Scales;
use super::iq4_nl::codes;
use super::levels::Codebook;

/// Searches the scales, then takes the nearest entries of the codebook.
pub fn block(x: &[f32; VALUES]) -> [u8; BYTES] {
    let scales: Scales<{ VALUES / SUB_VALUES }> = Scales::search::<Codebook, VALUES>(x, -SCALE_BIAS);
    let mut out = [0; BYTES];
    out[D_OFF..SCALES_H_OFF].copy_from_slice(&scales.d.to_le_bytes());
    for (s, scale) in scales.subs.into_iter().enumerate() {
        let stored = (scale + SCALE_BIAS).cast_unsigned();
        out[SCALES_L_OFF + s / 2] |= (stored & 15) << (4 * (s % 2));
        out[SCALES_H_OFF + s / 4] |= stored >> 4 << (2 * (s % 4));
        codes(&x[SUB_VALUES * s..][..SUB_VALUES], scales.of(s), &mut out[QS_OFF + 16 * s..][..16]);
    }
    out
}
