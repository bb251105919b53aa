//! `varve ptx`: the embedded kernels as PTX, as a list, or with what they take of each card.

use std::path::PathBuf;

use cuda_builder::{Ptxas, Resources};
use rayon::prelude::*;
use serde::Serialize;
use varve_gpu::catalog::{self, Budget, Entry};

use super::output::{Output, thousands};
use super::{CliError, Global, progress};
use crate::backend::{EMBEDDED, Embedded, entries};

/// Architectures that each embedded module is assembled for in reports: those whose cards load it.
const ASSEMBLED: [(&str, u32); 7] =
    [("sm_75", 75), ("sm_80", 80), ("sm_86", 80), ("sm_89", 80), ("sm_90a", 90), ("sm_100", 80), ("sm_120", 80)];

/// Arguments of `varve ptx`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Module to print (sm_75, sm_80, sm_90a), or architecture to report for; default sm_80, and all in reports
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// Only this kernel: its symbol, or the operation's variant as in delta.rec/keyhead
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// List the kernels with their variant, launch bounds and modules
    #[arg(long, conflicts_with = "report")]
    list: bool,
    /// Assemble with ptxas and report registers, spills, stack and shared memory against each kernel's budget
    #[arg(long)]
    report: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let wanted = Wanted::new(args.kernel.as_deref())?;
    let output = global.output();
    if args.list {
        list(&output, &wanted)
    } else if args.report {
        report(&output, &wanted, args.arch.as_deref())
    } else {
        print(&output, &wanted, args)
    }
}

/// Which kernels the command is about.
struct Wanted {
    /// Symbols, or none for all.
    symbols: Option<Vec<&'static str>>,
}

impl Wanted {
    fn new(name: Option<&str>) -> Result<Self, CliError> {
        let Some(name) = name else { return Ok(Self { symbols: None }) };
        let all = catalog::entries();
        let named = all.iter().filter(|entry| entry.kernel.symbol == name || entry.name == name);
        let symbols: Vec<_> = named.map(|entry| entry.kernel.symbol).collect();
        if symbols.is_empty() {
            let known: Vec<_> = all.iter().map(|entry| entry.kernel.symbol).collect();
            return Err(CliError::Usage(format!("no kernel `{name}`; the kernels are {}", known.join(", "))));
        }
        Ok(Self { symbols: Some(symbols) })
    }

    fn has(&self, symbol: &str) -> bool {
        self.symbols.as_ref().is_none_or(|symbols| symbols.contains(&symbol))
    }
}

/// `sm_75`, `sm_80` or `sm_90a`.
fn module_name(module: &Embedded) -> &'static str {
    module.file.trim_start_matches("varve_").trim_end_matches(".ptx")
}

fn module_of(sm: u32) -> Option<&'static Embedded> {
    EMBEDDED.iter().find(|module| module.sm == sm)
}

#[derive(Serialize)]
struct PtxRow<'a> {
    module: &'static str,
    kernel: Option<&'a str>,
    ptx: &'a str,
}

fn print(output: &Output, wanted: &Wanted, args: &Args) -> Result<(), CliError> {
    let arch = args.arch.as_deref().unwrap_or("sm_80");
    let module = EMBEDDED.iter().find(|module| module_name(module) == arch).ok_or_else(|| {
        let names: Vec<_> = EMBEDDED.iter().map(module_name).collect();
        CliError::Usage(format!("no module `{arch}` is embedded; there are {}", names.join(", ")))
    })?;
    let Some(symbols) = &wanted.symbols else {
        let row = PtxRow { module: module_name(module), kernel: None, ptx: module.ptx };
        return Ok(output.row(&row, || module.ptx.trim_end().to_owned())?);
    };
    let found: Vec<_> = symbols.iter().filter_map(|&symbol| Some((symbol, kernel_text(module.ptx, symbol)?))).collect();
    if found.is_empty() {
        return Err(CliError::Failed(format!(
            "{} is not in the module for {arch}: it needs a later architecture",
            symbols.join(", ")
        )));
    }
    for (symbol, ptx) in found {
        let row = PtxRow { module: module_name(module), kernel: Some(symbol), ptx };
        output.row(&row, || ptx.to_owned())?;
    }
    Ok(())
}

