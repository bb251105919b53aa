//! Cases with results from elsewhere, through every variant: head order, layout and scale are then nobody's convention but
//! the kernels'.

use varve::backend::DeviceSpec;
use varve::environment::Environment;
use varve::ops::DeltaSizes;
use varve::ops::delta_rec::DELTA_REC;
use varve::ops::exactness::Exactness;
use varve::proof::bounds;
use varve::proof::compare::{distance, peaks};
use varve::proof::reference::delta::recurrence;
use varve_tests::golden::{self, Golden};

use super::call::recurrence_of;

/// Runs every variant that can; returns how many.
fn check(golden: &Golden) -> usize {
    let device = Environment::read().unwrap().open(None, DeviceSpec::Emulator).unwrap();
    let (case, shape) = (&golden.case, golden.case.shape);
    let sizes = DeltaSizes::single(shape.key_heads, shape.value_heads, shape.tokens);
    let peak = recurrence(case).peak;
    let variants: Vec<_> =
        DELTA_REC.rows.iter().filter(|row| DELTA_REC.launch_of(row, device.caps(), &sizes).is_ok()).collect();
    for variant in &variants {
        let (y, state) = recurrence_of(&device, case, variant.name);
        let name = format!("{} by {}", golden.name, variant.name);
        let promised = match variant.exactness {
            Exactness::Rounding { bound, .. } => bound,
            Exactness::Base | Exactness::Bitwise => bounds::STRESS,
        };
        let bound = promised + golden.output_slack;
        let output = distance(&golden.y, &y, &peaks(&golden.y, shape.value_heads)).unwrap();
        let state = distance(&golden.state, &state, &peak).unwrap();
        for (what, worst) in [("output", output.by_head), ("state", state.by_head)] {
            worst.within(what, bound).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        }
    }
    variants.len()
}

#[test]
fn every_variant_agrees_with_an_implementation_of_its_own() {
    assert!(check(&golden::own().unwrap()) >= 3);
}

#[test]
fn every_variant_agrees_with_given_cases() {
    let given = golden::given().unwrap();
    let runs: usize = given.iter().map(check).sum();
    println!("{runs} runs on {} cases from VARVE_DELTA_CASES", given.len());
}
