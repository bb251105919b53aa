//! Values to a block of Q6_K.

use varve_gpu::format::q6_k::{BYTES, CODE_BIAS, D_OFF, QH_OFF, QL_OFF, SCALES_OFF, SUB_VALUES, VALUES};

use super::fit::Scales;
use super::inverse;
use super::levels::{Levels, SixBits};

/// Searches the scales, then rounds.
pub fn block(x: &[f32; VALUES]) -> [u8; BYTES] {
    let scales: Scales<{ VALUES / SUB_VALUES }> = Scales::search::<SixBits, VALUES>(x, i8::MIN);
    let mut out = [0; BYTES];
    out[D_OFF..].copy_from_slice(&scales.d.to_le_bytes());
    for (out, scale) in out[SCALES_OFF..D_OFF].iter_mut().zip(scales.subs) {
        *out = scale.cast_unsigned();
    }
    for (e, x) in x.iter().enumerate() {
        let level = SixBits::next_to(x * inverse(scales.of(e / SUB_VALUES))) as i8;
        let q = (level + CODE_BIAS).cast_unsigned();
        let (n, u, t) = (e / 128, e % 128 / 32, e % 32);
        out[QL_OFF + 64 * n + 32 * (u % 2) + t] |= (q & 15) << (4 * (u / 2));
        out[QH_OFF + 32 * n + t] |= q >> 4 << (2 * u);
    }
    out
}
