//! The code of every kernel, as embedded: what rules it keeps, what it costs on each card. No GPU needed.
#![allow(clippy::unwrap_used, missing_docs)]

mod assemble;
mod budgets;
mod rules;

use cuda_builder::rules::{Entry, Ptx};
use varve::backend::EMBEDDED;
use varve_gpu::catalog;

/// Calls `check` with each row of the catalogue and its code in each module that can hold it; probes if `probes`.
fn each_kernel(probes: bool, mut check: impl FnMut(&catalog::Entry, &Entry, &str)) {
    let rows = catalog::entries();
    let mut seen = 0;
    for module in &EMBEDDED {
        let ptx = Ptx::parse(module.ptx);
        for row in rows.iter().filter(|row| row.kernel.sm <= module.sm && (probes || row.name != "probe")) {
            let code = ptx.entry(row.kernel.symbol);
            check(row, code.unwrap_or_else(|| panic!("{} is not in {}", row.kernel.symbol, module.file)), module.file);
            seen += 1;
        }
    }
    assert!(seen > 0, "the catalogue is empty");
}
