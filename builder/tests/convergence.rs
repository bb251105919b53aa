//! Barriers and shuffles come out of the compiler where the source has them; and each check notices when a measure that
//! keeps them there is switched off (cases T01, T02). No GPU needed: what is wrong here hangs or sums wrongly on one.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
mod probe;

use cuda_builder::Measures;
use cuda_builder::rules::{Entry, Ptx};

const ALL: Measures = Measures { no_jump_threading: true, no_rustc_llvm_passes: true, convergent_calls: true };

/// What is wrong with a probe kernel: more barriers than the source has means one was copied into a branch that only
/// part of the threads takes; a full-mask shuffle behind a branch waits for lanes that never come.
fn fault(kernel: &Entry) -> Option<String> {
    if let Some(rest) = kernel.name.strip_prefix("want") {
        let want: usize = rest.split('_').next().unwrap().parse().unwrap();
        let got = kernel.barriers();
        return (got != want).then(|| format!("{}: {got} barriers, the source has {want}", kernel.name));
    }
    if !kernel.name.starts_with("shfl_") {
        return None;
    }
    assert_eq!(kernel.count("shfl.sync"), 1, "{}", kernel.name);
    kernel.behind_branch("shfl.sync").map(|_| format!("{}: the shuffle stands behind a branch", kernel.name))
}

fn faults(ptx: &Ptx) -> Vec<String> {
    ptx.entries.iter().filter_map(fault).collect()
}

#[test]
fn barriers_and_shuffles_stay_where_the_source_has_them() {
    let ptx = probe::build("converged", ALL);
    let probes = ptx.entries.iter().filter(|e| e.name.starts_with("want") || e.name.starts_with("shfl_"));
    assert_eq!(probes.count(), 7, "every probe kernel is in the module");
    assert_eq!(faults(&ptx), [""; 0]);
}

/// Each control names the kernels in which its fault was seen with rustc 1.95.0: were one to stay away, the check would
/// have lost its proof, or the compiler its fault.
fn control(test: &str, measures: Measures, wrong: &[&str]) {
    let found = faults(&probe::build(test, measures));
    for kernel in wrong {
        assert!(found.iter().any(|f| f.starts_with(&format!("{kernel}: "))), "{kernel} is not among {found:#?}");
    }
    assert_eq!(found.len(), wrong.len(), "{found:#?}");
}

#[test]
fn jump_threading_would_copy_barriers() {
    let measures = Measures { no_jump_threading: false, ..ALL };
    control("jump_threading", measures, &["want2_intrinsic", "want2_intrinsic_inlined"]);
}

const ASSEMBLY: [&str; 4] = ["shfl_pure", "want2_asm", "want2_asm_inlined", "want2_asm_named"];

#[test]
fn rustcs_own_llvm_passes_would_come_too_early() {
    control("rustc_passes", Measures { no_rustc_llvm_passes: false, ..ALL }, &ASSEMBLY);
}

#[test]
fn unmarked_assembly_would_move() {
    control("unmarked", Measures { convergent_calls: false, ..ALL }, &ASSEMBLY);
}
