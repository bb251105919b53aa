//! Bodies as JSON: parsed under limits, with the place of an error; fields taken one by one, with the path in errors.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ApiError;
use super::limits;

/// Parses a body.
///
/// # Errors
/// `malformed_json` with line, column and the field in which reading stopped; `invalid_value` for too deep nesting.
pub fn parse(body: &[u8]) -> Result<Value, ApiError> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            let (line, column) = position(body, error.valid_up_to());
            let param = path(body, error.valid_up_to()).ok().filter(|path| !path.is_empty());
            return Err(ApiError::malformed_json("a byte is not UTF-8", line, column, param));
        }
    };
    if let Err(TooDeep) = path(body, body.len()) {
        let message = format!("the body is nested deeper than {} levels", limits::JSON_DEPTH);
        return Err(ApiError::invalid_body(message));
    }
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line().max(1), error.column().max(1));
        let param = path(body, offset(body, line, column)).ok().filter(|path| !path.is_empty());
        // The message of serde_json ends with the position, which is said once.
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        ApiError::malformed_json(message, line, column, param)
    })
}

/// Line and column (of bytes) of an offset, both from 1.
fn position(body: &[u8], offset: usize) -> (usize, usize) {
    let before = &body[..offset];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    (line, offset - start + 1)
}

/// The offset of a line and column.
fn offset(body: &[u8], line: usize, column: usize) -> usize {
    let start: usize = body.split_inclusive(|&byte| byte == b'\n').take(line - 1).map(<[u8]>::len).sum();
    (start + column - 1).min(body.len())
}

struct TooDeep;

/// Where in a document something is: a key or an index for each open bracket.
enum Step {
    Key(Option<(usize, usize)>),
    Index(usize),
}

