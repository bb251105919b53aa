//! Model sizes that kernels are specialised for, each with the configuration field it comes from.

/// Size of a head, for keys (state rows) and values (state columns): `linear_key_head_dim` = `linear_value_head_dim`.
pub const HEAD_DIM: usize = 128;

/// Rows of the state that one row group holds: a column's sums are four chains of this many terms.
pub const GROUP_ROWS: usize = 32;

/// Row groups of a column: `HEAD_DIM / GROUP_ROWS`.
pub const ROW_GROUPS: usize = HEAD_DIM / GROUP_ROWS;

/// Most value heads a key head may serve: `linear_num_value_heads / linear_num_key_heads`.
pub const MAX_VPK: u32 = 4;

/// Most tokens of a decode window.
pub const WINDOW_TOKENS: usize = 8;

/// The f32 nearest to `1 / sqrt(HEAD_DIM)`, applied to the recurrence's output.
pub const OUTPUT_SCALE: f32 = f32::from_bits(0x3DB5_04F3);
