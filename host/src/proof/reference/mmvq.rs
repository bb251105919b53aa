//! `mmvq.*` bit by bit: the quantizer, the interleaved copy, and rows in the order that all kernels keep.
//!
//! Written from the formats' definitions, element by element: which code an element has, which elements a lane's call owns,
//! and the float steps of a call, one lane and slot after the other. Kernels share none of it.

use half::f16;
use varve_gpu::format::{KV, grids};
use varve_gpu::mmvq::Format;

use super::near::Near;

/// Values of an activation block.
const Q8: usize = 32;
/// Its bytes: f16 step, f16 sum, 32 codes.
const Q8_BYTES: usize = 36;

/// An activation block.
#[derive(Clone, Debug)]
pub struct Block {
    d: f32,
    q: [i8; Q8],
}

/// A number within the range of f16; a NaN stays.
fn clamp_half(v: f32) -> f32 {
    if v.is_nan() { v } else { v.clamp(-65504.0, 65504.0) }
}

/// What lane 0 has after a butterfly of `join` over lane offsets 16, 8, 4, 2, 1.
fn butterfly(lanes: &[f32], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = lanes.to_vec();
    for off in [16, 8, 4, 2, 1] {
        lanes = (0..lanes.len()).map(|l| join(lanes[l], lanes[l ^ off])).collect();
    }
    lanes[0]
}

/// Q8_1 of a vector whose length is a multiple of 32: 36 bytes a block.
#[must_use]
pub fn quantize(x: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(x.len() / Q8 * Q8_BYTES);
    for values in x.chunks_exact(Q8) {
        let magnitudes: Vec<f32> = values.iter().map(|v| v.abs()).collect();
        let largest = butterfly(&magnitudes, f32::max);
        let sum = butterfly(values, |a, b| a + b);
        let step = clamp_half(largest / 127.0);
        bytes.extend(f16::from_f32(step).to_bits().to_le_bytes());
        bytes.extend(f16::from_f32(clamp_half(sum)).to_bits().to_le_bytes());
        let code = |v: &f32| if largest == 0.0 { 0 } else { (v / step).round().clamp(-127.0, 127.0) as i8 };
        bytes.extend(values.iter().map(|v| code(v).cast_unsigned()));
    }
    bytes
}

/// The blocks of a quantized vector.
#[must_use]
pub fn blocks(bytes: &[u8]) -> Vec<Block> {
    let block = |bytes: &[u8]| Block {
        d: f16::from_bits(u16::from_le_bytes([bytes[0], bytes[1]])).to_f32(),
        q: std::array::from_fn(|i| bytes[4 + i].cast_signed()),
    };
    bytes.chunks_exact(Q8_BYTES).map(block).collect()
}

/// The interleaved copy of quantized vectors with room for `room` columns, in words.
#[must_use]
pub fn interleave(columns: &[Vec<Block>], room: usize) -> Vec<u32> {
    let nb = columns[0].len();
    let word = |c: usize, b: usize, p: usize| {
        let codes =
            columns.get(c).map_or([0; 4], |blocks| std::array::from_fn(|k| blocks[b].q[4 * p + k].cast_unsigned()));
        u32::from_le_bytes(codes)
    };
    let step = |c: usize, b: usize| columns.get(c).map_or(0.0, |blocks| blocks[b].d);
    let sum = |c: usize, b: usize, p: usize| -> i32 {
        let of = |blocks: &Vec<Block>| {
            (0..4).map(|k| i32::from(blocks[b].q[4 * p + k]) + i32::from(blocks[b].q[16 + 4 * p + k])).sum()
        };
        columns.get(c).map_or(0, of)
    };
    let mut words = Vec::new();
    for b in 0..nb {
        words.extend((0..8 * room).map(|i| word(i % room, b, i / room)));
    }
    for p in 0..8 {
        words.extend((0..nb * room).map(|i| word(i % room, i / room, p)));
    }
    words.extend((0..nb * room).map(|i| step(i % room, i / room).to_bits()));
    for b in 0..nb {
        words.extend((0..4 * room).map(|i| (step(i % room, b) * sum(i % room, b, i / room) as f32).to_bits()));
    }
    words
}

