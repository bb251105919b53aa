//! What the chunk kernels' first launches leave in scratch, against the model of `pieces.rs`.

use cuda_std::emulator::{self, Launch, Options, memory};
use cuda_std::launch::Kernel;
use half::f16;
use varve::proof::case::{RecCase, RecShape};
use varve::proof::inputs::named;
use varve_gpu::delta::rec_chunk32::{CHUNK, Record, scratch_floats};
use varve_gpu::delta::{RecParams, chunk, rec_chunk32_prep, rec_tc32_prep};

use super::pieces::Chunk;

const SLOTS: usize = 4;
/// Laws and token counts for what prep leaves.
const PREPARED: [(&str, usize); 4] = [("base", 70), ("coherent_keys", 96), ("k01_same_key", 33), ("reset_gates", 90)];

fn size(x: usize) -> u32 {
    u32::try_from(x).unwrap()
}

/// Launches a prep with a block for each chunk and key head, scratch being full of NaN before, and gives `look` the call and
/// its scratch.
fn prepared(case: &RecCase, kernel: &'static Kernel<RecParams>, floats: usize, look: impl FnOnce(&RecParams, &[f32])) {
    let shape = &case.shape;
    let upload = |x: &[f32]| memory::from_slice(x).unwrap();
    let (qkv, gate, beta) = (upload(&case.qkv), upload(&case.gate), upload(&case.beta));
    let mut scratch = memory::alloc(4 * floats).unwrap();
    let params = RecParams {
        qkv: qkv.as_ptr(),
        gate: gate.as_ptr(),
        beta: beta.as_ptr(),
        state: std::ptr::null_mut(),
        y: std::ptr::null_mut(),
        starts: std::ptr::null(),
        scratch: scratch.as_mut_ptr(),
        tokens: size(shape.tokens),
        qkv_stride: size(shape.qkv_stride),
        gate_stride: size(shape.gate_stride),
        beta_stride: size(shape.beta_stride),
        y_stride: size(shape.y_stride),
        key_heads: size(shape.key_heads),
        value_heads: size(shape.value_heads),
        keep_state: 0,
        sequences: 1,
        first: 0,
        span: size(SLOTS * CHUNK),
        reserved: 0,
    };
    let launch = Launch::new(size(shape.tokens.div_ceil(CHUNK) * shape.key_heads), kernel.bounds().threads);
    // SAFETY: sizes and strides are the case's; prep reads neither state nor y, and the address of a state that is never used
    // is harmless here.
    unsafe { emulator::run(kernel, &launch, params, &Options::default()) }.unwrap();
    look(&params, &scratch.to_vec::<f32>());
}

/// Every chunk and head of the case, as the model has it.
fn each_chunk(case: &RecCase, mut look: impl FnMut(usize, usize, &Chunk)) {
    let tokens = case.shape.tokens;
    for chunk in 0..tokens.div_ceil(CHUNK) {
        let first = chunk * CHUNK;
        for head in 0..case.shape.value_heads {
            look(chunk, head, &Chunk::new(case, head, first..tokens.min(first + CHUNK), CHUNK));
        }
    }
}

#[test]
fn prep_leaves_t_p_and_decays_in_scratch() {
    for (law, tokens) in PREPARED {
        let case = RecCase::new(RecShape::gapped(2, 6, tokens), named(law).unwrap(), 8);
        let floats = scratch_floats(case.shape.value_heads, SLOTS);
        prepared(&case, &rec_chunk32_prep::DELTA_REC_CHUNK32_PREP, floats, |params, left| {
            each_chunk(&case, |chunk, head, model| {
                // SAFETY: the same call as above.
                let record = unsafe { Record::new(params, 0, chunk, head) };
                let at = |p: *mut f32| (p as usize - params.scratch as usize) / 4;
                let (t, p) = (model.t(), model.p());
                for row in 0..CHUNK {
                    for column in 0..CHUNK {
                        let element = row * CHUNK + column;
                        let close = |what: &str, got: f32, want: f64| {
                            let far = (f64::from(got) - want).abs();
                            assert!(far <= 1e-6, "{what}[{row}][{column}], {law}, chunk {chunk}, head {head}: {far:e}");
                        };
                        close("T", left[at(record.solved()) + element], t[row][column]);
                        close("P", left[at(record.products()) + element], p[row][column]);
                    }
                    let close = |what: &str, got: f32, want: f64| {
                        assert!((f64::from(got) - want).abs() <= 1e-6 * want.max(1e-30), "{what}, token {row}, {law}");
                    };
                    close("since start", left[at(record.since_start()) + row], model.sums[row].exp());
                    close("until end", left[at(record.until_end()) + row], model.decay(CHUNK - 1, row));
                    close("beta", left[at(record.beta()) + row], model.beta[row]);
                }
            });
        });
    }
}

