//! Debian's `rust-src` package as a source of Rust's `core` library: fetched with apt, unpacked with dpkg, into a
//! folder of our own. Neither the machine's package lists nor its installed packages change.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools;

/// The suite that carries current compilers; architecture `all`, so it serves any machine.
const SUITE: &str = "trixie-backports";

/// The library of a fetched tree.
pub(crate) fn library(tree: &Path) -> PathBuf {
    tree.join("library")
}

/// Fetches the package of exactly `version` and unpacks it into `tree`; `state` holds apt's files meanwhile.
pub(crate) fn fetch(version: &str, tree: &Path, state: &Path) -> Result<(), String> {
    let sources = sources(Path::new("/etc/apt"))?;
    if state.exists() {
        std::fs::remove_dir_all(state).map_err(|e| format!("cannot remove {}: {e}", state.display()))?;
    }
    tools::say(&format!("fetching Debian's rust-src {version} ({SUITE}) into {}", tree.display()));
    for folder in ["lists/partial", "cache/archives/partial", "download"] {
        std::fs::create_dir_all(state.join(folder)).map_err(|e| format!("cannot create {folder}: {e}"))?;
    }
    let list = state.join("suite.sources");
    std::fs::write(&list, sources).map_err(|e| format!("cannot write {}: {e}", list.display()))?;
    tools::run(apt(state, &list).arg("update"))?;
    let wanted = format!("rust-src={version}*");
    tools::run(apt(state, &list).args(["download", &wanted]).current_dir(state.join("download")))?;
    let package = downloaded(&state.join("download"), version)?;
    let unpacked = state.join("unpacked");
    tools::run(Command::new("dpkg").arg("-x").arg(&package).arg(&unpacked))?;
    let inside = unpacked.join("usr/src").join(format!("rustc-{version}")).join("library");
    if !inside.join("core/src/lib.rs").is_file() {
        return Err(format!("the package has no {}/core/src/lib.rs", inside.display()));
    }
    // The compiler's own sources (400 MB) stay behind. Renamed last: an interrupted run leaves no half tree.
    std::fs::create_dir_all(tree).map_err(|e| format!("cannot create {}: {e}", tree.display()))?;
    std::fs::rename(&inside, library(tree)).map_err(|e| format!("cannot rename {}: {e}", inside.display()))?;
    std::fs::remove_dir_all(state).map_err(|e| format!("cannot remove {}: {e}", state.display()))
}

fn apt(state: &Path, list: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    apt.arg("-q");
    for (name, path) in [
        ("Dir::Etc::SourceList", list.to_owned()),
        ("Dir::Etc::SourceParts", "/dev/null".into()),
        ("Dir::State::Lists", state.join("lists")),
        ("Dir::Cache", state.join("cache")),
    ] {
        apt.arg("-o").arg(format!("{name}={}", path.display()));
    }
    apt.args(["-o", "APT::Sandbox::User=root"]); // the folders are ours, not the _apt user's
    apt
}

fn downloaded(folder: &Path, version: &str) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let ours = |name: &str| name.starts_with(&format!("rust-src_{version}")) && name.ends_with(".deb");
    let mut found = entries.flatten().filter(|e| e.file_name().to_str().is_some_and(ours)).map(|e| e.path());
    found.next().ok_or_else(|| format!("apt-get left no rust-src_{version}*.deb in {}", folder.display()))
}

/// A sources file for the suite, with the machine's own mirrors and keys.
fn sources(etc: &Path) -> Result<String, String> {
    let mut files = vec![etc.join("sources.list")];
    if let Ok(entries) = std::fs::read_dir(etc.join("sources.list.d")) {
        files.extend(entries.flatten().map(|e| e.path()));
    }
    files.sort();
    let texts = files.iter().filter_map(|file| {
        let text = std::fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "sources" => Some(from_paragraphs(&text)),
            "list" => Some(from_lines(&text)),
            _ => None,
        }
    });
    let mut entries: Vec<String> = texts.flatten().collect();
    entries.sort();
    entries.dedup();
    if entries.is_empty() {
        Err("this machine has no Debian mirror in /etc/apt".into())
    } else {
        Ok(entries.join("\n"))
    }
}

/// The distribution itself, not its security archive and not another project's.
fn is_debian(uri: &str) -> bool {
    uri.trim_end_matches('/').ends_with("/debian")
}

fn entry(uri: &str, signed_by: Option<&str>) -> String {
    let signed_by = signed_by.map(|keys| format!("Signed-By: {keys}\n")).unwrap_or_default();
    format!("Types: deb\nURIs: {uri}\nSuites: {SUITE}\nComponents: main\n{signed_by}")
}

/// Entries of a deb822 file: `Field: value` lines, paragraphs separated by empty lines.
fn from_paragraphs(text: &str) -> Vec<String> {
    let field = |paragraph: &str, name: &str| {
        let line = paragraph.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let one = |paragraph: &str| -> Vec<String> {
        let uris = field(paragraph, "URIs").unwrap_or_default();
        let keys = field(paragraph, "Signed-By");
        uris.split_whitespace().filter(|uri| is_debian(uri)).map(|uri| entry(uri, keys.as_deref())).collect()
    };
    text.split("\n\n").flat_map(one).collect()
}

/// Entries of the one-line form: `deb [options] uri suite component..`.
fn from_lines(text: &str) -> Vec<String> {
    let one = |line: &str| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let uri = rest.split_whitespace().next().filter(|uri| is_debian(uri))?;
        let keys = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        Some(entry(uri, keys))
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_own_mirror_and_key_are_kept_and_the_suite_replaced() {
        let text = "Types: deb\nURIs: mirror://one.example/debian\nSuites: bookworm bookworm-updates\n\
                    Components: main\nSigned-By: /k.gpg\n\nTypes: deb\nURIs: mirror://one.example/debian-security\n\
                    Suites: bookworm-security\nComponents: main\n";
        let want = "Types: deb\nURIs: mirror://one.example/debian\nSuites: trixie-backports\nComponents: main\n\
                    Signed-By: /k.gpg\n";
        assert_eq!(from_paragraphs(text), [want]);
        let line = "# deb mirror://old.example/debian x main\ndeb [arch=amd64 signed-by=/k.gpg] \
                    mirror://one.example/debian bookworm main\ndeb mirror://other.example/apt stable main";
        assert_eq!(from_lines(line), [want]);
    }
}
