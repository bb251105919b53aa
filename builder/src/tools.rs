//! Programs and folders around the build: cargo, rustc, the sysroot, the target folder, messages to the user.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::compile::clean;
use crate::error::BuildError;

/// The cargo that runs us, or the one on the path, with none of the outer build's settings.
pub(crate) fn cargo() -> Command {
    tool("CARGO", "cargo")
}

/// The rustc that cargo uses, or the one on the path.
pub(crate) fn rustc() -> Command {
    tool("RUSTC", "rustc")
}

fn tool(variable: &str, name: &str) -> Command {
    let mut command = Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()));
    clean(&mut command);
    command
}

/// Runs a program to its end; what it prints is in the result.
pub(crate) fn output(command: &mut Command) -> Result<Output, BuildError> {
    command
        .output()
        .map_err(|source| BuildError::Spawn { program: command.get_program().to_string_lossy().into_owned(), source })
}

/// Runs a program and returns its trimmed standard output if it succeeded.
pub(crate) fn text(command: &mut Command) -> Result<Option<String>, BuildError> {
    let output = output(command)?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// rustc's sysroot as seen from `folder`, where a rust-toolchain.toml may choose the toolchain.
pub(crate) fn sysroot(folder: &Path) -> Result<PathBuf, BuildError> {
    let found = text(rustc().args(["--print", "sysroot"]).current_dir(folder))?;
    found.map(PathBuf::from).ok_or_else(|| BuildError::Usage("`rustc --print sysroot` failed".into()))
}

/// The release of the rustc in use, as in `1.95.0`.
pub(crate) fn rustc_release(folder: &Path) -> Result<String, BuildError> {
    let all = text(rustc().arg("-vV").current_dir(folder))?.unwrap_or_default();
    let release = all.lines().find_map(|line| line.strip_prefix("release: ")).map(str::to_owned);
    release.ok_or_else(|| BuildError::Usage("`rustc -vV` names no release".into()))
}

/// Runs a program for its effect; the error is the end of what it printed.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = output(command).map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    Err(format!("{}: {}", output.status, lines[lines.len().saturating_sub(3)..].join(" | ")))
}

/// The workspace's target folder: the one that holds the running program (a build script, a test, an example).
pub(crate) fn target_folder() -> Result<PathBuf, BuildError> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let found = [out_dir, program].iter().flatten().find_map(|start| target_above(start).map(Path::to_owned));
    found.ok_or_else(|| {
        BuildError::Usage("no target folder above this program: give one with CudaBuilder::target_dir".into())
    })
}

/// Cargo tags a target folder that it makes itself. In one that was there before, it still locks the profile's folder.
fn target_above(start: &Path) -> Option<&Path> {
    let tagged = start.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    tagged.or_else(|| start.ancestors().find(|folder| folder.join(".cargo-lock").is_file()).and_then(Path::parent))
}

/// Whether this process is a build script, whose standard output cargo reads.
pub(crate) fn in_build_script() -> bool {
    std::env::var_os("OUT_DIR").is_some()
        && std::env::var_os("CARGO_MANIFEST_DIR").is_some()
        && std::env::var_os("HOST").is_some()
}

/// Tells the user what is going on; cargo hides a build script's other output unless it fails.
pub(crate) fn say(message: &str) {
    if in_build_script() {
        println!("cargo::warning=cuda_builder: {message}");
    } else {
        eprintln!("cuda_builder: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_folder_is_found_whoever_made_it() {
        let root = std::env::temp_dir().join(format!("cuda-builder-target-{}", std::process::id()));
        let out = root.join("target/debug/build/some/out");
        std::fs::create_dir_all(&out).expect("a folder of our own");
        assert_eq!(target_above(&out), None);
        std::fs::write(root.join("target/debug/.cargo-lock"), "").expect("a file of our own");
        assert_eq!(target_above(&out), Some(root.join("target").as_path()), "made by somebody else");
        std::fs::write(root.join("CACHEDIR.TAG"), "").expect("a file of our own");
        assert_eq!(target_above(&out), Some(root.as_path()), "the tag wins");
        std::fs::remove_dir_all(&root).expect("our own folder");
    }
}
