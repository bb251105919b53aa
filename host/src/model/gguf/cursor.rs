//! Reading forwards through bytes of which nothing is believed.

use std::fmt::Display;

use crate::model::LoadError;

/// A position in a file; every read is checked against the bytes that are left.
pub(super) struct Cursor<'a> {
    pub file: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(file: &'a str, bytes: &'a [u8]) -> Self {
        Self { file, bytes, at: 0 }
    }

    /// A second cursor where this one stands.
    pub fn resume(other: &Self) -> Self {
        Self { ..*other }
    }

    /// Bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes, which are `what`.
    pub fn take(&mut self, n: u64, what: &dyn Display) -> Result<&'a [u8], LoadError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = usize::try_from(n).ok().and_then(|n| rest.get(..n)) else {
            return Err(LoadError::Cut {
                file: self.file.to_owned(),
                what: what.to_string(),
                at: self.at as u64,
                needed: n,
                len: self.bytes.len() as u64,
            });
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &dyn Display) -> Result<[u8; N], LoadError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub fn u8(&mut self, what: &dyn Display) -> Result<u8, LoadError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u16(&mut self, what: &dyn Display) -> Result<u16, LoadError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &dyn Display) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &dyn Display) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// `got` things of at least `each` bytes (1 or more), which the rest of the file must be able to hold.
    pub fn count(&self, got: u64, each: u64, what: &dyn Display) -> Result<usize, LoadError> {
        let left = self.left() as u64;
        match usize::try_from(got) {
            Ok(count) if got <= left / each => Ok(count),
            _ => Err(LoadError::Count { file: self.file.to_owned(), what: what.to_string(), got, each, left }),
        }
    }

    /// A string with its length before it.
    pub fn string(&mut self, what: &dyn Display) -> Result<&'a str, LoadError> {
        let len = self.u64(&format_args!("the length of {what}"))?;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|error| LoadError::NotUtf8 {
            file: self.file.to_owned(),
            what: what.to_string(),
            at: error.valid_up_to(),
        })
    }
}
