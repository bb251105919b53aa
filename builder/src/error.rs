//! What can go wrong in a device build, and what to do about it.

use std::path::{Path, PathBuf};

/// Why [`crate::CudaBuilder::build`] gave no PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The architecture is none that this builder knows.
    #[error("unknown architecture `{name}`; known are: {known}")]
    UnknownArch {
        /// What was asked for.
        name: String,
        /// The known names, separated by spaces.
        known: String,
    },
    /// The builder was asked for nothing, or for something that contradicts itself.
    #[error("{0}")]
    Usage(String),
    /// A file or folder could not be read or written.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// The action, as in `read`.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The source of Rust's `core` library could not be had.
    #[error("{0}")]
    NoLibrarySource(String),
    /// A program that the build needs could not be started.
    #[error("cannot start `{program}`: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// rustc refused the device crate; the text is rustc's, with file and line.
    #[error("the device build of `{package}` for {arch} failed:\n{diagnostics}")]
    Compile {
        /// Folder of the device crate.
        package: String,
        /// Architecture that was being built.
        arch: String,
        /// rustc's rendered errors, or cargo's message where there are none.
        diagnostics: String,
    },
    /// rustc's LLVM library could not be loaded, or refused the module.
    #[error("LLVM: {0}")]
    Llvm(String),
    /// A kernel's launch bounds cannot be used.
    #[error("launch bounds of kernel `{kernel}`: {why}")]
    Bounds {
        /// The kernel's symbol.
        kernel: String,
        /// What is wrong with them.
        why: String,
    },
    /// ptxas refused the PTX or answered something unexpected.
    #[error("ptxas: {0}")]
    Ptxas(String),
}

impl BuildError {
    pub(crate) fn io(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }
}
