use varve::proof::compare::peaks;
use varve::proof::reference::delta::recurrence;
use varve_tests::golden::{self, Golden};

/// Largest |difference| over the largest value.
fn difference(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
    got.iter().zip(want).fold(0.0, |a: f64, (g, w)| if (g - w).is_nan() { f64::NAN } else { a.max((g - w).abs()) })
        / largest
}

fn check(golden: &Golden) {
    let got = recurrence(&golden.case);
    let (output, state) = (difference(&got.y, &golden.y), difference(&got.state, &golden.state));
    assert!(
        output <= 1e-13 + golden.output_slack,
        "{}: output {output:e}, slack {:e}",
        golden.name,
        golden.output_slack
    );
    assert!(state <= 1e-13, "{}: state {state:e}", golden.name);
    let after = peaks(&golden.state, golden.case.shape.value_heads);
    assert!(got.peak.iter().zip(after).all(|(&during, after)| during >= after * (1.0 - 1e-13)), "{}", golden.name);
}

#[test]
fn the_reference_agrees_with_an_implementation_of_its_own() {
    let golden = golden::own().unwrap();
    assert_eq!(golden.output_slack, 0.0, "q is exact in this file");
    check(&golden);
}

#[test]
fn the_reference_agrees_with_given_cases() {
    let given = golden::given().unwrap();
    given.iter().for_each(check);
    eprintln!("{} cases from VARVE_DELTA_CASES", given.len());
}

/// Negative control: the wrong head rule gives plausible numbers, and must not pass.
#[test]
fn the_other_head_order_is_noticed() {
    let golden = golden::own().unwrap();
    let shape = golden.case.shape;
    let mut grouped = golden.case.clone();
    for t in 0..shape.tokens {
        for head in 0..shape.value_heads {
            let from = golden.case.value(t, head / 3 + head % 3 * 2).to_vec();
            grouped.qkv[t * shape.qkv_stride + (2 * shape.key_heads + head) * 128..][..128].copy_from_slice(&from);
        }
    }
    assert!(difference(&recurrence(&grouped).y, &golden.y) > 0.1);
}

#[test]
fn a_file_that_is_no_case_is_named() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/delta_columns.py");
    let error = golden::load(&path).err().unwrap().to_string();
    assert!(error.contains("delta_columns.py"), "{error}");
}
