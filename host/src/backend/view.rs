//! Views: a device address with a shape, checked against the buffer once and passed by reference from then on.

use std::marker::PhantomData;

/// A shape that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A view over a buffer of another length.
    #[error("a view of shape {dims:?} has {want} elements, the buffer has {got}")]
    Length {
        /// The view's shape.
        dims: Vec<usize>,
        /// Elements that the shape needs.
        want: usize,
        /// Elements of the buffer.
        got: usize,
    },
    /// A view with strides that reaches past the buffer's end.
    #[error(
        "a view of shape {dims:?}, strides {strides:?} from element {offset} ends beyond the buffer's {got} elements"
    )]
    Beyond {
        /// The view's shape.
        dims: Vec<usize>,
        /// Its strides in elements.
        strides: Vec<usize>,
        /// Its first element.
        offset: usize,
        /// Elements of the buffer.
        got: usize,
    },
    /// A writable view of which two indices are the same element.
    #[error("a writable view of shape {dims:?} with strides {strides:?} holds elements twice")]
    Overlap {
        /// The view's shape.
        dims: Vec<usize>,
        /// Its strides in elements.
        strides: Vec<usize>,
    },
    /// A part that is not within the view.
    #[error("{start}..{end} of dimension {axis} is not within a view of shape {dims:?}")]
    Range {
        /// The view's shape.
        dims: Vec<usize>,
        /// The dimension.
        axis: usize,
        /// First index asked for.
        start: usize,
        /// End of the indices asked for.
        end: usize,
    },
    /// An operand of another shape than its operation needs.
    #[error("{op}: `{operand}` has shape {got:?}, needed is {want:?}")]
    Operand {
        /// The operation.
        op: &'static str,
        /// The operand.
        operand: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// The shape that the other operands imply.
        want: Vec<usize>,
    },
    /// An operand that must be dense and is not.
    #[error("{op}: `{operand}` of shape {dims:?} has strides {strides:?}, needed are dense rows")]
    NotDense {
        /// The operation.
        op: &'static str,
        /// The operand.
        operand: &'static str,
        /// Its shape.
        dims: Vec<usize>,
        /// Its strides in elements.
        strides: Vec<usize>,
    },
}

/// Strides of a dense array, the last dimension fastest.
pub(super) fn dense_strides<const N: usize>(dims: [usize; N]) -> [usize; N] {
    let mut strides = [1usize; N];
    for i in (1..N).rev() {
        strides[i - 1] = strides[i].saturating_mul(dims[i]);
    }
    strides
}

fn product(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// One past the last element that the shape reaches, counted from `offset`; `offset` for an empty shape.
fn reach<const N: usize>(offset: usize, dims: [usize; N], strides: [usize; N]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(offset);
    }
    let last = dims.iter().zip(strides).try_fold(offset, |at, (&d, s)| at.checked_add((d - 1).checked_mul(s)?))?;
    last.checked_add(1)
}

/// True if no two indices share an element: each stride, in ascending order, steps over all that the smaller ones reach.
fn is_injective<const N: usize>(dims: [usize; N], strides: [usize; N]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let mut axes: Vec<(usize, usize)> = strides.into_iter().zip(dims).filter(|&(_, d)| d > 1).collect();
    axes.sort_unstable();
    let mut reached = 0usize; // the furthest element that the smaller strides reach
    axes.into_iter().all(|(stride, dim)| {
        let clear = stride > reached;
        reached = reached.saturating_add((dim - 1).saturating_mul(stride));
        clear
    })
}

