//! Every module through ptxas, for every architecture that loads it: the driver would be the next to look.

use std::path::PathBuf;
use std::sync::OnceLock;

use cuda_builder::{BuildError, Ptxas, Resources};
use varve::backend::EMBEDDED;

/// Architecture and the module that cards of it load.
pub const TARGETS: [(&str, u32); 7] =
    [("sm_75", 75), ("sm_80", 80), ("sm_86", 80), ("sm_89", 80), ("sm_90a", 90), ("sm_100", 80), ("sm_120", 80)];

fn write(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn assemble(ptxas: &Ptxas, arch: &str, sm: u32) -> Result<Vec<Resources>, BuildError> {
    let module = EMBEDDED.iter().find(|module| module.sm == sm).unwrap();
    ptxas.assemble(&write(&format!("{arch}.ptx"), module.ptx), arch)
}

/// Resources of all kernels on all architectures, assembled once, two at a time; `None` (and a word) without ptxas.
pub fn resources() -> Option<&'static [Resources]> {
    static ALL: OnceLock<Option<Vec<Resources>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let ptxas = Ptxas::find()?;
        let halves = TARGETS.chunks(TARGETS.len().div_ceil(2));
        let run = |half: &[(&str, u32)]| -> Vec<Resources> {
            let each = |(arch, sm): &(&str, u32)| assemble(&ptxas, arch, *sm).unwrap_or_else(|e| panic!("{e}"));
            half.iter().flat_map(each).collect()
        };
        Some(std::thread::scope(|scope| {
            let running: Vec<_> = halves.map(|half| scope.spawn(move || run(half))).collect();
            running.into_iter().flat_map(|half| half.join().unwrap()).collect()
        }))
    });
    if all.is_none() {
        eprintln!("SKIPPED: no ptxas here (toolchain/ptxas.sh fetches it)");
    }
    all.as_deref()
}

#[test]
fn every_module_assembles_for_every_card_that_loads_it() {
    let Some(all) = resources() else { return };
    for (arch, _) in TARGETS {
        assert!(all.iter().any(|r| r.arch == arch), "{arch}");
    }
}

/// T13: what only the assembler refuses is found here, with the kernel's name.
#[test]
fn a_broken_instruction_is_found_and_its_kernel_named() {
    let Some(ptxas) = Ptxas::find() else {
        eprintln!("SKIPPED: no ptxas here (toolchain/ptxas.sh fetches it)");
        return;
    };
    let module = EMBEDDED[1].ptx;
    let at = module.find(".entry delta_rec_cols").unwrap();
    let (before, after) = module.split_at(at);
    let broken = write("broken.ptx", &format!("{before}{}", after.replacen("fma.rn.f32", "fma.rn.f31", 1)));
    let error = ptxas.assemble(&broken, "sm_80").unwrap_err().to_string();
    assert!(error.contains("kernel `delta_rec_cols`") && error.contains("fma.rn.f31"), "{error}");
}
