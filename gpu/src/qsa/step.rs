//! The step record: what every kernel of QSA must know of one query row, in device memory, so that a captured graph can
//! be replayed at another depth of the context.

use super::RATIO;

/// Which cells of the block that is cut or unfinished a row attends to, beyond its best blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WidthRule {
    /// `min(n, budget + t)`: the best complete blocks and the whole tail; no block is cut. The model's definition.
    #[default]
    BlocksPlusTail,
    /// `min(n, budget + RATIO - 1)`: rows of one length, the last cells from the block that ranks next. As an engine that
    /// the published figures are of.
    FullRows,
}

/// One query row. A cell is a token of the context in one layer, a block [`RATIO`] cells from a multiple of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// Position p of the query's token.
    pub pos: u32,
    /// Cells that it sees: p + 1.
    pub n_kv: u32,
    /// Complete blocks among them; also the number of the block that holds the tail, if there is one.
    pub n_bid: u32,
    /// Cells that it attends to.
    pub width: u32,
}
const _: () = assert!(size_of::<StepRecord>() == 16);

impl StepRecord {
    /// The record of the token at position `pos`, where `budget` cells (a multiple of [`RATIO`]) may be chosen.
    #[must_use]
    pub const fn at(pos: u32, budget: u32, rule: WidthRule) -> Self {
        let (n_kv, ratio) = (pos + 1, RATIO as u32);
        let (n_bid, tail) = (n_kv / ratio, n_kv % ratio);
        let most = match rule {
            WidthRule::BlocksPlusTail => budget + tail,
            WidthRule::FullRows => budget + ratio - 1,
        };
        Self { pos, n_kv, n_bid, width: if n_kv < most { n_kv } else { most } }
    }

    /// Cells of the tail block, 0 to `RATIO - 1`.
    #[must_use]
    pub const fn tail(&self) -> u32 {
        self.n_kv % RATIO as u32
    }
}

/// Length of a row of cell ids for a budget, by either rule.
#[must_use]
pub const fn most_cells(budget: usize) -> usize {
    budget + RATIO - 1
}

#[cfg(test)]
mod tests {
    use super::{StepRecord, WidthRule, most_cells};

    #[test]
    fn widths_follow_both_rules_around_the_budget() {
        let widths = |n: u32| {
            [WidthRule::BlocksPlusTail, WidthRule::FullRows].map(|rule| StepRecord::at(n - 1, 2048, rule).width)
        };
        assert_eq!(widths(1), [1, 1]);
        assert_eq!(widths(2048), [2048, 2048]);
        assert_eq!(widths(2051), [2051, 2051]);
        assert_eq!(widths(2052), [2048, 2051]);
        assert_eq!(widths(131_074), [2050, 2051]);
        assert_eq!(most_cells(2048), 2051);
    }

    #[test]
    fn a_record_counts_complete_blocks_and_the_tail() {
        let record = StepRecord::at(102, 32, WidthRule::BlocksPlusTail);
        assert_eq!((record.n_kv, record.n_bid, record.tail(), record.width), (103, 25, 3, 35));
    }
}
