//! `delta.out_norm`: every variant and both gates against the reference, element by element, and against the base's bits.

use half::f16;

use super::delta_rec::DATA;
use super::loaded::{Flaw, rows};
use super::row::Row;
use super::{Context, Scale, Work};
use crate::backend::{BackendError, Buffer, Device, Stream};
use crate::ops::delta_out_norm::{DELTA_OUT_NORM, OutNormArgs, OutNormSizes, OutputGate, out_norm_by};
use crate::ops::exactness::Exactness;
use crate::proof::case::{NORM_INPUTS, NormCase, NormInputs, NormShape};
use crate::proof::reference::out_norm::{out_norm, sigmoid, silu};
use crate::proof::{bounds, compare};
use varve_gpu::geometry::HEAD_DIM;

const GUARD_ROWS: usize = 8;

struct Loaded<'a> {
    case: &'a NormCase,
    stream: Stream,
    y: Buffer<f32>,
    z: Buffer<f32>,
    gamma: Buffer<f32>,
    y16: Buffer<u16>,
    poison: u32,
}

impl<'a> Loaded<'a> {
    fn new(device: &Device, case: &'a NormCase) -> Result<Self, BackendError> {
        let guarded = |data: &[f32], stride: usize| {
            let mut rows = data.to_vec();
            rows.resize(data.len() + GUARD_ROWS * stride, f32::NAN);
            device.upload(&rows)
        };
        let shape = &case.shape;
        let mut y16: Buffer<u16> = device.alloc((shape.tokens + GUARD_ROWS) * shape.y16_stride)?;
        y16.poison()?;
        let poison = u32::from(y16.read_range(0..1)?[0]);
        Ok(Self {
            case,
            stream: device.stream()?,
            y: guarded(&case.y, shape.y_stride)?,
            z: guarded(&case.z, shape.z_stride)?,
            gamma: device.upload(&case.gamma)?,
            y16,
            poison,
        })
    }

    fn run(&mut self, variant: &str, gate: OutputGate) -> Result<Vec<f16>, Flaw> {
        self.y16.poison()?;
        let shape = self.case.shape;
        let (tokens, width) = (0..shape.tokens, shape.width());
        let args = OutNormArgs {
            y: rows(&self.y, &tokens, width, shape.y_stride)?,
            z: rows(&self.z, &tokens, width, shape.z_stride)?,
            gamma: self.gamma.view([HEAD_DIM]).map_err(BackendError::from)?,
            y16: self
                .y16
                .view_strided_mut(0, [shape.tokens, width], [shape.y16_stride, 1])
                .map_err(BackendError::from)?,
            eps: self.case.eps,
            gate,
        };
        out_norm_by(variant, &self.stream, args)?;
        let found: Vec<f16> = self.y16.read()?.into_iter().map(f16::from_bits).collect();
        compare::gaps_untouched(&found, shape.tokens, width, shape.y16_stride, self.poison)?;
        let found = compare::dense_rows(found, shape.tokens, width, shape.y16_stride);
        compare::written(&found, self.poison)?;
        Ok(found)
    }
}

fn gate_name(gate: OutputGate) -> &'static str {
    match gate {
        OutputGate::Sigmoid => "sigmoid",
        OutputGate::Silu => "silu",
    }
}

fn prove(context: &Context<'_>, name: &str, shape: NormShape, inputs: &NormInputs, gate: OutputGate) -> Vec<Row> {
    let sizes = OutNormSizes { tokens: shape.tokens, value_heads: shape.value_heads, gate };
    let variants = context.variants(&DELTA_OUT_NORM, &sizes);
    let case = NormCase::new(shape, inputs, DATA);
    let reference = match gate {
        OutputGate::Sigmoid => out_norm(&case, sigmoid),
        OutputGate::Silu => out_norm(&case, silu),
    };
    let base_name = DELTA_OUT_NORM.base().name;
    let check = |row: &mut Row, variant: &'static str, promise: Exactness| -> Result<(), Flaw> {
        let promised = !matches!(promise, Exactness::Rounding { .. });
        let mut loaded = context.devices.each(|device| Loaded::new(device, &case))?;
        let base = loaded[0].run(base_name, gate)?;
        let mut first: Option<Vec<f16>> = None;
        for seed in 0..context.devices.seeds() {
            let place = seed % loaded.len();
            let got = loaded[place].run(variant, gate)?;
            if let Some(first) = &first {
                row.check_bits(&format!("run {seed}, y16"), true, compare::bits(first, &got));
                continue;
            }
            row.check_worst(
                "y16 by element",
                bounds::OUT_NORM,
                compare::elementwise(&reference, &got, bounds::F16_MIN_NORMAL)?,
            );
            row.check_bits("y16", promised, compare::bits(&base, &got));
            let base: Vec<f64> = base.iter().map(|&x| f64::from(x)).collect();
            let difference = compare::elementwise(&base, &got, bounds::F16_MIN_NORMAL)?;
            row.base_differs_by(difference.error);
            if let Exactness::Rounding { bound, .. } = promise {
                row.check("", difference.within("difference from the base", bound));
            }
            first = Some(got);
        }
        Ok(())
    };
    let row_of = |variant: &'static str, exactness: Exactness| {
        let names = (DELTA_OUT_NORM.op, variant, base_name);
        context.row(names, exactness, name, |row| check(row, variant, exactness))
    };
    variants.into_iter().map(|variant| row_of(variant.name, variant.exactness)).collect()
}

/// The cases of this operation.
pub(super) fn works(scale: Scale) -> Vec<Work> {
    let small = scale.is_small();
    let heads = if small { 6 } else { 48 };
    let mut cases: Vec<(NormShape, &'static NormInputs)> = Vec::new();
    let base = &NORM_INPUTS[0];
    cases.extend([1, 2, 3, 8, 33].map(|tokens| (NormShape::dense(heads, tokens), base)));
    if !small {
        cases.extend([1000, 4099].map(|tokens| (NormShape::dense(heads, tokens), base)));
    }
    cases.extend([1, 7, 8, 9, 48, 64].map(|heads| (NormShape::dense(heads, 4), base)));
    cases.extend([5, 12].map(|heads| (NormShape::gapped(heads, 5), base)));
    cases.extend(NORM_INPUTS[1..].iter().map(|inputs| (NormShape::dense(heads, 9), inputs)));
    let gates = [OutputGate::Sigmoid, OutputGate::Silu];
    let work = |(shape, inputs): (NormShape, &'static NormInputs)| {
        gates.map(|gate| {
            let gaps = if shape == NormShape::dense(shape.value_heads, shape.tokens) { "" } else { "/gaps" };
            let NormShape { tokens, value_heads, .. } = shape;
            let name = format!("{}/{}/T={tokens}/heads={value_heads}{gaps}", inputs.name, gate_name(gate));
            Work::new(name, move |context, name| prove(context, name, shape, inputs, gate))
        })
    };
    cases.into_iter().flat_map(work).collect()
}
