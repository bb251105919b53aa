//! Rows of an embedding table, products `y = x W^T` with weights as files store them, with f32 activations and sums, and
//! blocks of quantized weights to plain values.
//!
//! Every product but those of tensor cores (`product_mma`), for one token or many, for a dense matrix or an expert's, adds in
//! one order, so the bits of a token's result do not depend on which variant ran or on which tokens shared the call:
//!
//! ```text
//! lane l of 32:  p_l = 0;  c = 4 l + 128 i, i ascending;  j = 0..3:  p_l = fma(W[n][c + j], x[c + j], p_l)
//! s_q  = ((p_8q + p_8q+1) + p_8q+2) + .. + p_8q+7                                                        q = 0..3
//! y[n] = (s_0 + s_1) + (s_2 + s_3)                      (+ add[n], rounded on its own, where there is one)
//! ```

pub mod blocks;
pub mod dequantize_narrow;
pub mod dequantize_wide;
pub mod embed_rows;
pub mod lane_sums;
pub mod mma_tile;
pub mod parts;
pub mod product_mma;
pub mod product_mma_narrow;
pub mod product_mma_split;
pub mod product_rows;
pub mod product_tile;
pub mod weight;

use crate::mmvq::Format;

/// Storage of plain values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16: the upper half of a single.
    Bf16,
}

/// Launch parameters of every `dense.dequantize` variant. `w` is aligned as blocks of a matrix that starts at a multiple of
/// 16 bytes are, `y` as its values are; both are disjoint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DequantizeParams {
    /// Blocks of `format`, those of 32 values a group, of 256 values eight groups.
    pub w: *const u8,
    /// `[32 groups]` of `storage`.
    pub y: *mut u8,
    /// Groups of 32 values, at least 1.
    pub groups: u32,
    /// Of the blocks.
    pub format: Format,
    /// Of the values.
    pub storage: Storage,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<DequantizeParams>() == 32);

/// Launch parameters of `dense.embed`. `table` and `y` are 16-byte aligned (8 bytes for 16-bit tables) and disjoint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EmbedParams {
    /// `[table_rows][width]` of the kernel's weight type, or `[table_rows][width / VALUES]` blocks of `format`.
    pub table: *const u8,
    /// u32 `[rows]`: row of the table; one that the table does not have gives NaN.
    pub ids: *const u32,
    /// f32 `[rows][width]`.
    pub y: *mut f32,
    /// Rows to write, at least 1.
    pub rows: u32,
    /// Values of a row, a multiple of 4, of blocks of the format's `VALUES`.
    pub width: u32,
    /// Rows of the table.
    pub table_rows: u32,
    /// Of the table's blocks; only the kernel for blocks reads it.
    pub format: Format,
}
const _: () = assert!(size_of::<EmbedParams>() == 40);

/// Launch parameters of every `dense.product` variant. Pointers are 16-byte aligned (8 bytes for 16-bit weights), strides
/// are in elements, those of x multiples of 4; `w`, `x` and `y` are disjoint, `add` may be `y` itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProductParams {
    /// `[n_out][n_in]` of the kernel's weight type.
    pub w: *const u8,
    /// f32 `[tokens][x_stride]`.
    pub x: *const f32,
    /// f32 `[tokens][y_stride]`.
    pub y: *mut f32,
    /// f32 `[tokens][add_stride]`, added to the product; null for nothing.
    pub add: *const f32,
    /// x as `parts` lays it out, for variants of tensor cores; null for the others.
    pub scratch: *mut u8,
    /// Columns of the matrix, a multiple of 4.
    pub n_in: u32,
    /// Rows of the matrix.
    pub n_out: u32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Elements from a token's x to the next.
    pub x_stride: u32,
    /// Elements from a token's y to the next.
    pub y_stride: u32,
    /// Elements from a token's add to the next.
    pub add_stride: u32,
}
const _: () = assert!(size_of::<ProductParams>() == 64);
