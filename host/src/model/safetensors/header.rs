//! The JSON header of a safetensors file: tensors by name, and free texts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::MAX_DIMS;
use super::json::{Pairs, in_entry};
use crate::model::ranges::{MAX_NAME, MAX_TENSORS};
use crate::model::shortened;

/// The key that is no tensor.
const NOTES: &str = "__metadata__";
/// Most free texts that are read.
const MAX_NOTES: usize = 1 << 12;

/// A header as it stands; nothing is held against the file yet.
pub(super) struct Header {
    pub notes: Vec<(String, String)>,
    pub tensors: Vec<(String, Entry)>,
}

/// One tensor. A second `dtype` and the like are refused, and so are fields beyond these.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub dtype: String,
    pub shape: Shape,
    pub data_offsets: (u64, u64),
}

/// A shape, of [`MAX_DIMS`] dimensions at most.
#[derive(Default)]
pub(super) struct Shape {
    dims: [u64; MAX_DIMS],
    n_dims: usize,
}

impl Shape {
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.n_dims]
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShapeVisitor;
        impl<'de> Visitor<'de> for ShapeVisitor {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut shape = Shape::default();
                while let Some(dim) = list.next_element::<u64>()? {
                    let slot = shape.dims.get_mut(shape.n_dims);
                    *slot.ok_or_else(|| A::Error::custom(format!("more than {MAX_DIMS} dimensions")))? = dim;
                    shape.n_dims += 1;
                }
                Ok(shape)
            }
        }
        deserializer.deserialize_seq(ShapeVisitor)
    }
}

/// Reads a header. That no tensor is there twice is for the caller to see, who sorts them.
pub(super) fn parse(text: &str) -> Result<Header, serde_json::Error> {
    serde_json::from_str(text)
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Header, A::Error> {
                read(map)
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

fn read<'de, A: MapAccess<'de>>(mut map: A) -> Result<Header, A::Error> {
    let mut notes: Option<Pairs<String, MAX_NOTES>> = None;
    let mut tensors = Vec::new();
    while let Some(name) = map.next_key::<String>()? {
        if name == NOTES {
            let texts = map.next_value().map_err(|error| in_entry(NOTES, &error))?;
            if notes.replace(texts).is_some() {
                return Err(A::Error::custom(format!("`{NOTES}` appears twice")));
            }
            continue;
        }
        if name.is_empty() || name.len() as u64 > MAX_NAME {
            let shown = shortened(&name);
            return Err(A::Error::custom(format!("`{shown}` is no tensor name of 1 to {MAX_NAME} bytes")));
        }
        if tensors.len() as u64 == MAX_TENSORS {
            return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
        }
        let entry = map.next_value().map_err(|error| in_entry(&name, &error))?;
        tensors.push((name, entry));
    }
    Ok(Header { notes: notes.map(|pairs| pairs.0).unwrap_or_default(), tensors })
}
