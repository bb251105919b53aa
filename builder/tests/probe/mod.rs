//! The probe crate under the builder.

use cuda_builder::rules::Ptx;
use cuda_builder::{CudaBuilder, Measures};

use crate::common::{fixture, folder};

/// Builds the probe for sm_80 under `measures`.
pub fn build(test: &str, measures: Measures) -> Ptx {
    let path = folder(test).join("probe.ptx");
    let built = CudaBuilder::new(fixture("probe")).arch("sm_80").copy_to(&path).measures(measures).build();
    built.unwrap_or_else(|e| panic!("the probe must build: {e}"));
    Ptx::parse(&std::fs::read_to_string(path).expect("just written"))
}
