//! Which variants may run, as the command line and the environment say it.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::tuning::mmvq_rows::RowsOverride;

/// Which variants may run: for each operation either one named variant, or all but some; and which run wherever they can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    only: BTreeMap<String, String>,
    first: BTreeMap<String, Vec<String>>,
    off: BTreeMap<String, Vec<String>>,
    /// Lines that take the place of the tables of `mmvq.product`.
    pub mmvq_rows: RowsOverride,
}

impl Switches {
    /// The switch that excludes this row, if any. `only` keeps the named row and the base behind it.
    pub(super) fn excludes(&self, op: &str, variant: &str, base: &str) -> Option<String> {
        if let Some(only) = self.only.get(op)
            && only != variant
            && (variant != base || only == base)
        {
            return Some(format!("{op}={only}"));
        }
        let off = self.off.get(op)?;
        off.iter().any(|name| name == variant).then(|| format!("{op}=-{variant}"))
    }

    /// These, with a variant switched off as `OP=-VARIANT` does; `OP=VARIANT` does not bring it back.
    #[must_use]
    pub fn without(mut self, op: &str, variant: &str) -> Self {
        self.off.entry(op.to_owned()).or_default().push(variant.to_owned());
        self
    }

    /// Whether a switch asks for this row by name.
    pub(super) fn names(&self, op: &str, variant: &str) -> bool {
        let first = || self.first.get(op).is_some_and(|names| names.iter().any(|name| name == variant));
        self.only.get(op).is_some_and(|only| only == variant) || first()
    }
}

/// A switch that cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is no dispatch switch; write OP=VARIANT (only this one), OP=+VARIANT (this one wherever it can run) or OP=-VARIANT \
     (not this one), several with commas"
)]
pub struct SwitchError(String);

impl FromStr for Switches {
    type Err = SwitchError;

    /// Reads `delta.rec=keyhead,delta.out_norm=-warp`.
    fn from_str(text: &str) -> Result<Self, SwitchError> {
        let mut switches = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (op, variant) = part.split_once('=').ok_or_else(|| SwitchError(part.to_owned()))?;
            let signed = |sign| variant.strip_prefix(sign);
            let (lists, name) = match (signed('-'), signed('+')) {
                (Some(name), _) => (Some(&mut switches.off), name),
                (_, Some(name)) => (Some(&mut switches.first), name),
                _ => (None, variant),
            };
            if op.is_empty() || name.is_empty() {
                return Err(SwitchError(part.to_owned()));
            }
            if let Some(lists) = lists {
                lists.entry(op.to_owned()).or_default().push(name.to_owned());
            } else {
                switches.only.insert(op.to_owned(), name.to_owned());
            }
        }
        Ok(switches)
    }
}

impl Switches {
    /// Every operation and variant the switches name, for checking against the tables.
    pub fn named(&self) -> impl Iterator<Item = (&str, &str)> {
        let only = self.only.iter().map(|(op, name)| (op.as_str(), name.as_str()));
        let lists = self.off.iter().chain(&self.first);
        only.chain(lists.flat_map(|(op, names)| names.iter().map(move |name| (op.as_str(), name.as_str()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_read_and_exclude() {
        let switches: Switches = "delta.rec=keyhead, delta.out_norm=-warp".parse().expect("valid switches");
        assert_eq!(switches.excludes("delta.rec", "lanes", "cols").as_deref(), Some("delta.rec=keyhead"));
        assert_eq!(switches.excludes("delta.rec", "keyhead", "cols"), None);
        assert_eq!(switches.excludes("delta.rec", "cols", "cols"), None, "the base stays as the fallback");
        assert_eq!(switches.excludes("delta.out_norm", "warp", "block").as_deref(), Some("delta.out_norm=-warp"));
        assert_eq!(switches.excludes("delta.out_norm", "block", "block"), None);
        assert!(switches.names("delta.rec", "keyhead") && !switches.names("delta.rec", "cols"));
        assert!(!switches.names("delta.out_norm", "block"), "not being off is not being asked for");
        let without = "a.b=c".parse::<Switches>().expect("valid").without("a.b", "c");
        assert_eq!(without.excludes("a.b", "c", "d").as_deref(), Some("a.b=-c"));
        let first: Switches = "a.b=+c,a.b=+d,a.b=-e".parse().expect("valid switches");
        assert!(first.names("a.b", "c") && first.names("a.b", "d") && !first.names("a.b", "e"));
        assert_eq!(first.excludes("a.b", "f", "g"), None, "the others stay");
        assert_eq!(first.named().count(), 3);
        assert_eq!("a.b=+".parse::<Switches>().err(), Some(SwitchError("a.b=+".into())));
        assert_eq!("delta.rec".parse::<Switches>().err(), Some(SwitchError("delta.rec".into())));
        assert_eq!("=x".parse::<Switches>().err(), Some(SwitchError("=x".into())));
    }
}
