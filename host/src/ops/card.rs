//! A card of which only figures are known, as a dispatch target: kernels are taken to use all that their budgets allow.

use cuda_std::launch::Kernel;
use varve_gpu::catalog;

use super::dispatch::Target;
use crate::backend::{BackendError, Caps, Resources, estimate_blocks_per_sm};

/// The card.
#[derive(Clone, Debug)]
pub struct Card(pub Caps);

impl Target for Card {
    fn caps(&self) -> &Caps {
        &self.0
    }

    fn blocks_per_sm<P: Copy>(&self, kernel: &Kernel<P>, threads: u32, dynamic: u32) -> Result<u32, BackendError> {
        let entry = catalog::entries().into_iter().find(|entry| entry.kernel.symbol == kernel.symbol());
        let resources = entry.map_or_else(
            || Resources::from_bounds(&self.0, kernel.bounds()),
            |e| Resources { registers: e.budget.registers, static_shared_bytes: e.budget.shared_bytes },
        );
        Ok(estimate_blocks_per_sm(&self.0, resources, threads, dynamic))
    }
}
