//! Family `delta`: recurrence over prompts and windows, commit, output norm.
#![allow(missing_docs)] // of what criterion's macros make

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use varve::measure::plan;
use varve_benches::{device, family};

fn delta(c: &mut Criterion) {
    let device = device();
    family(c, &device, &plan::delta(&device, &[], None));
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = config(); targets = delta }
criterion_main!(benches);
