//! What a kernel costs on a card: ptxas assembles the PTX and says so, here as numbers.
//!
//! ptxas is NVIDIA's; reports and tests use it where it is, running kernels needs the driver only.
//! `toolchain/ptxas.sh` fetches it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::arch::Arch;
use crate::error::BuildError;
use crate::rules::Ptx;
use crate::tools;

/// A kernel's resources on one architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Symbol.
    pub kernel: String,
    /// Architecture that the numbers hold for, as in `sm_86`; its PTX may be an older one's.
    pub arch: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of registers spilt, stores and loads together.
    pub spill_bytes: u32,
    /// Bytes of stack frame a thread.
    pub stack_bytes: u32,
    /// Bytes of static shared memory a block.
    pub shared_bytes: u32,
    /// Named barriers used, `sync_threads` included.
    pub barriers: u32,
    /// ptxas waits for each `wgmma` by itself, because other instructions touch the registers of one under way.
    pub serialized: bool,
}

/// A module's report, as written to a `.json` file beside its PTX.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Release of the ptxas that the numbers come from.
    pub ptxas: String,
    /// One for each kernel, by name.
    pub kernels: Vec<Resources>,
}

/// Writes a module's PTX to `path` and, where ptxas is, its report beside it. A report on the very same text stays: an
/// edit that changes no code costs no assembling.
pub(crate) fn write_beside(path: &Path, ptx: &str, arch: Arch) -> Result<Option<Vec<Resources>>, BuildError> {
    let file = path.with_extension("json");
    if !std::fs::read_to_string(path).is_ok_and(|old| old == ptx) && file.exists() {
        std::fs::remove_file(&file).map_err(|e| BuildError::io("remove", &file, e))?;
    }
    crate::write(path, ptx)?;
    let Some(ptxas) = Ptxas::find() else { return Ok(None) };
    let release = ptxas.release()?;
    let old = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Report>(&text).ok());
    if let Some(old) = old.filter(|old| old.ptxas == release) {
        return Ok(Some(old.kernels));
    }
    let report = Report { ptxas: release, kernels: ptxas.assemble(path, arch.name)? };
    let json = serde_json::to_string_pretty(&report).map_err(|e| BuildError::Ptxas(e.to_string()))?;
    crate::write(&file, &json)?;
    Ok(Some(report.kernels))
}

/// The assembler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ptxas {
    program: PathBuf,
}

impl Ptxas {
    /// The one that `VARVE_PTXAS` names, or that `toolchain/ptxas.sh` put into the target folder, or on the path.
    pub fn find() -> Option<Self> {
        let named = std::env::var_os("VARVE_PTXAS").map(PathBuf::from);
        let fetched = tools::target_folder().ok().map(|target| target.join("toolchain/ptxas/bin/ptxas"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join("ptxas"));
        let program = named.into_iter().chain(fetched).chain(on_path).find(|program| program.is_file())?;
        Some(Self { program })
    }

    /// Where it is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its release, as in `V13.0.88`.
    ///
    /// # Errors
    /// [`BuildError::Ptxas`] when the program does not name one.
    pub fn release(&self) -> Result<String, BuildError> {
        let text = tools::text(Command::new(&self.program).arg("--version"))?.unwrap_or_default();
        let release = text.split_whitespace().find(|w| w.starts_with('V') && w.contains('.')).map(str::to_owned);
        release.ok_or_else(|| BuildError::Ptxas(format!("{} --version names no release", self.program.display())))
    }

    /// Assembles a PTX file for `arch` (throwing the result away) and returns its kernels' resources, by name.
    ///
    /// # Errors
    /// [`BuildError::Ptxas`] with ptxas' own message, and the kernel in which its first complaint lies.
    pub fn assemble(&self, ptx: &Path, arch: &str) -> Result<Vec<Resources>, BuildError> {
        let mut command = Command::new(&self.program);
        command.args(["-v", "-arch", arch, "-o", "/dev/null"]).arg(ptx);
        let output = tools::output(&mut command)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let module = std::fs::read_to_string(ptx).map_err(|e| BuildError::io("read", ptx, e))?;
            return Err(BuildError::Ptxas(complaint(&text, &module, arch)));
        }
        let mut all = parse(&text, arch)?;
        all.sort_by(|a, b| a.kernel.cmp(&b.kernel));
        Ok(all)
    }
}