/// How a format's blocks are cut into calls: lanes of a block, slots of a lane.
#[must_use]
pub fn lanes_and_slots(format: Format) -> (usize, usize) {
    match format {
        Format::Q8_0 => (4, 4),
        Format::IQ4_NL => (2, 4),
        Format::Q3_K | Format::Q4_K | Format::Q5_K => (16, 4),
        Format::Q6_K => (32, 4),
        Format::IQ4_XS => (8, 4),
        Format::IQ3_S | Format::IQ2_XS => (8, 1),
    }
}

/// The words (activation block, word of it) that call `q` owns, in the groups that share a scale.
#[must_use]
pub fn owned(format: Format, q: usize) -> Vec<Vec<(usize, usize)>> {
    match format {
        Format::Q8_0 => vec![vec![(0, 2 * q), (0, 2 * q + 1)]],
        Format::IQ4_NL => vec![vec![(0, 2 * q), (0, 2 * q + 1), (0, 2 * q + 4), (0, 2 * q + 5)]],
        Format::Q3_K => (0..4).map(|i| vec![(4 * (q / 8) + i, q % 8)]).collect(),
        Format::Q4_K | Format::Q5_K => {
            let (j, p) = (q / 4, q % 4);
            (0..2).map(|i| vec![(2 * j + i, p), (2 * j + i, p + 4)]).collect()
        }
        Format::Q6_K => (0..2).map(|i| vec![(4 * (q / 16) + q % 16 / 8 + 2 * i, q % 8)]).collect(),
        Format::IQ4_XS | Format::IQ3_S => vec![(0..8).map(|p| (q, p)).collect()],
        Format::IQ2_XS => vec![(0..4).map(|p| (q, p)).collect(), (4..8).map(|p| (q, p)).collect()],
    }
}

/// Six-bit scale and minimum of sub-block `s` of Q4_K and Q5_K.
fn scale_and_min(packed: &[u8], s: usize) -> (i32, i32) {
    let byte = |i: usize| i32::from(packed[i]);
    if s < 4 {
        return (byte(s) & 63, byte(s + 4) & 63);
    }
    ((byte(s + 4) & 15) | (byte(s - 4) >> 6) << 4, (byte(s + 4) >> 4) | (byte(s) >> 6) << 4)
}

