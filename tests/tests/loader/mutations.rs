//! Files that were damaged at random: flipped, cut, spliced, stretched, and with numbers replaced. Whatever comes out is
//! read or refused, in a moment, in bounded memory, and what is read holds what the readers promise.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use varve::model::{LoadError, TensorInfo, gguf, safetensors};

use crate::allocation::bounded;
use crate::refused::{self, FILE};
use crate::{gguf_builder, safetensors_builder};

/// Damaged files a parser; the issue asks for 200.
const CASES: u32 = 2000;
/// Far above what a small file takes, far below a hang.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    /// Puts a copy of one stretch at another place, over what is there.
    Splice(Index, Index, usize),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    U32(Index, u32),
    U64(Index, u64),
    /// Replaces one ASCII digit.
    Digit(Index, u8),
}

/// Numbers at which arithmetic breaks, among others.
fn number() -> impl Strategy<Value = u64> {
    let edges = vec![
        0,
        1,
        3,
        13,
        31,
        33,
        255,
        1 << 16,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        1 << 58,
        1 << 63,
        u64::MAX - 31,
        u64::MAX,
    ];
    prop_oneof![3 => prop::sample::select(edges), 1 => any::<u64>(), 1 => 0u64..64]
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        1 => at().prop_map(Damage::Cut),
        1 => (at(), at(), 1usize..64).prop_map(|(from, to, len)| Damage::Splice(from, to, len)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (at(), 1usize..40).prop_map(|(at, len)| Damage::Remove(at, len)),
        3 => (at(), number()).prop_map(|(at, n)| Damage::U32(at, n as u32)),
        3 => (at(), number()).prop_map(|(at, n)| Damage::U64(at, n)),
        2 => (at(), b'0'..=b'9').prop_map(|(at, digit)| Damage::Digit(at, digit)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    let mut overwrite = |at: usize, new: &[u8]| {
        let end = (at + new.len()).min(len);
        bytes[at..end].copy_from_slice(&new[..end - at]);
    };
    match damage {
        Damage::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
        Damage::Cut(at) => bytes.truncate(at.index(len)),
        Damage::Splice(from, to, count) => {
            let from = from.index(len);
            let piece = bytes[from..(from + count).min(len)].to_vec();
            let (to, end) = (to.index(len), len);
            let room = piece.len().min(end - to);
            bytes[to..to + room].copy_from_slice(&piece[..room]);
        }
        Damage::Insert(at, new) => {
            let at = at.index(len);
            bytes.splice(at..at, new.iter().copied());
        }
        Damage::Remove(at, count) => {
            let at = at.index(len);
            bytes.drain(at..(at + count).min(len));
        }
        Damage::U32(at, value) => overwrite(at.index(len), &value.to_le_bytes()),
        Damage::U64(at, value) => overwrite(at.index(len), &value.to_le_bytes()),
        Damage::Digit(at, digit) => {
            let digits: Vec<usize> = (0..len).filter(|&i| bytes[i].is_ascii_digit()).collect();
            if !digits.is_empty() {
                bytes[digits[at.index(digits.len())]] = *digit;
            }
        }
    }
}

/// What both readers promise of what they accept.
fn hold_promises(tensors: &[TensorInfo], len: usize) {
    assert!(tensors.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, and no name twice");
    let mut ranges: Vec<_> = tensors.iter().map(TensorInfo::range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "no two share a byte: {ranges:?}");
    assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len), "{ranges:?} of {len}");
    for (tensor, range) in tensors.iter().zip(tensors.iter().map(TensorInfo::range)) {
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(range.len(), elements / tensor.dtype.block_len() * tensor.dtype.block_bytes(), "{tensor:?}");
    }
}

/// Reads `bytes` within time and memory; gives the tensors of a file that is accepted.
fn read<T>(bytes: &[u8], parse: impl FnOnce(&[u8]) -> Result<T, LoadError>) -> Option<T> {
    let start = Instant::now();
    let result = bounded("a damaged file", bytes, parse);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    result.inspect_err(|error| drop(refused::hold(error))).ok()
}

fn settings() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn a_damaged_gguf_is_read_or_refused(damages in prop::collection::vec(damage(), 1..4)) {
        let mut bytes = gguf_builder::base().build();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        if let Some(file) = read(&bytes, |b| gguf::parse(FILE, b)) {
            hold_promises(&file.tensors, bytes.len());
        }
    }

    #[test]
    fn a_damaged_safetensors_is_read_or_refused(
        damages in prop::collection::vec(damage(), 1..4),
        mended in any::<bool>(),
    ) {
        let whole = safetensors_builder::base();
        let header = whole.len() - 8 - 61;
        let (mut bytes, data) = (whole[8..8 + header].to_vec(), &whole[8 + header..]);
        if mended {
            // Damage inside the header, whose length is right again: the JSON and what it says are reached.
            damages.iter().for_each(|damage| apply(&mut bytes, damage));
            bytes = [&(bytes.len() as u64).to_le_bytes()[..], &bytes, data].concat();
        } else {
            bytes = whole;
            damages.iter().for_each(|damage| apply(&mut bytes, damage));
        }
        if let Some(file) = read(&bytes, |b| safetensors::parse(FILE, b)) {
            hold_promises(&file.tensors, bytes.len());
        }
    }
}

/// The negative control: damage is not so rough that only the first check is met, nor so mild that all is accepted.
#[test]
fn damage_reaches_many_checks() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut met = std::collections::HashSet::new();
    let mut accepted = 0;
    for _ in 0..1000 {
        let one = damage().new_tree(&mut runner).unwrap().current();
        let mut bytes = gguf_builder::base().build();
        apply(&mut bytes, &one);
        match gguf::parse(FILE, &bytes) {
            Ok(_) => accepted += 1,
            Err(error) => drop(met.insert(std::mem::discriminant(&error))),
        }
    }
    assert!(met.len() >= 10 && (100..900).contains(&accepted), "{} kinds of refusal, {accepted} accepted", met.len());
}

/// The seeds of `tests/fuzz` are the sound files that are damaged here.
#[test]
fn fuzzing_starts_from_the_same_files() {
    let written = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    for (seed, base) in [
        ("gguf/base.gguf", gguf_builder::base().build()),
        ("safetensors/base.safetensors", safetensors_builder::base()),
    ] {
        let new = written.join(seed.replace('/', "-"));
        std::fs::write(&new, &base).unwrap();
        let same = std::fs::read(seeds.join(seed)).is_ok_and(|stored| stored == base);
        assert!(same, "cp {} {}", new.display(), seeds.join(seed).display());
    }
}
