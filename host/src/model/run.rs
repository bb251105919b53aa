//! One pass of some tokens through the layers: what every layer needs to know, and who may watch.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::ModelError;
use super::products::ProductScratch;
use super::rows::Rows;
use crate::backend::Stream;
use crate::ops::attn_norm_rope::RopeTables;
use crate::ops::dispatch::{Dispatch, Pick};

/// A pass.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Where the launches go.
    pub stream: &'a Stream,
    /// Which variants may run.
    pub dispatch: &'a Dispatch,
    /// Tokens of the pass.
    pub tokens: usize,
    /// Rotary tables, and the position of the first token.
    pub rope: RopeTables<'a>,
    /// `rms_norm_eps`.
    pub eps: f32,
    /// Memory of products with blocks.
    pub products: &'a RefCell<ProductScratch>,
}

impl Run<'_> {
    /// How variants are picked.
    pub fn pick(&self) -> Pick<'_> {
        Pick::Best(self.dispatch)
    }
}

/// Watches values on their way through the layers, by name, for tests and for finding faults: each name it wants costs a
/// copy to the host a pass.
///
/// Names: `embed`, `layerN` (the residual behind layer N), `final` (what the head reads), `logits`; `layerN.mixed` and
/// `layerN.low` (first mixer: its output; low rank, then injections), `layerN.gdn.core`, `layerN.ple.before`,
/// `layerN.qsa.cells` (a row of cells a token, its length as the budget and the tail say), `layerN.moe.ids`, `layerN.moe.weights`.
#[derive(Default)]
pub struct Probe {
    wanted: Vec<String>,
    /// f32 values by name, the passes one behind the other.
    pub values: BTreeMap<String, Vec<f32>>,
    /// u32 values by name.
    pub ids: BTreeMap<String, Vec<u32>>,
}

impl Probe {
    /// Watches nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Watches these names; one that ends with `*` stands for all that begin so.
    #[must_use]
    pub fn of(names: &[&str]) -> Self {
        Self { wanted: names.iter().map(|&name| name.to_owned()).collect(), ..Self::default() }
    }

    /// Whether the name is watched.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.wanted
            .iter()
            .any(|wanted| wanted.strip_suffix('*').map_or(wanted == name, |start| name.starts_with(start)))
    }

    /// Notes the first rows, if the name is watched.
    pub(super) fn note(&mut self, layer: usize, what: &str, rows: &Rows<f32>, n: usize) -> Result<(), ModelError> {
        if !self.wanted.is_empty() {
            let name = if what.is_empty() { format!("layer{layer}") } else { format!("layer{layer}.{what}") };
            self.note_top(&name, rows, n)?;
        }
        Ok(())
    }

    /// As [`note`](Self::note), for a name outside the layers.
    pub(super) fn note_top(&mut self, name: &str, rows: &Rows<f32>, n: usize) -> Result<(), ModelError> {
        if self.wants(name) {
            self.values.entry(name.to_owned()).or_default().extend(rows.read(n)?);
        }
        Ok(())
    }

    /// As [`note`](Self::note), for ids.
    pub(super) fn note_ids(&mut self, layer: usize, what: &str, rows: &Rows<u32>, n: usize) -> Result<(), ModelError> {
        if !self.wanted.is_empty() {
            let name = format!("layer{layer}.{what}");
            if self.wants(&name) {
                self.ids.entry(name).or_default().extend(rows.read(n)?);
            }
        }
        Ok(())
    }
}
