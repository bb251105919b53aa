use crate::{varve, varve_with};

#[test]
fn each_table_has_one_choice_and_reasons_for_the_others() {
    let ran = varve(&["info", "--dispatch", "--json", "--card", "H200", "--tokens", "2048"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows = ran.rows();
    let rec: Vec<_> = rows.iter().filter(|row| row["op"] == "delta.rec").collect();
    assert_eq!(rec.iter().filter(|row| row["chosen"] == true).count(), 1, "{rec:?}");
    let window = rec.iter().find(|row| row["variant"] == "window").unwrap();
    assert_eq!((&window["chosen"], &window["tokens"]), (&false.into(), &2048.into()));
    assert!(window["reason"].as_str().unwrap().contains("2048 tokens"), "{window}");
}

#[test]
fn switches_change_the_choice() {
    let choice = |args: &[&str], variables: &[(&str, &str)]| {
        let all = [&["info", "--dispatch", "--json", "--card", "H200", "--tokens", "64"], args].concat();
        let rows = varve_with(&all, variables).rows();
        rows.iter().find(|row| row["op"] == "delta.rec" && row["chosen"] == true).unwrap()["variant"].clone()
    };
    assert_eq!(choice(&["--variants", "delta.rec=cols"], &[]), "cols");
    assert_eq!(choice(&[], &[("VARVE_VARIANTS", "delta.rec=keyhead")]), "keyhead");
    assert_eq!(choice(&["--variants", "delta.rec=cols"], &[("VARVE_VARIANTS", "delta.rec=keyhead")]), "cols");
}

#[test]
fn what_does_not_exist_is_refused_with_the_list() {
    varve(&["info", "--dispatch", "--card", "GTX 1080"]).refused_naming(&["`GTX 1080`", "H200", "T4"]);
    varve(&["info", "--variants", "delta.rec=warp"]).refused_naming(&["`warp`", "cols"]);
    varve(&["ptx", "--variants", "delta.wreck=cols"]).refused_naming(&["`delta.wreck`", "delta.rec"]);
    varve(&["info", "--variants", "cols"]).refused_naming(&["`cols`", "OP=VARIANT"]);
    varve_with(&["ptx"], &[("VARVE_VARIANTS", "delta.rec=warp")]).refused_naming(&["`warp`"]);
    varve(&["info", "--tokens", "8"]).refused_naming(&["--dispatch"]);
}

#[test]
fn every_operation_is_explained() {
    let rows = varve(&["info", "--dispatch", "--json", "--card", "H200", "--tokens", "1"]).rows();
    for (op, variants) in ::varve::ops::list() {
        for variant in variants {
            assert!(rows.iter().any(|row| row["op"] == op && row["variant"] == variant), "{op}/{variant} is not shown");
        }
    }
}
