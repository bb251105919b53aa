//! The kernels' PTX: which of the embedded modules a device loads, and what a refusal says.

use super::caps::Caps;
use super::cuda::api::Code;
use std::fmt;

/// One embedded module.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// Architecture as a number: 75, 80 or 90 (`sm_90a`).
    pub sm: u32,
    /// Name of the file that the build wrote.
    pub file: &'static str,
    /// The PTX.
    pub ptx: &'static str,
}

/// The embedded modules, the oldest architecture first.
pub const EMBEDDED: [Embedded; 3] = [
    Embedded { sm: 75, file: "varve_sm_75.ptx", ptx: crate::modules::PTX_SM75 },
    Embedded { sm: 80, file: "varve_sm_80.ptx", ptx: crate::modules::PTX_SM80 },
    Embedded { sm: 90, file: "varve_sm_90a.ptx", ptx: crate::modules::PTX_SM90A },
];

/// The module that a device loads; `None` below compute capability 7.5.
#[must_use]
pub fn embedded_for(caps: &Caps) -> Option<&'static Embedded> {
    let sm = caps.module_sm()?;
    EMBEDDED.iter().find(|m| m.sm == sm)
}

/// What the head of a PTX text says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxHead {
    /// `.version`, as major and minor.
    pub version: Option<(u32, u32)>,
    /// `.target`, as written.
    pub target: Option<String>,
}

impl PtxHead {
    /// Reads the directives `.version` and `.target`.
    #[must_use]
    pub fn of(ptx: &str) -> Self {
        let directive = |name: &str| ptx.lines().find_map(|l| l.trim_start().strip_prefix(name)).map(str::trim);
        let version = directive(".version ").and_then(|v| {
            let (major, minor) = v.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        Self { version, target: directive(".target ").map(str::to_owned) }
    }
}

impl fmt::Display for PtxHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some((major, minor)) => write!(f, ".version {major}.{minor}")?,
            None => f.write_str("no .version")?,
        }
        write!(f, ", .target {}", self.target.as_deref().unwrap_or("missing"))
    }
}

/// Names of the entries of a PTX text, in order.
pub fn entries(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().filter_map(entry_of)
}

fn entry_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(".entry ")?;
    let name = rest.trim_start();
    Some(&name[..name.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(name.len())])
}

/// The entry that line `line` (from 1) of a PTX text belongs to.
fn entry_at(ptx: &str, line: usize) -> Option<&str> {
    ptx.lines().take(line).filter_map(entry_of).last()
}

