//! Memory that the readers take: never more than the file's size and 64 MiB, whatever the file says.
//!
//! The allocator counts by thread, so that tests running beside do not mix. A reallocation counts as both pieces at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use varve::model::{Checkpoint, LoadError, gguf, safetensors};

use crate::gguf_builder::{self as gguf_file, File, Info};
use crate::refused::FILE;
use crate::safetensors_builder::{entry, file, with_length};

/// What a reader may take beyond the size of its file.
const SLACK: usize = 64 << 20;

struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no counters any more; what it frees then is of no interest.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` gives, and the most bytes that were allocated at once while it ran.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}

/// Runs `parse` on `bytes` and holds its memory against the limit.
pub fn bounded<T>(case: &str, bytes: &[u8], parse: impl FnOnce(&[u8]) -> T) -> T {
    let (result, peak) = peak(|| parse(bytes));
    assert!(peak <= bytes.len() + SLACK, "{case}: {peak} bytes at once for a file of {}", bytes.len());
    result
}

#[test]
fn the_allocator_counts() {
    let (_, peak) = peak(|| {
        drop(vec![1u8; 1 << 20]);
        vec![1u8; 3 << 20].len()
    });
    assert!((3 << 20..4 << 20).contains(&peak), "{peak}");
}

/// A file of so many tensors of one byte each.
fn many_tensors(n: usize) -> Vec<u8> {
    let mut out = File { n_tensors: Some(n as u64), ..File::new().u32("general.alignment", 1) }.build();
    for i in 0..n {
        out.extend(gguf_file::string(format!("{i:x}")));
        for part in [&1u32.to_le_bytes()[..], &1u64.to_le_bytes(), &24u32.to_le_bytes(), &(i as u64).to_le_bytes()] {
            out.extend(part);
        }
    }
    [out, vec![0; n]].concat()
}

#[test]
fn lists_of_smallest_gguf_records_stay_within_the_limit() {
    let most = 1 << 18;
    let whole = many_tensors(most);
    assert_eq!(bounded("tensors", &whole, |b| gguf::parse(FILE, b)).unwrap().tensors.len(), most);

    let keys = (0..1 << 16).map(|i| format!("{i:x}"));
    let pairs = keys.fold(File::new(), |file, key| file.entry(&key, gguf_file::U8, &[1])).build();
    assert_eq!(bounded("pairs", &pairs, |b| gguf::parse(FILE, b)).unwrap().metadata.iter().count(), 1 << 16);

    let array = |kind, n: usize, each: &[u8]| gguf_file::array(kind, n as u64, &each.repeat(n));
    let list = |value: &[u8]| File::new().entry("list", gguf_file::ARRAY, value).build();
    let empty = gguf_file::array(gguf_file::U8, 0, &[]);
    bounded("arrays", &list(&array(gguf_file::ARRAY, 1 << 16, &empty)), |b| gguf::parse(FILE, b)).unwrap();
    assert!(bounded("arrays", &list(&array(gguf_file::ARRAY, 4 << 20, &empty)), |b| gguf::parse(FILE, b)).is_err());
    let strings = list(&array(gguf_file::STRING, 10 << 20, &[0; 8]));
    bounded("empty strings", &strings, |b| gguf::parse(FILE, b)).unwrap();
    let flags = list(&array(gguf_file::BOOL, 80 << 20, &[1]));
    bounded("flags", &flags, |b| gguf::parse(FILE, b)).unwrap();
    let more = File { n_tensors: Some(1 << 20), ..File::new().tensor(Info::new("t", &[40 << 20], 24, 40 << 20)) };
    assert!(bounded("too many", &more.build(), |b| gguf::parse(FILE, b)).is_err());
}

#[test]
fn headers_of_smallest_safetensors_records_stay_within_the_limit() {
    let most = 1 << 18;
    let tensors: Vec<_> = (0..most).map(|i: i64| entry(&format!("{i:x}"), "U8", "[1]", i, i + 1)).collect();
    let whole = file(&tensors, most as usize);
    assert_eq!(bounded("tensors", &whole, |b| safetensors::parse(FILE, b)).unwrap().tensors.len() as i64, most);

    let parse = |case: &str, header: String| {
        let bytes = with_length(header.len() as u64, header.as_bytes(), 0);
        bounded(case, &bytes, |b| safetensors::parse(FILE, b)).is_err()
    };
    let long = format!("\\u0061{}", "a".repeat(31 << 20));
    assert!(parse("name", format!(r#"{{"{long}":1}}"#)));
    assert!(parse("type", format!(r#"{{"a":{{"dtype":"{long}"}}}}"#)));
    assert!(!parse("note", format!(r#"{{"__metadata__":{{"a":"{long}"}}}}"#)));
    let notes: Vec<String> = (0..1_000_000).map(|i| format!(r#""{i:x}":"""#)).collect();
    assert!(parse("notes", format!(r#"{{"__metadata__":{{{}}}}}"#, notes.join(","))));
    assert!(parse("shape", format!(r#"{{"a":{{"shape":[{}1]}}}}"#, "1,".repeat(10 << 20))));
}

#[test]
fn whole_checkpoints_stay_within_the_limit() {
    let most = 1 << 18;
    let map: Vec<String> = (0..most).map(|i| format!(r#""{i:x}":"{}.safetensors""#, ["a", "b"][i % 2])).collect();
    let index = format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","));
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bounded.safetensors.index.json");
    std::fs::write(&path, &index).unwrap();
    let opened = bounded("index", index.as_bytes(), |_| Checkpoint::open(&path));
    assert!(matches!(opened, Err(LoadError::ShardMissing { .. })), "{opened:?}");

    let whole: &'static [u8] = many_tensors(most).leak();
    let opened = bounded("tensors", whole, |_| Checkpoint::from_static(FILE, whole));
    assert_eq!(opened.unwrap().tensors().count(), most);
}
