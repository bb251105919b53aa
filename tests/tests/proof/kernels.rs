//! Cases with results from elsewhere, through every variant: head order, layout and scale are then nobody's convention but
//! the kernels'.

use varve::backend::DeviceSpec;
use varve::environment::Environment;
use varve::ops::delta_rec::{DELTA_REC, RecArgs, StateAfter, recurrence_by};
use varve::ops::exactness::Exactness;
use varve::ops::{DeltaSizes, LogGate};
use varve::proof::bounds;
use varve::proof::compare::{distance, peaks};
use varve::proof::reference::delta::recurrence;
use varve_tests::golden::{self, Golden};

/// Runs every variant that can; returns how many.
fn check(golden: &Golden) -> usize {
    let device = Environment::read().unwrap().open(None, DeviceSpec::Emulator).unwrap();
    let (case, shape) = (&golden.case, golden.case.shape);
    let sizes = DeltaSizes::single(shape.key_heads, shape.value_heads, shape.tokens);
    let stream = device.stream().unwrap();
    let upload = |data: &[f32]| device.upload(data).unwrap();
    let (qkv, gate, beta, mut state) = (upload(&case.qkv), upload(&case.gate), upload(&case.beta), upload(&case.state));
    let mut y = device.alloc::<f32>(shape.tokens * shape.y_width()).unwrap();
    let peak = recurrence(case).peak;
    let variants: Vec<_> =
        DELTA_REC.rows.iter().filter(|row| DELTA_REC.launch_of(row, device.caps(), &sizes).is_ok()).collect();
    for variant in &variants {
        state.write(&case.state).unwrap();
        y.poison().unwrap();
        let args = RecArgs {
            qkv: qkv.view([shape.tokens, shape.qkv_width()]).unwrap(),
            gate: LogGate(gate.view([shape.tokens, shape.value_heads]).unwrap()),
            beta: beta.view([shape.tokens, shape.value_heads]).unwrap(),
            state: state.view_mut([128, shape.value_heads, 128]).unwrap(),
            y: y.view_mut([shape.tokens, shape.y_width()]).unwrap(),
            key_heads: shape.key_heads,
            state_after: StateAfter::Updated,
            batch: None,
        };
        recurrence_by(variant.name, &stream, args).unwrap();
        let name = format!("{} by {}", golden.name, variant.name);
        let promised = match variant.exactness {
            Exactness::Rounding { bound, .. } => bound,
            Exactness::Base | Exactness::Bitwise => bounds::STRESS,
        };
        let bound = promised + golden.output_slack;
        let output = distance(&golden.y, &y.read().unwrap(), &peaks(&golden.y, shape.value_heads)).unwrap();
        let state = distance(&golden.state, &state.read().unwrap(), &peak).unwrap();
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
