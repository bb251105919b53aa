//! Metadata of a GGUF file: keys and values of all thirteen types.

use std::fmt::Display;

use super::cursor::Cursor;
use crate::model::metadata::{Array, Metadata, Strings, Value};
use crate::model::{LoadError, shortened};

/// Most key/value pairs that are read; released files have under a hundred.
const MAX_ENTRIES: u64 = 1 << 16;
/// Most bytes of a key, as the format says.
const MAX_KEY: u64 = (1 << 16) - 1;
/// How deep arrays may lie in arrays.
const MAX_DEPTH: u32 = 4;
/// Most arrays inside arrays in one file: each costs more memory than bytes of the file.
const MAX_NESTED: u64 = 1 << 16;
/// Key length, one byte of key, value type, one byte of value.
const ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;

/// Numbers of value types that are named in both directions.
pub(super) const BOOL: u32 = 7;
pub(super) const STRING: u32 = 8;
pub(super) const ARRAY: u32 = 9;

/// Reads `n` pairs.
pub(super) fn read(cursor: &mut Cursor, n: u64) -> Result<Metadata, LoadError> {
    let file = cursor.file;
    let count = cursor.count(n, ENTRY_BYTES, &"the number of metadata entries")?;
    if n > MAX_ENTRIES {
        let what = "the number of metadata entries".to_owned();
        return Err(LoadError::Limit { file: file.to_owned(), what, got: n, limit: MAX_ENTRIES });
    }
    let mut entries = Vec::with_capacity(count);
    let mut nested = 0;
    for i in 0..n {
        let key = key(cursor, i)?;
        let kind = cursor.u32(&format_args!("the value type of `{}`", shortened(key)))?;
        let mut values = Values { cursor, key, nested: &mut nested };
        entries.push((key.to_owned(), values.value(kind)?));
    }
    Metadata::new(file, entries)
}

fn key<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<&'a str, LoadError> {
    let key = cursor.string(&format_args!("metadata key {index}"))?;
    let len = key.len() as u64;
    if len > MAX_KEY {
        let what = format!("the length of metadata key {index}");
        return Err(LoadError::Limit { file: cursor.file.to_owned(), what, got: len, limit: MAX_KEY });
    }
    if key.is_empty() {
        return Err(LoadError::Value {
            file: cursor.file.to_owned(),
            key: format!("metadata key {index}"),
            got: "empty".to_owned(),
            wanted: "a name".to_owned(),
        });
    }
    Ok(key)
}

/// Reads the value of one key.
struct Values<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    key: &'a str,
    nested: &'c mut u64,
}

/// How a message calls the value of a key, or an element of it.
struct Place<'a>(&'a str, Option<usize>);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            Some(index) => write!(f, "element {index} of `{}`", shortened(self.0)),
            None => write!(f, "the value of `{}`", shortened(self.0)),
        }
    }
}

