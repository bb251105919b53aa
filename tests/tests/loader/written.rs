//! The start of a file as it is written, read back.

use varve::model::gguf::{ALIGNMENT, Entry, head, parse};
use varve::model::{DType, Value};

use crate::gguf_builder::base;

/// Values of all types, arrays in arrays, and tensors: writing what was read gives what was read.
#[test]
fn what_was_read_is_written() {
    let read = parse("base.gguf", &base().build()).unwrap();
    let metadata: Vec<(String, Value)> =
        read.metadata.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    assert!(metadata.len() > 15);
    let entry = |t: &varve::model::TensorInfo| Entry { name: t.name.clone(), shape: t.shape.clone(), dtype: t.dtype };
    let entries: Vec<Entry> = read.tensors.iter().map(entry).collect();
    let mut file = head(&metadata, &entries);
    let start = file.len();
    assert!(start.is_multiple_of(ALIGNMENT));
    for entry in &entries {
        file.resize(file.len() + entry.data_bytes().next_multiple_of(ALIGNMENT), 0);
    }
    let again = parse("again.gguf", &file).unwrap();
    let pairs: Vec<(String, Value)> =
        again.metadata.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    assert_eq!((again.version, pairs), (3, metadata));
    let mut at = start;
    for (tensor, entry) in again.tensors.iter().zip(&entries) {
        assert_eq!((&tensor.name, &tensor.shape, tensor.dtype), (&entry.name, &entry.shape, entry.dtype));
        assert_eq!(tensor.range(), at..at + entry.data_bytes(), "{}", entry.name);
        at = tensor.range().end.next_multiple_of(ALIGNMENT);
    }
    assert_eq!(at, file.len());
}

#[test]
fn a_file_without_anything_is_whole() {
    let read = parse("empty.gguf", &head(&[], &[])).unwrap();
    assert_eq!((read.tensors.len(), read.metadata.iter().count()), (0, 0));
    let entry = Entry { name: "x".to_owned(), shape: vec![3, 512], dtype: DType::Q6_K };
    assert_eq!(entry.data_bytes(), 6 * 210);
}
