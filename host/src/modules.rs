//! Embedded PTX, until the build script makes it.
/// none
pub const PTX_SM75: &str = "";
/// none
pub const PTX_SM80: &str = "";
/// none
pub const PTX_SM90A: &str = "";
