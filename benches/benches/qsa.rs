//! Family `qsa`: scores of blocks of cells.
#![allow(missing_docs)] // of what criterion's macros make

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use varve::measure::plan_qsa;
use varve_benches::{device, family};

fn qsa(c: &mut Criterion) {
    let device = device();
    family(c, &device, &plan_qsa::qsa(&device, &[]));
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = config(); targets = qsa }
criterion_main!(benches);
