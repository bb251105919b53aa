//! Rotary tables of a model, on its device.

use super::config::AttentionSizes;
use super::rows::Rows;
use crate::backend::{BackendError, Device, ShapeError};
use crate::ops::attn_norm_rope::RopeTables;

/// Positions whose angles are computed at a time.
const STEP: usize = 4096;

/// Cosine and sine of every position and rotating pair.
pub struct Rope {
    cos: Rows<f32>,
    sin: Rows<f32>,
}

impl Rope {
    /// Tables for `positions` positions. The angle is `position * theta^(-2 i / rotary)`, both factors and the product
    /// rounded to f32, as PyTorch forms it: references of long contexts depend on that.
    pub fn new(device: &Device, sizes: &AttentionSizes, positions: usize) -> Result<Self, BackendError> {
        let pairs = sizes.rotary / 2;
        let frequency = |i: usize| (1.0 / sizes.theta.powf(2.0 * i as f64 / sizes.rotary as f64)) as f32;
        let frequencies: Vec<f32> = (0..pairs).map(frequency).collect();
        let table = |of: fn(f64) -> f64| {
            let mut rows = Rows::new(device, positions, pairs)?;
            for first in (0..positions).step_by(STEP) {
                let at = first..positions.min(first + STEP);
                let angles = at.flat_map(|at| frequencies.iter().map(move |f| f64::from(at as f32 * f)));
                rows.write_from(first, &angles.map(|angle| of(angle) as f32).collect::<Vec<_>>())?;
            }
            Ok::<_, BackendError>(rows)
        };
        Ok(Self { cos: table(f64::cos)?, sin: table(f64::sin)? })
    }

    /// For a pass whose first token is at `first`.
    pub fn from(&self, first: usize) -> Result<RopeTables<'_>, ShapeError> {
        Ok(RopeTables { cos: self.cos.all()?, sin: self.sin.all()?, first })
    }
}
