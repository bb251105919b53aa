//! `mmvq.product`: `y = x W^T` for a quantized matrix and one to eight quantized vectors.

use varve_gpu::mmvq::{Format, ProductParams, fused, hoist, hoist_b3, hoist_b5, il};

use super::add::Add;
use super::checks::{aligned, count, row_stride};
use super::dispatch::{Needs, OpError, Pick, Preferred, Spread, Staged, Step, Table, Variant};
use super::exactness::Exactness;
use super::mmvq_instances::{
    base_rows, based, by_64_values, fused_launch, fused_shared, fusing, hoisted, interleaved, launch, mma_launch,
    on_tensor_cores, takes_as_they_are, wide_launch,
};
use super::mmvq_quantize::{MMVQ_QUANTIZE, Quantized, QuantizedMut, columns, il_words, length, q8_words, quantize};
use super::tuning::mmvq_rows::{PLAIN, rows_for};
use crate::backend::{Caps, Stream, View, ViewMut};

/// Whose rows a call computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of one matrix, in order.
    All,
    /// Those of one matrix that a list names.
    Chosen,
    /// All of two matrices, each in order.
    Pair,
}

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedProductSizes {
    /// Format of the matrix.
    pub format: Format,
    /// Its columns.
    pub n_in: usize,
    /// Its rows, or how many are chosen.
    pub n_out: usize,
    /// Whose they are.
    pub rows: Rows,
    /// Vectors.
    pub columns: usize,
    /// Whether the vectors have an interleaved copy.
    pub interleaved: bool,
    /// Whether the vectors are there as they were before they were quantized, where vector loads can take them.
    pub as_they_are: bool,
    /// SMs of the device.
    pub sms: u32,
    /// The variant that the table of rows names for these sizes on the device of the call.
    pub wanted: &'static str,
}

impl QuantizedProductSizes {
    /// These sizes on a device with `caps`; `pick` may bring a table of its own.
    #[must_use]
    pub fn on(caps: &Caps, pick: Pick<'_>, format: Format, [n_in, n_out]: [usize; 2], columns: usize) -> Self {
        let overridden = match pick {
            Pick::Best(dispatch) => dispatch.switches.mmvq_rows.get(format, columns, n_out),
            Pick::Named(_) => None,
        };
        let wanted = overridden.unwrap_or_else(|| match rows_for(caps, format, columns, n_out) {
            FUSED if fused_shared(format, columns, n_in) > caps.shared_optin_bytes => "il_r2",
            wanted => wanted,
        });
        let rows = Rows::All;
        Self { format, n_in, n_out, rows, columns, interleaved: true, as_they_are: true, sms: caps.sms, wanted }
    }

    /// The same sizes for these rows; where `fused` would be taken for all of one matrix, `il_r2` is.
    #[must_use]
    pub fn of(self, rows: Rows) -> Self {
        let wanted = if rows != Rows::All && self.wanted == FUSED { "il_r2" } else { self.wanted };
        Self { rows, wanted, ..self }
    }
}

macro_rules! variant {
    ($name:literal, $find:ident, $list:expr, $rows:literal) => {
        Variant {
            name: $name,
            kernel: |ask| $find(ask, $list, $rows).map(|instance| instance.kernel),
            launch: |ask| launch(ask, 4 * $rows),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::Tabled(|ask| ask.wanted),
            exactness: Exactness::Bitwise,
        }
    };
}

/// The variant that quantizes one or two vectors itself.
pub const FUSED: &str = "fused";
/// The variant that quantizes all of them.
pub const MMA: &str = "mma";
/// The variant of one vector that sums dots as integers as far as a scale goes.
pub const WIDE: &str = "wide";

/// One launch, which may start beside the one ahead.
const EARLY: Option<Staged<QuantizedProductSizes, ProductParams>> = Some(Staged {
    scratch_floats: |_| 0,
    steps: |_, call, _| vec![Step { early: true, kernel: call.kernel, launch: call.launch, params: call.params }],
});

