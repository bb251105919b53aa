//! What the primitives became: the embedded PTX of the probes.

use std::sync::OnceLock;

use cuda_builder::rules::{Entry, Ptx, Rule};
use varve::backend::EMBEDDED;
use varve_gpu::probe::KERNELS;

/// The embedded modules, taken apart once.
fn parsed() -> &'static [Ptx] {
    static ALL: OnceLock<Vec<Ptx>> = OnceLock::new();
    ALL.get_or_init(|| EMBEDDED.iter().map(|module| Ptx::parse(module.ptx)).collect())
}

/// The modules that can hold a kernel of `sm`, and that kernel in each.
fn everywhere(symbol: &str, check: impl Fn(u32, &Entry)) {
    let info = KERNELS.iter().find(|k| k.symbol == symbol).expect("a probe");
    for (module, ptx) in EMBEDDED.iter().zip(parsed()).filter(|(m, _)| m.sm >= info.sm) {
        check(module.sm, ptx.entry(symbol).unwrap_or_else(|| panic!("{symbol} is not in {}", module.file)));
    }
}

fn holds(rule: Rule) -> impl Fn(u32, &Entry) {
    move |sm, entry| rule.check(entry).unwrap_or_else(|e| panic!("sm_{sm}: {e}"))
}

#[test]
fn every_module_holds_the_probes_it_can_hold() {
    for module in &EMBEDDED {
        let ptx = Ptx::parse(module.ptx);
        for kernel in KERNELS {
            assert_eq!(
                ptx.entry(kernel.symbol).is_some(),
                kernel.sm <= module.sm,
                "{} in {}",
                kernel.symbol,
                module.file
            );
        }
    }
}

#[test]
fn arithmetic_is_rounded_and_keeps_subnormals() {
    for kernel in KERNELS {
        everywhere(kernel.symbol, |sm, entry| {
            for i in &entry.instructions {
                assert!(!i.has("approx") && !i.has("ftz"), "{}, sm_{sm}: {} {}", entry.name, i.opcode, i.operands);
            }
        });
    }
    for (symbol, opcode) in [
        ("probe_float_unary", "sqrt.rn.f32"),
        ("probe_float_unary", "div.rn.f32"),
        ("probe_float_binary", "div.rn.f32"),
        ("probe_float_binary", "fma.rn.f32"),
        ("probe_float_binary", "mul.rn.f32"),
    ] {
        everywhere(symbol, holds(Rule::AtLeast(opcode, 1)));
    }
    // fma(a, b, c) is one; a * b + c stays two.
    everywhere("probe_float_binary", |sm, entry| assert_eq!(entry.count("fma.rn.f32"), 1, "sm_{sm}"));
}

#[test]
fn barriers_are_as_many_as_in_the_source() {
    everywhere("probe_barrier_branch", holds(Rule::Barriers(2)));
    everywhere("probe_shared_reverse", holds(Rule::Barriers(1)));
    everywhere("probe_message_ticket", holds(Rule::Barriers(2)));
    everywhere("probe_shuffle_half", |sm, entry| {
        assert_eq!(entry.count("shfl.sync.bfly"), 1, "sm_{sm}");
        let behind = entry.behind_branch("shfl.sync.bfly");
        assert!(behind.is_none(), "sm_{sm}: the shuffle stands behind a branch: {behind:?}");
    });
}

