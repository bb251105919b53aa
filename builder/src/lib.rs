//! Builds a crate of Rust GPU kernels to PTX with stable rustc: no CUDA installation, no C++ compiler, no other LLVM
//! than rustc's own.
//!
//! ```no_run
//! # fn main() -> Result<(), cuda_builder::BuildError> {
//! // in build.rs
//! let out = std::env::var("OUT_DIR").unwrap_or_default();
//! cuda_builder::CudaBuilder::new("../gpu").arch("sm_80").copy_to(format!("{out}/kernels.ptx")).build()?;
//! # Ok(()) }
//! ```
//!
//! The names are rust-cuda's; the way is another: cargo compiles the crate, its dependencies and `core` to one bitcode
//! file (`compile`), rustc's own LLVM library links it after a few passes that say what rustc cannot (`emit`, `pass`).

mod arch;
mod compile;
mod debian;
mod emit;
mod error;
mod llvm;
mod messages;
mod pass;
pub mod report;
pub mod rules;
mod source;
mod tools;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub use arch::Arch;
pub use error::BuildError;
pub use report::{Ptxas, Resources};
pub use source::SourceRoutes;

/// Device builds that run at the same time: each keeps a core busy, and takes about 1 GB.
const PARALLEL: usize = 2;

/// The three measures that together keep barriers and shuffles convergent. All are on; tests switch single ones off to
/// show that each check would notice.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measures {
    /// No MIR jump threading, which copies code behind a barrier into both arms of a branch.
    pub no_jump_threading: bool,
    /// rustc runs no LLVM pass: its pipeline would run before any call is marked convergent.
    pub no_rustc_llvm_passes: bool,
    /// Calls and inline assembly are marked convergent before our pipeline runs.
    pub convergent_calls: bool,
}

impl Default for Measures {
    fn default() -> Self {
        Self { no_jump_threading: true, no_rustc_llvm_passes: true, convergent_calls: true }
    }
}

/// One PTX file that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Architecture it was built for.
    pub arch: Arch,
    /// The file.
    pub ptx: PathBuf,
    /// Symbols of its kernels, sorted.
    pub kernels: Vec<String>,
    /// What they cost, when ptxas was at hand; also in a JSON file beside the PTX.
    pub resources: Option<Vec<Resources>>,
}

/// Describes a device build; [`build`](Self::build) runs it.
#[derive(Debug, Clone)]
pub struct CudaBuilder {
    package: PathBuf,
    arch: Option<String>,
    copy_to: Option<PathBuf>,
    modules: Vec<(String, PathBuf)>,
    features: Vec<String>,
    target_dir: Option<PathBuf>,
    emit_llvm_ir: bool,
    measures: Measures,
    routes: SourceRoutes,
}

impl CudaBuilder {
    /// A build of the crate in folder `package`, relative to the current directory.
    pub fn new(package: impl AsRef<Path>) -> Self {
        Self {
            package: package.as_ref().to_owned(),
            arch: None,
            copy_to: None,
            modules: Vec::new(),
            features: Vec::new(),
            target_dir: None,
            emit_llvm_ir: false,
            measures: Measures::default(),
            routes: SourceRoutes::default(),
        }
    }

    /// Architecture of the one module that [`copy_to`](Self::copy_to) places, as in `sm_80` (the default).
    #[must_use]
    pub fn arch(mut self, arch: &str) -> Self {
        self.arch = Some(arch.to_owned());
        self
    }

