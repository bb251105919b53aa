//! What the launches of a model's passes take, prompts and single tokens apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{BackendError, Cost, Device, Profile};

/// The passes of a kind.
#[derive(Clone, Debug, Default)]
pub struct PassCosts {
    /// Tokens of them all.
    pub tokens: usize,
    /// By kernel symbol.
    pub kernels: BTreeMap<&'static str, Cost>,
}

/// Costs of a model's passes so far.
pub struct Profiled {
    profile: Arc<Profile>,
    costs: Mutex<[PassCosts; 2]>,
}

impl Profiled {
    /// Nothing yet.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self { profile: Arc::new(Profile::new(device)), costs: Mutex::default() }
    }

    /// What times the launches.
    pub(super) fn profile(&self) -> Arc<Profile> {
        self.profile.clone()
    }

    /// Adds the launches since the last call to the passes of `tokens` tokens, once they have run.
    pub(super) fn end_pass(&self, tokens: usize) -> Result<(), BackendError> {
        self.profile.settle()?;
        let of_a_kind = &mut self.costs()[usize::from(tokens == 1)];
        of_a_kind.tokens += tokens;
        for (symbol, cost) in self.profile.take() {
            let sum = of_a_kind.kernels.entry(symbol).or_default();
            sum.launches += cost.launches;
            sum.us += cost.us;
        }
        Ok(())
    }

    /// Costs of passes of several tokens.
    #[must_use]
    pub fn prompt(&self) -> PassCosts {
        self.costs()[0].clone()
    }

    /// Costs of passes of one token.
    #[must_use]
    pub fn decode(&self) -> PassCosts {
        self.costs()[1].clone()
    }

    fn costs(&self) -> MutexGuard<'_, [PassCosts; 2]> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