/// The text of one kernel, from its `.entry` line to the closing brace.
fn kernel_text<'a>(ptx: &'a str, symbol: &str) -> Option<&'a str> {
    let mut offset = 0;
    let mut start = None;
    for line in ptx.split_inclusive('\n') {
        if start.is_none() && entries(line).any(|name| name == symbol) {
            start = Some(offset);
        }
        offset += line.len();
        if let Some(start) = start
            && line.starts_with('}')
        {
            return Some(ptx[start..offset].trim_end());
        }
    }
    None
}

#[derive(Serialize)]
struct KernelRow {
    kernel: &'static str,
    variant: &'static str,
    threads: u32,
    min_blocks: u32,
    params: &'static str,
    params_bytes: usize,
    modules: Vec<&'static str>,
    source: String,
}

fn list(output: &Output, wanted: &Wanted) -> Result<(), CliError> {
    for Entry { name, kernel, .. } in catalog::entries() {
        if !wanted.has(kernel.symbol) {
            continue;
        }
        let holds = |module: &&Embedded| entries(module.ptx).any(|symbol| symbol == kernel.symbol);
        let row = KernelRow {
            kernel: kernel.symbol,
            variant: name,
            threads: kernel.bounds.threads,
            min_blocks: kernel.bounds.min_blocks,
            params: kernel.params,
            params_bytes: kernel.params_bytes,
            modules: EMBEDDED.iter().filter(holds).map(module_name).collect(),
            source: format!("{}:{}", kernel.file, kernel.line),
        };
        output.row(&row, || {
            let bounds = format!("{} x {}", row.threads, row.min_blocks);
            format!("{:32} {:24} {bounds:9} {:21} {}", row.kernel, row.variant, row.modules.join(" "), row.source)
        })?;
    }
    Ok(())
}

#[derive(Serialize)]
struct BudgetRow {
    registers: u32,
    shared_bytes: u32,
    reason: &'static str,
}

#[derive(Serialize)]
struct ReportRow {
    kernel: String,
    module: &'static str,
    arch: String,
    registers: u32,
    spill_bytes: u32,
    stack_bytes: u32,
    shared_bytes: u32,
    budget: Option<BudgetRow>,
    pass: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct Totals {
    rows: usize,
    failures: usize,
}

impl ReportRow {
    fn new(module: &'static str, used: Resources, budget: Option<Budget>) -> Self {
        let reason = over_budget(&used, budget.as_ref());
        let budget =
            budget.map(|b| BudgetRow { registers: b.registers, shared_bytes: b.shared_bytes, reason: b.reason });
        Self {
            kernel: used.kernel,
            module,
            arch: used.arch,
            registers: used.registers,
            spill_bytes: used.spill_bytes,
            stack_bytes: used.stack_bytes,
            shared_bytes: used.shared_bytes,
            budget,
            pass: reason.is_none(),
            reason,
        }
    }

