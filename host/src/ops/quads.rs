//! What elementwise operations share: rows cut into quads of elements (`varve_gpu::quad`), and their checks.

use varve_gpu::quad::{self, Quads};

use super::checks::{axis, count, row_stride};
use super::dispatch::OpError;
use crate::backend::{Launch, View, ViewMut};

/// Sizes of an elementwise call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuadSizes {
    /// Rows that threads are spread over.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Every operand's rows start at multiples of 16 bytes and the width is a multiple of 4: 16-byte accesses.
    pub wide: bool,
}

impl QuadSizes {
    /// One thread a quad.
    pub(super) fn launch(&self) -> Launch {
        let quads = self.rows.saturating_mul(self.width.div_ceil(quad::LEN));
        let blocks = quads.div_ceil(quad::BOUNDS.threads as usize);
        Launch::new(axis(blocks), quad::BOUNDS.threads)
    }

    /// The wide or the narrow instance.
    pub(super) const fn instance<K: Copy>(&self, wide: K, narrow: K) -> K {
        if self.wide { wide } else { narrow }
    }

    /// The launch parameters, for at least one row and one element.
    pub(super) fn quads(&self, op: &'static str) -> Result<Quads, OpError> {
        let per_row = self.width.div_ceil(quad::LEN);
        count(op, "elements / 4", self.rows.saturating_mul(per_row), i32::MAX as u32)?;
        Ok(Quads {
            rows: count(op, "rows", self.rows, i32::MAX as u32)?,
            width: count(op, "width", self.width, i32::MAX as u32)?,
            per_row: count(op, "width", per_row, i32::MAX as u32)?,
        })
    }
}

/// A matrix operand, to read or to write.
pub(super) trait Rows {
    /// Elements from a row to the next, the elements of a row being contiguous.
    fn stride(&self, op: &'static str, what: &'static str) -> Result<u32, OpError>;
    /// Whether every row starts at a multiple of 16 bytes.
    fn is_wide(&self) -> bool;
}

macro_rules! rows {
    ($($view:ident)*) => {$(
        impl<T> Rows for $view<'_, T, 2> {
            fn stride(&self, op: &'static str, what: &'static str) -> Result<u32, OpError> {
                row_stride(op, what, self.strides, 1)
            }

            fn is_wide(&self) -> bool {
                self.is_aligned(16)
            }
        }
    )*};
}
rows!(View ViewMut);

/// Whether all accesses of `width` elements of these operands can be of 16 bytes.
pub(super) fn all_wide(width: usize, operands: &[&dyn Rows]) -> bool {
    width.is_multiple_of(quad::LEN) && operands.iter().all(|operand| operand.is_wide())
}

/// A count that an operation cannot do without.
pub(super) fn at_least_one(op: &'static str, what: &'static str, n: usize) -> Result<(), OpError> {
    if n > 0 {
        return Ok(());
    }
    Err(OpError::Value { op, what, got: n.to_string(), rule: "at least 1 is needed" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_beyond_a_grid_is_refused() {
        let sizes = |rows, width| QuadSizes { rows, width, wide: false };
        assert_eq!(sizes(3, 9).quads("x").map(|q| (q.rows, q.width, q.per_row)).ok(), Some((3, 9, 3)));
        assert_eq!(sizes(100, 9).launch(), Launch::new(3, 128));
        assert!(sizes(1 << 20, 1 << 13).quads("x").is_err(), "2^31 quads");
        assert!(sizes(usize::MAX, 8).quads("x").is_err());
    }
}
