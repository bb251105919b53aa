//! Asynchronous copies.

use crate::rig::{UNWRITTEN, check_rows, noise, noise_rows, rigs_for};
use varve::backend::Launch;
use varve_gpu::probe::copy::*;

#[test]
fn a_pipeline_of_copies_delivers_every_tile() {
    let mut next = noise(31);
    let input: Vec<u32> = (0..PIPELINE_TILES * TILE_WORDS).map(|_| next()).collect();
    let expected: Vec<u32> =
        input.chunks(TILE_WORDS).flat_map(|tile| tile.chunks(4).rev().flatten().copied()).collect();
    for rig in rigs_for(&PROBE_COPY_PIPELINE) {
        let start = vec![UNWRITTEN; input.len()];
        let got = rig.words(&PROBE_COPY_PIPELINE, Launch::new(1, 128), &input, &start);
        assert_eq!(got, expected, "{rig}");
    }
}

#[test]
fn a_short_copy_is_filled_with_zeros() {
    let mut rows = noise_rows::<TAIL_INPUT>(32, 128);
    for (i, row) in rows.iter_mut().enumerate() {
        row[5] = (i % 17) as u32;
    }
    check_rows::<TAIL_INPUT, TAIL_OUTPUT>(&PROBE_COPY_TAIL, 128, &rows, |i| {
        let row = rows[i];
        let mut bytes: Vec<u8> = row[..4].iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes[row[5] as usize..].fill(0);
        let word = |k: usize| u32::from_le_bytes(bytes[4 * k..][..4].try_into().unwrap());
        [word(0), word(1), word(2), word(3), row[4]]
    });
}