/// Whether a variant takes so many vectors as they are, not quantized.
#[must_use]
pub fn quantizes_itself(variant: &str, columns: usize) -> bool {
    variant == MMA || variant == WIDE || variant == FUSED && columns <= fused::QUANTIZES
}

/// The variants. All but `mma` and `wide`, which only a switch takes, give the same bits; which one runs, the table of rows says
/// (`tuning::mmvq_rows`).
pub static MMVQ_PRODUCT: Table<QuantizedProductSizes, ProductParams> = Table {
    op: "mmvq.product",
    rows: &[
        Variant {
            name: WIDE,
            kernel: |ask| by_64_values(ask).map(|instance| instance.kernel),
            launch: wide_launch,
            staged: EARLY,
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::OptIn,
            exactness: Exactness::Rounding { bound: 1e-4, ordinary: 1e-4, derived: "exactness.md#mmvq-by-64-values" },
        },
        Variant {
            name: MMA,
            kernel: |ask| on_tensor_cores(ask).map(|instance| instance.kernel),
            launch: mma_launch,
            staged: EARLY,
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::OptIn,
            exactness: Exactness::Rounding {
                bound: 1e-4,
                ordinary: 1e-4,
                derived: "exactness.md#mmvq-on-tensor-cores",
            },
        },
        Variant {
            name: FUSED,
            kernel: |ask| fusing(ask).map(|instance| instance.kernel),
            launch: fused_launch,
            staged: EARLY,
            needs: Needs { cc: 90, spread: Spread::Any },
            preferred: Preferred::Tabled(|ask| ask.wanted),
            exactness: Exactness::Bitwise,
        },
        variant!("hoist_b5_r1", hoisted, hoist_b5::INSTANCES, 1),
        variant!("hoist_b5_r2", hoisted, hoist_b5::INSTANCES, 2),
        variant!("hoist_b4_r2", hoisted, hoist::INSTANCES, 2),
        variant!("hoist_b3_r2", hoisted, hoist_b3::INSTANCES, 2),
        variant!("il_r1", interleaved, il::INSTANCES, 1),
        variant!("il_r2", interleaved, il::INSTANCES, 2),
        variant!("il_r4", interleaved, il::INSTANCES, 4),
        Variant::base(
            PLAIN,
            |ask| based(ask).map(|instance| instance.kernel),
            |ask| launch(ask, based(ask).map_or(1, |instance| base_rows(ask, instance))),
        ),
    ],
};

/// A quantized matrix on a device.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedMatrix<'a> {
    /// Format of its blocks.
    pub format: Format,
    /// Blocks, `n_out` rows of `n_in / VALUES`.
    pub bytes: View<'a, u8, 1>,
    /// Rows.
    pub n_out: usize,
    /// Columns.
    pub n_in: usize,
}

