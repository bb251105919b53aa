//! Calls go down: cli, server, engine, model, measure and proof, ops, backend. A climbing import fails here.

use std::path::{Path, PathBuf};

/// Layers of the host crate, lowest first; `proof` and `measure` stand beside each other above `ops`.
const LAYERS: [&[&str]; 7] = [
    &["modules", "backend"],
    &["ops"],
    &["proof", "measure"],
    &["model"],
    &["engine"],
    &["server"],
    &["environment", "cli"],
];

fn level(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// Imports of higher layers in `text`, a source of `module`.
fn climbing(module: &str, text: &str) -> Vec<String> {
    let Some(own) = level(module) else { return vec![format!("module `{module}` has no layer")] };
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for part in line.split("crate::").skip(1) {
            let target: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if level(&target).is_some_and(|level| level > own) {
                found.push(format!("{module} uses {target}: {}", line.trim()));
            }
        }
    }
    found
}

#[test]
fn host_modules_only_call_downwards() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut problems = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if module != "lib" && module != "main" {
            problems.extend(climbing(module, &std::fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn a_climbing_import_is_found() {
    assert_eq!(climbing("backend", "use crate::ops::dispatch;").len(), 1);
    assert_eq!(climbing("ops", "use crate::backend::{Device, View};").len(), 0);
    assert_eq!(climbing("nowhere", "").len(), 1);
}
