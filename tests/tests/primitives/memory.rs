//! Accesses of every width to global and shared memory, and a parameter struct with gaps.

use crate::rig::{UNWRITTEN, check_rows, noise, noise_rows, rigs};
use varve::backend::Launch;
use varve_gpu::probe::memory::*;

#[test]
fn scalars_of_every_width_are_copied() {
    let rows = noise_rows::<SCALAR_WORDS>(1, 128);
    check_rows::<SCALAR_WORDS, SCALAR_WORDS>(&PROBE_GLOBAL_SCALAR, 64, &rows, |i| rows[i]);
}

#[test]
fn vectors_keep_the_order_of_their_elements() {
    let rows = noise_rows::<VECTOR_WORDS>(2, 128);
    check_rows::<VECTOR_WORDS, VECTOR_WORDS>(&PROBE_GLOBAL_VECTOR, 64, &rows, |i| {
        [3, 2, 1, 0, 5, 4, 7, 6, 11, 10, 9, 8].map(|k| rows[i][k])
    });
}

#[test]
fn ordered_loads_are_loads() {
    let rows = noise_rows::<ORDERED_WORDS>(5, 128);
    check_rows::<ORDERED_WORDS, ORDERED_WORDS>(&PROBE_GLOBAL_ORDERED, 64, &rows, |i| {
        let row = rows[i];
        let top = i32::from(row[0].to_le_bytes()[3].cast_signed()).cast_unsigned();
        [row[0] ^ top, row[1], row[3], row[2], row[7], row[6], row[5], row[4]]
    });
}

#[test]
fn shared_memory_passes_words_between_threads() {
    let input: Vec<u32> = noise_rows::<1>(3, 3).into_iter().flatten().collect();
    let expected: Vec<u32> = input.iter().flat_map(|&w| (0..256u32).map(move |t| (255 - t).wrapping_add(w))).collect();
    for rig in rigs() {
        let got = rig.words(&PROBE_SHARED_REVERSE, Launch::new(3, 256), &input, &[UNWRITTEN; 3 * 256]);
        assert_eq!(got, expected, "{rig}");
    }
}

#[test]
fn static_and_dynamic_shared_areas_are_apart() {
    let rows = noise_rows::<SHARED_WORDS>(4, 192);
    let flat = rows.as_flattened();
    let expected: Vec<u32> = (0..192).flat_map(|i| rows[i / 64 * 64 + 63 - i % 64]).collect();
    for rig in rigs() {
        let launch = Launch::new(3, 64);
        let start = vec![UNWRITTEN; flat.len()];
        assert_eq!(rig.words(&PROBE_SHARED_VECTOR, launch, flat, &start), expected, "{rig}");
        let launch = Launch { dynamic_shared: DYNAMIC_BYTES, ..launch };
        assert_eq!(rig.words(&PROBE_SHARED_DYNAMIC, launch, flat, &start), expected, "{rig}");
    }
}

#[test]
fn parameter_fields_arrive_where_the_struct_has_them() {
    let mut next = noise(9);
    let (word, long, words) = (next(), u64::from(next()) << 32 | u64::from(next()), [next(), next(), next(), next()]);
    for rig in rigs() {
        let mut output = rig.upload(&[UNWRITTEN; 7]);
        let params = FieldsParams { word, long, words: Words4(words), output: output.as_mut_ptr() };
        rig.launch(&PROBE_FIELDS, Launch::new(1, 1), params);
        let [a, b, c, d] = words;
        assert_eq!(output.read().unwrap(), [word, long as u32, (long >> 32) as u32, a, b, c, d], "{rig}");
    }
}
