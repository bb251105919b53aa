use crate::{varve, varve_with};

#[test]
fn what_is_not_understood_is_code_2_on_stderr() {
    varve(&[]).refused_naming(&["Usage: varve", "info", "ptx"]);
    varve(&["no-such-command"]).refused_naming(&["no-such-command"]);
    varve(&["info", "--no-such-flag"]).refused_naming(&["--no-such-flag"]);
    varve(&["info", "--device", "gpu"]).refused_naming(&["`gpu` is no device", "cuda:0"]);
    varve_with(&["info"], &[("VARVE_DEVICE", "gpu")]).refused_naming(&["VARVE_DEVICE", "`gpu`"]);
    varve_with(&["info"], &[("VARVE_EMU_SEED", "x")]).refused_naming(&["VARVE_EMU_SEED", "`x`"]);
}

#[test]
fn help_and_version_are_results() {
    let help = varve(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("--device") && help.stdout.contains("--json"), "{}", help.stdout);
    let version = varve(&["--version"]);
    assert_eq!((version.code, version.stdout.trim()), (Some(0), concat!("varve ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(["ptx", "--arch", "sm_80"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