/// The integer of element `e`, and the integer scale of its sub-block.
fn code_and_scale(format: Format, block: &[u8], e: usize) -> (i32, i32) {
    let byte = |i: usize| i32::from(block[i]);
    let nibble = |i: usize, half: usize| (byte(i) >> (4 * half)) & 15;
    let book = |code: i32| i32::from(KV[code as usize]);
    match format {
        Format::Q8_0 => (i32::from(block[2 + e].cast_signed()), 1),
        Format::IQ4_NL => (book(nibble(2 + e % 16, e / 16)), 1),
        Format::Q3_K => {
            let (n, j, t, s) = (e / 128, e % 128 / 32, e % 32, e / 16);
            let kept = (byte(t) >> (4 * n + j)) & 1;
            let low = (byte(32 + 32 * n + t) >> (2 * j)) & 3;
            let scale = nibble(96 + s % 8, s / 8) | ((byte(104 + s % 4) >> (2 * (s / 4))) & 3) << 4;
            (low - if kept == 1 { 0 } else { 4 }, scale - 32)
        }
        Format::Q4_K => {
            let (s, t) = (e / 32, e % 32);
            (nibble(16 + 32 * (s / 2) + t, s % 2), scale_and_min(&block[4..16], s).0)
        }
        Format::Q5_K => {
            let (s, t) = (e / 32, e % 32);
            let fifth = (byte(16 + t) >> s) & 1;
            (nibble(48 + 32 * (s / 2) + t, s % 2) | fifth << 4, scale_and_min(&block[4..16], s).0)
        }
        Format::Q6_K => {
            let (n, u, t) = (e / 128, e % 128 / 32, e % 32);
            let high = (byte(128 + 32 * n + t) >> (2 * u)) & 3;
            let low = nibble(64 * n + 32 * (u % 2) + t, u / 2);
            ((low | high << 4) - 32, i32::from(block[192 + e / 16].cast_signed()))
        }
        Format::IQ4_XS => {
            let (s, t) = (e / 32, e % 32);
            let high = (i32::from(u16::from_le_bytes([block[2], block[3]])) >> (2 * s)) & 3;
            (book(nibble(8 + 16 * s + t % 16, t / 16)), (nibble(4 + s / 2, s % 2) | high << 4) - 32)
        }
        Format::IQ3_S => {
            let (i, s) = (e / 4, e / 32);
            let row = byte(2 + i) | ((byte(66 + i / 8) >> (i % 8)) & 1) << 8;
            let magnitude = i32::from(grids::IQ3_S[row as usize].to_le_bytes()[e % 4]);
            let negative = (byte(74 + e / 8) >> (e % 8)) & 1 == 1;
            (if negative { -magnitude } else { magnitude }, 1 + 2 * nibble(106 + s / 2, s % 2))
        }
        Format::IQ2_XS => {
            let (i, h) = (e / 8, e / 16);
            let code = u16::from_le_bytes([block[2 + 2 * i], block[3 + 2 * i]]);
            let seven = u32::from(code >> 9);
            let signs = seven | (seven.count_ones() % 2) << 7;
            let magnitude = i32::from(grids::IQ2_XS[usize::from(code % 512)][e % 8 / 4].to_le_bytes()[e % 4]);
            let negative = (signs >> (e % 8)) & 1 == 1;
            (if negative { -magnitude } else { magnitude }, nibble(66 + h / 2, h % 2))
        }
    }
}

