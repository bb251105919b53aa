//! What a module must look like: memory spaces, launch bounds, registers, traps.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
mod probe;

use std::sync::OnceLock;

use cuda_builder::rules::{Entry, Ptx, Rule};
use cuda_builder::{BuildError, Measures, Ptxas};

fn ptx() -> &'static Ptx {
    static PTX: OnceLock<Ptx> = OnceLock::new();
    PTX.get_or_init(|| probe::build("modules", Measures::default()))
}

fn kernel(name: &str) -> &'static Entry {
    ptx().entry(name).unwrap_or_else(|| panic!("no kernel {name}"))
}

fn holds(name: &str, rules: &[Rule]) {
    for rule in rules {
        rule.check(kernel(name)).unwrap_or_else(|broken| panic!("{rule:?}: {broken}"));
    }
}

#[test]
fn the_header_is_what_drivers_of_the_time_take() {
    assert_eq!((ptx().version.as_str(), ptx().target.as_str()), ("7.8", "sm_80"));
    let kept: Vec<&String> = ptx().functions.iter().filter(|f| !f.ends_with("lead_step")).collect();
    assert_eq!(kept, [""; 0], "nothing is left but what the source keeps from being inlined");
}

#[test]
fn shared_arrays_are_accessed_as_shared_memory() {
    let name = "shared_reverse";
    holds(name, &[Rule::NoGenericAccess, Rule::NoLocalMemory, Rule::Barriers(1)]);
    assert_eq!((kernel(name).count("ld.shared"), kernel(name).count("st.shared")), (1, 1));
    let text = text();
    let declared: Vec<&str> = text.lines().filter(|l| l.contains(".shared") && l.contains("SLOTS")).collect();
    assert_eq!(declared.len(), 1, "{declared:?}");
    assert!(declared[0].contains(".align 16") && declared[0].ends_with("[1024];"), "no initial value: {declared:?}");
    assert!(
        text.contains(".extern .shared .align 16 .b8 __dynamic_shared[];"),
        "the dynamic part is sized by the launch"
    );
}

fn text() -> String {
    ptx(); // built
    std::fs::read_to_string(common::folder("modules").join("probe.ptx")).unwrap()
}

#[test]
fn wide_accesses_stay_wide() {
    let wide = [Rule::Wide("ld", "global", 2), Rule::Wide("ld", "shared", 2), Rule::Wide("st", "shared", 2)];
    holds("shared_wide", &wide);
    holds("shared_wide", &[Rule::Wide("st", "global", 1), Rule::NoGenericAccess]);
}

#[test]
fn launch_bounds_reach_the_ptx_and_their_statics_go() {
    let bounds = |name: &str| (kernel(name).max_threads, kernel(name).min_blocks);
    assert_eq!(bounds("shared_reverse"), (Some(256), Some(4)));
    assert_eq!(bounds("shared_wide"), (Some(256), None), "0 blocks: no demand");
    assert_eq!(bounds("parameter_fields"), (None, None), "none given");
    assert!(!text().contains("__launch_bounds"), "only the builder reads them");
}

#[test]
fn register_arrays_unroll_completely() {
    holds("register_array", &[Rule::NoLocalMemory, Rule::NoCalls, Rule::NoGenericAccess]);
    assert!(kernel("register_array").count("mul.rn.f32") >= 96, "one product for each state value");
    assert_eq!(kernel("register_array").count("fma"), 0, "nothing is contracted unless the source says fma");
}

#[test]
fn parameters_are_read_from_parameter_space() {
    holds("parameter_fields", &[Rule::NoLocalMemory, Rule::NoGenericAccess, Rule::AtLeast("ld.param", 1)]);
}

#[test]
fn every_panic_ends_in_a_trap() {
    for name in ["panic_index", "panic_unwrap", "panic_message"] {
        holds(name, &[Rule::AtLeast("trap", 1), Rule::NoCalls, Rule::NoLocalMemory]);
        // The handler of the probe loops for ever: a jump to an earlier label would be it.
        let kernel = kernel(name);
        let trap = kernel.instructions.iter().position(|i| i.is("trap")).unwrap();
        assert!(kernel.instructions[..trap].iter().any(|i| i.predicated && i.is("bra")), "{name}: a path of its own");
        assert!(kernel.instructions.iter().filter(|i| i.is("bra")).count() <= 2, "{name}: no loop");
    }
}

#[test]
fn the_same_source_gives_the_same_text() {
    let again = common::folder("again").join("probe.ptx");
    let builder = cuda_builder::CudaBuilder::new(common::fixture("probe")).arch("sm_80").copy_to(&again);
    builder.build().unwrap();
    assert!(std::fs::read_to_string(again).unwrap() == text(), "two builds differ");
}

#[test]
fn ptxas_assembles_the_probe_and_its_numbers_are_read() {
    let Some(ptxas) = Ptxas::find() else {
        eprintln!("SKIPPED: no ptxas here (toolchain/ptxas.sh fetches it)");
        return;
    };
    ptx();
    let path = common::folder("modules").join("probe.ptx");
    for arch in ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"] {
        let all = ptxas.assemble(&path, arch).unwrap();
        assert_eq!(all.len(), ptx().entries.len(), "{arch}");
        let of = |name: &str| all.iter().find(|r| r.kernel == name).unwrap();
        assert_eq!((of("shared_reverse").shared_bytes, of("shared_reverse").barriers), (1024, 1), "{arch}");
        let array = of("register_array");
        assert!(array.registers > 96 && array.spill_bytes == 0 && array.stack_bytes == 0, "{arch}: {array:?}");
    }
}

#[test]
fn ptxas_refusal_names_the_kernel() {
    let Some(ptxas) = Ptxas::find() else {
        eprintln!("SKIPPED: no ptxas here (toolchain/ptxas.sh fetches it)");
        return;
    };
    let path = common::folder("refused").join("probe.ptx");
    std::fs::write(&path, text().replace("mul.rn.f32", "mul.rn.f31")).unwrap();
    let error = ptxas.assemble(&path, "sm_80").unwrap_err();
    assert!(matches!(&error, BuildError::Ptxas(text) if text.contains("kernel `register_array`")), "{error}");
}