/// ptxas names a line of the PTX; a reader wants the kernel.
fn complaint(text: &str, module: &str, arch: &str) -> String {
    let line = text.split_once(", line ").and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    let line = line.and_then(|digits| digits.parse::<usize>().ok());
    let ptx = Ptx::parse(module);
    let at = line.and_then(|line| Some((ptx.entry_at(line)?, module.lines().nth(line.checked_sub(1)?)?)));
    match at {
        Some((entry, code)) => format!("kernel `{}` for {arch}, `{}`:\n{text}", entry.name, code.trim()),
        None => format!("for {arch}:\n{text}"),
    }
}

/// The report that `ptxas -v` prints: a block of lines for each function, kernels among them.
fn parse(text: &str, arch: &str) -> Result<Vec<Resources>, BuildError> {
    let mut all: Vec<Resources> = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            all.push(Resources {
                kernel,
                arch: arch.to_owned(),
                registers: 0,
                spill_bytes: 0,
                stack_bytes: 0,
                shared_bytes: 0,
                barriers: 0,
                serialized: false,
            });
        } else if let Some(current) = all.last_mut() {
            read_numbers(line, current);
        }
    }
    // This complaint comes before the reports: `(C7514) .. wgmma.mma_async instructions are serialized due to .. in the
    // function 'name'`.
    for line in text.lines().filter(|line| line.contains("wgmma") && line.contains("serialized")) {
        let named = |kernel: &&mut Resources| line.contains(&format!("'{}'", kernel.kernel));
        if let Some(kernel) = all.iter_mut().find(named) {
            kernel.serialized = true;
        }
    }
    match all.iter().find(|kernel| kernel.registers == 0) {
        Some(kernel) => Err(BuildError::Ptxas(format!("no register count for `{}` in:\n{text}", kernel.kernel))),
        None => Ok(all),
    }
}

fn read_numbers(line: &str, into: &mut Resources) {
    let line = line.rsplit_once("info    :").map_or(line, |(_, rest)| rest);
    for part in line.split(',').map(str::trim) {
        let Some(number) = part.split_whitespace().find_map(|word| word.parse::<u32>().ok()) else { continue };
        if part.ends_with("registers") {
            into.registers = number;
        } else if part.ends_with("bytes stack frame") {
            into.stack_bytes = into.stack_bytes.max(number); // device functions' frames follow their kernel's
        } else if part.ends_with("bytes spill stores") || part.ends_with("bytes spill loads") {
            into.spill_bytes += number;
        } else if part.ends_with("bytes smem") {
            into.shared_bytes = number;
        } else if part.ends_with("barriers") {
            into.barriers = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'rev' for 'sm_80'
ptxas info    : Function properties for rev
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'boom' for 'sm_80'
ptxas info    : Function properties for boom
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
";

    #[test]
    fn every_number_is_read() {
        let all = parse(TEXT, "sm_80").expect("a whole report");
        let rev = |r: &Resources| (r.registers, r.spill_bytes, r.stack_bytes, r.shared_bytes, r.barriers);
        assert_eq!(all.iter().map(rev).collect::<Vec<_>>(), [(12, 12, 16, 1024, 1), (10, 0, 0, 0, 0)]);
        assert_eq!(all[1].kernel, "boom");
    }

    #[test]
    fn products_that_wait_for_each_other_are_noticed() {
        let complaint = "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in the function 'boom'\n";
        let all = parse(&format!("{complaint}{TEXT}"), "sm_90a").expect("a whole report");
        assert_eq!(all.iter().map(|r| r.serialized).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_report_without_registers_is_an_error() {
        assert!(parse("ptxas info    : Compiling entry function 'k' for 'sm_80'\n", "sm_80").is_err());
    }

    #[test]
    fn a_complaint_names_kernel_and_code() {
        let module = ".visible .entry k(\n)\n{\n\tbad.op %r1;\n}\n";
        let told = complaint("ptxas k.ptx, line 4; error   : Not a name", module, "sm_80");
        assert!(told.starts_with("kernel `k` for sm_80, `bad.op %r1;`:\n"), "{told}");
    }
}