/// The first line number that a compiler's log mentions as `line N`.
fn first_line_of(log: &str) -> Option<usize> {
    let (_, rest) = log.split_once("line ")?;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// The first CUDA release whose driver reads this PTX version, as NVIDIA's PTX release history pairs them from 7.0 on.
fn cuda_for_ptx((major, minor): (u32, u32)) -> Option<(u32, u32)> {
    match (major, minor) {
        (7, 0..=8) => Some((11, minor)),
        (8, 0..=5) => Some((12, minor)),
        (8, 6..=8) => Some((12, minor + 1)),
        (9, 0..=1) => Some((13, minor)),
        _ => None,
    }
}

/// The driver did not take a module, or there is none.
#[derive(Debug)]
pub struct ModuleError {
    /// The device.
    pub spec: String,
    /// The card and its compute capability.
    pub card: String,
    /// File name of the module.
    pub file: String,
    /// The driver's version, and that of CUDA.
    pub driver: String,
    /// What the PTX says about itself.
    pub head: PtxHead,
    /// The driver's answer; `None` if the module was not even offered because it is empty.
    pub code: Option<Code>,
    /// The entry in which the compiler found the fault; for a fault of the whole module, the first entry.
    pub entry: Option<String>,
    /// The JIT compiler's error log.
    pub log: String,
}

impl ModuleError {
    /// The refusal of `ptx` with the driver's answer and its compiler's log.
    #[must_use]
    pub fn refused(spec: &str, caps: &Caps, file: &str, ptx: &str, code: Code, log: &str) -> Self {
        let entry = first_line_of(log).and_then(|line| entry_at(ptx, line)).or_else(|| entries(ptx).next());
        Self {
            spec: spec.into(),
            card: format!("{}, compute capability {}", caps.name, caps.cc_text()),
            file: file.into(),
            driver: caps.driver.clone(),
            head: PtxHead::of(ptx),
            code: Some(code),
            entry: entry.map(str::to_owned),
            log: log.trim_end().into(),
        }
    }

    /// A module without PTX: the build did not compile the kernels.
    #[must_use]
    pub fn empty(spec: &str, caps: &Caps, file: &str) -> Self {
        let none = Self::refused(spec, caps, file, "", Code::SUCCESS, "");
        Self { code: None, ..none }
    }
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, card, file, driver, head, code, entry, log } = self;
        write!(f, "{spec} ({card}, driver {driver}): ")?;
        let Some(code) = code else {
            return write!(
                f,
                "no PTX is embedded as {file}: this binary was built without its kernels; rebuild `varve`"
            );
        };
        write!(f, "the driver refused {file} ({head}")?;
        if let Some(entry) = entry {
            write!(f, "; kernel `{entry}`")?;
        }
        write!(f, "): {code}.")?;
        if *code == Code::UNSUPPORTED_PTX_VERSION {
            match head.version.map(|v| (v, cuda_for_ptx(v))) {
                Some(((major, minor), Some((cuda, update)))) => {
                    write!(
                        f,
                        " PTX {major}.{minor} needs a driver for CUDA {cuda}.{update} or later; update the driver."
                    )?;
                }
                Some(((major, minor), None)) => {
                    write!(f, " PTX {major}.{minor} needs a later driver than any known to this build.")?;
                }
                None => f.write_str(" The PTX has no version that could be read.")?,
            }
        }
        if log.is_empty() { f.write_str(" The JIT compiler logged nothing.") } else { write!(f, "\nJIT log:\n{log}") }
    }
}

impl std::error::Error for ModuleError {}

#[cfg(test)]
mod tests {
    use super::super::caps::known_card;
    use super::*;

    const PTX: &str = "//\n.version 8.7\n.target sm_90a\n.address_size 64\n\n.visible .entry delta_rec_cols(\n\t.param .b8 p\n)\n\
                       {\n ret;\n}\n.visible .entry delta_rec_keyhead(\n)\n{\n bad;\n}\n";

    #[test]
    fn a_module_says_what_it_is() {
        let head = PtxHead::of(PTX);
        assert_eq!((head.version, head.target.as_deref()), (Some((8, 7)), Some("sm_90a")));
        assert_eq!(entries(PTX).collect::<Vec<_>>(), ["delta_rec_cols", "delta_rec_keyhead"]);
        assert_eq!(PtxHead::of("nonsense"), PtxHead::default());
    }

    #[test]
    fn a_refusal_names_log_versions_and_kernel() {
        let caps = known_card("H200").expect("known");
        let log = "ptxas application ptx input, line 14; fatal   : Parsing error near 'bad'";
        let text = ModuleError::refused("cuda:0", &caps, "varve_sm_90a.ptx", PTX, Code(218), log).to_string();
        for part in ["cuda:0 (H200, compute capability 9.0", ".version 8.7, .target sm_90a", "`delta_rec_keyhead`", log]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = ModuleError::refused("cuda:0", &caps, "m", PTX, Code::UNSUPPORTED_PTX_VERSION, "").to_string();
        assert!(text.contains("PTX 8.7 needs a driver for CUDA 12.8 or later"), "{text}");
        let future = ".version 99.0\n.target sm_80\n";
        let text = ModuleError::refused("cuda:0", &caps, "m", future, Code::UNSUPPORTED_PTX_VERSION, "").to_string();
        assert!(text.contains("PTX 99.0 needs a later driver"), "{text}");
        assert!(ModuleError::empty("cuda:0", &caps, "m").to_string().contains("no PTX is embedded as m"));
    }
}