    fn text(&self) -> String {
        let limit = |limit: Option<u32>| limit.map_or("any".into(), |n| thousands(n.into()));
        let registers = limit(self.budget.as_ref().map(|b| b.registers));
        let shared = limit(self.budget.as_ref().map(|b| b.shared_bytes));
        let verdict = self.reason.as_deref().map_or(String::new(), |reason| format!("  FAIL: {reason}"));
        format!(
            "{:32} {:7} {:7} {:>3} of {registers:3} registers {:>6} of {shared:6} B shared {} B spilled {} B stack{verdict}",
            self.kernel,
            self.module,
            self.arch,
            self.registers,
            thousands(self.shared_bytes.into()),
            self.spill_bytes,
            self.stack_bytes,
        )
    }
}

/// Why a kernel takes more than it may. One without a budget (a probe) may not spill or use the stack either.
fn over_budget(used: &Resources, budget: Option<&Budget>) -> Option<String> {
    let (registers, shared_bytes) = budget.map_or((u32::MAX, u32::MAX), |b| (b.registers, b.shared_bytes));
    let limits = [
        ("registers", used.registers, registers),
        ("bytes of shared memory", used.shared_bytes, shared_bytes),
        ("bytes spilled", used.spill_bytes, 0),
        ("bytes of stack", used.stack_bytes, 0),
        ("series of wgmma that wait for each other", used.serialized.into(), 0),
    ];
    let over: Vec<_> = limits
        .iter()
        .filter(|(_, used, limit)| used > limit)
        .map(|(what, used, limit)| format!("{used} {what}, budget {limit}"))
        .collect();
    (!over.is_empty()).then(|| over.join("; "))
}

fn report(output: &Output, wanted: &Wanted, arch: Option<&str>) -> Result<(), CliError> {
    let jobs: Vec<_> = ASSEMBLED.iter().filter(|(name, _)| arch.is_none_or(|arch| arch == *name)).collect();
    if jobs.is_empty() {
        let names = ASSEMBLED.map(|(name, _)| name).join(", ");
        return Err(CliError::Usage(format!("no report for `{}`; there are {names}", arch.unwrap_or_default())));
    }
    let ptxas = Ptxas::find().ok_or_else(|| {
        CliError::Failed(
            "ptxas is not on this machine; `toolchain/ptxas.sh` fetches it (no CUDA installation needed), or set \
             VARVE_PTXAS to its path"
                .into(),
        )
    })?;
    let bar = progress::bar(jobs.len(), output.is_json());
    let folder = Folder::new()?;
    let assembled: Vec<Result<_, CliError>> = jobs
        .par_iter()
        .map(|&&(arch, sm)| {
            let module = module_of(sm).ok_or_else(|| CliError::Failed(format!("no module sm_{sm} is embedded")))?;
            let resources = ptxas.assemble(&folder.file(module)?, arch).map_err(CliError::failed);
            bar.inc(1);
            Ok((module_name(module), resources?))
        })
        .collect();
    bar.finish_and_clear();

    let catalog = catalog::entries();
    let (mut rows, mut failures) = (0, 0);
    for job in assembled {
        let (module, resources) = job?;
        for used in resources.into_iter().filter(|used| wanted.has(&used.kernel)) {
            let budget = catalog.iter().find(|entry| entry.kernel.symbol == used.kernel).map(|entry| entry.budget);
            let row = ReportRow::new(module, used, budget);
            rows += 1;
            failures += usize::from(!row.pass);
            output.row(&row, || row.text())?;
        }
    }
    output.row(&Totals { rows, failures }, || format!("{rows} rows, {failures} failures"))?;
    if failures > 0 { Err(CliError::Reported) } else { Ok(()) }
}

/// A folder for the modules' text that ptxas reads; removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, CliError> {
        let path = std::env::temp_dir().join(format!("varve-ptx-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))?;
        let folder = Self(path);
        for module in &EMBEDDED {
            let file = folder.file(module)?;
            std::fs::write(&file, module.ptx)
                .map_err(|error| CliError::Failed(format!("{}: {error}", file.display())))?;
        }
        Ok(folder)
    }

    fn file(&self, module: &Embedded) -> Result<PathBuf, CliError> {
        if module.ptx.is_empty() {
            return Err(CliError::Failed(format!("the module {} is empty: this build has no kernels", module.file)));
        }
        Ok(self.0.join(module.file))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_text_goes_to_its_closing_brace() {
        let ptx =
            ".version 7.8\n.visible .entry a(\n)\n{\n\tret;\n}\n\n.visible .entry ab()\n{\n\t{ .reg .b32 t; }\n}\n";
        assert_eq!(kernel_text(ptx, "a"), Some(".visible .entry a(\n)\n{\n\tret;\n}"));
        assert_eq!(kernel_text(ptx, "ab"), Some(".visible .entry ab()\n{\n\t{ .reg .b32 t; }\n}"));
        assert_eq!(kernel_text(ptx, "b"), None);
    }

    #[test]
    fn every_excess_is_named() {
        let used = |registers, spill_bytes, shared_bytes| Resources {
            kernel: "k".into(),
            arch: "sm_80".into(),
            registers,
            spill_bytes,
            stack_bytes: spill_bytes,
            shared_bytes,
            barriers: 0,
            serialized: false,
        };
        let budget = Budget { registers: 40, shared_bytes: 16, reason: "" };
        assert_eq!(over_budget(&used(40, 0, 16), Some(&budget)), None);
        let over = over_budget(&used(41, 8, 32), Some(&budget)).expect("over budget");
        assert_eq!(
            over,
            "41 registers, budget 40; 32 bytes of shared memory, budget 16; 8 bytes spilled, budget 0; 8 bytes of \
             stack, budget 0"
        );
        assert_eq!(over_budget(&used(255, 0, 9999), None), None);
        assert!(over_budget(&used(1, 8, 0), None).is_some());
    }

    #[test]
    fn every_module_is_assembled_for_its_own_architecture() {
        for module in &EMBEDDED {
            assert!(ASSEMBLED.contains(&(module_name(module), module.sm)));
        }
        assert!(ASSEMBLED.iter().all(|&(_, sm)| module_of(sm).is_some()));
    }
}
