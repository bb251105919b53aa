//! Other ways into `mmvq.product`: chosen rows of a matrix, and two matrices at once. Variants that load rows one by one have
//! both, and give the bits that [`product`](super::mmvq_product::product) gives for the same rows.

use varve_gpu::mmvq::ProductParams;

use super::add::Add;
use super::checks::{axis, count};
use super::dispatch::{OpError, Pick};
use super::mmvq_instances::span;
use super::mmvq_product::{MMVQ_PRODUCT, QuantizedMatrix, Rows, checked};
use super::mmvq_quantize::Quantized;
use crate::backend::{Stream, View, ViewMut};

/// `y[c][r] = W[ids[r]] x[c]` (+ what is added): W `[n_out, n_in]` in blocks of its format, ids u32 `[rows]`, y f32 `[columns,
/// rows]`. Ids may repeat, in any order. They are on the device, where nobody can refuse one: for an id that is not below `n_out`
/// the results are NaN.
///
/// Returns the variant's name.
///
/// # Errors
/// As [`product`](super::mmvq_product::product), and [`OpError::Value`] for a matrix without rows.
pub fn product_rows(
    pick: Pick<'_>,
    stream: &Stream,
    (w, ids): (&QuantizedMatrix<'_>, &View<'_, u32, 1>),
    x: &Quantized<'_>,
    add: &Add<'_>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let op = MMVQ_PRODUCT.op;
    let [n] = ids.dims;
    ids.expect_dense(op, "ids")?;
    let (sizes, params) = checked(pick, stream, (w, n), x, add, y)?;
    if w.n_out == 0 {
        let rule = "a matrix whose rows are chosen must have one";
        return Err(OpError::Value { op, what: "rows of the matrix", got: "0".into(), rule });
    }
    if n == 0 {
        return Ok(MMVQ_PRODUCT.base().name);
    }
    let params =
        ProductParams { ids: ids.ptr(), rows: count(op, "rows of the matrix", w.n_out, i32::MAX as u32)?, ..params };
    // SAFETY: as in `product`; there are as many ids as rows of y, and kernels read no row that is not there.
    unsafe { MMVQ_PRODUCT.enqueue(pick, stream, &sizes.of(Rows::Chosen), params) }
}

