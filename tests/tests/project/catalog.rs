//! One name, everywhere: kernel symbols, files, operations and variants.

use std::collections::BTreeSet;
use std::path::Path;

use varve_gpu::catalog::entries;

#[test]
fn tables_and_catalog_name_the_same_variants() {
    let named =
        |(op, variants): (&str, Vec<&str>)| variants.into_iter().map(move |v| format!("{op}/{v}")).collect::<Vec<_>>();
    let tables: BTreeSet<_> = varve::ops::list().into_iter().flat_map(named).collect();
    let catalog = entries().into_iter().map(|entry| entry.name.to_owned()).filter(|name| name != "probe").collect();
    assert_eq!(tables, catalog);
}

#[test]
fn symbols_follow_their_variant() {
    for entry in entries().iter().filter(|entry| entry.name != "probe") {
        let wanted = entry.name.replace(['.', '/'], "_");
        let rest = entry.kernel.symbol.strip_prefix(&wanted);
        assert!(rest.is_some_and(|r| r.is_empty() || r.starts_with('_')), "{} of {}", entry.kernel.symbol, entry.name);
    }
}

/// Names of the kernels of a source: written out, or a line each of `instances!`.
fn kernels(text: &str) -> Vec<&str> {
    let written = text.split("#[kernel").skip(1).filter_map(|kernel| {
        let (_, name) = kernel.split_once("pub unsafe fn ")?;
        Some(&name[..name.find('(')?])
    });
    let listed = text.split("\ninstances! {").skip(1).flat_map(|list| {
        let lines = list.lines().take_while(|line| !line.starts_with('}'));
        lines.filter_map(|line| line.trim().split_once(' ').map(|(name, _)| name)).filter(|name| name.contains('_'))
    });
    written.chain(listed).collect()
}

#[test]
fn kernels_are_found_in_both_ways_of_writing_them() {
    let written = "#[kernel(sm = 80)]\n#[launch_bounds(B)]\npub unsafe fn a_b(p: P) {}\n";
    let listed = "\ninstances! {\n    80, BOUNDS, body;\n    a_c A_C Format 1 1 4;\n    a_d A_D Format 2 1 4;\n}\n";
    assert_eq!(kernels(&format!("{written}{listed}fn f_g() {{}}")), ["a_b", "a_c", "a_d"]);
}

#[test]
fn every_kernel_of_the_sources_is_in_the_catalog() {
    let known: BTreeSet<_> = entries().iter().map(|entry| entry.kernel.symbol).collect();
    assert_eq!(known.len(), entries().len(), "a symbol stands twice");
    let mut found = 0;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/src")];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for name in kernels(&text) {
                assert!(known.contains(name), "{name} of {} is not in gpu/src/catalog.rs", path.display());
                found += 1;
            }
        }
    }
    assert_eq!(found, known.len());
}

/// Registers and shared bytes of the line `//! Budget` of a kernel's header.
fn budget_line(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.strip_prefix("//! Budget "))?;
    let (registers, rest) = line.trim().split_once(" registers")?;
    let shared = rest.split(", ").find_map(|part| part.split_once(" B shared"))?.0;
    Some((registers.parse().ok()?, shared.replace(',', "").parse().ok()?))
}

#[test]
fn headers_state_the_budgets_of_the_catalog() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in entries().iter().filter(|entry| entry.name != "probe") {
        let text = std::fs::read_to_string(root.join(entry.kernel.file)).unwrap();
        let wanted = Some((entry.budget.registers, entry.budget.shared_bytes));
        assert_eq!(budget_line(&text), wanted, "{}", entry.kernel.file);
    }
    assert_eq!(budget_line("//! Budget    40 registers, 1,024 B shared, 0 B local"), Some((40, 1024)));
    assert_eq!(budget_line("//! Math      y = x"), None);
}
