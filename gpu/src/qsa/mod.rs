//! QSA: keys of token blocks, scores of blocks for a query, and the choice of the best blocks.
//!
//! Token t of the sequence sees `t + 1` tokens; `complete = (t + 1) / ratio` blocks of `ratio` tokens are complete. Where
//! that is more than the budget, only the best blocks are attended, and always the unfinished one.

pub mod block_keys_warp;
pub mod scores_thread;
pub mod select_search;

use crate::attn::Rope;

/// Launch parameters of `qsa.block_keys`. Pointers are 16-byte aligned, strides in elements and multiples of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockKeysParams {
    /// f32 `[tokens][raw_stride]`: raw index keys of the call's tokens.
    pub raw: *const f32,
    /// f32 `[ratio - 1][dim]`: raw index keys of the tokens before, oldest first.
    pub window: *const f32,
    /// f32 `[dim]`.
    pub gain: *const f32,
    /// f32 `[blocks of the context][dim]`: keys of complete blocks.
    pub keys: *mut f32,
    /// Angles; block b has the position of its first token. `rope.first` is the position of the call's first token.
    pub rope: Rope,
    /// First block to write; its last token is in the call.
    pub first_block: u32,
    /// Blocks to write, at least 1.
    pub blocks: u32,
    /// Tokens of a block.
    pub ratio: u32,
    /// Values of a key, a multiple of 4.
    pub dim: u32,
    /// Elements from a token's raw key to the next.
    pub raw_stride: u32,
    /// Added to the mean square.
    pub eps: f32,
    /// 1 / dim, rounded once on the host.
    pub inv_dim: f32,
    /// 1 / ratio, rounded once on the host.
    pub inv_ratio: f32,
}
const _: () = assert!(size_of::<BlockKeysParams>() == 88);

/// Launch parameters of `qsa.scores`. Pointers are 16-byte aligned.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScoresParams {
    /// f32 `[tokens][heads][dim]`: index queries, normed and rotated.
    pub q: *const f32,
    /// f32 `[blocks][dim]`: keys of complete blocks.
    pub keys: *const f32,
    /// f32 `[tokens][stride]`: score of every block that the token sees; the rest is not written.
    pub scores: *mut f32,
    /// Position of the call's first token.
    pub first: u32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Index heads.
    pub heads: u32,
    /// Values of a key, a multiple of 4.
    pub dim: u32,
    /// Tokens of a block.
    pub ratio: u32,
    /// Elements from a token's scores to the next.
    pub stride: u32,
    /// What the sum over heads is multiplied by.
    pub scale: f32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<ScoresParams>() == 56);

/// Launch parameters of `qsa.select`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SelectParams {
    /// f32 `[tokens][stride]`: scores >= 0 of the blocks that a token sees.
    pub scores: *const f32,
    /// u32 `[tokens][budget]`: the chosen blocks, ascending; written for tokens that see more than `budget` blocks.
    pub chosen: *mut u32,
    /// Position of the call's first token.
    pub first: u32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Tokens of a block.
    pub ratio: u32,
    /// Blocks to choose, at least 1.
    pub budget: u32,
    /// Elements from a token's scores to the next.
    pub stride: u32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<SelectParams>() == 40);
