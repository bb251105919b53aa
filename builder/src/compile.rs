//! The device crate to one bitcode file: cargo and rustc with the flags that make correct GPU code.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::{Arch, CUDA_SM_VALUES};
use crate::error::BuildError;
use crate::messages::{Artifact, Messages, Warning};
use crate::source::LibrarySource;
use crate::{Measures, tools};

const TARGET: &str = "nvptx64-nvidia-cuda";

/// What a device build of one architecture needs to know.
pub(crate) struct Request<'a> {
    pub(crate) package: &'a Path,
    pub(crate) features: &'a [String],
    pub(crate) arch: Arch,
    pub(crate) measures: Measures,
    pub(crate) library: &'a LibrarySource,
    pub(crate) linker: &'a Path,
    /// The builder's own target folder for this architecture: cargo inside cargo in one folder waits for ever.
    pub(crate) target_dir: PathBuf,
}

/// What a build says beside its bitcode (crate, dependencies and `core` in one LLVM file).
pub(crate) struct Compiled {
    /// Every source file and manifest it was made from, the standard library's not counted.
    pub(crate) sources: BTreeSet<PathBuf>,
    /// rustc's warnings, rendered.
    pub(crate) warnings: BTreeSet<Warning>,
}

/// Compiles the bitcode "linker" into `folder` unless it is there.
pub(crate) fn build_linker(folder: &Path) -> Result<PathBuf, BuildError> {
    const SOURCE: &str = include_str!("bin/copy_linker.rs");
    let (source, program) = (folder.join("copy_linker.rs"), folder.join("copy_linker"));
    if program.is_file() && std::fs::read_to_string(&source).is_ok_and(|text| text == SOURCE) {
        return Ok(program);
    }
    std::fs::create_dir_all(folder).map_err(|e| BuildError::io("create", folder, e))?;
    std::fs::write(&source, SOURCE).map_err(|e| BuildError::io("write", &source, e))?;
    let mut rustc = tools::rustc();
    rustc.args(["--edition=2024", "-Copt-level=0", "-o"]).arg(&program).arg(&source);
    let output = tools::output(&mut rustc)?;
    if output.status.success() {
        return Ok(program);
    }
    Err(BuildError::Compile {
        package: source.display().to_string(),
        arch: "this machine".into(),
        diagnostics: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs the device build; also returns the bitcode, read before another process may build in the same folder.
pub(crate) fn compile(request: &Request<'_>) -> Result<(Compiled, Vec<u8>), BuildError> {
    let folder = &request.target_dir;
    std::fs::create_dir_all(folder).map_err(|e| BuildError::io("create", folder, e))?;
    let lock_file = folder.join("builder.lock");
    let lock = std::fs::File::create(&lock_file).map_err(|e| BuildError::io("create", &lock_file, e))?;
    lock.lock().map_err(|e| BuildError::io("lock", &lock_file, e))?; // released when it goes out of scope

    let (mut messages, mut artifact) = run_cargo(request)?;
    let key_file = artifact.path.with_extension("key");
    let key = key(request);
    let made_by_us = std::fs::read_to_string(&key_file).is_ok_and(|made_by| made_by == key);
    if artifact.fresh && !made_by_us {
        remove_output(&artifact.path)?;
        (messages, artifact) = run_cargo(request)?;
    }
    std::fs::write(&key_file, key).map_err(|e| BuildError::io("write", &key_file, e))?;

    let sources = sources(&artifact.path.with_extension("d"))?;
    let bitcode = std::fs::read(&artifact.path).map_err(|e| BuildError::io("read", &artifact.path, e))?;
    Ok((Compiled { sources, warnings: messages.warnings() }, bitcode))
}

fn run_cargo(request: &Request<'_>) -> Result<(Messages, Artifact), BuildError> {
    let output = tools::output(&mut command(request))?;
    let messages = Messages::parse(&output.stdout);
    let failed = |diagnostics: String| BuildError::Compile {
        package: request.package.display().to_string(),
        arch: request.arch.name.to_owned(),
        diagnostics,
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let rendered = messages.errors();
        return Err(failed(if rendered.is_empty() { stderr.into_owned() } else { rendered }));
    }
    let artifact = messages.artifact(&request.package.join("Cargo.toml"));
    let artifact = artifact.ok_or_else(|| failed(format!("cargo named no output file:\n{stderr}")))?;
    Ok((messages, artifact))
}

/// What an output file depends on beside its sources. Cargo remembers each combination apart but gives all of them one
/// output file, so that it takes another combination's output for fresh.
fn key(request: &Request<'_>) -> String {
    format!("{}\n{}\n{}\n", request.package.display(), request.features.join(","), flags(request).join(" "))
}

/// Removes an output file with its twin in `deps`, so that cargo makes it anew.
fn remove_output(output: &Path) -> Result<(), BuildError> {
    let name = output.file_name().unwrap_or_default();
    let twin = output.with_file_name("deps").join(name);
    for file in [output, &twin] {
        match std::fs::remove_file(file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(BuildError::io("remove", file, e)),
            _ => {}
        }
    }
    Ok(())
}

fn command(request: &Request<'_>) -> Command {
    let mut cargo = tools::cargo();
    cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--release", "--message-format", "json"]);
    cargo.args(["--target", TARGET, "-Zbuild-std=core", "--manifest-path"]).arg(request.package.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&request.target_dir);
    // One crate, one object, no unwinding; host-side helpers (procedural macros) only have to be quick to build.
    for setting in [
        "profile.release.opt-level=3",
        "profile.release.lto=\"fat\"",
        "profile.release.codegen-units=1",
        "profile.release.panic=\"abort\"",
        "profile.release.debug=0",
        "profile.release.overflow-checks=false",
        "profile.release.debug-assertions=false",
        "profile.release.incremental=false",
        "profile.release.build-override.opt-level=0",
        "profile.release.build-override.debug=0",
    ] {
        cargo.args(["--config", setting]);
    }
    if !request.features.is_empty() {
        cargo.args(["--features", &request.features.join(",")]);
    }
    cargo.current_dir(request.package);
    cargo.env("RUSTC_BOOTSTRAP", "1"); // build-std, abi_ptx and the flags below, on the pinned stable compiler
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(request).join("\x1f"));
    cargo.env("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_LINKER", request.linker);
    request.library.apply(&mut cargo);
    cargo
}

/// Flags of all crates, `core` included.
fn flags(request: &Request<'_>) -> Vec<String> {
    let mut flags = vec![format!("-Ctarget-cpu={}", request.arch.name)];
    // A panic is a trap, straight away: no handler to inline, no message to format in local memory. The handler that a
    // no_std crate must name is never called then.
    flags.extend(["-Zunstable-options", "-Cpanic=immediate-abort"].map(String::from));
    if request.measures.no_jump_threading {
        flags.push("-Zmir-enable-passes=-JumpThreading".into());
    }
    if request.measures.no_rustc_llvm_passes {
        flags.push("-Cno-prepopulate-passes".into());
    }
    let values = CUDA_SM_VALUES.map(|v| format!("{v:?}")).join(",");
    flags.push(format!("--check-cfg=cfg(cuda_sm,values({values}))"));
    flags.extend(request.arch.features.iter().map(|sm| format!("--cfg=cuda_sm={sm:?}")));
    flags
}

/// Files named by cargo's dependency file, and the manifests above them.
fn sources(dependency_file: &Path) -> Result<BTreeSet<PathBuf>, BuildError> {
    let text = std::fs::read_to_string(dependency_file).map_err(|e| BuildError::io("read", dependency_file, e))?;
    let mut files: BTreeSet<PathBuf> = text.lines().flat_map(dependencies).collect();
    let manifests: BTreeSet<PathBuf> = files.iter().filter_map(|f| manifest_above(f)).collect();
    files.extend(manifests);
    Ok(files)
}

/// The right side of a `target: file file` line; spaces inside names are escaped with a backslash.
fn dependencies(line: &str) -> Vec<PathBuf> {
    let Some((_, list)) = line.split_once(": ") else { return Vec::new() };
    let unescaped = list.replace("\\ ", "\0");
    unescaped.split_whitespace().map(|name| PathBuf::from(name.replace('\0', " "))).collect()
}

fn manifest_above(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.is_file())
}

/// Whether an environment variable of the outer cargo would leak into the device build and change it.
pub(crate) fn is_foreign(name: &OsStr) -> bool {
    const EXACT: [&str; 12] = [
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTC",
        "RUSTDOC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_LINKER",
        "TARGET",
        "HOST",
        "OUT_DIR",
        "PROFILE",
        "CARGO",
    ];
    const PREFIX: [&str; 10] = [
        "CARGO_PKG_",
        "CARGO_CFG_",
        "CARGO_FEATURE_",
        "CARGO_PROFILE_",
        "CARGO_BUILD_",
        "CARGO_TARGET_",
        "CARGO_MANIFEST_",
        "CARGO_ENCODED_",
        "CARGO_CRATE_",
        "CARGO_BIN_",
    ];
    let name = name.to_string_lossy();
    EXACT.contains(&name.as_ref()) || PREFIX.iter().any(|p| name.starts_with(p))
}

/// Removes them from a command's environment.
pub(crate) fn clean(command: &mut Command) {
    let names: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).filter(|name| is_foreign(name)).collect();
    for name in names {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_lines_keep_spaces_in_names() {
        let found = dependencies("/t/probe.ptx: /a/src/lib.rs /b/my\\ crate/src/lib.rs");
        assert_eq!(found, [PathBuf::from("/a/src/lib.rs"), PathBuf::from("/b/my crate/src/lib.rs")]);
    }

    #[test]
    fn the_outer_builds_settings_do_not_leak_in() {
        for name in ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "CARGO_FEATURE_X"] {
            assert!(is_foreign(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "HOME", "CARGO_HOME", "CARGO_NET_OFFLINE", "RUSTUP_TOOLCHAIN", "CARGO_MAKEFLAGS"] {
            assert!(!is_foreign(OsStr::new(name)), "{name}");
        }
    }
}
