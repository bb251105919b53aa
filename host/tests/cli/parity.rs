use std::collections::BTreeSet;

use serde_json::Value;

use crate::{varve, varve_with};

/// The rows and the object behind them.
fn rows_and_totals(args: &[&str]) -> (Vec<Value>, Value) {
    let ran = varve(&[&["parity", "--device", "emulator", "--json"], args].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let mut rows = ran.rows();
    let totals = rows.pop().unwrap();
    (rows, totals)
}

#[test]
fn a_row_carries_what_machines_read() {
    let (rows, totals) = rows_and_totals(&["--op", "delta.rec", "--case", "base/T=8/", "--seeds", "2"]);
    assert_eq!(totals, serde_json::json!({"rows": rows.len(), "failures": 0, "skipped": []}));
    let variants: BTreeSet<_> = rows.iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert!(variants.is_superset(&BTreeSet::from(["cols", "keyhead", "lanes", "window"])), "{variants:?}");
    for row in &rows {
        assert_eq!((&row["op"], &row["base"]), (&"delta.rec".into(), &"cols".into()));
        let base = row["variant"] == "cols";
        assert_eq!(row["exactness"], if base { "base" } else { "bitwise" });
        assert_eq!((&row["bit_equal"], &row["pass"]), (&true.into(), &true.into()));
        assert_eq!((&row["base_difference"], &row["seeds"]), (&0.0.into(), &2.into()));
        let error = row["fp64_error"].as_f64().unwrap();
        assert!(error > 0.0 && error <= row["fp64_bound"].as_f64().unwrap(), "{row}");
        assert!(row["case"].as_str().unwrap().starts_with("base/T=8/heads="));
        assert!(row.get("reason").is_none());
    }
}

#[test]
fn selections_restrict_the_rows() {
    let (rows, _) =
        rows_and_totals(&["--family", "delta", "--variant", "window", "--case", "accept=3", "--seeds", "1"]);
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row["op"] == "delta.commit" && row["base"] == "delta.rec/cols"), "{rows:?}");
    let (rows, _) =
        rows_and_totals(&["--op", "delta.out_norm", "--variant", "block", "--case", "silu/T=3/", "--seeds", "1"]);
    assert_eq!(rows.len(), 1);
}

#[test]
fn text_ends_with_the_count() {
    let ran = varve(&["parity", "--device", "emulator", "--seeds", "1", "--op", "delta.commit", "--case", "accept=0/"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("ok   delta.commit/window"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("1 rows, 0 failures\n"), "{}", ran.stdout);
}

#[test]
fn unknown_names_are_refused_with_the_list() {
    let refused = |args: &[&str], words: &[&str]| {
        varve(&[&["parity", "--device", "emulator"], args].concat()).refused_naming(words)
    };
    refused(&["--family", "gamma"], &["`gamma`", "delta"]);
    refused(&["--op", "delta.wreck"], &["`delta.wreck`", "delta.rec", "delta.commit", "delta.out_norm"]);
    refused(&["--op", "delta.rec", "--variant", "warp"], &["`warp`", "cols", "keyhead"]);
    refused(&["--case", "no such case"], &["`no such case`", "base/T=1/"]);
    refused(&["--seeds", "0"], &["--seeds", "0"]);
    refused(&["--seeds", "many"], &["--seeds", "many"]);
    varve_with(&["parity"], &[("VARVE_EMU_SEED", "x")]).refused_naming(&["VARVE_EMU_SEED"]);
}

#[test]
fn a_selection_that_runs_nothing_is_a_failure() {
    let args = ["parity", "--device", "emulator", "--op", "delta.rec", "--variant", "window", "--case", "base/T=33/"];
    let ran = varve(&args);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("nothing was proved"), "{}", ran.stderr);
}
