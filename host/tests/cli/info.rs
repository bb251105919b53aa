use crate::{varve, varve_with};

#[test]
fn info_is_one_object() {
    let ran = varve(&["info", "--json", "--device", "emulator"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let [info] = ran.rows().try_into().unwrap();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&info["device"], &info["emulated"]), (&"emulator".into(), &true.into()));
    let modules = info["modules"].as_array().unwrap();
    let targets: Vec<_> = modules.iter().map(|module| module["target"].as_str().unwrap()).collect();
    assert_eq!(targets, ["sm_75", "sm_80", "sm_90a"]);
    assert!(modules.iter().all(|module| module["kernels"].as_u64().unwrap() > 0));
}

#[test]
fn text_says_the_same() {
    let ran = varve(&["info", "--device", "emulator"]);
    assert_eq!(ran.code, Some(0));
    for words in ["varve ", "emulator: SIMT emulator", "sm_90a: "] {
        assert!(ran.stdout.contains(words), "{}", ran.stdout);
    }
}

#[test]
fn flags_go_before_the_environment() {
    let ran = varve_with(&["info", "--json", "--device", "emulator"], &[("VARVE_DEVICE", "cuda:63")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = varve_with(&["info", "--json"], &[("VARVE_DEVICE", "cuda:63")]);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_device_that_is_not_there_is_code_1() {
    let ran = varve(&["info", "--device", "cuda:63"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("cuda:63"), "{}", ran.stderr);
}
