//! QSA: keys of token blocks, scores of blocks for a query, and the choice of the best blocks.
//!
//! Token t of the sequence sees `t + 1` tokens; `complete = (t + 1) / ratio` blocks of `ratio` tokens are complete. Where
//! that is more than the budget, only the best blocks are attended, and always the unfinished one.
//!
//! | buffer | type and shape | |
//! |---|---|---|
//! | pooled keys | f32 `[max_blocks][INDEX_DIM]` | row b: the key of complete block b; one row more than the blocks of the context |
//! | dead key | f32 `[INDEX_DIM]` | stands for the tail block where scores are formed; made at position 0 |
//! | raw tail | f32 `[RATIO - 1][INDEX_DIM]` | raw keys of the cells of the block being filled |
//! | step records | [`StepRecord`] `[rows]` | |
//! | index queries | f32 `[rows][INDEX_HEADS][INDEX_DIM]` | normed and rotated |
//! | scores | f32 `[rows][max_blocks]` | entries above `n_bid` of a row are not written |
//! | ids | u32 `[rows][most_cells(budget)]` | cells, ascending; exactly `width` of a row are written |
//! | keys, values | `[page][kv head][RATIO][HEAD_DIM]` of f32, f16 or i8 | a page is a block of cells; a table leads from block to page |

pub mod block_keys_warp;
pub mod scores;
pub mod scores_multi;
pub mod scores_packed;
pub mod scores_per_query;
pub mod scores_rows;
pub mod scores_scatter;
pub mod scores_tf32x3;
pub mod scores_tf32x3_tail;
pub mod select_search;
pub mod step;

pub use step::{StepRecord, WidthRule, most_cells};

use crate::attn::Rope;

/// Index query heads, all of one index key: `indexer_n_heads` (with `indexer_kv_heads` = 1).
pub const INDEX_HEADS: usize = 4;

/// Values of an index key: `indexer_head_dim`.
pub const INDEX_DIM: usize = 128;

/// Cells of a block: `indexer_compress_ratio`.
pub const RATIO: usize = 4;

/// Values of a head of attention: `head_dim`.
pub const HEAD_DIM: usize = 256;

/// In the place of a page's number: its cells are not in memory, and no weight goes to them.
pub const NO_PAGE: u32 = u32::MAX;

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

/// Launch parameters of `qsa.scores`. Pointers are 16-byte aligned. Nothing here says how deep the context is: the records
/// do, and a captured launch can be replayed when they have changed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScoresParams {
    /// f32 `[max_blocks][INDEX_DIM]`: keys of complete blocks; the others are not read.
    pub pooled: *const f32,
    /// f32 `[INDEX_DIM]`: the key that block `n_bid` of a row has.
    pub dead: *const f32,
    /// f32 `[nq][INDEX_HEADS][INDEX_DIM]`: index queries, normed and rotated.
    pub q_idx: *const f32,
    /// `[nq]`.
    pub steps: *const StepRecord,
    /// f32 `[nq][max_blocks]`: scores of blocks 0 to `n_bid` of a row; the rest is not written.
    pub out: *mut f32,
    /// Queries, at least 1.
    pub nq: u32,
    /// Blocks that the buffers have room for, and elements from a row of scores to the next.
    pub max_blocks: u32,
    /// Blocks to score at most, 1 to `max_blocks`: none from here on is read or written, whatever the records say.
    pub reach: u32,
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
