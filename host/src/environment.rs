//! The environment variables that choose devices and variants: read here and nowhere below.
//!
//! Only the outermost layer calls this: the command line (for what no flag says), tests and benches.

use crate::backend::{BackendError, Device, DeviceSpec, EmulatorConfig, SpecError};
use crate::ops::switches::{SwitchError, Switches};
use std::env::{self, VarError};

/// Names the device that tests and benches use: `auto`, `cuda:N` or `emulator`.
pub const DEVICE: &str = "VARVE_DEVICE";
/// Seed of the emulator's order of threads, a number.
pub const SEED: &str = "VARVE_EMU_SEED";
/// Which variants may run, as `--variants` takes it.
pub const VARIANTS: &str = "VARVE_VARIANTS";

/// What the environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `VARVE_DEVICE`, where it is set.
    pub device: Option<DeviceSpec>,
    /// `VARVE_EMU_SEED`, where it is set.
    pub seed: Option<u64>,
    /// `VARVE_VARIANTS`, where it is set.
    pub variants: Option<Switches>,
}

/// A variable with a value that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// Not a device.
    #[error("environment variable {DEVICE}: {0}")]
    Device(#[from] SpecError),
    /// Not a number.
    #[error("environment variable {SEED} is `{0}`; use a number from 0 to 18446744073709551615")]
    Seed(String),
    /// Not a list of switches.
    #[error("environment variable {VARIANTS}: {0}")]
    Variants(#[from] SwitchError),
    /// Not text.
    #[error("environment variable {0} is not UTF-8")]
    NotUnicode(&'static str),
}

fn variable(name: &'static str) -> Result<Option<String>, EnvironmentError> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(EnvironmentError::NotUnicode(name)),
    }
}

impl Environment {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`EnvironmentError`] names the variable and its value.
    pub fn read() -> Result<Self, EnvironmentError> {
        Self::from_values(variable(DEVICE)?.as_deref(), variable(SEED)?.as_deref(), variable(VARIANTS)?.as_deref())
    }

    fn from_values(device: Option<&str>, seed: Option<&str>, variants: Option<&str>) -> Result<Self, EnvironmentError> {
        let number = |text: &str| text.parse().map_err(|_| EnvironmentError::Seed(text.into()));
        Ok(Self {
            device: device.map(str::parse).transpose()?,
            seed: seed.map(number).transpose()?,
            variants: variants.map(str::parse).transpose()?,
        })
    }

    /// Opens `asked`, else the environment's device, else `default`; an emulated one with the environment's seed.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open(&self, asked: Option<DeviceSpec>, default: DeviceSpec) -> Result<Device, BackendError> {
        let spec = asked.or(self.device).unwrap_or(default);
        Device::open_with(&spec, EmulatorConfig { seed: self.seed.unwrap_or(0), ..EmulatorConfig::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        let read = Environment::from_values;
        assert_eq!(read(None, None, None), Ok(Environment::default()));
        let both = Environment { device: Some(DeviceSpec::Cuda(1)), seed: Some(7), variants: None };
        assert_eq!(read(Some("cuda:1"), Some("7"), None), Ok(both));
        let error = read(Some("gpu"), None, None).expect_err("no device").to_string();
        assert!(error.starts_with("environment variable VARVE_DEVICE: `gpu` is no device"), "{error}");
        let error = read(None, Some("-1"), None).expect_err("no number").to_string();
        assert!(error.starts_with("environment variable VARVE_EMU_SEED is `-1`"), "{error}");
        let error = read(None, None, Some("delta.rec")).expect_err("no switch").to_string();
        assert!(error.starts_with("environment variable VARVE_VARIANTS: `delta.rec` is no dispatch switch"), "{error}");
    }
}
