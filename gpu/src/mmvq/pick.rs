//! Which matrix a block has, and which of its rows a row of the result comes from: what all kernels do that load rows one by
//! one. Two matrices are rows of one count: those of the second start at `span`. So the number of a warp's first row is all that
//! lives from the start of a row to its end, where the rest is asked again; more would be spilled in the largest kernels.

use cuda_std::global;
use cuda_std::int::opaque;

use super::ProductParams;
use super::call::Call;

/// Where row `row` has its weights. A row past the last is the last one, and so is a number past the matrix.
///
/// # Safety
/// `p` is as `ProductParams` says.
#[inline(always)]
pub(super) unsafe fn weights<F: Call>(p: &ProductParams, row: usize) -> *const u8 {
    let span = p.span as usize;
    let (w, row) = if row < span { (p.w, row) } else { (p.w2, row - span) };
    let row = row.min(p.n_out as usize - 1);
    let row = if p.ids.is_null() {
        row
    } else {
        // SAFETY: there are `n_out` ids, which nothing writes during the launch.
        let id = unsafe { global::load_nc(p.ids.add(row)) };
        id.min(p.rows - 1) as usize
    };
    // In 64 bits.
    w.wrapping_add(row * (p.n_in as usize / F::VALUES) * F::BYTES)
}

/// Where the results of the warp go whose first row is `first`, and that row counted in its matrix.
#[inline(always)]
pub(super) fn results(p: &ProductParams, first: usize) -> (*mut f32, usize) {
    let (first, span) = (opaque(first), p.span as usize);
    if first < span { (p.y, first) } else { (p.y2, first - span) }
}

/// Whether the matrix has the row that row `row` of the result asks for.
///
/// # Safety
/// `p` is as `ProductParams` says, and `row < n_out`.
#[inline(always)]
pub(super) unsafe fn is_there(p: &ProductParams, row: usize) -> bool {
    let ids = p.ids.with_addr(opaque(p.ids.addr()));
    // SAFETY: by contract.
    ids.is_null() || unsafe { global::load_nc(ids.add(row)) } < p.rows
}
