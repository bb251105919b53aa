//! Integer operations against plain definitions, byte by byte and bit by bit.

use crate::rig::{check_rows, noise, noise_rows};
use varve_gpu::probe::int::*;

fn per_byte(a: u32, b: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| f(a[i], b[i])))
}

fn per_signed_byte(a: u32, b: u32, f: impl Fn(i8, i8) -> i8) -> u32 {
    per_byte(a, b, |a, b| f(a.cast_signed(), b.cast_signed()).cast_unsigned())
}

/// Every pair of byte values once, at changing places among random neighbours, with every selector digit.
fn byte_rows() -> Vec<[u32; 3]> {
    let mut next = noise(71);
    let pairs = (0..=u8::MAX).flat_map(|a| (0..=u8::MAX).map(move |b| (a, b)));
    let pairs: Vec<(u8, u8)> = pairs.collect();
    // Three pairs a row, the places turning, the fourth random.
    let mut rows: Vec<[u32; 3]> = pairs
        .chunks(3)
        .enumerate()
        .map(|(i, pairs)| {
            let (mut a, mut b) = (next().to_le_bytes(), next().to_le_bytes());
            for (k, pair) in pairs.iter().enumerate() {
                (a[(i + k) % 4], b[(i + k) % 4]) = *pair;
            }
            [u32::from_le_bytes(a), u32::from_le_bytes(b), next()]
        })
        .collect();
    let tail = rows.len().next_multiple_of(64) - rows.len();
    rows.extend(noise_rows::<3>(72, tail));
    rows
}

#[test]
fn bytes_are_handled_apart() {
    let rows = byte_rows();
    check_rows::<3, BYTES_RESULTS>(&PROBE_INT_BYTES, 64, &rows, |i| {
        let [a, b, c] = rows[i];
        let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
        let signed: i32 = (0..4).map(|k| i32::from(x[k].cast_signed()) * i32::from(y[k].cast_signed())).sum();
        let mixed: i32 = (0..4).map(|k| i32::from(x[k]) * i32::from(y[k].cast_signed())).sum();
        let unsigned: u32 = (0..4).map(|k| u32::from(x[k]) * u32::from(y[k])).sum();
        let permuted = (0..4).fold(0, |word, k| {
            let digit = c >> (4 * k) & 15;
            let source = if digit & 4 == 0 { a } else { b };
            let byte = source >> (8 * (digit & 3)) & 0xff;
            let byte = if digit < 8 { byte } else { 0xff * (byte >> 7) };
            word | byte << (8 * k)
        });
        [
            c.wrapping_add(signed.cast_unsigned()),
            c.wrapping_add(unsigned),
            c.wrapping_add(mixed.cast_unsigned()),
            permuted,
            per_byte(a, b, u8::wrapping_add),
            per_byte(a, b, u8::wrapping_sub),
            per_signed_byte(a, b, i8::saturating_sub),
            per_byte(a, b, u8::abs_diff),
            per_byte(a, b, |a, b| if a == b { 0xff } else { 0 }),
            per_signed_byte(a, b, i8::max),
            per_signed_byte(a, b, i8::min),
            per_byte(a, b, u8::max),
            per_byte(a, b, u8::min),
        ]
    });
}

#[test]
fn bits_move_where_they_should() {
    let mut rows = noise_rows::<3>(73, 2048 - 64);
    rows.extend((0..64).map(|i| [1 << (i % 32), u32::from(i % 2 == 0).wrapping_neg(), i]));
    rows[0][0] = 0;
    check_rows::<3, BITS_RESULTS>(&PROBE_INT_BITS, 64, &rows, |i| {
        let [a, b, c] = rows[i];
        let bit = |word: u32, k: u32| word >> k & 1;
        let both = |k: u32| if k < 32 { bit(a, k) } else { bit(b, k - 32) };
        let word = |bit: &dyn Fn(u32) -> u32| (0..32).fold(0, |w, k| w | bit(k) << k);
        let shift = c % 32;
        let (pos, len) = (c % 40, b % 40);
        [
            word(&|k| both(k + 32 - shift)),
            word(&|k| both(k + shift)),
            (0..32).map(|k| bit(a, k)).sum(),
            (0..32).rev().position(|k| bit(a, k) == 1).map_or(32, |n| n as u32),
            word(&|k| bit(a, 31 - k)),
            word(&|k| if k < len && k + pos < 32 { bit(a, k + pos) } else { 0 }),
            ((u128::from(a) * u128::from(b)) >> 32) as u32,
        ]
    });
}
