//! Values to a block of Q5_K.

use varve_gpu::format::q5_k::{BYTES, D_OFF, DMIN_OFF, QH_OFF, QS_OFF, SCALES_OFF, VALUES};

use super::affine::Affine;

/// The largest code.
const HIGHEST: f32 = 31.0;

/// Searches scales and minima, then rounds.
pub fn block(x: &[f32; VALUES]) -> [u8; BYTES] {
    let found = Affine::search(x, HIGHEST);
    let (d, dmin, packed) = found.stored();
    let mut out = [0; BYTES];
    out[D_OFF..DMIN_OFF].copy_from_slice(&d);
    out[DMIN_OFF..SCALES_OFF].copy_from_slice(&dmin);
    out[SCALES_OFF..QH_OFF].copy_from_slice(&packed);
    for (e, q) in found.codes(x, HIGHEST).into_iter().enumerate() {
        let (s, t) = (e / 32, e % 32);
        out[QS_OFF + 32 * (s / 2) + t] |= (q & 15) << (4 * (s % 2));
        out[QH_OFF + t] |= q >> 4 << s;
    }
    out
}
