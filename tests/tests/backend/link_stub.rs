//! The stub that `cust` is linked against satisfies `-lcuda` with every linker, and adds nothing to a program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const STUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../toolchain/cuda/lib64");
const SOURCE: &str = "#[link(name = \"cuda\")] unsafe extern \"C\" {} fn main() {}";

/// Links a program with `-lcuda` from `stub`; the linker's words are the error.
fn link(folder: &Path, stub: &Path, flags: &[&str]) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("main.rs"), folder.join("program"));
    std::fs::write(&source, SOURCE).unwrap();
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(env!("CARGO_MANIFEST_DIR")); // so that rustup takes the workspace's toolchain
    let output = command.arg(&source).arg("-o").arg(&program).arg("-L").arg(stub).args(flags).output().unwrap();
    if output.status.success() { Ok(program) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_linker_takes_the_stub() {
    let folder = Folder::new("link");
    // The first is rust-lld on x86-64 and GNU ld elsewhere, the second the system's linker everywhere.
    let system: &[&str] = if cfg!(target_arch = "x86_64") { &["-Clinker-features=-lld"] } else { &[] };
    for flags in [&[], system] {
        let program = link(&folder.0, Path::new(STUB), flags).unwrap_or_else(|e| panic!("{flags:?}: {e}"));
        assert!(Command::new(&program).status().unwrap().success(), "{flags:?}: does not start");
        let bytes = std::fs::read(&program).unwrap();
        assert!(!bytes.windows(10).any(|w| w == b"libcuda.so"), "{flags:?}: names libcuda.so");
    }
}

#[test]
fn a_linker_refuses_a_stub_that_is_no_script() {
    let folder = Folder::new("link-control");
    std::fs::write(folder.0.join("libcuda.so"), "INPUT(-lno_such_library_of_varve)\n").unwrap();
    let words = link(&folder.0, &folder.0, &[]).expect_err("the stub names a library that is not there");
    assert!(words.contains("no_such_library_of_varve"), "{words}");
}
