//! Stored values to f32, as their formats define them.

use half::{bf16, f16};
use varve_gpu::format::{iq2_xs, iq3_s, iq4_nl, iq4_xs, q3_k, q4_k, q5_k, q6_k, q8_0};

use crate::model::DType;

/// What turns stored rows into values.
type Expand = fn(&[u8], &mut Vec<f32>);

/// What reads the type, if anything does.
fn expand(dtype: DType) -> Option<Expand> {
    Some(match dtype {
        DType::F32 => |bytes, out| plain(bytes, out, f32::from_le_bytes),
        DType::F16 => |bytes, out| plain(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
        DType::BF16 => |bytes, out| plain(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
        DType::Q8_0 => |bytes, out| blocks(bytes, out, q8_0::dequantize),
        DType::IQ4_NL => |bytes, out| blocks(bytes, out, iq4_nl::dequantize),
        DType::Q3_K => |bytes, out| blocks(bytes, out, q3_k::dequantize),
        DType::Q4_K => |bytes, out| blocks(bytes, out, q4_k::dequantize),
        DType::Q5_K => |bytes, out| blocks(bytes, out, q5_k::dequantize),
        DType::Q6_K => |bytes, out| blocks(bytes, out, q6_k::dequantize),
        DType::IQ4_XS => |bytes, out| blocks(bytes, out, iq4_xs::dequantize),
        DType::IQ3_S => |bytes, out| blocks(bytes, out, iq3_s::dequantize),
        DType::IQ2_XS => |bytes, out| blocks(bytes, out, iq2_xs::dequantize),
        _ => return None,
    })
}

fn plain<const B: usize>(bytes: &[u8], out: &mut Vec<f32>, value: impl Fn([u8; B]) -> f32) {
    out.extend(bytes.as_chunks::<B>().0.iter().map(|&bytes| value(bytes)));
}

fn blocks<const B: usize, const V: usize>(bytes: &[u8], out: &mut Vec<f32>, values: fn(&[u8; B], &mut [f32; V])) {
    let (blocks, start) = (bytes.as_chunks::<B>().0, out.len());
    out.resize(start + blocks.len() * V, 0.0);
    for (block, out) in blocks.iter().zip(out[start..].as_chunks_mut::<V>().0) {
        values(block, out);
    }
}

/// Whether [`to_f32`] reads the type.
#[must_use]
pub fn is_readable(dtype: DType) -> bool {
    expand(dtype).is_some()
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
    match expand(dtype) {
        Some(expand) => expand(bytes, out),
        None => unreachable!("{dtype} was refused when the tensor was looked up"),
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
