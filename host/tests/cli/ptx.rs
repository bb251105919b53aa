use crate::{run, varve, varve_with};

#[test]
fn a_module_and_its_kernels_are_printed() {
    let module = varve(&["ptx", "--arch", "sm_75"]);
    assert_eq!(module.code, Some(0));
    assert!(module.stdout.contains(".target sm_75") && module.stdout.contains(".entry delta_rec_cols("));
    let kernel = varve(&["ptx", "--arch", "sm_90a", "--kernel", "delta_rec_cols"]);
    assert_eq!(kernel.code, Some(0));
    assert!(kernel.stdout.starts_with(".visible .entry delta_rec_cols(") && kernel.stdout.ends_with("}\n"));
    assert_eq!(kernel.stdout.matches(".entry").count(), 1);
    let rows = varve(&["ptx", "--json", "--kernel", "delta.rec/keyhead"]).rows();
    assert_eq!(rows.len(), 4, "one for each number of value heads a key head");
    assert!(rows.iter().all(|row| row["module"] == "sm_80" && row["ptx"].as_str().unwrap().contains(".entry")));
}

#[test]
fn every_kernel_is_listed_with_its_modules() {
    let rows = varve(&["ptx", "--list", "--json"]).rows();
    let of = |kernel: &str| rows.iter().find(|row| row["kernel"] == kernel).unwrap();
    assert_eq!(of("delta_rec_cols")["modules"], serde_json::json!(["sm_75", "sm_80", "sm_90a"]));
    assert_eq!(of("delta_rec_keyhead_vpk3")["modules"], serde_json::json!(["sm_80", "sm_90a"]));
    assert_eq!(of("delta_rec_cols")["variant"], "delta.rec/cols");
}

#[test]
fn unknown_names_are_refused_with_the_list() {
    varve(&["ptx", "--kernel", "nothing"]).refused_naming(&["`nothing`", "delta_rec_cols"]);
    varve(&["ptx", "--arch", "sm_60"]).refused_naming(&["`sm_60`", "sm_75, sm_80, sm_90a"]);
    varve(&["ptx", "--report", "--arch", "sm_60"]).refused_naming(&["`sm_60`", "sm_120"]);
    varve(&["ptx", "--report", "--list"]).refused_naming(&["--list"]);
}

#[test]
fn a_kernel_that_a_module_lacks_is_code_1() {
    let ran = varve(&["ptx", "--arch", "sm_75", "--kernel", "delta.rec/keyhead"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("sm_75"), "{}", ran.stderr);
}

/// ptxas played by a script that prints a report, so that the rows are known on a machine without it.
#[cfg(unix)]
#[test]
fn a_report_has_a_row_a_kernel_and_counts_failures() {
    use std::os::unix::fs::PermissionsExt;
    let script = std::env::temp_dir().join(format!("varve-cli-ptxas-{}", std::process::id()));
    let text = "#!/bin/sh\ncat >&2 <<'END'\n\
        ptxas info    : Compiling entry function 'delta_rec_cols' for 'sm_80'\n\
        ptxas info    : Function properties for delta_rec_cols\n\
        \x20   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 72 registers, used 1 barriers, 1536 bytes smem\n\
        ptxas info    : Compiling entry function 'delta_out_norm_block_silu' for 'sm_80'\n\
        ptxas info    : Function properties for delta_out_norm_block_silu\n\
        \x20   16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
        ptxas info    : Used 30 registers, used 1 barriers, 16 bytes smem\nEND\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran =
        varve_with(&["ptx", "--report", "--json", "--arch", "sm_86"], &[("VARVE_PTXAS", script.to_str().unwrap())]);
    std::fs::remove_file(&script).unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let rows = ran.rows();
    assert_eq!(rows.len(), 3);
    let norm = &rows[0];
    assert_eq!((&norm["kernel"], &norm["pass"]), (&"delta_out_norm_block_silu".into(), &false.into()));
    assert_eq!((&norm["spill_bytes"], &norm["stack_bytes"]), (&12.into(), &16.into()));
    assert!(norm["reason"].as_str().unwrap().contains("12 bytes spilled"));
    let cols = &rows[1];
    assert_eq!((&cols["module"], &cols["arch"]), (&"sm_80".into(), &"sm_86".into()));
    assert_eq!((&cols["registers"], &cols["shared_bytes"]), (&72.into(), &1536.into()));
    assert!(cols["budget"]["registers"].as_u64().unwrap() >= 72);
    assert_eq!(rows[2], serde_json::json!({"rows": 2, "failures": 1}));
}

#[test]
fn without_ptxas_the_message_says_how_to_fetch_it() {
    // A copy outside the target folder, where `toolchain/ptxas.sh` may have put one.
    let folder = std::env::temp_dir().join(format!("varve-without-ptxas-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("varve");
    std::fs::copy(env!("CARGO_BIN_EXE_varve"), &program).unwrap();
    let ran = run(&program, &["ptx", "--report"], &[("PATH", "")]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("toolchain/ptxas.sh") && ran.stderr.contains("VARVE_PTXAS"), "{}", ran.stderr);
}
