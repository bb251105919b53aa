//! Builds the kernels for the three module architectures; `src/modules.rs` embeds what comes out.
//!
//! On docs.rs (`DOCS_RS` is set there) nothing can be fetched and nothing will run: the modules are empty then.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuda_builder::CudaBuilder;

const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_80", "sm_90a"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        eprintln!("error: no OUT_DIR: cargo runs this program");
        return ExitCode::FAILURE;
    };
    let ptx = |arch: &str| out.join(format!("varve_{arch}.ptx"));
    let done = if std::env::var_os("DOCS_RS").is_some() {
        ARCHITECTURES.iter().try_for_each(|arch| write_empty(&ptx(arch)))
    } else {
        let builder = ARCHITECTURES.iter().fold(CudaBuilder::new("../gpu"), |b, arch| b.module(arch, ptx(arch)));
        builder.build().map(|_| ()).map_err(|e| e.to_string())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn write_empty(path: &Path) -> Result<(), String> {
    std::fs::write(path, "").map_err(|e| format!("cannot write {}: {e}", path.display()))
}
