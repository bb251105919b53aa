//! QSA: keys of token blocks, scores of blocks for a query, the choice of the best, and attention over the chosen cells.
//!
//! A cell is a token of the context in one layer, a block [`RATIO`] cells. Token t sees `t + 1` cells, `n_bid` complete blocks
//! and the tail. It attends to the cells of its best blocks, and always to the tail.
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

pub mod append_warp;
pub mod attend;
pub mod attend_chunk;
pub mod attend_merge;
pub mod attend_prompt;
pub mod cells;
pub mod scores;
pub mod scores_multi;
pub mod scores_packed;
pub mod scores_per_query;
pub mod scores_rows;
pub mod scores_scatter;
pub mod scores_tf32x3;
pub mod scores_tf32x3_tail;
pub mod step;
pub mod store_warp;
pub mod topk;
pub mod topk_cluster;
pub mod topk_ref;
pub mod topk_reg;
pub mod topk_rounds;
pub mod topk_split;
pub mod topk_split_count;
pub mod topk_split_place;
pub mod topk_wide;

pub use step::{StepRecord, WidthRule, most_cells};

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

/// Launch parameters of `qsa.append`. Pointers are 16-byte aligned, the stride is in elements and a multiple of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AppendParams {
    /// f32 `[tokens][raw_stride]`: raw index keys of the call's tokens.
    pub raw: *const f32,
    /// f32 `[INDEX_DIM]`: gain of the key norm.
    pub gain: *const f32,
    /// f32 `[RATIO - 1][INDEX_DIM]`: raw keys of the newest cells at positions 0, 1, 2 modulo [`RATIO`].
    pub tail: *mut f32,
    /// f32 `[max_blocks][INDEX_DIM]`: keys of complete blocks.
    pub pooled: *mut f32,
    /// f32 `[INDEX_DIM]`: written with position 0.
    pub dead: *mut f32,
    /// f32 `[positions][half]`: cosines by position.
    pub cos: *const f32,
    /// f32 `[positions][half]`: sines.
    pub sin: *const f32,
    /// [`StepRecord`] `[tokens]`: positions, ascending without gaps.
    pub steps: *const StepRecord,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Rows of `pooled`; blocks beyond are not written.
    pub max_blocks: u32,
    /// Positions of the tables; keys that need others are not written.
    pub positions: u32,
    /// Pairs that rotate, a multiple of 4.
    pub half: u32,
    /// Elements from a token's raw key to the next.
    pub raw_stride: u32,
    /// 1: raw keys are rounded to f16 first, as a cache in f16 would; 0: they stay f32.
    pub round_to_f16: u32,
    /// Added to the mean square.
    pub eps: f32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<AppendParams>() == 96);

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

/// Launch parameters of `qsa.topk`: the cells that each row attends to. Pointers are multiples of 4.
///
/// A block has as many votes as cells: [`RATIO`], the tail block fewer. `threshold` is the largest score that blocks of
/// at least `width` cells reach (NaN counts as 0, as does -0). A row's ids are all cells of the blocks above it and the
/// first cells of those that equal it, `width` in all, ascending. Where `n_kv <= width` they are all cells, and no score
/// is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TopkParams {
    /// f32 `[rows][max_blocks]`: entries up to `n_bid` of a row are read, that one only where there is a tail.
    pub scores: *const f32,
    /// [`StepRecord`] `[rows]`, a multiple of 16; blocks from `max_blocks` on and cells from `cap` on are left out.
    pub steps: *const StepRecord,
    /// u32 `[rows][cap]`: `width` of a row are written.
    pub ids: *mut u32,
    /// u32 `[rows]` times [`topk_split::SCRATCH_WORDS`]; read and written by `split` only, holds nothing between calls.
    pub scratch: *mut u32,
    /// Rows, at least 1.
    pub rows: u32,
    /// Elements from a row's scores to the next, at least 1.
    pub max_blocks: u32,
    /// Elements from a row's ids to the next.
    pub cap: u32,
    /// Round that a launch of `split` counts, 0 to 3.
    pub round: u32,
}
const _: () = assert!(size_of::<TopkParams>() == 48);