#[test]
fn memory_accesses_are_as_wide_as_asked_and_name_their_space() {
    for symbol in [
        "probe_shared_reverse",
        "probe_shared_vector",
        "probe_shared_dynamic",
        "probe_global_scalar",
        "probe_global_vector",
        "probe_global_ordered",
    ] {
        everywhere(symbol, holds(Rule::NoGenericAccess));
        everywhere(symbol, holds(Rule::NoLocalMemory));
    }
    everywhere("probe_global_vector", |sm, entry| {
        let count = |opcode| entry.count(opcode);
        assert_eq!(count("ld.global.nc.v4.b32"), 1, "sm_{sm}");
        assert_eq!(count("ld.global.nc.v2.b32"), 1, "sm_{sm}");
        assert_eq!(count("ld.global.v4.b32"), 1, "sm_{sm}");
        assert_eq!(count("ld.global.v2.b32"), 1, "sm_{sm}");
        assert_eq!(count("prefetch.global.L2"), 1, "sm_{sm}");
    });
    // In the order of the source, the one that nothing needs too.
    everywhere("probe_global_ordered", |sm, entry| {
        let loads = entry.instructions.iter().filter(|i| i.is("ld.global.nc"));
        let forms: Vec<_> = loads.map(|i| i.opcode.trim_start_matches("ld.global.nc.")).collect();
        assert_eq!(forms, ["b32", "u16", "u16", "v2.b32", "v4.b32", "u8", "b32"], "sm_{sm}");
    });
    everywhere("probe_shared_vector", |sm, entry| {
        assert_eq!((entry.wide("st", "shared"), entry.wide("ld", "shared")), (1, 1), "sm_{sm}");
    });
}

#[test]
fn shared_addresses_need_no_conversion() {
    for module in &EMBEDDED {
        assert!(!module.ptx.contains("cvta.to.shared"), "{}", module.file);
    }
    everywhere("probe_ldmatrix", holds(Rule::AtLeast("ldmatrix.sync.aligned.m8n8.x4", 1)));
    everywhere("probe_copy_pipeline", holds(Rule::AtLeast("cp.async.cg.shared.global", 3)));
    for symbol in ["probe_ldmatrix", "probe_copy_pipeline", "probe_copy_tail"] {
        everywhere(symbol, holds(Rule::Never("cvta.shared")));
    }
}

/// As many products as in the source: none was copied or merged. (The chain has 8 steps of 2, twice.)
#[test]
fn warpgroup_products_are_as_many_as_in_the_source() {
    for (symbol, products, waits) in [
        ("probe_wgmma_n32", 2, 1),
        ("probe_wgmma_n64", 4, 1),
        ("probe_wgmma_n128", 4, 1),
        ("probe_wgmma_trans_n64", 2, 1),
        ("probe_wgmma_trans_n128", 2, 1),
        ("probe_wgmma_chain", 32, 2),
    ] {
        everywhere(symbol, |sm, entry| {
            let count = |opcode| entry.count(opcode);
            assert_eq!(count("wgmma.mma_async.sync.aligned"), products, "{symbol}, sm_{sm}");
            assert_eq!(count("wgmma.fence.sync.aligned"), waits, "{symbol}, sm_{sm}");
            assert_eq!(count("wgmma.commit_group.sync.aligned"), waits, "{symbol}, sm_{sm}");
            assert_eq!(count("wgmma.wait_group.sync.aligned"), waits, "{symbol}, sm_{sm}");
            assert_eq!(count("fence.proxy.async"), 1, "{symbol}, sm_{sm}");
        });
    }
}

#[test]
fn ordered_atomics_carry_their_order() {
    for symbol in ["probe_atomic_global", "probe_atomic_shared"] {
        everywhere(symbol, |sm, entry| {
            let ordered = |word| entry.instructions.iter().filter(|i| i.is("atom") && i.has(word)).count();
            assert_eq!((ordered("acq_rel"), ordered("relaxed")), (8, 8), "{symbol}, sm_{sm}");
        });
    }
    everywhere("probe_message_ticket", holds(Rule::AtLeast("atom.acq_rel.gpu.add.u32", 1)));
    everywhere("probe_message_flag", holds(Rule::AtLeast("st.release.gpu.u32", 1)));
    everywhere("probe_message_flag", holds(Rule::AtLeast("ld.acquire.gpu.u32", 1)));
}

#[test]
fn a_panic_is_a_trap() {
    for module in &EMBEDDED {
        // The functions of core that panic are not inlined; their bodies are nothing but the trap.
        assert!(module.ptx.contains("trap;"), "{}", module.file);
    }
    for symbol in ["probe_panic_index", "probe_panic_unwrap"] {
        everywhere(symbol, |sm, entry| {
            let leaves = entry.count("trap") + entry.count("call");
            assert!(leaves > 0, "{symbol}, sm_{sm}: no way to a trap");
        });
    }
}
