//! Routed experts and a shared one.
//!
//! ```text
//! ids, w = the largest of softmax(x W_router), w divided by its sum
//! y      = sum over j of w_j expert[ids_j](x) + sigmoid(x . shared_gate) shared(x),   expert(x) as a dense feed forward
//! ```

use varve_gpu::moe::{TILE_WORDS, max_tiles};

use super::mlp::{Mlp, MlpScratch};
use super::{Into, project};
use crate::backend::{BackendError, Device};
use crate::model::config::ExpertSizes;
use crate::model::rows::Rows;
use crate::model::run::{Probe, Run};
use crate::model::weights::{Matrix, Names, Part, Scope, Segment};
use crate::model::{ModelError, OpenError};
use crate::ops::moe_combine::{CombineArgs, combine};
use crate::ops::moe_plan::{PlanArgs, plan};
use crate::ops::moe_product::{ExpertProductArgs, Tiles, expert_product};
use crate::ops::moe_router::{RouterArgs, router};
use crate::ops::moe_silu_mul::{SiluMulArgs, silu_mul};

/// Weights.
pub struct Experts {
    sizes: ExpertSizes,
    /// f32 `[count + 1, hidden]`: the router, then the gate of the shared expert.
    router: Matrix,
    /// `[count * 2 inner, hidden]`: for each expert gate rows, then up rows.
    gate_up: Segment,
    /// `[count * hidden, inner]`.
    down: Segment,
    shared: Mlp,
}

/// Memory of a pass, shared by all layers.
pub struct ExpertScratch {
    logits: Rows<f32>,
    ids: Rows<u32>,
    weights: Rows<f32>,
    tiles: Rows<u32>,
    n_tiles: Rows<u32>,
    gate_up: Rows<f32>,
    inner: Rows<f32>,
    down: Rows<f32>,
    shared: MlpScratch,
    shared_out: Rows<f32>,
}

impl ExpertScratch {
    /// For passes of up to `tokens` tokens.
    pub fn new(device: &Device, sizes: &ExpertSizes, hidden: usize, tokens: usize) -> Result<Self, BackendError> {
        let used = sizes.used;
        Ok(Self {
            logits: Rows::new(device, tokens, sizes.count + 1)?,
            ids: Rows::new(device, tokens, used)?,
            weights: Rows::new(device, tokens, used)?,
            tiles: Rows::new(device, max_tiles(tokens * used, sizes.count), TILE_WORDS)?,
            n_tiles: Rows::new(device, 1, 1)?,
            gate_up: Rows::new(device, tokens, used * 2 * sizes.inner)?,
            inner: Rows::new(device, tokens, used * sizes.inner)?,
            down: Rows::new(device, tokens, used * hidden)?,
            shared: MlpScratch::new(device, sizes.shared_inner, tokens)?,
            shared_out: Rows::new(device, tokens, hidden)?,
        })
    }
}

const SHARED: [Names; 3] = [
    ("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"),
    ("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"),
    ("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"),
];

/// The experts' tensors one by one, as older files have them.
const SINGLE_GATE: &str = "mlp.experts.0.gate_proj.weight";

impl Experts {
    /// Reads the weights of a layer.
    pub fn load(scope: &Scope<'_>, sizes: &ExpertSizes, hidden: usize) -> Result<Self, OpenError> {
        let mut router = scope.values(("mlp.gate.weight", "ffn_gate_inp.weight"), &[sizes.count, hidden])?;
        let gate = ("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight");
        router.extend(scope.values(gate, &[1, hidden])?);
        let rows = [sizes.count + 1, hidden];
        let reader = scope.reader();
        Ok(Self {
            router: Matrix::from_f32(reader.device(), rows, &router)?,
            gate_up: reader.table(&gate_up_parts(scope, sizes, hidden))?,
            down: reader.table(&down_parts(scope, sizes, hidden))?,
            shared: Mlp::load(scope, SHARED, hidden, sizes.shared_inner)?,
            sizes: sizes.clone(),
        })
    }

