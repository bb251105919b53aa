//! The types that getters of metadata give.

use super::metadata::{Array, Strings, Value};

/// What a getter can give: integers of any stored width that fit, floats, bools, strings, and arrays of them.
pub trait FromValue<'a>: Sized {
    /// How messages call it.
    const WANTED: &'static str;

    /// The value as this type, if it is one.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty, $one:literal, $many:literal;)*) => { $(
        impl FromValue<'_> for $type {
            const WANTED: &'static str = $one;
            fn from_value(value: &Value) -> Option<Self> {
                value.integer()
            }
        }
        impl FromValue<'_> for Vec<$type> {
            const WANTED: &'static str = $many;
            fn from_value(value: &Value) -> Option<Self> {
                if let Value::Array(array) = value { array.integers() } else { None }
            }
        }
    )* };
}

integers! {
    u32, "an integer from 0 to 2^32 - 1", "an array of integers from 0 to 2^32 - 1";
    i32, "a signed 32-bit integer", "an array of signed 32-bit integers";
    u64, "an integer from 0 to 2^64 - 1", "an array of integers from 0 to 2^64 - 1";
    usize, "an integer from 0 on", "an array of integers from 0 on";
}

macro_rules! from_value {
    ($($type:ty, $wanted:literal, $pattern:pat => $result:expr;)*) => { $(
        impl<'a> FromValue<'a> for $type {
            const WANTED: &'static str = $wanted;
            fn from_value(value: &'a Value) -> Option<Self> {
                if let $pattern = value { $result } else { None }
            }
        }
    )* };
}

from_value! {
    f32, "an f32", Value::F32(v) => Some(*v);
    bool, "a bool", Value::Bool(v) => Some(*v);
    &'a str, "a string", Value::String(v) => Some(v.as_str());
    &'a Strings, "an array of strings", Value::Array(Array::Strings(v)) => Some(v);
    &'a [f32], "an array of f32", Value::Array(Array::F32(v)) => Some(v.as_slice());
    &'a [bool], "an array of bools", Value::Array(Array::Bool(v)) => Some(v.as_slice());
}