/// The path of the value at `end`, such as `messages[2].role`; reads brackets and strings only, so that it takes any
/// bytes and needs no stack.
fn path(body: &[u8], end: usize) -> Result<String, TooDeep> {
    let (mut steps, mut at) = (Vec::new(), 0);
    let mut last_string = None;
    while at < end {
        match body[at] {
            b'"' => {
                let start = at + 1;
                at = start;
                while at < end && body[at] != b'"' {
                    at += if body[at] == b'\\' { 2 } else { 1 };
                }
                last_string = Some((start, at.min(end)));
            }
            b'{' => steps.push(Step::Key(None)),
            b'[' => steps.push(Step::Index(0)),
            b'}' | b']' => drop(steps.pop()),
            b':' => {
                if let Some(Step::Key(key)) = steps.last_mut() {
                    *key = last_string;
                }
            }
            b',' => match steps.last_mut() {
                Some(Step::Key(key)) => *key = None,
                Some(Step::Index(index)) => *index += 1,
                None => {}
            },
            _ => {}
        }
        if steps.len() > limits::JSON_DEPTH {
            return Err(TooDeep);
        }
        at += 1;
    }
    Ok(steps.iter().fold(String::new(), |path, step| match step {
        Step::Key(Some((from, to))) => join(&path, &clip(&String::from_utf8_lossy(&body[*from..*to]))),
        Step::Key(None) => path,
        Step::Index(index) => format!("{path}[{index}]"),
    }))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn clip(text: &str) -> String {
    text.chars().take(limits::SHOWN).collect()
}

/// A value as messages show it: JSON without control characters, at most 64 characters.
#[must_use]
pub fn shown(value: &Value) -> String {
    /// Stops the serializer after enough bytes, however large the value.
    struct Clipped(Vec<u8>);
    impl Write for Clipped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(&bytes[..bytes.len().min(8 * limits::SHOWN)]);
            if self.0.len() > 8 * limits::SHOWN { Err(io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut clipped = Clipped(Vec::new());
    let whole = serde_json::to_writer(&mut clipped, value).is_ok();
    let text = String::from_utf8_lossy(&clipped.0);
    let escape = |c: char| if is_plain(c) { c.to_string() } else { c.escape_unicode().to_string() };
    let short: String = text.chars().take(limits::SHOWN).map(escape).collect();
    if whole && text.chars().count() <= limits::SHOWN { short } else { format!("{short}..") }
}

/// Whether a character can be shown in a log or terminal without moving anything: no control, no direction mark.
fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The fields of an object, taken out one by one; what is left is unknown.
pub struct Fields {
    map: Map<String, Value>,
    path: String,
}

impl Fields {
    /// The fields of `value`, which is at `path`.
    ///
    /// # Errors
    /// `invalid_value` where it is no object.
    pub fn new(value: Value, path: &str) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { map, path: path.into() }),
            other if path.is_empty() => {
                Err(ApiError::invalid_body(format!("the body is {}; accepted: an object", shown(&other))))
            }
            other => Err(ApiError::invalid_value(path, &other, "an object")),
        }
    }

    /// The full name of a field.
    #[must_use]
    pub fn name(&self, field: &str) -> String {
        join(&self.path, field)
    }

    /// Takes a field; `null` counts as absent.
    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.map.shift_remove(field).filter(|value| !value.is_null())
    }

    /// Takes a number in `range`.
    ///
    /// # Errors
    /// `invalid_value` with the range.
    pub fn number(&mut self, field: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        match value.as_f64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let accepted = format!("a number from {} to {}", range.start(), range.end());
                Err(ApiError::invalid_value(&self.name(field), &value, accepted))
            }
        }
    }

    /// Takes a whole number in `range`.
    ///
    /// # Errors
    /// `invalid_value` with the range.
    pub fn integer(&mut self, field: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        match value.as_i64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let accepted = format!("a whole number from {} to {}", range.start(), range.end());
                Err(ApiError::invalid_value(&self.name(field), &value, accepted))
            }
        }
    }

    /// Takes `true` or `false`.
    ///
    /// # Errors
    /// `invalid_value` for anything else.
    pub fn boolean(&mut self, field: &str) -> Result<Option<bool>, ApiError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(ApiError::invalid_value(&self.name(field), &other, "true or false")),
        }
    }

    /// Takes a text.
    ///
    /// # Errors
    /// `invalid_value` for anything else.
    pub fn string(&mut self, field: &str) -> Result<Option<String>, ApiError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(ApiError::invalid_value(&self.name(field), &other, "a text")),
        }
    }

    /// The full names of the fields that nobody took; `null` asks for nothing.
    #[must_use]
    pub fn rest(self) -> Vec<String> {
        let left = self.map.iter().filter(|(_, value)| !value.is_null());
        left.map(|(name, _)| join(&self.path, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(body: &[u8]) -> Value {
        parse(body).expect_err("must be refused").body()["error"].clone()
    }

    #[test]
    fn a_syntax_error_names_its_place_and_field() {
        let found = error(b"{\"messages\": [{},\n{\"role\": \"user\", \"content\": \"a\\ud83d\"}]}");
        assert_eq!(found["code"], "malformed_json");
        assert_eq!(found["param"], "messages[1].content");
        assert_eq!(found["line"], 2);
        let found = error(b"{\"a\": {\"b\": nope}}");
        assert_eq!((&found["param"], &found["line"], &found["column"]), (&json!("a.b"), &json!(1), &json!(14)));
        assert_eq!(error(b"")["param"], Value::Null);
    }

    #[test]
    fn a_byte_that_is_not_utf8_names_its_place_and_field() {
        let found = error(b"{\"x\": 1,\n \"y\": \"a\xff\"}");
        assert_eq!((&found["param"], &found["line"], &found["column"]), (&json!("y"), &json!(2), &json!(9)));
    }

    #[test]
    fn nesting_is_bounded_exactly() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(parse(&nested(64)).is_ok());
        assert_eq!(error(&nested(65))["code"], "invalid_value");
        assert_eq!(error(&nested(100_000))["code"], "invalid_value");
        assert!(
            parse(b"\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"").is_ok(),
            "text is no nesting"
        );
        assert!(path(b"\"a\\", 3).is_ok(), "an escape at the end");
    }

    #[test]
    fn values_are_shown_short_and_escaped() {
        assert_eq!(shown(&json!({"a": [1, "b"]})), r#"{"a":[1,"b"]}"#);
        assert_eq!(shown(&json!("x".repeat(1 << 20))).len(), 66);
        assert_eq!(shown(&json!("a\u{202e}b\n")), "\"a\\u{202e}b\\n\"");
    }

    #[test]
    fn fields_are_taken_with_their_path() {
        let mut fields = Fields::new(json!({"a": 3, "b": null, "c": 1, "d": 1.5}), "outer").expect("an object");
        assert_eq!(fields.integer("a", 0..=3).expect("in range"), Some(3));
        assert_eq!(fields.boolean("b").expect("null is absence"), None);
        let refused = fields.integer("d", 0..=3).expect_err("not whole").body();
        assert_eq!(refused["error"]["param"], "outer.d");
        assert_eq!(fields.rest(), ["outer.c"]);
    }
}