impl<'a> Values<'_, 'a> {
    fn unknown(&self, got: u32) -> LoadError {
        LoadError::ValueType { file: self.cursor.file.to_owned(), key: self.key.to_owned(), got }
    }

    fn value(&mut self, kind: u32) -> Result<Value, LoadError> {
        let place = Place(self.key, None);
        Ok(match kind {
            0 => Value::U8(self.cursor.u8(&place)?),
            1 => Value::I8(self.cursor.u8(&place)?.cast_signed()),
            2 => Value::U16(self.cursor.u16(&place)?),
            3 => Value::I16(self.cursor.u16(&place)?.cast_signed()),
            4 => Value::U32(self.cursor.u32(&place)?),
            5 => Value::I32(self.cursor.u32(&place)?.cast_signed()),
            6 => Value::F32(f32::from_bits(self.cursor.u32(&place)?)),
            BOOL => {
                let byte = self.cursor.u8(&place)?;
                Value::Bool(self.bool(byte)?)
            }
            STRING => Value::String(self.cursor.string(&place)?.to_owned()),
            ARRAY => Value::Array(self.array(1)?),
            10 => Value::U64(self.cursor.u64(&place)?),
            11 => Value::I64(self.cursor.u64(&place)?.cast_signed()),
            12 => Value::F64(f64::from_bits(self.cursor.u64(&place)?)),
            other => return Err(self.unknown(other)),
        })
    }

    fn bool(&self, byte: u8) -> Result<bool, LoadError> {
        match byte {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(LoadError::Value {
                file: self.cursor.file.to_owned(),
                key: self.key.to_owned(),
                got: format!("the bool {byte}"),
                wanted: "0 or 1".to_owned(),
            }),
        }
    }

    fn array(&mut self, depth: u32) -> Result<Array, LoadError> {
        let kind = self.cursor.u32(&format_args!("the element type of `{}`", shortened(self.key)))?;
        let n = self.cursor.u64(&format_args!("the length of `{}`", shortened(self.key)))?;
        Ok(match kind {
            0 => Array::U8(self.numbers(n, |[b]| b)?),
            1 => Array::I8(self.numbers(n, i8::from_le_bytes)?),
            2 => Array::U16(self.numbers(n, u16::from_le_bytes)?),
            3 => Array::I16(self.numbers(n, i16::from_le_bytes)?),
            4 => Array::U32(self.numbers(n, u32::from_le_bytes)?),
            5 => Array::I32(self.numbers(n, i32::from_le_bytes)?),
            6 => Array::F32(self.numbers(n, f32::from_le_bytes)?),
            BOOL => {
                let bytes = self.raw(n, 1)?;
                // Two passes: a collected `Result` cannot tell its size beforehand, and would grow by doubling.
                bytes.iter().try_for_each(|&byte| self.bool(byte).map(drop))?;
                Array::Bool(bytes.iter().map(|&byte| byte == 1).collect())
            }
            STRING => Array::Strings(self.strings(n)?),
            ARRAY => Array::Arrays(self.arrays(n, depth)?),
            10 => Array::U64(self.numbers(n, u64::from_le_bytes)?),
            11 => Array::I64(self.numbers(n, i64::from_le_bytes)?),
            12 => Array::F64(self.numbers(n, f64::from_le_bytes)?),
            other => return Err(self.unknown(other)),
        })
    }

    fn count(&self, n: u64, each: u64) -> Result<usize, LoadError> {
        self.cursor.count(n, each, &format_args!("the length of the array `{}`", shortened(self.key)))
    }

    /// The bytes of `n` elements of `each` bytes.
    fn raw(&mut self, n: u64, each: u64) -> Result<&'a [u8], LoadError> {
        self.count(n, each)?;
        self.cursor.take(n * each, &Place(self.key, None)) // no overflow: the count fits the file
    }

    fn numbers<T, const N: usize>(&mut self, n: u64, from: impl Fn([u8; N]) -> T) -> Result<Vec<T>, LoadError> {
        let bytes = self.raw(n, N as u64)?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|&chunk| from(chunk)).collect())
    }

    fn strings(&mut self, n: u64) -> Result<Strings, LoadError> {
        let count = self.count(n, 8)?;
        let start = self.cursor.at();
        // A first pass checks and measures, so that the second allocates exactly what the file holds.
        let mut probe = Cursor::resume(self.cursor);
        for index in 0..count {
            probe.string(&Place(self.key, Some(index)))?;
        }
        let mut strings = Strings::with_capacity(count, probe.at() - start - 8 * count);
        for index in 0..count {
            strings.push(self.cursor.string(&Place(self.key, Some(index)))?);
        }
        Ok(strings)
    }

    fn arrays(&mut self, n: u64, depth: u32) -> Result<Vec<Array>, LoadError> {
        let limit = |what: &str, got: u64, limit: u64| LoadError::Limit {
            file: self.cursor.file.to_owned(),
            what: format!("{what} of `{}`", shortened(self.key)),
            got,
            limit,
        };
        if depth >= MAX_DEPTH {
            return Err(limit("the depth of the arrays", u64::from(depth) + 1, u64::from(MAX_DEPTH)));
        }
        let count = self.count(n, 4 + 8)?;
        *self.nested += n; // no overflow: each count fits the file
        if *self.nested > MAX_NESTED {
            return Err(limit("the number of arrays up to those", *self.nested, MAX_NESTED));
        }
        let mut arrays = Vec::with_capacity(count);
        for _ in 0..count {
            arrays.push(self.array(depth + 1)?);
        }
        Ok(arrays)
    }
}
