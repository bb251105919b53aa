//! What a variant promises against its operation's base variant.

use serde::Serialize;

/// The promise of a variant, enforced by `varve parity` and the parity tests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exactness {
    /// This is the base variant: compared with the FP64 reference only.
    Base,
    /// Every output bit equals the base variant's on the same inputs.
    Bitwise,
    /// max |difference| / max |base| stays within `bound`, and so does the error against FP64; the derivation is at
    /// `derived` in docs/src.
    Rounding {
        /// Largest allowed relative difference, whatever the inputs within the operation's contract.
        bound: f64,
        /// Largest allowed relative error against FP64 on inputs of ordinary use; at most `bound`.
        ordinary: f64,
        /// Page and heading that derive it.
        derived: &'static str,
    },
}

impl Exactness {
    /// One word for tables and JSON rows.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Bitwise => "bitwise",
            Self::Rounding { .. } => "rounding",
        }
    }
}