macro_rules! shared_methods {
    () => {
        /// True where the elements lie without gaps, the last dimension fastest.
        #[must_use]
        pub fn is_dense(&self) -> bool {
            let dense = dense_strides(self.dims);
            (0..N).all(|i| self.dims[i] == 1 || self.strides[i] == dense[i])
        }

        /// Number of elements.
        #[must_use]
        pub fn len(&self) -> usize {
            self.dims.iter().product()
        }

        /// True without elements.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.dims.contains(&0)
        }

        /// True where the first element and every row start at a multiple of `bytes`: what vector accesses need.
        #[must_use]
        pub fn is_aligned(&self, bytes: usize) -> bool {
            let outer = N.saturating_sub(1);
            let steps = (0..outer).filter(|&i| self.dims[i] > 1).map(|i| self.strides[i] * size_of::<T>());
            self.ptr.addr().is_multiple_of(bytes) && steps.into_iter().all(|s| s.is_multiple_of(bytes))
        }

        /// Checks the shape on behalf of operation `op`.
        ///
        /// # Errors
        /// [`ShapeError::Operand`] with both shapes.
        pub fn expect(&self, op: &'static str, operand: &'static str, want: [usize; N]) -> Result<(), ShapeError> {
            if self.dims == want {
                return Ok(());
            }
            Err(ShapeError::Operand { op, operand, got: self.dims.to_vec(), want: want.to_vec() })
        }

        /// Checks that the elements lie without gaps, on behalf of operation `op`.
        ///
        /// # Errors
        /// [`ShapeError::NotDense`] with shape and strides.
        pub fn expect_dense(&self, op: &'static str, operand: &'static str) -> Result<(), ShapeError> {
            if self.is_dense() {
                return Ok(());
            }
            Err(ShapeError::NotDense { op, operand, dims: self.dims.to_vec(), strides: self.strides.to_vec() })
        }

        fn narrowed(&self, axis: usize, start: usize, end: usize) -> Result<(usize, [usize; N]), ShapeError> {
            if axis >= N || start > end || end > self.dims[axis] {
                return Err(ShapeError::Range { dims: self.dims.to_vec(), axis, start, end });
            }
            let mut dims = self.dims;
            dims[axis] = end - start;
            let empty = dims.contains(&0);
            Ok((if empty { 0 } else { start * self.strides[axis] }, dims))
        }
    };
}

/// A readable array of `N` dimensions in device memory.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T, const N: usize> {
    ptr: *const T,
    /// The shape.
    pub dims: [usize; N],
    /// Elements from one index to the next, by dimension.
    pub strides: [usize; N],
    buffer: PhantomData<&'a T>,
}

/// A writable array of `N` dimensions in device memory.
#[derive(Debug)]
pub struct ViewMut<'a, T, const N: usize> {
    ptr: *mut T,
    /// The shape.
    pub dims: [usize; N],
    /// Elements from one index to the next, by dimension.
    pub strides: [usize; N],
    buffer: PhantomData<&'a mut T>,
}

/// Checks a dense shape against a buffer of `len` elements.
fn dense<const N: usize>(len: usize, dims: [usize; N]) -> Result<[usize; N], ShapeError> {
    match product(&dims) {
        Some(want) if want == len => Ok(dense_strides(dims)),
        want => Err(ShapeError::Length { dims: dims.to_vec(), want: want.unwrap_or(usize::MAX), got: len }),
    }
}

fn within<const N: usize>(len: usize, offset: usize, dims: [usize; N], strides: [usize; N]) -> Result<(), ShapeError> {
    if reach(offset, dims, strides).is_some_and(|end| end <= len) {
        return Ok(());
    }
    Err(ShapeError::Beyond { dims: dims.to_vec(), strides: strides.to_vec(), offset, got: len })
}

impl<T, const N: usize> View<'_, T, N> {
    /// A dense view of the `len` elements at `ptr`.
    pub(super) fn new(ptr: *const T, len: usize, dims: [usize; N]) -> Result<Self, ShapeError> {
        let strides = dense(len, dims)?;
        Ok(Self { ptr, dims, strides, buffer: PhantomData })
    }

    /// A view with strides over the `len` elements at `ptr`.
    pub(super) fn strided(
        ptr: *const T,
        len: usize,
        offset: usize,
        dims: [usize; N],
        strides: [usize; N],
    ) -> Result<Self, ShapeError> {
        within(len, offset, dims, strides)?;
        Ok(Self { ptr: ptr.wrapping_add(offset), dims, strides, buffer: PhantomData })
    }

    /// Device address of the first element.
    #[must_use]
    pub fn ptr(&self) -> *const T {
        self.ptr
    }

    /// Indices `range` of dimension `axis`, all of the others.
    ///
    /// # Errors
    /// [`ShapeError::Range`] where that is not within the view.
    pub fn part(&self, axis: usize, range: std::ops::Range<usize>) -> Result<Self, ShapeError> {
        let (offset, dims) = self.narrowed(axis, range.start, range.end)?;
        Ok(Self { ptr: self.ptr.wrapping_add(offset), dims, strides: self.strides, buffer: PhantomData })
    }

    shared_methods!();
}

