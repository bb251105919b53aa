//! JSON objects as lists of pairs, in which a key is refused the second time and a count has a limit.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// An object's pairs in their order; no key is there twice, and there are `MAX` at most.
pub(super) struct Pairs<T, const MAX: usize>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Pairs<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for PairsVisitor<T, MAX> {
    type Value = Pairs<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if pairs.len() == MAX {
                return Err(Error::custom(format!("more than {MAX} entries")));
            }
            let value = map.next_value().map_err(|error| in_entry(&key, &error))?;
            pairs.push((key, value));
        }
        let mut seen = HashSet::with_capacity(pairs.len());
        if let Some((twice, _)) = pairs.iter().find(|(key, _)| !seen.insert(key.as_str())) {
            return Err(Error::custom(format!("`{}` appears twice", crate::model::shortened(twice))));
        }
        Ok(Pairs(pairs))
    }
}

/// The error with the key it was met under.
pub(super) fn in_entry<E: Error>(key: &str, error: &E) -> E {
    E::custom(format!("`{}`: {error}", crate::model::shortened(key)))
}
