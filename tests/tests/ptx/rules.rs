//! Rules that the text of every kernel keeps. `builder/tests` has their negative controls.

use std::path::Path;

use cuda_builder::rules::{Ptx, Rule};
use varve::backend::EMBEDDED;
use varve_gpu::catalog;

use super::each_kernel;

/// The one kernel that must index a table of its own by a run-time value: the index is what it tests.
const INDEXES_AT_RUN_TIME: &str = "probe_panic_index";

/// Kernels that promise no bits, before whose products the card's own exponential is exact enough.
const APPROXIMATE: [&str; 6] = [
    "delta_rec_tc32_prep",
    "delta_rec_tc32_fast_prep",
    "delta_rec_wg32_prep",
    "delta_rec_wg32_fast_prep",
    "qsa_attend_prompt_f16",
    "qsa_attend_prompt_i8",
];

/// Of every kernel: registers only, no approximate instruction and no flushing of subnormals (the emulator could not
/// give the same bits), but for the exponential of kernels that promise none.
#[test]
fn every_kernel_stays_in_registers_and_rounds() {
    each_kernel(true, |_, code, module| {
        if code.name != INDEXES_AT_RUN_TIME {
            Rule::NoLocalMemory.check(code).unwrap_or_else(|broken| panic!("{module}: {broken}"));
        }
        for i in &code.instructions {
            let known = i.is("ex2") && APPROXIMATE.contains(&code.name.as_str());
            assert!(known || !i.has("approx") && !i.has("ftz"), "{module}: {}: `{i}`", code.name);
        }
    });
}

/// Of every kernel that serves: every access names its state space (a generic one is slower and could alias shared
/// memory; only the atomics, which probes use, are generic by design), and everything is inlined.
#[test]
fn kernels_that_serve_name_their_memory_and_call_nothing() {
    each_kernel(false, |_, code, module| {
        for rule in [Rule::NoGenericAccess, Rule::NoCalls] {
            rule.check(code).unwrap_or_else(|broken| panic!("{module}: {broken}"));
        }
    });
}

/// Barriers of `chunk_walk::walk`: one that a stage is full, and two that it is empty (of the chunk before in it, and after the
/// last chunk).
const OF_A_WALK: usize = 3;
/// Barriers of `rec_chunk32_skew::meet` at two places more, less that of `Together` in the body.
const OF_SKEWED_HEADS: usize = 1;
/// Barriers of `fused_vectors::take`, which kernels of more columns than are quantized in place call.
const OF_TAKEN_VECTORS: usize = 1;

/// Barriers of the ring of `mma_tile::body`, whose loop is unrolled by its stages: one a stage.
const OF_A_RING: [(&str, usize); 2] = [("product_mma.rs", 4), ("product_mma_narrow.rs", 8)];
/// Barriers of `scores_multi::share_queries`, which `scatter` calls.
const OF_SHARED_QUERIES: usize = 1;

/// A barrier too many was copied into a branch, one too few was merged with another (T01, T02). Barriers stand in the
/// kernel's own file, outside loops that unroll, or in the file whose `body` it is; those of the ring of stages are where a
/// scan walks it ([`OF_A_WALK`]), and those of `fused` in fused.rs, and where it takes vectors ([`OF_TAKEN_VECTORS`]).
#[test]
fn kernels_that_serve_have_the_barriers_of_their_source() {
    let read = |file: &Path| std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let barriers = |source: &str| {
        let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.map(|line| line.matches("sync_threads()").count() + line.matches("sync_named(").count()).sum::<usize>()
    };
    each_kernel(false, |row, code, module| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(row.kernel.file);
        let source = read(&file);
        let body_of = |line: &str| {
            let (from, what) = line.strip_prefix("use super::")?.split_once("::")?;
            let names = what.trim_end_matches(';').trim_matches(['{', '}']);
            names.split(", ").any(|name| name == "body").then(|| from.to_owned())
        };
        let borrowed = source.lines().filter_map(body_of).map(|from| read(&file.with_file_name(from + ".rs")));
        let mut want = barriers(&source) + borrowed.map(|source| barriers(&source)).sum::<usize>();
        if source.contains("walk::<") {
            want += OF_A_WALK;
        }
        if source.contains("use super::fused_instances::instances;") && !file.ends_with("fused.rs") {
            want += barriers(&read(&file.with_file_name("fused.rs")));
        }
        if let Some((_, stages)) = OF_A_RING.iter().find(|(of_tiles, _)| file.ends_with(of_tiles)) {
            want += stages - 1; // the body has one of them
        }
        if file.ends_with("scores_scatter.rs") {
            want += OF_SHARED_QUERIES;
        }
        if ["fused_c4.rs", "fused_c8.rs"].iter().any(|of_many| file.ends_with(of_many)) {
            want += OF_TAKEN_VECTORS;
        }
        if file.ends_with("rec_chunk32_skew.rs") {
            want += OF_SKEWED_HEADS;
        }
        Rule::Barriers(want).check(code).unwrap_or_else(|broken| panic!("{module}: {broken}"));
    });
}

/// Where 16-byte accesses carry a kernel's speed: at least so many in its code.
const WIDE: [(&str, &str, &str, usize); 7] = [
    ("delta.rec/cols", "ld", "shared", 16),
    ("delta.rec/keyhead", "ld", "shared", 16),
    ("delta.rec/lanes", "ld", "shared", 48),
    ("delta.rec/window", "ld", "shared", 32),
    ("delta.commit/window", "ld", "shared", 8),
    ("delta.out_norm/block", "ld", "shared", 1),
    ("delta.out_norm/warp", "ld", "global", 1),
];

