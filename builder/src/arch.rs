//! The architectures that can be built for.

use crate::error::BuildError;

/// One architecture: its name for rustc, LLVM and ptxas, and the PTX version of its modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arch {
    /// Name as in `sm_80`.
    pub name: &'static str,
    /// PTX version times ten. The lowest that has every instruction of `cuda_std`, so that old drivers load the
    /// module: 7.8 needs R520 (CUDA 11.8), 8.0 R525 (CUDA 12.0), 8.6 R560, 8.7 R570.
    pub ptx: u32,
    /// The values of `cfg(cuda_sm = "..")` that hold: each says that the instructions of that architecture are there.
    pub features: &'static [&'static str],
}

/// Every value that `cfg(cuda_sm)` can have.
pub(crate) const CUDA_SM_VALUES: [&str; 3] = ["75", "80", "90a"];

const BASE: &[&str] = &["75"];
const AMPERE: &[&str] = &["75", "80"];
const HOPPER: &[&str] = &["75", "80", "90a"];

const KNOWN: [Arch; 10] = [
    Arch { name: "sm_75", ptx: 78, features: BASE },
    Arch { name: "sm_80", ptx: 78, features: AMPERE },
    Arch { name: "sm_86", ptx: 78, features: AMPERE },
    Arch { name: "sm_87", ptx: 78, features: AMPERE },
    Arch { name: "sm_89", ptx: 78, features: AMPERE },
    Arch { name: "sm_90", ptx: 80, features: AMPERE },
    Arch { name: "sm_90a", ptx: 80, features: HOPPER },
    Arch { name: "sm_100", ptx: 86, features: AMPERE },
    Arch { name: "sm_103", ptx: 88, features: AMPERE },
    Arch { name: "sm_120", ptx: 87, features: AMPERE },
];

impl Arch {
    /// The architecture of that name.
    ///
    /// # Errors
    /// [`BuildError::UnknownArch`] lists the known names. LLVM itself takes any name and quietly builds for its oldest.
    pub fn parse(name: &str) -> Result<Self, BuildError> {
        KNOWN
            .into_iter()
            .find(|a| a.name == name)
            .ok_or_else(|| BuildError::UnknownArch { name: name.to_owned(), known: KNOWN.map(|a| a.name).join(" ") })
    }
}
