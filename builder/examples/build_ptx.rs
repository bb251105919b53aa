//! `cargo run -p cuda_builder --example build_ptx -- CRATE OUT ARCH..`: PTX of a kernel crate, without a build script.
//!
//! `--ir` also writes LLVM's text before and after O3; `--debian-source` takes the core library from Debian's package
//! even where the compiler has its own, to try that way.
use std::path::Path;
use std::process::ExitCode;

use cuda_builder::{CudaBuilder, Module, SourceRoutes};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, arguments): (Vec<_>, Vec<_>) = arguments.into_iter().partition(|a| a.starts_with("--"));
    let [package, out, archs @ ..] = &arguments[..] else {
        eprintln!(
            "usage: build_ptx [--ir] [--debian-source] CRATE OUT_FOLDER ARCH..\nfor example: build_ptx gpu target/ptx sm_80 sm_90a"
        );
        return ExitCode::from(2);
    };
    let chosen = |name: &str| options.iter().any(|option| option == name);
    let mut builder = CudaBuilder::new(package).emit_llvm_ir(chosen("--ir"));
    if chosen("--debian-source") {
        builder = builder.source_routes(SourceRoutes { sysroot: false, rustup: false, debian: true });
    }
    for arch in archs {
        builder = builder.module(arch, Path::new(out).join(format!("{arch}.ptx")));
    }
    let made = std::fs::create_dir_all(out).map_err(|e| e.to_string());
    match made.and_then(|()| builder.build().map_err(|e| e.to_string())) {
        Ok(modules) => {
            modules.iter().for_each(show);
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn show(module: &Module) {
    println!("{}: {} kernels", module.ptx.display(), module.kernels.len());
    let Some(resources) = &module.resources else {
        println!("  {}\n  (no ptxas: toolchain/ptxas.sh fetches it)", module.kernels.join("\n  "));
        return;
    };
    for r in resources {
        println!(
            "  {:<40} {:>3} registers {:>5} B spills {:>5} B stack {:>6} B shared {:>2} barriers",
            r.kernel, r.registers, r.spill_bytes, r.stack_bytes, r.shared_bytes, r.barriers
        );
    }
}