/// What the tensor-core forms' prep leaves: f16 pairs as far as 2e-6 from the model, single f16 as far as 2e-3.
#[test]
fn tensor_core_prep_leaves_images_and_scalars_in_scratch() {
    for (law, tokens) in PREPARED {
        tensor_core_prep::<true>(law, tokens, &rec_tc32_prep::DELTA_REC_TC32_PREP, 2e-6);
        tensor_core_prep::<false>(law, tokens, &rec_tc32_prep::DELTA_REC_TC32_FAST_PREP, 2e-3);
    }
}

fn tensor_core_prep<const PAIRS: bool>(law: &str, tokens: usize, kernel: &'static Kernel<RecParams>, bound: f64) {
    let case = RecCase::new(RecShape::gapped(2, 6, tokens), named(law).unwrap(), 8);
    let floats = chunk::scratch_floats(PAIRS, case.shape.key_heads, case.shape.value_heads, SLOTS);
    prepared(&case, kernel, floats, |params, left| {
        let bytes: &[u8] = bytemuck::cast_slice(left);
        let offset = |at: *mut u8| at.addr() - params.scratch.addr();
        // The parts of one value of an image, which they add up to times `2^exponent`.
        let value = |start: usize, image: [usize; 2], at: usize, exponent: i32| -> f64 {
            let parts = image.iter().take(chunk::parts(PAIRS)).map(|part| {
                let at = start + part + at;
                f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64()
            });
            parts.sum::<f64>() * f64::from(-exponent).exp2()
        };
        each_chunk(&case, |number, head, model| {
            let start = offset(chunk::head_of::<PAIRS>(params, number, head));
            let (t, p) = (model.t(), model.p());
            for row in 0..CHUNK {
                for column in 0..CHUNK {
                    let at = chunk::chunk_at(row, column / 8) + column % 8 * 2;
                    let value = |image| value(start, image, at, chunk::CHUNK_SCALE);
                    for (what, got, want) in
                        [("T", value(chunk::T), t[row][column]), ("P", value(chunk::P), p[row][column])]
                    {
                        let far = (got - want).abs();
                        let place = format!("{what}[{row}][{column}], {law}, chunk {number}, head {head}");
                        assert!(far <= bound, "{place}: {far:e}");
                        assert!(column <= row || got == 0.0, "{place} is {got}, above the diagonal");
                    }
                }
            }
            let scalars = &left[(start + chunk::image_bytes(PAIRS)) / 4..];
            let scale = f64::from(-chunk::D_SHIFT).exp2();
            for row in 0..CHUNK {
                let (beta, decay, rest) = (model.beta[row], model.sums[row].exp(), model.decay(CHUNK - 1, row));
                for (kind, want) in [
                    (chunk::BETA, beta),
                    (chunk::BETA_DECAY, beta * decay),
                    (chunk::DECAY, decay),
                    (chunk::REST, rest * scale),
                ] {
                    let got = f64::from(scalars[kind + row]);
                    assert!((got - want).abs() <= 1e-6 * want.max(1e-30), "{kind}, token {row}, {law}: {got}");
                }
            }
            let key_head = head % case.shape.key_heads;
            let start = offset(chunk::keys_of::<PAIRS>(params, number, key_head));
            for (what, first, rows) in [("k", 0, &model.k), ("q", CHUNK, &model.q)] {
                for (token, row) in rows.iter().enumerate() {
                    for (column, &want) in row.iter().enumerate() {
                        let at = chunk::key_at(first + token, column / 8) + column % 8 * 2;
                        let got = value(start, chunk::KEYS, at, chunk::key_scale(PAIRS));
                        // Half a unit of the last place of what is split last, or of f16's smallest step.
                        let far = f64::from(if PAIRS { -22 } else { -11 }).exp2() * want.abs() + f64::from(-25).exp2();
                        let place = format!("{what}[{token}][{column}], {law}, chunk {number}, head {key_head}");
                        assert!((got - want).abs() <= far, "{place}: {got} for {want}");
                    }
                }
            }
        });
    });
}
