//! Stored values to f32, exactly.

use half::{bf16, f16};

use crate::model::DType;

/// Bytes and values of a Q8_0 block: an f16 scale, then 32 signed bytes.
const Q8_0_BYTES: usize = 34;
const Q8_0_VALUES: usize = 32;

/// Whether [`to_f32`] reads the type.
pub fn is_readable(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::Q8_0)
}

/// Appends the values of whole rows. The type [`is_readable`].
pub fn to_f32(dtype: DType, bytes: &[u8], out: &mut Vec<f32>) {
    let pairs = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    match dtype {
        DType::F32 => out.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        DType::F16 => out.extend(pairs().map(|bits| f16::from_bits(bits).to_f32())),
        DType::BF16 => out.extend(pairs().map(|bits| bf16::from_bits(bits).to_f32())),
        DType::Q8_0 => {
            for block in bytes.chunks_exact(Q8_0_BYTES) {
                let scale = f16::from_bits(u16::from_le_bytes([block[0], block[1]])).to_f32();
                out.extend(block[2..].iter().map(|&q| scale * f32::from(q.cast_signed())));
            }
        }
        other => unreachable!("{other:?} was refused when the tensor was looked up"),
    }
}

/// Bytes of a row of `n` values.
pub fn row_bytes(dtype: DType, n: usize) -> usize {
    match dtype {
        DType::F32 => 4 * n,
        DType::Q8_0 => n / Q8_0_VALUES * Q8_0_BYTES,
        _ => 2 * n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dtype: DType, bytes: &[u8]) -> Vec<f32> {
        let mut out = Vec::new();
        to_f32(dtype, bytes, &mut out);
        out
    }

    #[test]
    fn values_are_exact() {
        assert_eq!(read(DType::F32, &1.5f32.to_le_bytes()), [1.5]);
        assert_eq!(read(DType::F16, &[0x00, 0x3e, 0x01, 0x00]), [1.5, 2.0f32.powi(-24)]);
        assert_eq!(read(DType::BF16, &[0xc0, 0x3f]), [1.5]);
        let mut block = vec![0x00, 0x38]; // 0.5
        block.extend((0..32u8).map(|i| if i == 1 { 0x80 } else { i }));
        let values = read(DType::Q8_0, &block);
        assert_eq!((values.len(), values[0], values[1], values[31]), (32, 0.0, -64.0, 15.5));
    }

    #[test]
    fn rows_are_as_long_as_their_format_says() {
        assert_eq!([DType::F32, DType::F16, DType::BF16, DType::Q8_0].map(|t| row_bytes(t, 64)), [256, 128, 128, 68]);
    }
}