    /// The block for x `[tokens, hidden]`.
    pub fn forward(
        &self,
        run: &Run<'_>,
        x: &Rows<f32>,
        s: &mut ExpertScratch,
        y: &mut Rows<f32>,
        (layer, probe): (usize, &mut Probe),
    ) -> Result<(), ModelError> {
        let (n, pick, stream) = (run.tokens, run.pick(), run.stream);
        let ExpertSizes { count, used, inner, renormalise, .. } = self.sizes;
        let pairs = n * used;
        project(run, &self.router, &x.first(n)?, s.logits.first_mut(n)?)?;
        let (ids, weights) = (s.ids.first_mut(n)?, s.weights.first_mut(n)?);
        router(pick, stream, RouterArgs { logits: s.logits.columns(n, 0..count)?, ids, weights, renormalise })?;
        probe.note_ids(layer, "moe.ids", &s.ids, n)?;
        probe.note(layer, "moe.weights", &s.weights, n)?;
        if n > 1 {
            let (tiles, n_tiles) = (s.tiles.all_mut()?, s.n_tiles.line_mut(1)?);
            plan(pick, stream, PlanArgs { ids: s.ids.first(n)?, experts: count, tiles, n_tiles })?;
        }
        let tiles = if n > 1 { Some(Tiles { tiles: s.tiles.all()?, count: s.n_tiles.line(1)? }) } else { None };
        expert_product(
            pick,
            stream,
            ExpertProductArgs {
                w: self.gate_up.stored()?,
                experts: count,
                x: x.first(n)?,
                ids: s.ids.line(pairs)?,
                tiles,
                y: s.gate_up.split_mut(n, used)?,
            },
        )?;
        let both = s.gate_up.split(n, used)?;
        silu_mul(
            pick,
            stream,
            SiluMulArgs {
                gate: both.part(1, 0..inner)?,
                up: both.part(1, inner..2 * inner)?,
                h: s.inner.split_mut(n, used)?,
            },
        )?;
        expert_product(
            pick,
            stream,
            ExpertProductArgs {
                w: self.down.stored()?,
                experts: count,
                x: s.inner.split(n, used)?,
                ids: s.ids.line(pairs)?,
                tiles,
                y: s.down.split_mut(n, used)?,
            },
        )?;
        self.shared.forward(run, x, &mut s.shared, (Into::Fresh, &mut s.shared_out))?;
        combine(
            pick,
            stream,
            CombineArgs {
                weights: s.weights.first(n)?,
                down: s.down.split(n, used)?,
                shared_gate: s.logits.columns(n, count..count + 1)?,
                shared: s.shared_out.first(n)?,
                y: y.first_mut(n)?,
            },
        )?;
        Ok(())
    }
}

/// For each expert its gate rows, then its up rows, from whichever tensors hold them.
fn gate_up_parts(scope: &Scope<'_>, sizes: &ExpertSizes, hidden: usize) -> Vec<Part> {
    let (count, inner) = (sizes.count, sizes.inner);
    let fused = ("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight");
    if scope.has((SINGLE_GATE, "")) && !scope.reader().is_gguf() {
        let single = |e: usize, what: &str| {
            let name = format!("{}mlp.experts.{e}.{what}_proj.weight", scope.name(("", "")));
            Part::new(name, &[inner, hidden])
        };
        return (0..count).flat_map(|e| [single(e, "gate"), single(e, "up")]).collect();
    }
    if !scope.reader().is_gguf() || scope.has(fused) {
        return vec![scope.part(fused, &[count, 2 * inner, hidden])];
    }
    let of =
        |name: &'static str, e: usize| scope.part(("", name), &[count, inner, hidden]).rows(e * inner..(e + 1) * inner);
    (0..count).flat_map(|e| [of("ffn_gate_exps.weight", e), of("ffn_up_exps.weight", e)]).collect()
}

/// The down matrices of all experts.
fn down_parts(scope: &Scope<'_>, sizes: &ExpertSizes, hidden: usize) -> Vec<Part> {
    let (count, inner) = (sizes.count, sizes.inner);
    if scope.has((SINGLE_GATE, "")) && !scope.reader().is_gguf() {
        let name = |e: usize| format!("{}mlp.experts.{e}.down_proj.weight", scope.name(("", "")));
        return (0..count).map(|e| Part::new(name(e), &[hidden, inner])).collect();
    }
    vec![scope.part(("mlp.experts.down_proj", "ffn_down_exps.weight"), &[count, hidden, inner])]
}
