//! Mixture of experts: routing, the plan of the experts' products, what lies between and behind them.
//!
//! A token t has k experts; pair `t k + j` is its j-th. Strides are in elements.

pub mod combine_quad;
pub mod plan_block;
pub mod product_pair;
pub mod product_tile;
pub mod router_warp;
pub mod silu_mul_quad;

use crate::mmvq::Format;
use crate::quad::Quads;

/// Pairs of a tile: what one pass over an expert's weights serves.
pub const TILE: usize = 8;
/// In a tile: no pair here.
pub const NO_PAIR: u32 = u32::MAX;
/// u32 of a tile in memory: its expert, then its pairs.
pub const TILE_WORDS: usize = 1 + TILE;
/// Most experts of a layer.
pub const MAX_EXPERTS: usize = 1024;
/// Most experts of a token: a lane each.
pub const MAX_CHOSEN: usize = 32;

/// Most tiles that a plan of `pairs` pairs can have: each expert in use may leave its last tile unfilled.
#[must_use]
pub const fn max_tiles(pairs: usize, experts: usize) -> usize {
    let used = if pairs < experts { pairs } else { experts };
    (pairs + (TILE - 1) * used) / TILE
}

/// Launch parameters of `moe.router`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RouterParams {
    /// f32 `[tokens][logits_stride]`, width `experts`.
    pub logits: *const f32,
    /// u32 `[tokens][ids_stride]`, width k.
    pub ids: *mut u32,
    /// f32 `[tokens][weights_stride]`, width k; all three are disjoint.
    pub weights: *mut f32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Experts, at least k.
    pub experts: u32,
    /// Experts of a token, 1 to 32.
    pub k: u32,
    /// 1: the weights of a token are divided by their sum. 0: they stay.
    pub renormalise: u32,
    /// Elements from a token's row to the next.
    pub logits_stride: u32,
    /// Elements from a token's row to the next.
    pub ids_stride: u32,
    /// Elements from a token's row to the next.
    pub weights_stride: u32,
    /// 0: fills the struct.
    pub unused: u32,
}
const _: () = assert!(size_of::<RouterParams>() == 56); // no padding: nothing uninitialised crosses the launch

/// Launch parameters of `moe.plan`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PlanParams {
    /// u32 `[pairs]`: the expert of each pair. A pair whose expert is not below `experts` gets no place.
    pub ids: *const u32,
    /// u32 `[max_tiles(pairs, experts)][TILE_WORDS]`: expert, then pairs or `NO_PAIR`; tiles beyond the count are not
    /// written.
    pub tiles: *mut u32,
    /// u32 `[1]`: tiles of the plan.
    pub n_tiles: *mut u32,
    /// Pairs, at least 1, at most `plan_block::MAX_PAIRS`.
    pub pairs: u32,
    /// Experts, 1 to `MAX_EXPERTS`.
    pub experts: u32,
}
const _: () = assert!(size_of::<PlanParams>() == 32);

/// Launch parameters of `moe.silu_mul`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SiluMulParams {
    /// f32 `[rows][gate_stride]`.
    pub gate: *const f32,
    /// f32 `[rows][up_stride]`.
    pub up: *const f32,
    /// f32 `[rows][h_stride]`; disjoint from both.
    pub h: *mut f32,
    /// The rows of `h`.
    pub quads: Quads,
    /// Elements from a row to the next.
    pub gate_stride: u32,
    /// Elements from a row to the next.
    pub up_stride: u32,
    /// Elements from a row to the next.
    pub h_stride: u32,
}
const _: () = assert!(size_of::<SiluMulParams>() == 48);

/// Launch parameters of `moe.combine`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CombineParams {
    /// f32 `[tokens][weights_stride]`, width k.
    pub weights: *const f32,
    /// f32 `[tokens k][down_stride]`, width d: the experts' outputs by pair.
    pub down: *const f32,
    /// f32 `[tokens][shared_gate_stride]`, width 1: the shared expert's gate before the sigmoid.
    pub shared_gate: *const f32,
    /// f32 `[tokens][shared_stride]`, width d.
    pub shared: *const f32,
    /// f32 `[tokens][y_stride]`, width d; disjoint from the others.
    pub y: *mut f32,
    /// The rows of `y`.
    pub quads: Quads,
    /// Experts of a token, at least 1.
    pub k: u32,
    /// Elements from a token's row to the next.
    pub weights_stride: u32,
    /// Elements from a pair's row to the next.
    pub down_stride: u32,
    /// Elements from a token's row to the next.
    pub shared_gate_stride: u32,
    /// Elements from a token's row to the next.
    pub shared_stride: u32,
    /// Elements from a token's row to the next.
    pub y_stride: u32,
    /// 0: fills the struct.
    pub unused: u32,
}
const _: () = assert!(size_of::<CombineParams>() == 80);

/// Launch parameters of every `moe.product` variant. Pointers are 16-byte aligned (8 bytes for 16-bit weights), strides
/// are in elements, those of x multiples of 4; no two arrays overlap.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExpertProductParams {
    /// `[experts][n_out][n_in]` of the kernel's weight type, or `[experts][n_out][n_in / VALUES]` blocks of `format`.
    pub w: *const u8,
    /// f32 `[pairs / pairs_of_row][x_stride]`: pair p reads row `p / pairs_of_row`.
    pub x: *const f32,
    /// f32 `[pairs][y_stride]`.
    pub y: *mut f32,
    /// u32 `[pairs]`: expert of each pair; read by `pair`.
    pub ids: *const u32,
    /// u32 `[max_tiles][TILE_WORDS]`, as `moe.plan` writes them; read by `tile`.
    pub tiles: *const u32,
    /// u32 `[1]`: tiles that there are; read by `tile`.
    pub n_tiles: *const u32,
    /// Columns of an expert's matrix, a multiple of 4, of blocks of the format's `VALUES`.
    pub n_in: u32,
    /// Rows of an expert's matrix.
    pub n_out: u32,
    /// Experts; a pair of another one gives NaN.
    pub experts: u32,
    /// Pairs that share a row of x: the experts of a token, or 1.
    pub pairs_of_row: u32,
    /// Elements from a row of x to the next.
    pub x_stride: u32,
    /// Elements from a pair's y to the next.
    pub y_stride: u32,
    /// Of the blocks; only kernels for blocks read it.
    pub format: Format,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<ExpertProductParams>() == 80);
