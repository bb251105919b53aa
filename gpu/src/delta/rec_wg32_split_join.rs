//! `delta.rec/wg32_split`, between its two scans: the state that each segment starts from.
//!
//! Math      S_(i+1) = M_i S_i + N_i for i = 1 .. K - 2 in order; f32
//! Shapes    `RecParams` and states as `rec_wg32_split.rs` says: S_(i+1) takes the place of N_i
//! Mapping   block (value head h, columns 8 j .. + 8) = h * 16 + j, 256 threads: columns of S do not meet. Warp w makes rows
//!           16 w .. + 16, four at a time; a lane has columns 4 l .. + 3 of M and those rows of S
//! Order     a lane's terms as an fma chain, k ascending; the warp's lanes by xor 16, 8, 4, 2, 1; then + N
//! Barriers  two a segment, by all threads: S has been read, the next S is there; and one before
//! Budget    128 registers, 4,096 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   as `delta.rec/wg32_split`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{float, global, kernel, shared, shared_array, warp};

use super::RecParams;
use super::rec_wg32_split::state;
use crate::geometry::HEAD_DIM;

/// Eight warps of 16 rows.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 1 };
/// Columns of a block.
const COLUMNS: usize = 8;
/// Blocks of a value head.
pub const BLOCKS: usize = HEAD_DIM / COLUMNS;
/// Rows that a warp makes together: with [`COLUMNS`] a value for each lane.
const ROWS: usize = 32 / COLUMNS;
/// Times that it does so.
const TURNS: usize = HEAD_DIM / 8 / ROWS;

/// # Safety
/// Shapes and states as the header says; grid `value_heads * BLOCKS`, block 256.
#[kernel(sm = 90)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_split_join(p: RecParams) {
    let columns = shared_array![f32; COLUMNS * HEAD_DIM]; // [column][row of S]
    let (warp, lane) = (thread_idx_x() as usize / 32, warp::lane_id() as usize);
    let row_pitch = p.value_heads as usize * HEAD_DIM;
    let head = block_idx_x() as usize / BLOCKS * HEAD_DIM;
    // The lane's results: one column, a row of each turn.
    let (column, row) = (lane % COLUMNS, warp * ROWS * TURNS + lane / COLUMNS);
    let own = row * row_pitch + head + block_idx_x() as usize % BLOCKS * COLUMNS + column;
    let mut s = [0.0f32; TURNS];
    // SAFETY: rows and columns of the head in the states of the call; each element is one lane's; S is read between barriers.
    unsafe {
        for turn in 0..TURNS {
            s[turn] = global::load(state(&p, 0).add(own + turn * ROWS * row_pitch));
            shared::store(columns.add(column * HEAD_DIM + row + turn * ROWS), s[turn]);
        }
        sync_threads();
        for segment in 1..p.sequences as usize - 1 {
            let m =
                state(&p, p.sequences as usize - 2 + segment).add(warp * ROWS * TURNS * row_pitch + head + 4 * lane);
            let mut x = [[0.0f32; 4]; COLUMNS];
            for c in 0..COLUMNS {
                x[c] = shared::load4(columns.add(c * HEAD_DIM + 4 * lane));
            }
            for turn in 0..TURNS {
                let mut terms = [0.0f32; ROWS * COLUMNS];
                for r in 0..ROWS {
                    let m: [f32; 4] = global::load4_nc(m.add((turn * ROWS + r) * row_pitch));
                    for c in 0..COLUMNS {
                        let start = m[0] * x[c][0];
                        terms[r * COLUMNS + c] =
                            float::fma(m[3], x[c][3], float::fma(m[2], x[c][2], float::fma(m[1], x[c][1], start)));
                    }
                }
                s[turn] = warp::scatter_sum(terms);
            }
            sync_threads();
            for turn in 0..TURNS {
                let at = state(&p, segment).add(own + turn * ROWS * row_pitch);
                s[turn] += global::load(at);
                global::store(at, s[turn]);
                shared::store(columns.add(column * HEAD_DIM + row + turn * ROWS), s[turn]);
            }
            sync_threads();
        }
    }
}