#[test]
fn wide_accesses_stay_wide() {
    let rows = catalog::entries();
    for (name, ..) in WIDE {
        assert!(rows.iter().any(|row| row.name == name), "no variant {name}");
    }
    each_kernel(false, |row, code, module| {
        for (_, operation, space, count) in WIDE.iter().filter(|(name, ..)| *name == row.name) {
            let rule = Rule::Wide(operation, space, *count);
            rule.check(code).unwrap_or_else(|broken| panic!("{module}: {broken}"));
        }
    });
}

/// Forms on tensor cores multiply there: for a warp and chunk as many products as the tiles that are not 0 take.
#[test]
fn tensor_core_forms_multiply_on_tensor_cores() {
    let products = [
        ("delta_rec_tc32_scan", "mma.sync", 324),
        ("delta_rec_tc32_fast_scan", "mma.sync", 114),
        ("delta_rec_wg32_scan", "wgmma.mma_async", 42),
        ("delta_rec_wg32_fast_scan", "wgmma.mma_async", 16),
        ("delta_rec_wg32_split_ends", "wgmma.mma_async", 42),
        ("delta_rec_wg32_split_outputs", "wgmma.mma_async", 42),
    ];
    let mut seen = 0;
    each_kernel(false, |_, code, module| {
        for (_, product, count) in products.iter().filter(|(name, ..)| *name == code.name) {
            assert_eq!(code.count(product), *count, "{module}: {}", code.name);
            seen += 1;
        }
    });
    assert_eq!(seen, 2 * 2 + 4, "mma in two modules, wgmma in one");
}

/// Sums, products and their fusions of f32 name their rounding: the assembler may fuse those that do not.
#[test]
fn quantized_products_leave_nothing_to_fuse() {
    let (mut seen, mut sums) = (0, 0);
    each_kernel(false, |row, code, module| {
        if !row.name.starts_with("mmvq.") {
            return;
        }
        for i in code.instructions.iter().filter(|i| i.has("f32")) {
            let sum = ["add", "sub", "mul", "fma"].iter().any(|op| i.is(op));
            assert!(!sum || i.has("rn"), "{module}: {}: `{i}`", code.name);
            sums += usize::from(sum);
        }
        seen += 1;
    });
    assert!(seen > 100 && sums > seen, "{seen} kernels, {sums} operations");
}

/// Weight loads that come together in `hoist`: the longest run of loads with no dot between them holds those of
/// four chunks of each row.
#[test]
fn hoisted_loads_come_before_the_dots() {
    let mut seen = 0;
    each_kernel(false, |row, code, module| {
        let Some(form) = row.name.strip_prefix("mmvq.product/").filter(|n| n.starts_with("hoist")) else {
            return;
        };
        let of_four = [("q8_0", 20), ("q4_k", 12), ("q5_k", 20), ("q6_k", 24), ("iq4_xs", 12)];
        let (_, loads) = of_four.iter().find(|(format, _)| code.name.contains(format)).unwrap();
        let rows = if form.ends_with("_r2") { 2 } else { 1 };
        let (mut run, mut longest) = (0, 0);
        for i in &code.instructions {
            run = if i.is("dp4a") { 0 } else { run + usize::from(i.is("ld.global.nc")) };
            longest = longest.max(run);
        }
        assert!(longest >= rows * loads, "{module}: {}: {longest} loads together", code.name);
        seen += 1;
    });
    assert!(seen > 50, "{seen} kernels");
}

#[test]
fn launch_bounds_are_the_sources() {
    each_kernel(true, |row, code, module| {
        let bounds = row.kernel.bounds;
        assert_eq!(code.max_threads, Some(bounds.threads), "{module}: {}", code.name);
        assert_eq!(code.min_blocks.unwrap_or(0), bounds.min_blocks, "{module}: {}", code.name);
    });
}

#[test]
fn clusters_are_the_sources() {
    let mut seen = 0;
    for module in &EMBEDDED {
        for row in catalog::entries().iter().filter(|row| row.kernel.sm <= module.sm) {
            let (_, from) =
                module.ptx.split_once(&format!(".entry {}(", row.kernel.symbol)).expect("it is in the module");
            let head = from.split_once("\n{").expect("a body").0;
            let of = |blocks: u32| format!(".reqnctapercluster {blocks}, 1, 1");
            assert_eq!(head.contains(".reqnctapercluster"), row.kernel.cluster > 1, "{}", row.kernel.symbol);
            if row.kernel.cluster > 1 {
                assert!(head.contains(&of(row.kernel.cluster)), "{}: {head}", row.kernel.symbol);
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 5, "both scans of wg32, those of wg32_split, qsa.topk/cluster");
}

/// PTX 9.0 is what a CUDA 13.0 driver takes; the modules ask for less, so that older ones do too.
#[test]
fn modules_hold_the_catalogue_and_nothing_else_for_drivers_of_the_time() {
    for (module, head) in EMBEDDED.iter().zip([("7.8", "sm_75"), ("7.8", "sm_80"), ("8.0", "sm_90a")]) {
        let ptx = Ptx::parse(module.ptx);
        assert_eq!((ptx.version.as_str(), ptx.target.as_str()), head, "{}", module.file);
        let rows = catalog::entries();
        for entry in &ptx.entries {
            let known = rows.iter().any(|row| row.kernel.symbol == entry.name && row.kernel.sm <= module.sm);
            assert!(known, "{}: {} has no row in gpu/src/catalog.rs", module.file, entry.name);
        }
    }
}
