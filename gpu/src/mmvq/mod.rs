//! Products of quantized matrices with one to eight vectors: `y[c][r] = sum over k of W[r][k] x[c][k]`.
//!
//! The matrix stays in its GGUF blocks (`format`), x is quantized to Q8_1 first, sums are f32. All kernels of
//! `mmvq.product` but those of `mma` and `wide` give the same bits, which are those of the vector alone, since all follow one order:
//!
//! ```text
//! lane l of 32, slot v of 4:  a[l][v] = 0;  chunk m = v, v + 4, .. :  the lane's call of that chunk joins a[l][v] (call.rs)
//! s[l] = ((a[l][0] + a[l][1]) + a[l][2]) + a[l][3];  for off = 16, 8, 4, 2, 1:  s[l] = s[l] + s[l xor off];  y = s[0]
//! ```
//!
//! A chunk is the `32 / LPB` consecutive blocks that a warp covers at once, `LPB` lanes to a block. IQ3_S and IQ2_XS have
//! one slot, which takes all chunks.

pub mod call;
mod codes;
pub mod fused;
pub mod fused_c2;
pub mod fused_c4;
pub mod fused_c8;
mod fused_instances;
mod fused_kquants;
mod fused_others;
mod fused_quads;
mod fused_vectors;
mod group;
pub mod hoist;
pub mod hoist_b3;
pub mod hoist_b5;
pub mod il;
mod instance;
pub mod kquants;
pub mod lookups;
pub mod mma;
mod mma_kquants;
mod mma_others;
mod mma_vectors;
mod pick;
pub mod plain;
pub mod plain_slot;
pub mod quantize;
pub mod simple;
pub mod source;
mod sums;
pub mod wide;
mod wide_kquants;
mod wide_others;
mod wide_vectors;

pub use instance::Format;
#[cfg(not(target_arch = "nvptx64"))]
pub use instance::Instance;

/// Launch parameters of `mmvq.quantize`. `x` is 4-byte, outputs are 16-byte aligned; all disjoint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QuantizeParams {
    /// f32 `[columns][x_stride]`.
    pub x: *const f32,
    /// Q8_1 `[columns][n_in / 32]`.
    pub q8: *mut u32,
    /// The interleaved copy (`format::il`) with room for `padded` columns; only the kernel that writes one reads this.
    pub il: *mut u32,
    /// Values of a vector, a multiple of 32.
    pub n_in: u32,
    /// Vectors, 1 to 8.
    pub columns: u32,
    /// Room of the copy: the next power of two.
    pub padded: u32,
    /// Elements from a vector to the next.
    pub x_stride: u32,
}
const _: () = assert!(size_of::<QuantizeParams>() == 40);

/// Launch parameters of every `mmvq.product` variant. `w`, `q8`, `il` and `x` are 16-byte, `y` and `add` 4-byte aligned; `y` is
/// disjoint from the rest, but `add` may be `y` itself.
///
/// All but `fused` and `mma` take rows by number (`ids`), or two matrices at once, those of the second counted from `span` on.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProductParams {
    /// `[n_out][n_in / VALUES]` blocks of the kernel's format.
    pub w: *const u8,
    /// Another matrix like it, where the grid goes beyond `span`; 16-byte aligned.
    pub w2: *const u8,
    /// u32 `[n_out]`: row r of y is that of matrix row `ids[r]`, NaN where there is none; null: of row r.
    pub ids: *const u32,
    /// f32 `[columns][x_stride]`: `mma`, `wide`, and of one or two vectors `fused`, read this, and neither of the next two.
    pub x: *const f32,
    /// Q8_1 `[columns][n_in / 32]`: `plain` reads it, and `fused` of more vectors.
    pub q8: *const u32,
    /// Its interleaved copy: all other variants read this.
    pub il: *const u32,
    /// f32 `[columns][y_stride]`.
    pub y: *mut f32,
    /// f32 `[columns][y_stride]`, of the second matrix, disjoint from all else.
    pub y2: *mut f32,
    /// f32 `[columns][add_stride]`, added to the product; null for nothing, as with two matrices.
    pub add: *const f32,
    /// Columns of the matrix, a multiple of the format's `VALUES`.
    pub n_in: u32,
    /// Rows of the result, at least 1.
    pub n_out: u32,
    /// Rows of the matrix, at least 1; without `ids` as many as the result has.
    pub rows: u32,
    /// Number of the second matrix's first row, a multiple of 16, the most rows of a block; `u32::MAX` where there is none.
    pub span: u32,
    /// Vectors, at least 1, at most the kernel's columns.
    pub columns: u32,
    /// Elements from a vector's y to the next.
    pub y_stride: u32,
    /// Elements from a vector's add to the next.
    pub add_stride: u32,
    /// Elements from a vector's x to the next.
    pub x_stride: u32,
}
const _: () = assert!(size_of::<ProductParams>() == 104);
