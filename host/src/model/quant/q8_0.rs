//! Values to a block of Q8_0.

use varve_gpu::format::q8_0::{BYTES, D_OFF, QS_OFF, VALUES};

use super::{inverse, nearest, peak, step};

/// The largest value has code 127 or -127; the others are rounded by the scale that is stored.
pub fn block(x: &[f32; VALUES]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    let d = step(peak(x).abs() / 127.0);
    out[D_OFF..QS_OFF].copy_from_slice(&d.to_le_bytes());
    let per_code = inverse(d.to_f32());
    for (out, x) in out[QS_OFF..].iter_mut().zip(x) {
        *out = (nearest((x * per_code).clamp(-127.0, 127.0)) as i8).cast_unsigned();
    }
    out
}
