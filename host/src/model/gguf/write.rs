//! The start of a GGUF file, version 3: everything but the tensors' data, which follows in the same order.
//!
//! ```
//! use varve::model::{DType, Value, gguf};
//! let tensors = [gguf::Entry { name: "a.weight".into(), shape: vec![2, 32], dtype: DType::Q8_0 }];
//! let mut file = gguf::head(&[("general.name".to_owned(), Value::String("a".into()))], &tensors);
//! file.resize(file.len() + tensors[0].data_bytes().next_multiple_of(gguf::ALIGNMENT), 0);
//! let read = gguf::parse("a.gguf", &file)?;
//! assert_eq!((read.tensors[0].shape.as_slice(), read.tensors[0].dtype), ([2, 32].as_slice(), DType::Q8_0));
//! # Ok::<(), varve::model::LoadError>(())
//! ```

use super::MAGIC;
use super::values::{ARRAY, BOOL, STRING};
use crate::model::DType;
use crate::model::metadata::{Array, Value};

/// The version that is written.
const VERSION: u32 = 3;
/// Data of a tensor starts at a multiple of this many bytes, counted from the first one's.
pub const ALIGNMENT: usize = super::DEFAULT_ALIGNMENT as usize;

/// A tensor of a file in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Outermost dimension first, none of them 0; the last is a multiple of the type's block.
    pub shape: Vec<usize>,
    /// Its type, one that GGUF has.
    pub dtype: DType,
}

impl Entry {
    /// Bytes of its data, without what fills up to the next tensor's.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() / self.dtype.block_len() * self.dtype.block_bytes()
    }
}

/// Header, metadata and tensor infos, filled up to where data begins.
///
/// # Panics
/// Where a tensor's type is none of GGUF's.
#[must_use]
pub fn head(metadata: &[(String, Value)], tensors: &[Entry]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        string(&mut out, key);
        out.extend(kind(value).to_le_bytes());
        put(&mut out, value);
    }
    let mut offset = 0u64;
    for entry in tensors {
        let Some(number) = entry.dtype.ggml() else { unreachable!("{} is no type of GGUF", entry.dtype) };
        string(&mut out, &entry.name);
        out.extend((entry.shape.len() as u32).to_le_bytes());
        entry.shape.iter().rev().for_each(|&dim| out.extend((dim as u64).to_le_bytes()));
        out.extend(number.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += entry.data_bytes().next_multiple_of(ALIGNMENT) as u64;
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn kind(value: &Value) -> u32 {
    match value {
        Value::U8(_) => 0,
        Value::I8(_) => 1,
        Value::U16(_) => 2,
        Value::I16(_) => 3,
        Value::U32(_) => 4,
        Value::I32(_) => 5,
        Value::F32(_) => 6,
        Value::Bool(_) => BOOL,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::U64(_) => 10,
        Value::I64(_) => 11,
        Value::F64(_) => 12,
    }
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.push(*v),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(v) => string(out, v),
        Value::Array(v) => array(out, v),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
    }
}

/// Element type and number of elements, which come before the elements of an array.
fn begin(out: &mut Vec<u8>, kind: u32, len: usize) {
    out.extend(kind.to_le_bytes());
    out.extend((len as u64).to_le_bytes());
}

fn numbers<T: Copy, const N: usize>(out: &mut Vec<u8>, kind: u32, items: &[T], bytes: impl Fn(T) -> [u8; N]) {
    begin(out, kind, items.len());
    items.iter().for_each(|&item| out.extend(bytes(item)));
}

fn array(out: &mut Vec<u8>, items: &Array) {
    match items {
        Array::U8(v) => numbers(out, 0, v, u8::to_le_bytes),
        Array::I8(v) => numbers(out, 1, v, i8::to_le_bytes),
        Array::U16(v) => numbers(out, 2, v, u16::to_le_bytes),
        Array::I16(v) => numbers(out, 3, v, i16::to_le_bytes),
        Array::U32(v) => numbers(out, 4, v, u32::to_le_bytes),
        Array::I32(v) => numbers(out, 5, v, i32::to_le_bytes),
        Array::F32(v) => numbers(out, 6, v, f32::to_le_bytes),
        Array::Bool(v) => numbers(out, BOOL, v, |v| [u8::from(v)]),
        Array::Strings(v) => {
            begin(out, STRING, v.len());
            v.iter().for_each(|text| string(out, text));
        }
        Array::Arrays(v) => {
            begin(out, ARRAY, v.len());
            v.iter().for_each(|inner| array(out, inner));
        }
        Array::U64(v) => numbers(out, 10, v, u64::to_le_bytes),
        Array::I64(v) => numbers(out, 11, v, i64::to_le_bytes),
        Array::F64(v) => numbers(out, 12, v, f64::to_le_bytes),
    }
}
