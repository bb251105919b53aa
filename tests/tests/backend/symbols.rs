//! The list of driver functions is that of `cust_raw`: a symbol more or less would break a link or a call.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use varve::backend::driver_slots;

/// `cust_raw`'s folder, from cargo.
fn cust_raw() -> PathBuf {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    // Only this platform's packages are sure to be there: nothing else was built.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let arguments =
        ["metadata", "--format-version=1", "--offline", "--filter-platform", &platform, "--manifest-path", manifest];
    let output = Command::new(env!("CARGO")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|p| p["name"] == "cust_raw").expect("cust_raw is in the dependency graph");
    PathBuf::from(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_path_buf()
}

/// The functions that a binding declares within `extern` blocks.
fn declared(source: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for (at, _) in source.match_indices("pub fn cu") {
        let rest = &source[at + "pub fn ".len()..];
        names.insert(&rest[..rest.find('(').unwrap()]);
    }
    names
}

#[test]
fn every_function_that_cust_raw_declares_has_a_slot() {
    let source = std::fs::read_to_string(cust_raw().join("src/cuda.rs")).unwrap();
    assert!(!source.contains("link_name"), "the bindings rename functions: the list must hold the linked names");
    let declared = declared(&source);
    let slots: BTreeSet<&str> = driver_slots::NAMES.iter().copied().collect();
    assert_eq!(slots.len(), driver_slots::NAMES.len(), "a name is listed twice");
    let missing: Vec<_> = declared.difference(&slots).collect();
    let unknown: Vec<_> = slots.difference(&declared).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}; not declared: {unknown:?}");
    assert_eq!(slots.len(), 353);
}

#[test]
fn the_comparison_sees_a_function_that_is_not_listed() {
    let names = declared("extern \"C\" {\n    pub fn cuNewThing_v9(\n        x: i32,\n    ) -> CUresult;\n}");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["cuNewThing_v9"]);
    assert!(!driver_slots::NAMES.contains(&"cuNewThing_v9"));
}
