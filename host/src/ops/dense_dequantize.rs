//! `dense.dequantize`: rows of a quantized matrix as plain values.

use std::ops::Range;

use varve_gpu::dense::{DequantizeParams, Storage, dequantize_narrow, dequantize_wide};
use varve_gpu::format::q8_1;

use super::checks::{axis, count};
use super::dispatch::{Needs, OpError, Pick, Preferred, Spread, Table, Variant};
use super::exactness::Exactness;
use super::mmvq_product::QuantizedMatrix;
use crate::backend::{Launch, Stream, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct DequantizeSizes {
    /// Groups of 32 values.
    pub groups: usize,
    /// Whether the values start at a multiple of 16 bytes.
    pub aligned: bool,
}

/// Values of a group: those of the shortest block.
const GROUP: usize = q8_1::VALUES;

/// The variants, most wanted first: all give the same bits.
pub static DENSE_DEQUANTIZE: Table<DequantizeSizes, DequantizeParams> = Table {
    op: "dense.dequantize",
    rows: &[
        Variant {
            name: "wide",
            kernel: |ask| {
                if !ask.aligned {
                    return Err("the values do not start at a multiple of 16 bytes".into());
                }
                Ok(&dequantize_wide::DENSE_DEQUANTIZE_WIDE)
            },
            launch: |ask| {
                let threads = ask.groups * varve_gpu::dense::blocks::OF_A_GROUP;
                let of_a_block = dequantize_wide::BOUNDS.threads;
                Launch::new(axis(threads.div_ceil(of_a_block as usize)), of_a_block)
            },
            staged: None,
            needs: Needs { cc: 0, spread: Spread::Any },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant::base(
            "narrow",
            |_| Ok(&dequantize_narrow::DENSE_DEQUANTIZE_NARROW),
            |ask| {
                let of_a_block = dequantize_narrow::BOUNDS.threads;
                Launch::new(axis(ask.groups.div_ceil(of_a_block as usize)), of_a_block)
            },
        ),
    ],
};

/// Where plain values go, `[rows, n_in]`, dense.
#[derive(Debug)]
pub enum ValuesMut<'a> {
    /// f32.
    F32(ViewMut<'a, f32, 2>),
    /// IEEE half, its bits.
    F16(ViewMut<'a, u16, 2>),
    /// bfloat16, its bits.
    Bf16(ViewMut<'a, u16, 2>),
}

/// Rows `rows` of W as plain values: as the format defines them in f32, then rounded to nearest even where y is narrower.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn dequantize(
    pick: Pick<'_>,
    stream: &Stream,
    w: &QuantizedMatrix<'_>,
    rows: Range<usize>,
    y: &mut ValuesMut<'_>,
) -> Result<&'static str, OpError> {
    let op = DENSE_DEQUANTIZE.op;
    w.expect(op, "w")?;
    if rows.start > rows.end || rows.end > w.n_out {
        let got = format!("{rows:?} of {}", w.n_out);
        return Err(OpError::Value { op, what: "rows", got, rule: "they must be within the matrix" });
    }
    let dims = [rows.len(), w.n_in];
    let (storage, address) = match y {
        ValuesMut::F32(y) => {
            y.expect(op, "y", dims)?;
            y.expect_dense(op, "y")?;
            (Storage::F32, y.ptr_mut().cast::<u8>())
        }
        ValuesMut::F16(y) | ValuesMut::Bf16(y) => {
            y.expect(op, "y", dims)?;
            y.expect_dense(op, "y")?;
            (Storage::F16, y.ptr_mut().cast::<u8>())
        }
    };
    let storage = if matches!(y, ValuesMut::Bf16(_)) { Storage::Bf16 } else { storage };
    let groups = rows.len() * (w.n_in / GROUP);
    let params = DequantizeParams {
        w: w.bytes.part(0, rows.start * w.row_bytes()..rows.end * w.row_bytes())?.ptr(),
        y: address,
        groups: count(op, "values in groups of 32", groups, 1 << 29)?,
        format: w.format,
        storage,
        reserved: 0,
    };
    if groups == 0 {
        return Ok(DENSE_DEQUANTIZE.base().name);
    }
    let sizes = DequantizeSizes { groups, aligned: address.addr().is_multiple_of(16) };
    // SAFETY: shapes and range were checked; w starts at a multiple of 16 bytes, so its rows lie as their format's blocks do;
    // `wide` has no instance for another address than it needs; views borrow their buffers, and y's exclusively.
    unsafe { DENSE_DEQUANTIZE.enqueue(pick, stream, &sizes, params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, EmulatorConfig};
    use varve_gpu::mmvq::Format;

    #[test]
    fn operands_that_do_not_fit_are_refused_by_name() {
        let device = Device::emulator(EmulatorConfig::default());
        let stream = device.stream().expect("a stream");
        let refused = |n_in: usize, bytes: usize, rows: Range<usize>, y_rows: usize| {
            let w = device.upload(&vec![0u8; bytes]).expect("fits");
            let mut y = device.upload(&vec![0f32; y_rows * n_in]).expect("fits");
            let w = QuantizedMatrix { format: Format::Q4_K, bytes: w.view([bytes]).expect("dense"), n_out: 3, n_in };
            let mut y = ValuesMut::F32(y.view_mut([y_rows, n_in]).expect("dense"));
            dequantize(Pick::Named("narrow"), &stream, &w, rows, &mut y).map_err(|error| error.to_string())
        };
        assert_eq!(refused(256, 432, 1..3, 2), Ok("narrow"));
        for (why, outcome) in [
            ("a multiple of the 256 values", refused(320, 432, 0..1, 1)),
            ("0..4 of 3, they must be within", refused(256, 432, 0..4, 4)),
            ("`w` has shape [431], needed is [432]", refused(256, 431, 0..1, 1)),
            ("`y` has shape [2, 256], needed is [1, 256]", refused(256, 432, 0..1, 2)),
        ] {
            let error = outcome.expect_err(why);
            assert!(error.starts_with("dense.dequantize: ") && error.contains(why), "{error}");
        }
    }
}
