//! What the builder says when it cannot build.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use cuda_builder::{BuildError, CudaBuilder, SourceRoutes};

fn broken(feature: &str) -> BuildError {
    let path = common::folder("broken").join(format!("{feature}.ptx"));
    CudaBuilder::new(common::fixture("broken")).feature(feature).arch("sm_80").copy_to(path).build().unwrap_err()
}

#[test]
fn an_unknown_architecture_is_refused_with_the_list() {
    for name in ["sm_999", "sm_60", "sm_90b", "compute_80", ""] {
        let error = CudaBuilder::new("nowhere").arch(name).copy_to("nowhere.ptx").build().unwrap_err();
        assert!(matches!(&error, BuildError::UnknownArch { name: n, .. } if n == name), "{error}");
        let text = error.to_string();
        for known in ["sm_75", "sm_80", "sm_90a", "sm_120"] {
            assert!(text.contains(known), "{text}");
        }
    }
}

#[test]
fn a_build_without_a_place_for_its_ptx_is_refused() {
    assert!(matches!(CudaBuilder::new("nowhere").build(), Err(BuildError::Usage(_))));
    assert!(matches!(CudaBuilder::new("nowhere").arch("sm_80").build(), Err(BuildError::Usage(_))));
    let twice = CudaBuilder::new("nowhere").module("sm_80", "a").module("sm_80", "b").build();
    assert!(matches!(twice, Err(BuildError::Usage(_))));
}

#[test]
fn a_device_error_is_rustcs_own_with_file_and_line() {
    let error = broken("wrong_type");
    assert!(matches!(&error, BuildError::Compile { arch, .. } if arch == "sm_80"), "{error}");
    let text = error.to_string();
    assert!(text.contains("error[E0308]: mismatched types"), "{text}");
    assert!(text.contains("--> src/kernel.rs:6:18"), "{text}");
    assert!(text.contains("let n: u32 = 1.5f32;"), "{text}");
}

#[test]
fn impossible_launch_bounds_name_the_kernel() {
    let error = broken("no_threads");
    assert!(matches!(&error, BuildError::Bounds { kernel, .. } if kernel == "fine"), "{error}");
    assert!(error.to_string().contains("0 threads a block"), "{error}");
    let error = broken("no_kernel");
    assert!(matches!(&error, BuildError::Bounds { kernel, .. } if kernel == "lost"), "{error}");
}

/// Features and flags share one output file: the builder must not hand out another combination's.
#[test]
fn builds_with_other_features_do_not_get_mixed_up() {
    let path = common::folder("features").join("fine.ptx");
    let plain = || CudaBuilder::new(common::fixture("broken")).arch("sm_80").copy_to(&path);
    for builder in [plain(), plain().feature("unused"), plain(), plain().feature("unused")] {
        let built = builder.build().unwrap();
        assert_eq!(built[0].kernels, ["fine"]);
    }
    assert!(matches!(broken("no_threads"), BuildError::Bounds { .. }), "after a build that was fine");
    assert_eq!(plain().build().unwrap()[0].kernels, ["fine"]);
}

#[test]
fn a_machine_without_library_source_is_told_what_to_do() {
    let closed = SourceRoutes { sysroot: false, rustup: false, debian: false };
    let path = common::folder("no_source").join("fine.ptx");
    let built = CudaBuilder::new(common::fixture("broken")).copy_to(path).source_routes(closed).build();
    let text = built.unwrap_err().to_string();
    for line in ["rustup component add rust-src", "apt-get install rust-src", "rustc 1."] {
        assert!(text.contains(line), "{text}");
    }
}
