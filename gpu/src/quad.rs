//! Elementwise kernels over rows: a thread takes four neighbouring elements of a row, a quad.
//!
//! A kernel of this kind has two instances of one body: `wide` with 16-byte accesses, where every row starts at a
//! multiple of 16 bytes and has a multiple of 4 elements, and `narrow` with 4-byte accesses for any other. Both do the
//! same operations for an element, so they give the same bits.

use cuda_std::global;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};

/// Elements of a quad.
pub const LEN: usize = 4;

/// Four warps; 64 registers are more than any of these kernels takes.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };

/// Rows of one width, cut into quads: thread i of the grid has quad `i mod per_row` of row `i / per_row`, i below 2^31.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Quads {
    /// Rows, at least 1.
    pub rows: u32,
    /// Elements of a row, at least 1.
    pub width: u32,
    /// `width / 4`, rounded up.
    pub per_row: u32,
}

/// A thread's elements.
#[derive(Clone, Copy)]
pub struct Quad {
    /// The row.
    pub row: usize,
    /// The first element within the row, a multiple of 4.
    pub at: usize,
    /// Elements, 4 but at the end of a row.
    pub len: usize,
}

impl Quads {
    /// The calling thread's quad; none beyond the last.
    #[inline(always)]
    pub fn here(self) -> Option<Quad> {
        let thread = block_idx_x() * BOUNDS.threads + thread_idx_x();
        let row = thread / self.per_row;
        if row >= self.rows {
            return None;
        }
        let at = (thread - row * self.per_row) as usize * LEN;
        Some(Quad { row: row as usize, at, len: LEN.min(self.width as usize - at) })
    }
}

/// Reads `len` elements through the read-only cache; the others are 0.
///
/// # Safety
/// `p .. p + len` is in global memory that nothing writes during the launch; if `WIDE`, `len` is 4 and `p` a multiple
/// of 16 bytes.
#[inline(always)]
#[track_caller]
pub unsafe fn load_nc<const WIDE: bool>(p: *const f32, len: usize) -> [f32; LEN] {
    if WIDE {
        // SAFETY: same contract.
        return unsafe { global::load4_nc(p) };
    }
    let mut v = [0.0; LEN];
    for i in 0..LEN {
        if i < len {
            // SAFETY: same contract, `i < len`.
            v[i] = unsafe { global::load_nc(p.add(i)) };
        }
    }
    v
}

/// [`load_nc`] of memory that this thread writes, too.
///
/// # Safety
/// As [`load_nc`], but only other threads must not write there.
#[inline(always)]
#[track_caller]
pub unsafe fn load<const WIDE: bool>(p: *const f32, len: usize) -> [f32; LEN] {
    if WIDE {
        // SAFETY: same contract.
        return unsafe { global::load4(p) };
    }
    let mut v = [0.0; LEN];
    for i in 0..LEN {
        if i < len {
            // SAFETY: same contract, `i < len`.
            v[i] = unsafe { global::load(p.add(i)) };
        }
    }
    v
}

/// Writes the first `len` elements.
///
/// # Safety
/// `p .. p + len` is in global memory that no other thread touches; if `WIDE`, `len` is 4 and `p` a multiple of 16
/// bytes.
#[inline(always)]
#[track_caller]
pub unsafe fn store<const WIDE: bool>(p: *mut f32, len: usize, v: [f32; LEN]) {
    if WIDE {
        // SAFETY: same contract.
        return unsafe { global::store4(p, v) };
    }
    for i in 0..LEN {
        if i < len {
            // SAFETY: same contract, `i < len`.
            unsafe { global::store(p.add(i), v[i]) };
        }
    }
}
