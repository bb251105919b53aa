//! A dense feed forward: `y = (silu(x W_gate) * (x W_up)) W_down`.

use super::{Into, project, project_into};
use crate::backend::{BackendError, Device};
use crate::model::rows::Rows;
use crate::model::run::Run;
use crate::model::weights::{Matrix, Names, Scope};
use crate::model::{ModelError, OpenError};
use crate::ops::moe_silu_mul::{SiluMulArgs, silu_mul};

/// Weights.
pub struct Mlp {
    inner: usize,
    /// `[2 inner, hidden]`: gate rows, then up rows.
    gate_up: Matrix,
    /// `[hidden, inner]`.
    down: Matrix,
}

/// Memory of a pass, shared by all layers.
pub struct MlpScratch {
    gate_up: Rows<f32>,
    inner: Rows<f32>,
}

impl MlpScratch {
    /// For passes of up to `tokens` tokens.
    pub fn new(device: &Device, inner: usize, tokens: usize) -> Result<Self, BackendError> {
        Ok(Self { gate_up: Rows::new(device, tokens, 2 * inner)?, inner: Rows::new(device, tokens, inner)? })
    }
}

impl Mlp {
    /// Reads the weights under the names of gate, up and down.
    pub fn load(scope: &Scope<'_>, names: [Names; 3], hidden: usize, inner: usize) -> Result<Self, OpenError> {
        let [gate, up, down] = names;
        let rows = [inner, hidden];
        let gate_up = scope.reader().matrix(&[scope.part(gate, &rows), scope.part(up, &rows)])?;
        Ok(Self { inner, gate_up, down: scope.matrix(down, [hidden, inner])? })
    }

    /// The block for x `[tokens, hidden]`.
    pub fn forward(
        &self,
        run: &Run<'_>,
        x: &Rows<f32>,
        s: &mut MlpScratch,
        (into, y): (Into, &mut Rows<f32>),
    ) -> Result<(), ModelError> {
        let (n, inner) = (run.tokens, self.inner);
        project(run, &self.gate_up, &x.first(n)?, s.gate_up.first_mut(n)?)?;
        silu_mul(
            run.pick(),
            run.stream,
            SiluMulArgs {
                gate: s.gate_up.columns(n, 0..inner)?,
                up: s.gate_up.columns(n, inner..2 * inner)?,
                h: s.inner.first_mut(n)?,
            },
        )?;
        project_into(run, &self.down, &s.inner.first(n)?, into, y)
    }
}
