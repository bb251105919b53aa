//! Where the source of Rust's `core` library comes from.
//!
//! Stable toolchains carry no `core` for NVPTX, so device builds compile it. In this order: the compiler's sysroot, a
//! copy fetched earlier, `rustup component add rust-src`, Debian's package of the same version. Each step says what it
//! does, and nothing outside the target folder is written but by rustup.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BuildError;
use crate::{debian, tools};

/// Which of the ways may be tried; tests close some to reach the others.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRoutes {
    /// The compiler's own sysroot.
    pub sysroot: bool,
    /// `rustup component add rust-src`.
    pub rustup: bool,
    /// Debian's `rust-src`, fetched before or now.
    pub debian: bool,
}

impl Default for SourceRoutes {
    fn default() -> Self {
        Self { sysroot: true, rustup: true, debian: true }
    }
}

/// A place that holds the standard library's source for the compiler in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LibrarySource {
    /// The compiler's own sysroot: cargo looks there by itself.
    Sysroot,
    /// A `library` folder elsewhere, which is named to cargo.
    Tree(PathBuf),
}

impl LibrarySource {
    /// Finds the source, or fetches it into `cache`. `package` chooses the toolchain (rust-toolchain.toml).
    pub(crate) fn locate(
        sysroot: &Path,
        package: &Path,
        cache: &Path,
        routes: SourceRoutes,
    ) -> Result<Self, BuildError> {
        if routes.sysroot && in_sysroot(sysroot) {
            return Ok(Self::Sysroot);
        }
        let version = tools::rustc_release(package)?;
        let tree = cache.join(format!("rust-src-{version}"));
        if routes.debian && debian::library(&tree).is_dir() {
            return Ok(Self::Tree(debian::library(&tree)));
        }
        let mut tried = Vec::new();
        if routes.rustup {
            match add_component(package) {
                Ok(()) if in_sysroot(sysroot) => return Ok(Self::Sysroot),
                Ok(()) => tried.push("rustup component add rust-src: done, yet the source is not there".to_owned()),
                Err(why) => tried.push(format!("rustup component add rust-src: {why}")),
            }
        }
        if routes.debian {
            match debian::fetch(&version, &tree, &cache.join("apt")) {
                Ok(()) => return Ok(Self::Tree(debian::library(&tree))),
                Err(why) => tried.push(format!("Debian's package rust-src: {why}")),
            }
        }
        Err(missing(&version, sysroot, &tried))
    }

    /// Points a device build's cargo at the source.
    pub(crate) fn apply(&self, cargo: &mut Command) {
        if let Self::Tree(library) = self {
            // Cargo's only way to use a library tree outside the sysroot; tried with 1.95.0.
            cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
        }
    }
}

fn in_sysroot(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file()
}

fn add_component(package: &Path) -> Result<(), String> {
    tools::say("the source of Rust's core library is missing; running `rustup component add rust-src`");
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", "rust-src"]).current_dir(package);
    tools::run(&mut rustup)
}

fn missing(version: &str, sysroot: &Path, tried: &[String]) -> BuildError {
    let tried = if tried.is_empty() { "nothing".to_owned() } else { tried.join("\n    ") };
    BuildError::NoLibrarySource(format!(
        "building for the GPU needs the source of Rust's core library, and rustc {version} ({}) has none.\n  \
         Any one of these mends it:\n    \
         rustup component add rust-src        (a toolchain that rustup manages)\n    \
         apt-get install rust-src             (Debian's own rustc of that version)\n  \
         Tried:\n    {tried}",
        sysroot.display()
    ))
}
