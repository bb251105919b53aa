//! One call of the recurrence by a named variant: a case in, its outputs and final state out.

use varve::backend::Device;
use varve::ops::LogGate;
use varve::ops::delta_rec::{RecArgs, StateAfter, recurrence_by};
use varve::proof::case::RecCase;

/// Outputs `[tokens, value_heads * 128]` and state `[128, value_heads, 128]` of `case` by `variant`, both written whole.
pub fn recurrence_of(device: &Device, case: &RecCase, variant: &str) -> (Vec<f32>, Vec<f32>) {
    let shape = case.shape;
    let upload = |data: &[f32]| device.upload(data).unwrap();
    let (qkv, gate, beta, mut state) = (upload(&case.qkv), upload(&case.gate), upload(&case.beta), upload(&case.state));
    let mut y = device.alloc::<f32>(shape.tokens * shape.y_width()).unwrap();
    y.poison().unwrap();
    let stream = device.stream().unwrap();
    let args = RecArgs {
        qkv: qkv.view([shape.tokens, shape.qkv_width()]).unwrap(),
        gate: LogGate(gate.view([shape.tokens, shape.value_heads]).unwrap()),
        beta: beta.view([shape.tokens, shape.value_heads]).unwrap(),
        state: state.view_mut([128, shape.value_heads, 128]).unwrap(),
        y: y.view_mut([shape.tokens, shape.y_width()]).unwrap(),
        key_heads: shape.key_heads,
        state_after: StateAfter::Updated,
        batch: None,
    };
    recurrence_by(variant, &stream, args).unwrap_or_else(|error| panic!("{variant}: {error}"));
    stream.synchronize().unwrap();
    (y.read().unwrap(), state.read().unwrap())
}
