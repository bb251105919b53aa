use crate::varve;

#[test]
fn a_row_has_time_ratio_and_floor() {
    let args = ["bench", "--device", "emulator", "--json", "--op", "delta.rec", "--variant", "window", "--tokens", "1"];
    let ran = varve(&[&args[..], &["--rounds", "1"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let rows = ran.rows();
    assert!(rows[0]["copy_gb_per_s"].as_f64().unwrap() > 0.0, "{}", rows[0]);
    assert!(rows.len() >= 3, "the base is an arm too: {rows:?}");
    for row in &rows[1..] {
        assert_eq!((&row["op"], &row["tokens"], &row["how"]), (&"delta.rec".into(), &1.into(), &"wall".into()));
        assert!(["window", "cols"].contains(&row["variant"].as_str().unwrap()), "{row}");
        for number in ["us", "us_per_token", "ratio", "floor_bytes", "floor_flops", "floor_us"] {
            assert!(row[number].as_f64().unwrap() > 0.0, "{number} in {row}");
        }
    }
}

#[test]
fn unknown_names_are_refused_with_the_list() {
    varve(&["bench", "--family", "gamma"]).refused_naming(&["`gamma`", "delta", "dense"]);
    varve(&["bench", "--op", "moe.combine"]).refused_naming(&["`moe`", "delta", "dense"]);
    varve(&["bench", "--op", "delta.rec", "--family", "dense"]).refused_naming(&["`dense`", "this operation"]);
    varve(&["bench", "--op", "delta.wreck"]).refused_naming(&["`delta.wreck`", "delta.rec"]);
    varve(&["bench", "--variant", "nothing"]).refused_naming(&["`nothing`", "cols"]);
    varve(&["bench", "--rounds", "0"]).refused_naming(&["--rounds"]);
}

#[test]
fn quantized_products_print_a_table_of_what_paid() {
    let of = |tokens| {
        let what = ["bench", "--device", "emulator", "--op", "mmvq.product", "--variant", "il_r2", "--tokens", tokens];
        varve(&[&what[..], &["--rounds", "1", "--emit-table", "abc", "2026-01-02"]].concat())
    };
    let ran = of("1");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("line(Format::Q6_K, 1, [\"") && ran.stdout.contains("commit: \"abc\""),
        "{}",
        ran.stdout
    );
    let warm = of("3");
    assert_eq!(warm.code, Some(1), "{}", warm.stdout);
    assert!(warm.stderr.contains("beyond the L2"), "{}", warm.stderr);
}

#[test]
fn the_family_is_that_of_the_operation() {
    let args = ["bench", "--device", "emulator", "--json", "--op", "dense.product", "--tokens", "1", "--rounds", "1"];
    let ran = varve(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows = ran.rows();
    let arms: Vec<_> = rows[1..].iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert_eq!(arms, ["rows2", "rows8", "mma_narrow", "mma"]);
}

#[test]
fn products_are_timed_behind_reads_of_neighbours() {
    let of = |states: &[&str]| {
        let what =
            ["bench", "--device", "emulator", "--json", "--op", "mmvq.product", "--variant", "il_r2", "--tokens", "1"];
        let more = ["--rounds", "1", "--matrix", "q8_0:64x8", "--gap-mb", "1", "--l2"];
        varve(&[&what[..], &more, states].concat())
    };
    let ran = of(&["gap", "persist"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows = ran.rows();
    assert_eq!(rows.len(), 1 + 2 + 1, "a line of the device, two arms, a case left out: {rows:?}");
    assert!(rows[1]["case"].as_str().unwrap().contains("behind reads of 1 MB"), "{}", rows[1]);
    assert!(rows[3]["skipped"].as_str().unwrap().contains("needs a CUDA device"), "{}", rows[3]);
    varve(&["bench", "--family", "delta", "--l2", "gap"]).refused_naming(&["--l2", "`delta`"]);
    varve(&["bench", "--family", "mmvq", "--l2", "tepid"]).refused_naming(&["tepid", "persist"]);
    varve(&["bench", "--family", "mmvq", "--matrix", "q6_k:100x1"]).refused_naming(&["multiples of 256"]);
}