/// Offset of the block's step.
fn step_off(format: Format) -> usize {
    match format {
        Format::Q6_K => 208,
        Format::Q3_K => 108,
        _ => 0,
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_bits(u16::from_le_bytes([block[at], block[at + 1]])).to_f32()
}

/// Adds call `q` of a weight block to `a`; `x` starts with the block's first activation block.
fn call(format: Format, block: &[u8], x: &[Block], q: usize, a: f32) -> f32 {
    // Of each group: its dot, the sum of its activation codes, the scale, the activation step.
    let groups: Vec<(i32, i32, i32, f32, usize)> = owned(format, q)
        .iter()
        .map(|words| {
            let (mut dot, mut sum, mut scale) = (0, 0, 0);
            for &(b, p) in words {
                for k in 0..4 {
                    let (code, of_sub_block) = code_and_scale(format, block, Q8 * b + 4 * p + k);
                    let u = i32::from(x[b].q[4 * p + k]);
                    (dot, sum, scale) = (dot + code * u, sum + u, of_sub_block);
                }
            }
            (dot, sum, scale, x[words[0].0].d, words[0].0)
        })
        .collect();
    let dw = half_at(block, step_off(format));
    match format {
        Format::Q8_0 | Format::IQ4_NL | Format::IQ4_XS | Format::IQ3_S => {
            let (dot, _, scale, d8, _) = groups[0];
            (dw * d8).mul_add((dot * scale) as f32, a)
        }
        Format::IQ2_XS => {
            let ((s0, _, n0, d8, _), (s1, _, n1, ..)) = (groups[0], groups[1]);
            (dw * d8).mul_add(((s0 * n0 + s1 * n1 + (s0 + s1) / 2) / 4) as f32, a)
        }
        Format::Q6_K | Format::Q3_K => {
            let mut t = groups[0].3 * (groups[0].0 * groups[0].2) as f32;
            for &(dot, _, scale, d8, _) in &groups[1..] {
                t = d8.mul_add((dot * scale) as f32, t);
            }
            dw.mul_add(t, a)
        }
        Format::Q4_K | Format::Q5_K => {
            let min = |b: usize| scale_and_min(&block[4..16], b).1;
            let ((dot0, sum0, scale0, d0, b0), (dot1, sum1, scale1, d1, b1)) = (groups[0], groups[1]);
            let t = d1.mul_add((dot1 * scale1) as f32, d0 * (dot0 * scale0) as f32);
            let z = d1.mul_add((sum1 * min(b1)) as f32, d0 * (sum0 * min(b0)) as f32);
            a + dw.mul_add(t, -(half_at(block, 2) * z))
        }
    }
}

/// The calls of lane `l` and slot `v` of a row of `blocks` blocks: block and call, in order.
#[must_use]
pub fn calls(format: Format, blocks: usize, l: usize, v: usize) -> Vec<(usize, usize)> {
    let (lanes, slots) = lanes_and_slots(format);
    let of_a_chunk = 32 / lanes;
    let chunks = (v..blocks.div_ceil(of_a_chunk)).step_by(slots);
    chunks.map(|m| (of_a_chunk * m + l / lanes, l % lanes)).filter(|&(block, _)| block < blocks).collect()
}

/// A row of weights times a quantized vector.
#[must_use]
pub fn row(format: Format, weights: &[u8], x: &[Block]) -> f32 {
    let (values, bytes) = format.block();
    let blocks = weights.len() / bytes;
    let lane = |l: usize| {
        let slot = |v: usize| {
            calls(format, blocks, l, v).into_iter().fold(0.0, |a, (block, q)| {
                call(format, &weights[block * bytes..][..bytes], &x[block * (values / Q8)..], q, a)
            })
        };
        (1..lanes_and_slots(format).1).fold(slot(0), |sum, v| sum + slot(v))
    };
    butterfly(&(0..32).map(lane).collect::<Vec<_>>(), |a, b| a + b)
}

/// The value of element `e` of a block, and the magnitudes of what it is the sum of.
fn weight(format: Format, block: &[u8], e: usize) -> (f64, f64) {
    let ((code, scale), d) = (code_and_scale(format, block, e), f64::from(half_at(block, step_off(format))));
    let (code, scale) = (f64::from(code), f64::from(scale));
    match format {
        Format::Q4_K | Format::Q5_K => {
            let min = f64::from(half_at(block, 2)) * f64::from(scale_and_min(&block[4..16], e / Q8).1);
            (d * scale * code - min, (d * scale * code).abs() + min.abs())
        }
        Format::IQ2_XS => (d * (scale + 0.5) * 0.25 * code, (d * (scale + 0.5) * 0.25 * code).abs()),
        _ => (d * scale * code, (d * scale * code).abs()),
    }
}

/// Roundings on the way of a term to the sum of a row, where products are summed in the order of `mma`: its dot made a float, four
/// blocks of a unit, three units of a warp, each twice where there are minima, 24 warps. `wide` has no more: its dot, four pieces, twelve
/// units of a lane, each twice, five levels of lanes.
const STEPS_OF_UNITS: f64 = 35.0;

/// A row of weights times a quantized vector in f64, and how far a sum in the order of `mma` or `wide` may be.
#[must_use]
pub fn near_row(format: Format, weights: &[u8], x: &[Block]) -> Near {
    let (values, bytes) = format.block();
    let (mut sum, mut size) = (0.0, 0.0);
    for (b, block) in weights.chunks_exact(bytes).enumerate() {
        for e in 0..values {
            let x = &x[(b * values + e) / Q8];
            let ((w, magnitude), x) = (weight(format, block, e), f64::from(x.d) * f64::from(x.q[e % Q8]));
            (sum, size) = (sum + w * x, size + magnitude * x.abs());
        }
    }
    Near::rounded(sum, size, STEPS_OF_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use varve_gpu::format;

    #[test]
    fn every_element_is_owned_once() {
        for format in Format::ALL {
            let words: Vec<_> =
                (0..lanes_and_slots(format).0).flat_map(|q| owned(format, q).into_iter().flatten()).collect();
            let set: BTreeSet<_> = words.iter().copied().collect();
            assert_eq!((words.len(), set.len()), (format.block().0 / 4, words.len()), "{format:?}");
        }
    }

    /// A value of a block is its code times scales, less a minimum: what a call adds up is what the format means.
    #[test]
    fn codes_and_scales_are_the_formats() {
        macro_rules! values {
            ($format:ident, $block:expr) => {{
                let mut out = [0.0; format::$format::VALUES];
                format::$format::dequantize($block.as_slice().try_into().expect("a block"), &mut out);
                out.to_vec()
            }};
        }
        for kind in Format::ALL {
            let (n, bytes) = kind.block();
            let mut block: Vec<u8> = (0..bytes).map(|i| (i * 151 + i / 3 * 89 + 7) as u8).collect();
            block[step_off(kind)..][..2].copy_from_slice(&0x2a5bu16.to_le_bytes());
            if matches!(kind, Format::Q4_K | Format::Q5_K) {
                block[2..4].copy_from_slice(&0x1b77u16.to_le_bytes());
            }
            let values = match kind {
                Format::Q8_0 => values!(q8_0, block),
                Format::IQ4_NL => values!(iq4_nl, block),
                Format::Q3_K => values!(q3_k, block),
                Format::Q4_K => values!(q4_k, block),
                Format::Q5_K => values!(q5_k, block),
                Format::Q6_K => values!(q6_k, block),
                Format::IQ4_XS => values!(iq4_xs, block),
                Format::IQ3_S => values!(iq3_s, block),
                Format::IQ2_XS => values!(iq2_xs, block),
            };
            let d = half_at(&block, step_off(kind));
            assert_eq!(values.len(), n);
            for (e, value) in values.into_iter().enumerate() {
                let (code, scale) = code_and_scale(kind, &block, e);
                let want = match kind {
                    Format::IQ2_XS => d * (scale as f32 + 0.5) * 0.25 * code as f32,
                    Format::Q4_K | Format::Q5_K => {
                        let min = scale_and_min(&block[4..16], e / 32).1;
                        d * scale as f32 * code as f32 - half_at(&block, 2) * min as f32
                    }
                    _ => d * (scale * code) as f32,
                };
                assert_eq!(value, want, "{kind:?}, element {e}");
            }
        }
    }

    #[test]
    fn every_call_of_a_row_is_made_once_and_in_ascending_order() {
        for format in Format::ALL {
            let (lanes, slots) = lanes_and_slots(format);
            for blocks in 1..=64 {
                let mut seen = BTreeSet::new();
                for (l, v) in (0..32).flat_map(|l| (0..slots).map(move |v| (l, v))) {
                    let calls = calls(format, blocks, l, v);
                    assert!(calls.is_sorted_by_key(|&(block, _)| block), "{format:?}, {blocks} blocks");
                    assert!(calls.iter().all(|&call| seen.insert(call)), "{format:?}, {blocks} blocks: a call twice");
                }
                assert_eq!(seen.len(), blocks * lanes, "{format:?}, {blocks} blocks");
            }
        }
    }

    #[test]
    fn codes_are_those_that_f32_round_makes() {
        let x: Vec<f32> = (0..32).map(|i| (i as f32 - 16.0) * 0.37).collect();
        let bytes = quantize(&x);
        let d = 16.0f32 * 0.37 / 127.0;
        assert_eq!(bytes[4].cast_signed(), -127);
        assert_eq!(bytes[4 + 17].cast_signed(), (0.37 / d).round() as i8);
        assert_eq!(half_at(&bytes, 0), f16::from_f32(d).to_f32());
        assert_eq!(quantize(&[0.0; 32]), vec![0; 36]);
        let overflowing = quantize(&[f32::MAX; 32]);
        assert_eq!((half_at(&overflowing, 0), half_at(&overflowing, 2)), (65504.0, 65504.0));
    }
}
