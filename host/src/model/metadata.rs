//! Key/value metadata of GGUF files: values as stored, and getters that name file, key and type when they refuse.

use serde::{Serialize, Serializer};

use super::{FromValue, LoadError};

/// One metadata value, in the type the file gives it.
#[allow(missing_docs)] // each variant is the GGUF type of its name
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// An array value; all elements have the type of the variant.
#[allow(missing_docs)] // each variant is the GGUF type of its name
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Strings(Strings),
    Arrays(Vec<Array>),
}

/// An array of strings in one piece of memory: a vocabulary has hundreds of thousands, most of a few bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strings {
    text: String,
    /// Where each string ends in `text`.
    ends: Vec<usize>,
}

impl Strings {
    /// Room for `strings` strings of `bytes` bytes together.
    pub(super) fn with_capacity(strings: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(strings) }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let begin = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.text.get(begin..*self.ends.get(index)?)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Serialize for Strings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Runs `$body` with `$items` bound to the elements of any array but one of strings.
macro_rules! with_items {
    ($array:expr, $strings:ident => $text:expr, $items:ident => $body:expr) => {
        match $array {
            Array::U8($items) => $body,
            Array::I8($items) => $body,
            Array::U16($items) => $body,
            Array::I16($items) => $body,
            Array::U32($items) => $body,
            Array::I32($items) => $body,
            Array::U64($items) => $body,
            Array::I64($items) => $body,
            Array::F32($items) => $body,
            Array::F64($items) => $body,
            Array::Bool($items) => $body,
            Array::Strings($strings) => $text,
            Array::Arrays($items) => $body,
        }
    };
}

impl Array {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        with_items!(self, strings => strings.len(), items => items.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `n` elements, or all.
    #[must_use]
    pub fn first(&self, n: usize) -> Array {
        fn head<T: Clone>(items: &[T], n: usize) -> Vec<T> {
            items.iter().take(n).cloned().collect()
        }
        match self {
            Array::U8(items) => Array::U8(head(items, n)),
            Array::I8(items) => Array::I8(head(items, n)),
            Array::U16(items) => Array::U16(head(items, n)),
            Array::I16(items) => Array::I16(head(items, n)),
            Array::U32(items) => Array::U32(head(items, n)),
            Array::I32(items) => Array::I32(head(items, n)),
            Array::U64(items) => Array::U64(head(items, n)),
            Array::I64(items) => Array::I64(head(items, n)),
            Array::F32(items) => Array::F32(head(items, n)),
            Array::F64(items) => Array::F64(head(items, n)),
            Array::Bool(items) => Array::Bool(head(items, n)),
            Array::Strings(strings) => {
                let mut first = Strings::default();
                strings.iter().take(n).for_each(|text| first.push(text));
                Array::Strings(first)
            }
            Array::Arrays(items) => Array::Arrays(items.iter().take(n).map(|array| array.first(n)).collect()),
        }
    }

    /// Name of the element type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Array::U8(_) => "u8",
            Array::I8(_) => "i8",
            Array::U16(_) => "u16",
            Array::I16(_) => "i16",
            Array::U32(_) => "u32",
            Array::I32(_) => "i32",
            Array::U64(_) => "u64",
            Array::I64(_) => "i64",
            Array::F32(_) => "f32",
            Array::F64(_) => "f64",
            Array::Bool(_) => "bool",
            Array::Strings(_) => "string",
            Array::Arrays(_) => "array",
        }
    }

    /// The elements as integers of one type; none where one does not fit, or they are no integers.
    pub(super) fn integers<T: TryFrom<i128>>(&self) -> Option<Vec<T>> {
        fn all<S: Copy + Into<i128>, T: TryFrom<i128>>(items: &[S]) -> Option<Vec<T>> {
            items.iter().map(|&item| T::try_from(item.into()).ok()).collect()
        }
        match self {
            Array::U8(items) => all(items),
            Array::I8(items) => all(items),
            Array::U16(items) => all(items),
            Array::I16(items) => all(items),
            Array::U32(items) => all(items),
            Array::I32(items) => all(items),
            Array::U64(items) => all(items),
            Array::I64(items) => all(items),
            Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::Strings(_) | Array::Arrays(_) => None,
        }
    }
}

impl std::fmt::Display for Array {
    /// The first elements, as `[1, 2, 3, ..]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 6;
        let more = if self.len() > SHOWN { ", .." } else { "" };
        let list: Vec<String> = with_items!(
            self,
            strings => strings.iter().take(SHOWN).map(|s| format!("\"{}\"", super::shortened(s))).collect(),
            items => items.iter().take(SHOWN).map(ToString::to_string).collect()
        );
        write!(f, "[{}{more}]", list.join(", "))
    }
}

impl Value {
    /// The type, as messages and lists say it: `u32`, `string`, `array of 288 strings`.
    #[must_use]
    pub fn type_name(&self) -> String {
        let name = match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(array) => return format!("{}[{}]", array.type_name(), array.len()),
        };
        name.to_owned()
    }

    /// The value as an integer of another type; none where it does not fit, or is none.
    pub(super) fn integer<T: TryFrom<i128>>(&self) -> Option<T> {
        let wide = match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => return None,
        };
        T::try_from(wide).ok()
    }
}

