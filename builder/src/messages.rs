//! Cargo's messages about a build, a JSON object a line: rustc's diagnostics and the files made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// All messages of one run.
pub(crate) struct Messages(Vec<Value>);

/// A file that cargo made.
pub(crate) struct Artifact {
    pub(crate) path: PathBuf,
    /// Whether it was there already and cargo took it for up to date.
    pub(crate) fresh: bool,
}

/// A warning of the device build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Warning {
    /// File and line.
    pub(crate) place: String,
    pub(crate) message: String,
}

impl Messages {
    /// Lines that are no JSON are a program's own output and left out.
    pub(crate) fn parse(stdout: &[u8]) -> Self {
        Self(String::from_utf8_lossy(stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn diagnostics(&self, level: &str) -> impl Iterator<Item = &Value> {
        let of_compiler = self.0.iter().filter(|m| m["reason"] == "compiler-message").map(|m| &m["message"]);
        of_compiler.filter(move |m| m["level"] == level)
    }

    /// rustc's errors as rustc would print them.
    pub(crate) fn errors(&self) -> String {
        self.diagnostics("error").filter_map(|m| m["rendered"].as_str()).collect()
    }

    /// The warnings that have a place.
    pub(crate) fn warnings(&self) -> BTreeSet<Warning> {
        let one = |m: &Value| {
            let span = m["spans"].as_array()?.iter().find(|s| s["is_primary"] == true)?;
            let place = format!("{}:{}", span["file_name"].as_str()?, span["line_start"]);
            Some(Warning { place, message: m["message"].as_str()?.to_owned() })
        };
        self.diagnostics("warning").filter_map(one).collect()
    }

    /// The output file of the package with that manifest.
    pub(crate) fn artifact(&self, manifest: &Path) -> Option<Artifact> {
        let made = self.0.iter().filter(|m| m["reason"] == "compiler-artifact");
        let mut ours = made.filter(|m| m["manifest_path"].as_str().is_some_and(|p| Path::new(p) == manifest));
        let last = ours.next_back()?;
        let path = last["filenames"].as_array()?.first()?.as_str()?.into();
        Some(Artifact { path, fresh: last["fresh"] == true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_and_files_are_found() {
        let text = concat!(
            "not json\n",
            r#"{"reason":"compiler-message","message":{"level":"error","rendered":"error: no\n --> src/lib.rs:3:5\n"}}"#,
            "\n",
            r#"{"reason":"compiler-message","message":{"level":"warning","message":"unused","spans":["#,
            r#"{"is_primary":true,"file_name":"src/a.rs","line_start":7}]}}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/c/Cargo.toml","filenames":["/t/c.ptx"],"fresh":true}"#,
            "\n"
        );
        let messages = Messages::parse(text.as_bytes());
        assert_eq!(messages.errors(), "error: no\n --> src/lib.rs:3:5\n");
        let unused = Warning { place: "src/a.rs:7".into(), message: "unused".into() };
        assert_eq!(messages.warnings(), BTreeSet::from([unused]));
        let file = messages.artifact(Path::new("/c/Cargo.toml")).expect("in the text");
        assert_eq!((file.path.as_path(), file.fresh), (Path::new("/t/c.ptx"), true));
        assert!(messages.artifact(Path::new("/d/Cargo.toml")).is_none());
    }
}