/// `y[i][c] = W[i] x[c]` for two matrices of one format and shape, in one launch: W `[n_out, n_in]`, y f32 `[columns, n_out]`.
///
/// Returns the variant's name.
///
/// # Errors
/// As [`product`](super::mmvq_product::product), for either matrix, and [`OpError::Value`] where they differ.
pub fn product_pair(
    pick: Pick<'_>,
    stream: &Stream,
    [w, w2]: [&QuantizedMatrix<'_>; 2],
    x: &Quantized<'_>,
    [y, y2]: [&mut ViewMut<'_, f32, 2>; 2],
) -> Result<&'static str, OpError> {
    let op = MMVQ_PRODUCT.op;
    let of = |w: &QuantizedMatrix<'_>| format!("{} {}x{}", w.format.name(), w.n_in, w.n_out);
    if of(w) != of(w2) {
        let (got, rule) = (format!("{} and {}", of(w), of(w2)), "both must have one format and shape");
        return Err(OpError::Value { op, what: "matrices", got, rule });
    }
    let (sizes, params) = checked(pick, stream, (w, w.n_out), x, &Add::Nothing, y)?;
    let (_, second) = checked(pick, stream, (w2, w2.n_out), x, &Add::Nothing, y2)?;
    if params.y_stride != second.y_stride {
        let got = format!("{} and {}", params.y_stride, second.y_stride);
        return Err(OpError::Value { op, what: "y strides", got, rule: "both results must have the same" });
    }
    if w.n_out == 0 {
        return Ok(MMVQ_PRODUCT.base().name);
    }
    let params = ProductParams { w2: second.w, y2: second.y, span: axis(span(w.n_out)), ..params };
    // SAFETY: as in `product`, for both matrices; their results are borrowed exclusively.
    unsafe { MMVQ_PRODUCT.enqueue(pick, stream, &sizes.of(Rows::Pair), params) }
}

#[cfg(test)]
mod tests {
    use varve_gpu::mmvq::Format;

    use super::super::mmvq_quantize::q8_words;
    use super::*;
    use crate::backend::{Device, EmulatorConfig, known_card};
    use crate::ops::mmvq_product::QuantizedProductSizes;

    /// A matrix of rows of 256 values and their one vector.
    fn refused(rows: usize, ids: usize, y_rows: usize) -> Result<&'static str, String> {
        let device = Device::emulator(EmulatorConfig::default());
        let stream = device.stream().expect("a stream");
        let (w, q8) = (device.upload(&vec![0u8; rows * 210]), device.upload(&vec![0u32; q8_words(256, 1)]));
        let (w, q8, ids) = (w.expect("fits"), q8.expect("fits"), device.upload(&vec![0u32; ids]).expect("fits"));
        let mut y = device.upload(&vec![0.0f32; y_rows]).expect("fits");
        let w =
            QuantizedMatrix { format: Format::Q6_K, bytes: w.view([w.len()]).expect("dense"), n_out: rows, n_in: 256 };
        let x = Quantized { x: None, q8: q8.view([q8.len()]).expect("dense"), il: None, n_in: 256, columns: 1 };
        let (ids, mut y) = (ids.view([ids.len()]).expect("dense"), y.view_mut([1, y_rows]).expect("dense"));
        product_rows(Pick::Named("plain"), &stream, (&w, &ids), &x, &Add::Nothing, &mut y).map_err(|e| e.to_string())
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        assert_eq!(refused(3, 5, 5), Ok("plain"));
        assert_eq!(refused(3, 0, 0), Ok("plain"));
        for (why, outcome) in [
            ("`y` has shape [1, 3], needed is [1, 5]", refused(3, 5, 3)),
            ("a matrix whose rows are chosen must have one", refused(0, 5, 5)),
        ] {
            let error = outcome.expect_err(why);
            assert!(error.starts_with("mmvq.product: ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_brings_rows_in_runs_says_so() {
        let caps = known_card("H200").expect("a known card");
        let all = QuantizedProductSizes::on(&caps, Pick::Named(""), Format::Q6_K, [2560, 10_240], 1);
        assert_eq!(all.wanted, "fused");
        for rows in [Rows::Chosen, Rows::Pair] {
            let ask = all.of(rows);
            assert_eq!(ask.wanted, "il_r2");
            for row in MMVQ_PRODUCT.rows {
                let launch = MMVQ_PRODUCT.launch_of(row, &caps, &ask);
                if matches!(row.name, "fused" | "mma") {
                    let reason = launch.err().expect("it cannot").to_string();
                    assert!(reason.contains("not chosen ones or those of two matrices"), "{reason}");
                } else if let Ok(choice) = launch {
                    let blocks = MMVQ_PRODUCT.launch_of(row, &caps, &all).expect("it fits one").launch.grid[0];
                    assert_eq!(choice.launch.grid[0], if rows == Rows::Pair { 2 * blocks } else { blocks });
                }
            }
        }
    }

    #[test]
    fn matrices_that_differ_are_no_pair() {
        let device = Device::emulator(EmulatorConfig::default());
        let (stream, w) = (device.stream().expect("a stream"), device.upload(&[0u8; 420]).expect("fits"));
        let q8 = device.upload(&vec![0u32; q8_words(256, 1)]).expect("fits");
        let matrix = |n_out: usize| QuantizedMatrix {
            format: Format::Q6_K,
            bytes: w.view_strided(0, [n_out * 210], [1]).expect("within"),
            n_out,
            n_in: 256,
        };
        let x = Quantized { x: None, q8: q8.view([q8.len()]).expect("dense"), il: None, n_in: 256, columns: 1 };
        let pair = |rows: [usize; 2]| {
            let ys = rows.map(|n| device.upload(&vec![0.0f32; n]).expect("fits"));
            let [mut y, mut y2] = ys;
            let (mut y, mut y2) = (y.view_mut([1, rows[0]]).expect("dense"), y2.view_mut([1, rows[1]]).expect("dense"));
            let [w, w2] = rows.map(matrix);
            product_pair(Pick::Named("plain"), &stream, [&w, &w2], &x, [&mut y, &mut y2]).map_err(|e| e.to_string())
        };
        assert_eq!(pair([2, 2]), Ok("plain"));
        let error = pair([2, 1]).expect_err("another shape");
        assert!(error.contains("q6_k 256x2 and q6_k 256x1"), "{error}");
    }
}