impl std::fmt::Display for Value {
    /// The value with unprintable characters escaped; long strings are shortened, of arrays the first elements come.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::U8(v) => v.fmt(f),
            Value::I8(v) => v.fmt(f),
            Value::U16(v) => v.fmt(f),
            Value::I16(v) => v.fmt(f),
            Value::U32(v) => v.fmt(f),
            Value::I32(v) => v.fmt(f),
            Value::U64(v) => v.fmt(f),
            Value::I64(v) => v.fmt(f),
            Value::F32(v) => write!(f, "{v:?}"),
            Value::F64(v) => write!(f, "{v:?}"),
            Value::Bool(v) => v.fmt(f),
            Value::String(v) => write!(f, "\"{}\"", super::shortened(v)),
            Value::Array(v) => v.fmt(f),
        }
    }
}

/// The key/value pairs of a GGUF file, in the order of the file. No key is there twice.
#[derive(Debug)]
pub struct Metadata {
    file: String,
    entries: Vec<(String, Value)>,
    /// Indices of `entries`, by key.
    sorted: Vec<usize>,
}

impl Metadata {
    /// # Errors
    /// [`LoadError::Duplicate`].
    pub(super) fn new(file: &str, entries: Vec<(String, Value)>) -> Result<Self, LoadError> {
        let mut sorted: Vec<usize> = (0..entries.len()).collect();
        sorted.sort_unstable_by_key(|&i| entries[i].0.as_str());
        if let Some(pair) = sorted.windows(2).find(|pair| entries[pair[0]].0 == entries[pair[1]].0) {
            let name = entries[pair[0]].0.clone();
            return Err(LoadError::Duplicate { file: file.to_owned(), what: "metadata key", name });
        }
        Ok(Self { file: file.to_owned(), entries, sorted })
    }

    /// The pairs in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key` as it is stored.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        let at = self.sorted.binary_search_by_key(&key, |&i| self.entries[i].0.as_str()).ok()?;
        Some(&self.entries[self.sorted[at]].1)
    }

    /// The value of `key`, or none where the file has no such key: `metadata.find::<u32>("general.alignment")?`.
    ///
    /// # Errors
    /// [`LoadError::KeyType`] where the value is of another type, or an integer that does not fit.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>, LoadError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        T::from_value(value).map(Some).ok_or_else(|| LoadError::KeyType {
            file: self.file.clone(),
            key: key.to_owned(),
            got: format!("{value} ({})", value.type_name()),
            wanted: T::WANTED,
        })
    }

    /// The value of `key`, which must be there.
    ///
    /// # Errors
    /// [`LoadError::KeyMissing`], and those of [`find`](Self::find).
    pub fn need<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, LoadError> {
        self.find(key)?.ok_or_else(|| LoadError::KeyMissing { file: self.file.clone(), key: key.to_owned() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let mut words = Strings::with_capacity(3, 3);
        ["", "ab", "é"].into_iter().for_each(|word| words.push(word));
        let entries = vec![
            ("z.layers".to_owned(), Value::U16(4)),
            ("a.minus".to_owned(), Value::I64(-1)),
            ("words".to_owned(), Value::Array(Array::Strings(words))),
            ("sections".to_owned(), Value::Array(Array::I32(vec![2, 1, 1, 0]))),
            ("name".to_owned(), Value::String("a\u{7}b".to_owned())),
        ];
        Metadata::new("x.gguf", entries).unwrap()
    }

    #[test]
    fn integers_of_every_width_are_given_where_they_fit() {
        let m = metadata();
        assert_eq!(m.need::<u32>("z.layers").unwrap(), 4);
        assert_eq!(m.need::<i32>("a.minus").unwrap(), -1);
        assert_eq!(m.need::<Vec<usize>>("sections").unwrap(), [2, 1, 1, 0]);
        let text = m.need::<u32>("a.minus").unwrap_err().to_string();
        assert_eq!(text, "x.gguf: metadata key `a.minus` holds -1 (i64), and an integer from 0 to 2^32 - 1 is wanted");
    }

    #[test]
    fn strings_keep_their_borders() {
        let m = metadata();
        let words: &Strings = m.need("words").unwrap();
        assert_eq!(words.iter().collect::<Vec<_>>(), ["", "ab", "é"]);
        assert_eq!((words.get(3), words.len()), (None, 3));
        assert_eq!(m.value("words").unwrap().to_string(), "[\"\", \"ab\", \"é\"]");
        assert_eq!(m.value("name").unwrap().to_string(), "\"a\\u{7}b\"");
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_named() {
        let m = metadata();
        assert!(m.find::<u32>("nowhere").unwrap().is_none());
        let missing = m.need::<&str>("nowhere").unwrap_err();
        assert!(matches!(missing, LoadError::KeyMissing { ref key, .. } if key == "nowhere"), "{missing}");
        let other = m.need::<bool>("words").unwrap_err().to_string();
        assert!(other.contains("`words`") && other.contains("string[3]") && other.contains("a bool"), "{other}");
    }

    #[test]
    fn a_key_is_there_once() {
        let twice =
            vec![("k".to_owned(), Value::U8(1)), ("j".to_owned(), Value::U8(1)), ("k".to_owned(), Value::U8(2))];
        let error = Metadata::new("x.gguf", twice).unwrap_err();
        assert!(matches!(error, LoadError::Duplicate { ref name, .. } if name == "k"), "{error}");
    }
}
