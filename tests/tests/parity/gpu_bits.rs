//! Without mma a card gives the emulator's bits: every variant, T = 1 to 257, from a state that is not zero.

use half::f16;
use varve::backend::{Device, EmulatorConfig};
use varve::ops::delta_out_norm::{DELTA_OUT_NORM, OutNormArgs, OutputGate, out_norm_by};
use varve::ops::delta_rec::{DELTA_REC, RecArgs, StateAfter, recurrence_by};
use varve::ops::{DeltaSizes, LogGate};
use varve::proof::case::{NORM_INPUTS, NormCase, NormShape, RecCase, RecShape};
use varve::proof::{compare, inputs};

use crate::device;

/// The card and an emulator, or nothing to compare.
fn both() -> Option<[Device; 2]> {
    let card = device();
    if card.caps().is_emulator {
        println!("skipped: GPU bits against emulator bits needs VARVE_DEVICE=cuda:N");
        return None;
    }
    Some([card, Device::emulator(EmulatorConfig::default())])
}

fn run(device: &Device, variant: &str, case: &RecCase) -> (Vec<f32>, Vec<f32>) {
    let RecShape { key_heads, value_heads, tokens, .. } = case.shape;
    let stream = device.stream().unwrap();
    let upload = |data: &[f32]| device.upload(data).unwrap();
    let (qkv, gate, beta, mut state) = (upload(&case.qkv), upload(&case.gate), upload(&case.beta), upload(&case.state));
    let mut y = device.alloc(tokens * case.shape.y_width()).unwrap();
    y.poison().unwrap();
    let args = RecArgs {
        qkv: qkv.view([tokens, case.shape.qkv_width()]).unwrap(),
        gate: LogGate(gate.view([tokens, value_heads]).unwrap()),
        beta: beta.view([tokens, value_heads]).unwrap(),
        state: state.view_mut([128, value_heads, 128]).unwrap(),
        y: y.view_mut([tokens, case.shape.y_width()]).unwrap(),
        key_heads,
        state_after: StateAfter::Updated,
        batch: None,
    };
    recurrence_by(variant, &stream, args).unwrap();
    stream.synchronize().unwrap();
    (y.read().unwrap(), state.read().unwrap())
}

/// Variants whose products are formed by tensor cores: the order of their sums is the hardware's.
const BY_TENSOR_CORES: &[&str] = &["tc32", "tc32_fast", "wg32", "wg32_fast", "wg32_split"];

#[test]
fn recurrence() {
    let Some([card, emulator]) = both() else { return };
    let mut compared = 0;
    for tokens in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 257] {
        for (key_heads, value_heads) in [(2, 6), (1, 2), (1, 1)] {
            let case = RecCase::new(RecShape::dense(key_heads, value_heads, tokens), &inputs::BASE, 11);
            let sizes = DeltaSizes::single(key_heads, value_heads, tokens);
            for row in DELTA_REC.rows.iter().filter(|row| !BY_TENSOR_CORES.contains(&row.name)) {
                if DELTA_REC.launch_of(row, card.caps(), &sizes).is_err() {
                    continue;
                }
                let [on_card, emulated] = [&card, &emulator].map(|device| run(device, row.name, &case));
                let name = format!("{} T={tokens} heads={key_heads}x{value_heads}", row.name);
                compare::bits(&emulated.0, &on_card.0).unwrap_or_else(|e| panic!("{name}, y: {e}"));
                compare::bits(&emulated.1, &on_card.1).unwrap_or_else(|e| panic!("{name}, state: {e}"));
                compared += 1;
            }
        }
    }
    println!("{compared} runs of the card have the emulator's bits");
}

fn norm(device: &Device, variant: &str, case: &NormCase, gate: OutputGate) -> Vec<f16> {
    let (tokens, width) = (case.shape.tokens, case.shape.width());
    let stream = device.stream().unwrap();
    let upload = |data: &[f32]| device.upload(data).unwrap();
    let (y, z, gamma) = (upload(&case.y), upload(&case.z), upload(&case.gamma));
    let mut y16 = device.alloc::<u16>(tokens * width).unwrap();
    y16.poison().unwrap();
    let args = OutNormArgs {
        y: y.view([tokens, width]).unwrap(),
        z: z.view([tokens, width]).unwrap(),
        gamma: gamma.view([128]).unwrap(),
        y16: y16.view_mut([tokens, width]).unwrap(),
        eps: 1e-6,
        gate,
    };
    out_norm_by(variant, &stream, args).unwrap();
    stream.synchronize().unwrap();
    y16.read().unwrap().into_iter().map(f16::from_bits).collect()
}

#[test]
fn output_norm() {
    let Some([card, emulator]) = both() else { return };
    for inputs in NORM_INPUTS {
        for tokens in [1, 2, 33] {
            let case = NormCase::new(NormShape::dense(9, tokens), inputs, 12);
            for gate in [OutputGate::Sigmoid, OutputGate::Silu] {
                for row in DELTA_OUT_NORM.rows {
                    let [on_card, emulated] = [&card, &emulator].map(|device| norm(device, row.name, &case, gate));
                    compare::bits(&emulated, &on_card)
                        .unwrap_or_else(|e| panic!("{} {} T={tokens} {gate:?}: {e}", row.name, inputs.name));
                }
            }
        }
    }
}
