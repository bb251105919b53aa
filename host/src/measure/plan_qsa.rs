//! The measured cases of family `qsa`: windows of rows at the end of long contexts.

use super::attend::AttendCase;
use super::plan::Planned;
use super::scores::ScoresCase;
use super::topk::TopkCase;
use crate::backend::Device;
use crate::ops::qsa_cells::CellKind;

/// Cells of the contexts: that of the published figures, and twice as many.
const CONTEXTS: [usize; 2] = [131_072, 262_144];
/// Budget of a row, in cells.
const BUDGET: usize = 2048;

/// All cases, of `tokens` rows each, or of the usual counts if there are none.
pub fn qsa(device: &Device, tokens: &[usize]) -> Vec<Planned> {
    if device.caps().is_emulator {
        return emulated(tokens);
    }
    let counts = |usual: &[usize]| if tokens.is_empty() { usual.to_vec() } else { tokens.to_vec() };
    let rows = |usual, most| counts(usual).into_iter().filter(move |n| (1..=most).contains(n));
    let mut plan = Vec::new();
    for cells in CONTEXTS {
        plan.extend(rows(&[1, 2, 3, 4, 6, 8, 64], cells).map(|tokens| Planned::Scores(ScoresCase { cells, tokens })));
    }
    // Contexts short and long in the same capacity, and the longest that `reg` holds in its own.
    let sizes = [[4096, 262_144], [131_072, 131_072], [131_072, 262_144], [262_144, 262_144]];
    for rows in rows(&[1, 4], 2048) {
        plan.extend(sizes.map(|[cells, capacity]| Planned::Topk(TopkCase { rows, cells, capacity, copies: 6 })));
    }
    for cells in CONTEXTS {
        for kind in [CellKind::I8, CellKind::F16] {
            let case = |rows| Planned::Attend(AttendCase { kind, rows, cells, budget: BUDGET });
            plan.extend(rows(&[1, 2, 4], 2048).map(case));
        }
    }
    plan
}

/// Small cases, one of each operation: the emulator's times say nothing of a card.
fn emulated(tokens: &[usize]) -> Vec<Planned> {
    let rows = tokens.iter().copied().filter(|n| (1..=4).contains(n)).max().unwrap_or(2);
    vec![
        Planned::Scores(ScoresCase { cells: 1024, tokens: rows }),
        Planned::Topk(TopkCase { rows, cells: 2100, capacity: 4096, copies: 1 }),
        Planned::Attend(AttendCase { kind: CellKind::I8, rows, cells: 512, budget: 64 }),
    ]
}
