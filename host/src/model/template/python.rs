//! The methods of Python's strings, maps and lists that templates call.

use minijinja::value::{Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};

/// Calls `method` of `value`.
pub(super) fn call_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => string_method(value.as_str().unwrap_or_default(), method, args),
        ValueKind::Map => map_method(state, value, method, args),
        ValueKind::Seq | ValueKind::Iterable => list_method(value, method, args),
        _ => Err(ErrorKind::UnknownMethod.into()),
    }
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "upper" | "lower" | "title" | "capitalize" | "isdigit" | "isalpha" | "isspace" => {
            let () = from_args(args)?;
            bare_method(text, method)
        }
        "strip" | "lstrip" | "rstrip" => {
            let (set,): (Option<&str>,) = from_args(args)?;
            let cut = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
            let text = if method == "rstrip" { text } else { text.trim_start_matches(cut) };
            Value::from(if method == "lstrip" { text } else { text.trim_end_matches(cut) })
        }
        "startswith" | "endswith" => {
            let (what,): (Value,) = from_args(args)?;
            let fits = |part: &str| if method == "endswith" { text.ends_with(part) } else { text.starts_with(part) };
            let any = match what.as_str() {
                Some(part) => fits(part),
                None => what.try_iter()?.any(|part| part.as_str().is_some_and(fits)),
            };
            Value::from(any)
        }
        "removeprefix" | "removesuffix" => {
            let (part,): (&str,) = from_args(args)?;
            let cut = if method == "removeprefix" { text.strip_prefix(part) } else { text.strip_suffix(part) };
            Value::from(cut.unwrap_or(text))
        }
        "split" | "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
            split(text, separator, most.and_then(|n| usize::try_from(n).ok()), method == "rsplit")?
        }
        "splitlines" => {
            let () = from_args(args)?;
            text.lines().map(Value::from).collect()
        }
        "replace" => {
            let (from, to, most): (&str, &str, Option<i64>) = from_args(args)?;
            match most.and_then(|n| usize::try_from(n).ok()) {
                Some(most) => Value::from(text.replacen(from, to, most)),
                None => Value::from(text.replace(from, to)),
            }
        }
        "find" | "rfind" | "count" => {
            let (part,): (&str,) = from_args(args)?;
            let characters = |at: Option<usize>| at.map_or(-1, |at| text[..at].chars().count() as i64);
            match method {
                "find" => Value::from(characters(text.find(part))),
                "rfind" => Value::from(characters(text.rfind(part))),
                _ => Value::from(text.matches(part).count()),
            }
        }
        "join" => {
            let (parts,): (Value,) = from_args(args)?;
            let parts: Vec<String> = parts.try_iter()?.map(|part| part.to_string()).collect();
            Value::from(parts.join(text))
        }
        _ => return Err(ErrorKind::UnknownMethod.into()),
    })
}

/// Methods without arguments.
fn bare_method(text: &str, method: &str) -> Value {
    let all = |fits: fn(char) -> bool| Value::from(!text.is_empty() && text.chars().all(fits));
    let capital = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect())
    };
    match method {
        "upper" => Value::from(text.to_uppercase()),
        "lower" => Value::from(text.to_lowercase()),
        "capitalize" => Value::from(capital(text)),
        "title" => Value::from(text.split_inclusive(|c: char| !c.is_alphabetic()).map(capital).collect::<String>()),
        "isdigit" => all(|c| c.is_ascii_digit()),
        "isalpha" => all(char::is_alphabetic),
        _ => all(char::is_whitespace),
    }
}

/// Python's `split`: at white space without a separator; at most `most` cuts, from the right if `right`.
fn split(text: &str, separator: Option<&str>, most: Option<usize>, right: bool) -> Result<Value, Error> {
    let parts: Vec<&str> = match (separator, most) {
        (Some(""), _) => return Err(Error::new(ErrorKind::InvalidOperation, "split: the separator is empty")),
        (Some(separator), None) => text.split(separator).collect(),
        (Some(separator), Some(most)) if right => {
            let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
            parts.reverse();
            parts
        }
        (Some(separator), Some(most)) => text.splitn(most.saturating_add(1), separator).collect(),
        (None, None) => text.split_whitespace().collect(),
        (None, Some(_)) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "split: a limit needs a separator"));
        }
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

fn map_method(state: &State, map: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "get" => {
            let (key, default): (&Value, Option<Value>) = from_args(args)?;
            let found = map.get_item(key)?;
            Ok(if found.is_undefined() { default.unwrap_or(Value::from(())) } else { found })
        }
        "items" => {
            let () = from_args(args)?;
            state.apply_filter("items", std::slice::from_ref(map))
        }
        "keys" => {
            let () = from_args(args)?;
            Ok(map.try_iter()?.collect())
        }
        "values" => {
            let () = from_args(args)?;
            map.try_iter()?.map(|key| map.get_item(&key)).collect::<Result<Vec<Value>, Error>>().map(Value::from)
        }
        _ => Err(ErrorKind::UnknownMethod.into()),
    }
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (&Value,) = match method {
        "index" | "count" => from_args(args)?,
        _ => return Err(ErrorKind::UnknownMethod.into()),
    };
    let mut items = list.try_iter()?;
    if method == "count" {
        return Ok(Value::from(items.filter(|item| item == wanted).count()));
    }
    let missing = || Error::new(ErrorKind::InvalidOperation, "index: the list has no such item");
    items.position(|item| item == *wanted).map(Value::from).ok_or_else(missing)
}
