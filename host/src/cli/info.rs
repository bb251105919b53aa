//! `varve info`: what runs here, and what each operation would choose.

use serde::Serialize;

use super::output::thousands;
use super::{CliError, Global, dispatch};
use crate::backend::{Caps, EMBEDDED, PtxHead, embedded_for, entries};

/// Arguments of `varve info`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    explain: dispatch::Explain,
}

#[derive(Serialize)]
struct Module {
    file: &'static str,
    target: Option<String>,
    ptx_version: Option<String>,
    kernels: usize,
    bytes: usize,
    loaded: bool,
}

#[derive(Serialize)]
struct Info {
    version: &'static str,
    device: String,
    name: String,
    compute_capability: String,
    driver: String,
    emulated: bool,
    sms: u32,
    shared_optin_bytes: u32,
    shared_per_sm_bytes: u32,
    registers_per_sm: u32,
    max_threads_per_sm: u32,
    max_blocks_per_sm: u32,
    l2_bytes: u64,
    /// Why `--device auto` gave the emulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
    modules: Vec<Module>,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    if args.explain.dispatch {
        return dispatch::run(global, &args.explain);
    }
    let device = global.open()?;
    let Caps { name, driver, .. } = device.caps().clone();
    let caps = device.caps();
    let loaded = embedded_for(caps).map(|module| module.sm);
    let module = |module: &crate::backend::Embedded| {
        let head = PtxHead::of(module.ptx);
        Module {
            file: module.file,
            target: head.target,
            ptx_version: head.version.map(|(major, minor)| format!("{major}.{minor}")),
            kernels: entries(module.ptx).count(),
            bytes: module.ptx.len(),
            loaded: !caps.is_emulator && loaded == Some(module.sm),
        }
    };
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        device: device.spec().to_owned(),
        name,
        compute_capability: caps.cc_text(),
        driver,
        emulated: caps.is_emulator,
        sms: caps.sms,
        shared_optin_bytes: caps.shared_optin_bytes,
        shared_per_sm_bytes: caps.shared_per_sm_bytes,
        registers_per_sm: caps.regs_per_sm,
        max_threads_per_sm: caps.max_threads_per_sm,
        max_blocks_per_sm: caps.max_blocks_per_sm,
        l2_bytes: caps.l2_bytes,
        fallback: device.fallback().map(str::to_owned),
        modules: EMBEDDED.iter().map(module).collect(),
    };
    Ok(global.output().row(&info, || text(&info))?)
}

fn text(info: &Info) -> String {
    let mut lines = vec![
        format!("varve {}", info.version),
        format!("device         {}: {}, {}", info.device, info.name, info.driver),
        format!("capability     {}, {} SMs", info.compute_capability, info.sms),
        format!(
            "shared memory  {} B a block, {} B an SM",
            thousands(info.shared_optin_bytes.into()),
            thousands(info.shared_per_sm_bytes.into())
        ),
        format!(
            "an SM holds    {} registers, {} threads, {} blocks",
            thousands(info.registers_per_sm.into()),
            info.max_threads_per_sm,
            info.max_blocks_per_sm
        ),
        format!("L2 cache       {} B", thousands(info.l2_bytes)),
    ];
    if let Some(why) = &info.fallback {
        lines.push(format!("no GPU         {why}"));
    }
    for module in &info.modules {
        let loaded = if module.loaded { ", loaded" } else { "" };
        lines.push(format!(
            "module         {}: {} kernels, {} B, PTX {}{loaded}",
            module.target.as_deref().unwrap_or(module.file),
            module.kernels,
            thousands(module.bytes as u64),
            module.ptx_version.as_deref().unwrap_or("missing"),
        ));
    }
    lines.join("\n")
}
