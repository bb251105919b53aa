//! `cargo run -p cuda_builder --example build_ptx -- CRATE OUT ARCH..`: PTX of a kernel crate, without a build script.
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, arguments): (Vec<_>, Vec<_>) = arguments.into_iter().partition(|a| a.starts_with("--"));
    let [package, out, archs @ ..] = &arguments[..] else {
        eprintln!(
            "usage: build_ptx [--ir] CRATE OUT_FOLDER ARCH..   for example: build_ptx gpu target/ptx sm_80 sm_90a"
        );
        return ExitCode::from(2);
    };
    let mut builder = cuda_builder::CudaBuilder::new(package).emit_llvm_ir(options.iter().any(|o| o == "--ir"));
    for arch in archs {
        builder = builder.module(arch, Path::new(out).join(format!("{arch}.ptx")));
    }
    let made = std::fs::create_dir_all(out).map_err(|e| e.to_string());
    match made.and_then(|()| builder.build().map_err(|e| e.to_string())) {
        Ok(modules) => {
            for module in modules {
                println!("{}: {} kernels: {}", module.ptx.display(), module.kernels.len(), module.kernels.join(" "));
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