impl<T, const N: usize> ViewMut<'_, T, N> {
    /// A dense view of the `len` elements at `ptr`.
    pub(super) fn new(ptr: *mut T, len: usize, dims: [usize; N]) -> Result<Self, ShapeError> {
        let strides = dense(len, dims)?;
        Ok(Self { ptr, dims, strides, buffer: PhantomData })
    }

    /// A view with strides over the `len` elements at `ptr`.
    pub(super) fn strided(
        ptr: *mut T,
        len: usize,
        offset: usize,
        dims: [usize; N],
        strides: [usize; N],
    ) -> Result<Self, ShapeError> {
        within(len, offset, dims, strides)?;
        if !is_injective(dims, strides) {
            return Err(ShapeError::Overlap { dims: dims.to_vec(), strides: strides.to_vec() });
        }
        Ok(Self { ptr: ptr.wrapping_add(offset), dims, strides, buffer: PhantomData })
    }

    /// Device address of the first element, to read from.
    #[must_use]
    pub fn ptr(&self) -> *const T {
        self.ptr
    }

    /// Device address of the first element, to write to.
    #[must_use]
    pub fn ptr_mut(&mut self) -> *mut T {
        self.ptr
    }

    /// The same elements, to read from.
    #[must_use]
    pub fn as_view(&self) -> View<'_, T, N> {
        View { ptr: self.ptr, dims: self.dims, strides: self.strides, buffer: PhantomData }
    }

    /// Indices `range` of dimension `axis`, all of the others.
    ///
    /// # Errors
    /// [`ShapeError::Range`] where that is not within the view.
    pub fn part(&mut self, axis: usize, range: std::ops::Range<usize>) -> Result<ViewMut<'_, T, N>, ShapeError> {
        let (offset, dims) = self.narrowed(axis, range.start, range.end)?;
        Ok(ViewMut { ptr: self.ptr.wrapping_add(offset), dims, strides: self.strides, buffer: PhantomData })
    }

    shared_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: *mut f32 = std::ptr::without_provenance_mut(4096);

    #[test]
    fn a_dense_view_needs_the_exact_length() {
        let view = View::new(BASE, 24, [2, 3, 4]).expect("fits");
        assert_eq!((view.strides, view.len(), view.is_dense()), ([12, 4, 1], 24, true));
        assert!(matches!(View::new(BASE, 23, [2, 3, 4]), Err(ShapeError::Length { want: 24, got: 23, .. })));
        assert!(matches!(View::new(BASE, 25, [2, 3, 4]), Err(ShapeError::Length { want: 24, got: 25, .. })));
        assert!(View::new(BASE, 0, [usize::MAX, 2]).is_err(), "a product that overflows");
    }

    #[test]
    fn strides_stay_within_the_buffer() {
        assert!(View::strided(BASE, 20, 3, [2, 4], [10, 1]).is_ok());
        assert!(matches!(View::strided(BASE, 16, 3, [2, 4], [10, 1]), Err(ShapeError::Beyond { .. })));
        assert!(View::strided(BASE, 4, 4, [0, 4], [10, 1]).is_ok(), "empty, at the end");
        assert!(View::strided(BASE, 4, 1, [2], [usize::MAX]).is_err());
        assert!(View::strided(BASE, 4, 0, [3, 4], [0, 1]).is_ok(), "one row read three times");
    }

    #[test]
    fn a_writable_view_has_each_element_once() {
        assert!(ViewMut::strided(BASE, 64, 0, [3, 4], [16, 1]).is_ok());
        assert!(ViewMut::strided(BASE, 64, 0, [4, 3], [1, 16]).is_ok(), "transposed");
        for strides in [[0, 1], [3, 1], [2, 2]] {
            assert!(matches!(ViewMut::strided(BASE, 64, 0, [3, 4], strides), Err(ShapeError::Overlap { .. })));
        }
    }

    #[test]
    fn parts_and_operands_are_checked() {
        let view = View::new(BASE, 24, [6, 4]).expect("fits");
        let part = view.part(0, 2..5).expect("within");
        assert_eq!((part.ptr(), part.dims), (BASE.cast_const().wrapping_add(8), [3, 4]));
        assert_eq!(view.part(0, 6..6).expect("empty").ptr(), view.ptr());
        assert!(matches!(view.part(0, 5..7), Err(ShapeError::Range { axis: 0, start: 5, end: 7, .. })));
        assert!(!view.part(1, 0..2).expect("within").is_dense());
        let error = view.expect("norm.rms", "x", [6, 5]).expect_err("another shape").to_string();
        assert_eq!(error, "norm.rms: `x` has shape [6, 4], needed is [6, 5]");
        assert!(view.is_aligned(16) && !view.part(1, 1..3).expect("within").is_aligned(16));
    }
}
