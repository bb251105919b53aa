//! `qsa.topk`: sorts all cells, and takes the first ones.

use varve_gpu::qsa::StepRecord;

/// The cells that a row with these scores attends to, ascending.
///
/// # Panics
/// Where `scores` is shorter than the blocks of the record.
#[must_use]
pub fn topk(scores: &[f32], record: StepRecord) -> Vec<u32> {
    if record.n_kv <= record.width {
        return (0..record.n_kv).collect();
    }
    let value = |cell: u32| match scores[cell as usize / 4] {
        score if score.is_nan() || score == 0.0 => 0.0,
        score => score,
    };
    let mut cells: Vec<u32> = (0..record.n_kv).collect();
    cells.sort_by(|&a, &b| value(b).total_cmp(&value(a)).then(a.cmp(&b)));
    cells.truncate(record.width as usize);
    cells.sort_unstable();
    cells
}

#[cfg(test)]
mod tests {
    use varve_gpu::qsa::{StepRecord, WidthRule};

    use super::topk;

    #[test]
    fn choices_by_hand() {
        // Three blocks and a tail of two cells, with a budget of one block.
        let chosen = |scores: &[f32], rule| topk(scores, StepRecord::at(13, 4, rule));
        let (plus_tail, full) = (WidthRule::BlocksPlusTail, WidthRule::FullRows);
        assert_eq!(chosen(&[1.0, 3.0, 2.0, 1e9], plus_tail), [4, 5, 6, 7, 12, 13]);
        assert_eq!(chosen(&[1.0, 3.0, 2.0, 1e9], full), [4, 5, 6, 7, 8, 12, 13], "and a cell of the next block");
        assert_eq!(chosen(&[f32::NAN, -0.0, 0.0, 1e9], full), [0, 1, 2, 3, 4, 12, 13], "all are 0");
        assert_eq!(chosen(&[-1.0, -3.0, f32::NAN, 1e9], plus_tail), [8, 9, 10, 11, 12, 13]);
        assert_eq!(topk(&[], StepRecord::at(2, 4, plus_tail)), [0, 1, 2], "no score is read");
    }
}