    /// Where the PTX goes.
    #[must_use]
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().to_owned());
        self
    }

    /// Adds a module for `arch` at `path`; call it once for each. Modules are built two at a time.
    #[must_use]
    pub fn module(mut self, arch: &str, path: impl AsRef<Path>) -> Self {
        self.modules.push((arch.to_owned(), path.as_ref().to_owned()));
        self
    }

    /// Turns on a feature of the device crate.
    #[must_use]
    pub fn feature(mut self, feature: &str) -> Self {
        self.features.push(feature.to_owned());
        self
    }

    /// The folder for everything that is kept between builds, instead of `cuda-builder` in the workspace's target
    /// folder.
    #[must_use]
    pub fn target_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.target_dir = Some(folder.as_ref().to_owned());
        self
    }

    /// Also writes LLVM's text form of the module beside the PTX, before (`.before.ll`) and after (`.after.ll`) O3.
    #[must_use]
    pub fn emit_llvm_ir(mut self, yes: bool) -> Self {
        self.emit_llvm_ir = yes;
        self
    }

    /// For tests: builds without some of the convergence measures.
    #[doc(hidden)]
    #[must_use]
    pub fn measures(mut self, measures: Measures) -> Self {
        self.measures = measures;
        self
    }

    /// For tests: closes some of the ways to the library source.
    #[doc(hidden)]
    #[must_use]
    pub fn source_routes(mut self, routes: SourceRoutes) -> Self {
        self.routes = routes;
        self
    }

    /// Builds every module, tells a calling cargo which files to watch, and returns the modules in the order asked for.
    ///
    /// # Errors
    /// [`BuildError`]; [`BuildError::Compile`] carries rustc's own errors with file and line.
    pub fn build(&self) -> Result<Vec<Module>, BuildError> {
        let wanted = self.wanted()?;
        let package = self.package.canonicalize().map_err(|e| BuildError::io("find", &self.package, e))?;
        let folder = match &self.target_dir {
            Some(folder) => std::path::absolute(folder).map_err(|e| BuildError::io("find", folder, e))?,
            None => tools::target_folder()?.join("cuda-builder"),
        };
        let sysroot = tools::sysroot(&package)?;
        let library = source::LibrarySource::locate(&sysroot, &package, &folder, self.routes)?;
        let linker = compile::build_linker(&folder)?;
        let one = |(arch, path): &(Arch, PathBuf)| {
            let request = compile::Request {
                package: &package,
                features: &self.features,
                arch: *arch,
                measures: self.measures,
                library: &library,
                linker: &linker,
                target_dir: folder.join(arch.name),
            };
            self.build_one(&sysroot, &request, path)
        };
        let built = parallel(&wanted, one)?;
        let (modules, compiled): (Vec<Module>, Vec<compile::Compiled>) = built.into_iter().unzip();
        tell_cargo(&compiled);
        Ok(modules)
    }

    fn wanted(&self) -> Result<Vec<(Arch, PathBuf)>, BuildError> {
        let mut named = self.modules.clone();
        match (&self.arch, &self.copy_to) {
            (arch, Some(path)) => named.insert(0, (arch.clone().unwrap_or_else(|| "sm_80".into()), path.clone())),
            (Some(arch), None) => {
                Arch::parse(arch)?;
                return Err(BuildError::Usage(format!("arch `{arch}` without copy_to: where shall its PTX go?")));
            }
            (None, None) => {}
        }
        if named.is_empty() {
            return Err(BuildError::Usage("nothing to build: call copy_to or module".into()));
        }
        let wanted: Vec<_> =
            named.into_iter().map(|(arch, path)| Ok((Arch::parse(&arch)?, path))).collect::<Result<_, BuildError>>()?;
        let names: BTreeSet<&str> = wanted.iter().map(|(arch, _)| arch.name).collect();
        if names.len() == wanted.len() { Ok(wanted) } else { Err(BuildError::Usage("an architecture twice".into())) }
    }

    fn build_one(
        &self,
        sysroot: &Path,
        request: &compile::Request<'_>,
        path: &Path,
    ) -> Result<(Module, compile::Compiled), BuildError> {
        let (compiled, bitcode) = compile::compile(request)?;
        let mut keep_ir = |stage: &str, text: String| write(&path.with_extension(format!("{stage}.ll")), &text);
        let dump: Option<emit::Dump<'_>> = self.emit_llvm_ir.then_some(&mut keep_ir);
        let emitted = emit::emit(sysroot, &bitcode, request.arch, request.measures, dump)?;
        let resources = report::write_beside(path, &emitted.ptx, request.arch)?;
        Ok((Module { arch: request.arch, ptx: path.to_owned(), kernels: emitted.kernels, resources }, compiled))
    }
}

fn write(path: &Path, text: &str) -> Result<(), BuildError> {
    std::fs::write(path, text).map_err(|e| BuildError::io("write", path, e))
}

/// Runs `job` on each item, two at a time; the results in order, or the first error in order.
fn parallel<T: Sync, R: Send>(
    items: &[T],
    job: impl Fn(&T) -> Result<R, BuildError> + Sync,
) -> Result<Vec<R>, BuildError> {
    let queue = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL.min(items.len()) {
            scope.spawn(|| {
                while let Some((index, item)) = next() {
                    let result = job(item);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// In a build script: the files to watch. Warnings of the device build are said once, and only those that every module
/// has: what one architecture leaves unused is not dead code.
fn tell_cargo(compiled: &[compile::Compiled]) {
    if let Some((first, rest)) = compiled.split_first() {
        let everywhere = |w: &&messages::Warning| rest.iter().all(|c| c.warnings.contains(w));
        for warning in first.warnings.iter().filter(everywhere) {
            tools::say(&format!("{}: {}", warning.place, warning.message));
        }
    }
    if tools::in_build_script() {
        println!("cargo::rerun-if-env-changed=VARVE_PTXAS");
        let files: BTreeSet<&PathBuf> = compiled.iter().flat_map(|c| &c.sources).collect();
        for file in files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
}
