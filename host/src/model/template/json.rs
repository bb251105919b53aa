//! The filter `tojson` as Hugging Face templates expect it: Python's `json.dumps` without ASCII or HTML escapes.

use minijinja::value::{Kwargs, Value as Item};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;
use std::io;

/// Deepest indentation that is accepted.
const MAX_INDENT: usize = 16;

/// `value|tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn to_json(value: &Item, args: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = args.get("indent")?;
    let separators: Option<(String, String)> = match args.get::<Option<Item>>("separators")? {
        Some(pair) if !pair.is_none() => Some((text(&pair, 0)?, text(&pair, 1)?)),
        _ => None,
    };
    let (sorted, ascii) = (flag(&args, "sort_keys")?, flag(&args, "ensure_ascii")?);
    args.assert_all_used()?;
    if indent.is_some_and(|n| n > MAX_INDENT) {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: indent is above {MAX_INDENT}")));
    }
    let failed = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, format!("tojson: {e}"));
    let mut value = serde_json::to_value(value).map_err(failed)?;
    if sorted {
        value.sort_all_objects();
    }
    let default = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    let (item, key) = separators.unwrap_or(default);
    let mut out = Vec::new();
    let style = Python { indent, item, key, depth: 0, filled: false };
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style)).map_err(failed)?;
    let out = String::from_utf8_lossy(&out).into_owned();
    Ok(if ascii { escape_non_ascii(&out) } else { out })
}

fn flag(args: &Kwargs, name: &str) -> Result<bool, Error> {
    Ok(args.get::<Option<bool>>(name)?.unwrap_or(false))
}

fn text(pair: &Item, index: usize) -> Result<String, Error> {
    let item = pair.get_item_by_index(index)?;
    let wanted = || Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings");
    item.as_str().map(str::to_owned).ok_or_else(wanted)
}

/// Python's layout: separators with spaces, or lines with an indentation.
struct Python {
    indent: Option<usize>,
    item: String,
    key: String,
    depth: usize,
    filled: bool, // whether the list or map that ends now has anything in it
}

impl Python {
    fn line<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        match self.indent {
            Some(width) => write!(out, "\n{}", " ".repeat(width * self.depth)),
            None => Ok(()),
        }
    }

    fn begin<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn end<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.line(out)?;
        }
        self.filled = true; // for the list or map around it
        out.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(self.item.as_bytes())?;
        }
        self.line(out)
    }
}

impl Formatter for Python {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.key.as_bytes())
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    /// Exponents as Python writes them: a sign, and two digits at least.
    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        let text = Value::from(value).to_string();
        let Some((digits, exponent)) = text.split_once('e') else { return out.write_all(text.as_bytes()) };
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent.trim_start_matches('+')),
        };
        write!(out, "{digits}e{sign}{exponent:0>2}")
    }
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}
