//! What a batch's operands must be; nothing is enqueued for the others.

use varve::backend::{Device, EmulatorConfig, Stream};
use varve::ops::delta_rec::{RecArgs, StateAfter, recurrence};
use varve::ops::dispatch::{Dispatch, OpError};
use varve::ops::{Batch, LogGate};

/// A call over `tokens` tokens of 1 key head and 1 value head with `states` states, `starts` and `longest`.
fn call(
    stream: &Stream,
    [tokens, states]: [usize; 2],
    starts: &[u32],
    longest: usize,
) -> Result<&'static str, OpError> {
    let device = stream.device();
    let zeros = |n: usize| device.upload(&vec![0.0f32; n]).unwrap();
    let (qkv, gate, beta) = (zeros(tokens * 384), zeros(tokens), zeros(tokens));
    let (mut state, mut y) = (zeros(states * 128 * 128), zeros(tokens * 128));
    let starts = device.upload(starts).unwrap();
    let args = RecArgs {
        qkv: qkv.view([tokens, 384]).unwrap(),
        gate: LogGate(gate.view([tokens, 1]).unwrap()),
        beta: beta.view([tokens, 1]).unwrap(),
        state: state.view_mut([states * 128, 1, 128]).unwrap(),
        y: y.view_mut([tokens, 128]).unwrap(),
        key_heads: 1,
        state_after: StateAfter::Updated,
        batch: Some(Batch { starts: starts.view([starts.len()]).unwrap(), longest }),
    };
    recurrence(&Dispatch::default(), stream, args)
}

#[test]
fn operands_of_a_batch_are_checked() {
    let stream = Device::emulator(EmulatorConfig::default()).stream().unwrap();
    call(&stream, [6, 2], &[0, 4, 6], 4).unwrap();
    call(&stream, [0, 2], &[0, 0, 0], 0).unwrap();
    let refused = |sizes, starts: &[u32], longest, part: &str| {
        let error = call(&stream, sizes, starts, longest).unwrap_err().to_string();
        assert!(error.starts_with("delta.rec: ") && error.contains(part), "{part}: {error}");
    };
    refused([6, 2], &[0, 4, 6], 0, "longest is 0 of 6 tokens, at least 1, at most the tokens of the call");
    refused([6, 2], &[0, 4, 6], 7, "longest is 7 of 6 tokens");
    refused([6, 2], &[0], 6, "starts is 1 values, one more than the 1 to 65535 sequences");
    refused([6, 2], &[], 6, "starts is 0 values");
    refused([6, 2], &[0, 6], 6, "`state` has shape [256, 1, 128], needed is [128, 1, 128]");
    refused([6, 1], &[0, 4, 6], 6, "`state` has shape [128, 1, 128], needed is [256, 1, 128]");
}

#[test]
fn the_longest_sequence_decides_what_a_window_is() {
    let stream = Device::emulator(EmulatorConfig::default()).stream().unwrap();
    assert_eq!(call(&stream, [16, 2], &[0, 8, 16], 8).unwrap(), "window");
    assert_ne!(call(&stream, [16, 2], &[0, 7, 16], 9).unwrap(), "window");
}