/// `y[c] = W x[c]` (+ what is added): W `[n_out, n_in]` in blocks of its format, x quantized, y f32 `[columns, n_out]`. The
/// bits of a vector's result do not depend on the other vectors, nor, but for `mma` and `wide`, on the variant.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn product(
    pick: Pick<'_>,
    stream: &Stream,
    w: &QuantizedMatrix<'_>,
    x: &Quantized<'_>,
    add: &Add<'_>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let (sizes, params) = checked(pick, stream, (w, w.n_out), x, add, y)?;
    if w.n_out == 0 {
        return Ok(MMVQ_PRODUCT.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; variants that read the copy or more than 2-byte alignment have
    // no instance where it is not there; views borrow their buffers, and y's exclusively.
    unsafe { MMVQ_PRODUCT.enqueue(pick, stream, &sizes, params) }
}

/// Sizes and parameters of a call for `rows` rows of y, all operands checked.
///
/// # Errors
/// As [`product`].
pub(super) fn checked(
    pick: Pick<'_>,
    stream: &Stream,
    (w, rows): (&QuantizedMatrix<'_>, usize),
    x: &Quantized<'_>,
    add: &Add<'_>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<(QuantizedProductSizes, ProductParams), OpError> {
    let op = MMVQ_PRODUCT.op;
    let (values, _) = w.format.block();
    let (vectors, n_in) = (columns(op, x.columns)?, length(op, w.n_in, values)?);
    if x.n_in != w.n_in {
        let got = format!("{} for a matrix of {} columns", x.n_in, w.n_in);
        return Err(OpError::Value { op, what: "length of the vectors", got, rule: "they must be equal" });
    }
    let n_out = count(op, "rows", rows, i32::MAX as u32)?;
    w.expect(op, "w")?;
    let x_stride = match &x.x {
        Some(view) => {
            view.expect(op, "x", [x.columns, x.n_in])?;
            row_stride(op, "x strides", view.strides, 1)?
        }
        None => 0,
    };
    x.q8.expect(op, "q8", [q8_words(x.n_in, x.columns)])?;
    x.q8.expect_dense(op, "q8")?;
    aligned(op, "q8", x.q8.is_aligned(16))?;
    if let Some(il) = &x.il {
        il.expect(op, "il", [il_words(x.n_in, x.columns)])?;
        il.expect_dense(op, "il")?;
        aligned(op, "il", il.is_aligned(16))?;
    }
    y.expect(op, "y", [x.columns, rows])?;
    let y_stride = row_stride(op, "y strides", y.strides, 1)?;
    let (added, add_stride) = add.to(op, y)?;
    let caps = stream.device().caps();
    let sizes = QuantizedProductSizes {
        interleaved: x.il.is_some(),
        as_they_are: x.x.as_ref().is_some_and(takes_as_they_are),
        ..QuantizedProductSizes::on(caps, pick, w.format, [w.n_in, rows], x.columns)
    };
    let params = ProductParams {
        w: w.bytes.ptr(),
        w2: std::ptr::null(),
        ids: std::ptr::null(),
        x: x.x.map_or(std::ptr::null(), |x| x.ptr()),
        q8: x.q8.ptr(),
        il: x.il.map_or(std::ptr::null(), |il| il.ptr()),
        y: y.ptr_mut(),
        y2: std::ptr::null_mut(),
        add: added,
        n_in,
        n_out,
        rows: n_out,
        span: u32::MAX,
        columns: vectors,
        y_stride,
        add_stride,
        x_stride,
    };
    Ok((sizes, params))
}

/// Vectors of one or more products, which are quantized once for all of them, as far as one needs it.
#[derive(Debug)]
pub struct Vectors<'a> {
    x: View<'a, f32, 2>,
    to: QuantizedMut<'a>,
    is_quantized: bool,
}

impl<'a> Vectors<'a> {
    /// x f32 `[columns, n_in]`; `to` is room for their Q8_1 and its interleaved copy.
    #[must_use]
    pub fn new(x: View<'a, f32, 2>, to: QuantizedMut<'a>) -> Self {
        Self { x, to, is_quantized: false }
    }

    /// [`product`] with these vectors.
    ///
    /// # Errors
    /// As [`product`] and [`quantize`].
    pub fn product(
        &mut self,
        pick: Pick<'_>,
        stream: &Stream,
        w: &QuantizedMatrix<'_>,
        add: &Add<'_>,
        y: &mut ViewMut<'_, f32, 2>,
    ) -> Result<&'static str, OpError> {
        let ([columns, n_in], device) = (self.x.dims, stream.device());
        let sizes = QuantizedProductSizes {
            as_they_are: takes_as_they_are(&self.x),
            ..QuantizedProductSizes::on(device.caps(), pick, w.format, [w.n_in, w.n_out], columns)
        };
        let taken = match pick {
            Pick::Best(dispatch) => MMVQ_PRODUCT.select(dispatch, device, &sizes)?.variant,
            Pick::Named(name) => name,
        };
        if !quantizes_itself(taken, columns) && !self.is_quantized {
            quantize(Pick::Named(MMVQ_QUANTIZE.base().name), stream, &self.x, &mut self.to)?;
            self.is_quantized = true;
        }
        let il = self.to.il.as_ref().map(ViewMut::as_view);
        let vectors = Quantized { x: Some(self.x), q8: self.to.q8.as_view(), il, n_in, columns };
        product(Pick::Named(taken), stream, w, &vectors, add, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, EmulatorConfig};

    #[test]
    fn every_format_and_number_of_vectors_has_a_base() {
        let caps = Device::emulator(EmulatorConfig::default()).caps().clone();
        for format in Format::ALL {
            for columns in 1..=8 {
                let ask = QuantizedProductSizes::on(&caps, Pick::Named(""), format, [2560, 10240], columns);
                let base = (MMVQ_PRODUCT.base().kernel)(&ask).expect("the base has every format");
                assert!(base.symbol().contains(format.name()), "{}", base.symbol());
            }
        }
    }

    #[test]
    fn vectors_too_long_for_shared_memory_take_another_variant() {
        let caps = crate::backend::known_card("H200").expect("a known card");
        let wanted = |n_in, columns| {
            QuantizedProductSizes::on(&caps, Pick::Named(""), Format::Q6_K, [n_in, 10_240], columns).wanted
        };
        assert_eq!(
            [wanted(2560, 8), wanted(12_288, 8), wanted(12_288, 1), wanted(1 << 20, 1)],
            [FUSED, "il_r2", FUSED, "il_r2"]
        );
    }

    #[test]
    fn rows_of_an_odd_number_of_blocks_take_no_words() {
        let caps = Device::emulator(EmulatorConfig::default()).caps().clone();
        let ask = |n_in| QuantizedProductSizes::on(&caps, Pick::Named(""), Format::Q6_K, [n_in, 64], 1);
        let hoist = MMVQ_PRODUCT.row("hoist_b4_r2").expect("a variant");
        assert!((hoist.kernel)(&ask(2560)).is_ok());
        let reason = (hoist.kernel)(&ask(2816)).err().expect("eleven blocks");
        assert!(reason.contains("not 4-byte aligned"), "{reason}");
        let bare = QuantizedProductSizes { interleaved: false, ..ask(2560) };
        assert_eq!((hoist.kernel)(&bare).err().as_deref(), Some("the vectors have no interleaved copy"));
    }
    #[test]
    fn operands_that_do_not_fit_are_refused_by_name() {
        let device = Device::emulator(EmulatorConfig::default());
        let stream = device.stream().expect("a stream");
        let refused = |[n_in, x_in]: [usize; 2], columns: usize, w_bytes: usize, y_rows: usize| {
            let w = device.upload(&vec![0u8; w_bytes]).expect("fits");
            let q8 = device.upload(&vec![0u32; q8_words(x_in, columns)]).expect("fits");
            let mut y = device.upload(&vec![0f32; columns * y_rows]).expect("fits");
            let matrix =
                QuantizedMatrix { format: Format::Q6_K, bytes: w.view([w_bytes]).expect("dense"), n_out: 3, n_in };
            let x = Quantized { x: None, q8: q8.view([q8.len()]).expect("dense"), il: None, n_in: x_in, columns };
            let mut y = y.view_mut([columns, y_rows]).expect("dense");
            product(Pick::Named(PLAIN), &stream, &matrix, &x, &Add::Nothing, &mut y).map_err(|error| error.to_string())
        };
        assert_eq!(refused([512, 512], 2, 3 * 420, 3), Ok(PLAIN));
        for (why, outcome) in [
            ("a multiple of the 256 values", refused([320, 320], 1, 3 * 420, 3)),
            ("there must be 1 to 8 of them", refused([512, 512], 9, 3 * 420, 3)),
            ("256 for a matrix of 512 columns", refused([512, 256], 1, 3 * 420, 3)),
            ("`w` has shape [1259], needed is [1260]", refused([512, 512], 1, 3 * 420 - 1, 3)),
            ("`y` has shape [1, 4], needed is [1, 3]", refused([512, 512], 1, 3 * 420, 4)),
        ] {
            let error = outcome.expect_err(why);
            assert!(error.starts_with("mmvq.product: ") && error.contains(why), "{error}");
        }
    }
}
