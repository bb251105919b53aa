//! Stored values to f32, as their formats define them.

use half::{bf16, f16};
use varve_gpu::mmvq::Format;

use crate::model::DType;

/// The block format of a type, if it has one that is read.
#[must_use]
pub fn format_of(dtype: DType) -> Option<Format> {
    Some(match dtype {
        DType::Q8_0 => Format::Q8_0,
        DType::IQ4_NL => Format::IQ4_NL,
        DType::Q3_K => Format::Q3_K,
        DType::Q4_K => Format::Q4_K,
        DType::Q5_K => Format::Q5_K,
        DType::Q6_K => Format::Q6_K,
        DType::IQ4_XS => Format::IQ4_XS,
        DType::IQ3_S => Format::IQ3_S,
        DType::IQ2_XS => Format::IQ2_XS,
        _ => return None,
    })
}

fn plain<const B: usize>(bytes: &[u8], out: &mut Vec<f32>, value: impl Fn([u8; B]) -> f32) {
    out.extend(bytes.as_chunks::<B>().0.iter().map(|&bytes| value(bytes)));
}

/// Whether [`to_f32`] reads the type.
#[must_use]
pub fn is_readable(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16) || format_of(dtype).is_some()
}

/// The readable types, as a message lists them.
#[must_use]
pub fn readable() -> String {
    DType::all().filter(|&dtype| is_readable(dtype)).map(DType::name).collect::<Vec<_>>().join(", ")
}

/// Appends the values of whole rows: exact but for the one rounding that Q4_K and Q5_K define.
///
/// # Panics
/// Where the type is none that [`is_readable`].
pub fn to_f32(dtype: DType, bytes: &[u8], out: &mut Vec<f32>) {
    match (dtype, format_of(dtype)) {
        (DType::F32, _) => plain(bytes, out, f32::from_le_bytes),
        (DType::F16, _) => plain(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
        (DType::BF16, _) => plain(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
        (_, Some(format)) => format.dequantize(bytes, out),
        _ => unreachable!("{dtype} was refused when the tensor was looked up"),
    }
}

/// Bytes of a row of `n` values, a whole number of blocks.
#[must_use]
pub fn row_bytes(dtype: DType, n: usize) -> usize {
    n / dtype.block_len() * dtype.block_bytes()
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
    fn what_is_read_has_the_blocks_that_its_format_says() {
        let types: Vec<DType> = DType::all().filter(|&dtype| is_readable(dtype)).collect();
        assert_eq!(types.len(), 12);
        for dtype in types {
            let n = 3 * dtype.block_len();
            assert_eq!(Some(row_bytes(dtype, n)), dtype.row_bytes(n), "{dtype}");
            assert_eq!(read(dtype, &vec![0; row_bytes(dtype, n)]).len(), n, "{dtype}");
        }
        assert_eq!([DType::F32, DType::F16, DType::BF16, DType::Q8_0].map(|t| row_bytes(t, 64)), [256, 128, 128, 68]);
    }
}
