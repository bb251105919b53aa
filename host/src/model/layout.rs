//! Which file a path means: a file by its name and first bytes, a folder by what lies in it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::gguf::{self, split};
use super::safetensors::index;
use super::{LoadError, shown::path_name};

/// How the chosen file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gguf,
    Safetensors,
    Index,
}

/// A file, how to read it, and what to call the model.
#[derive(Debug)]
pub(super) struct Chosen {
    pub file: PathBuf,
    pub kind: Kind,
    pub name: String,
}

/// Decides what `path` means.
///
/// # Errors
/// Nothing there, or nothing that can be told to be a model.
pub(super) fn choose(path: &Path) -> Result<Chosen, LoadError> {
    let io = |source| LoadError::Io { file: path_name(path), source };
    let metadata = std::fs::metadata(path).map_err(io)?;
    if metadata.is_dir() {
        return in_folder(path);
    }
    let name = file_name(path);
    let refused = |why: &str| LoadError::Layout { file: path_name(path), why: why.to_owned() };
    if !metadata.is_file() {
        return Err(refused("this is no regular file, and no folder"));
    }
    let kind = match kind_of_name(&name) {
        Some(kind) => kind,
        None => {
            let mut start = Vec::new();
            let magic = gguf::MAGIC.len() as u64;
            File::open(path).and_then(|file| file.take(magic).read_to_end(&mut start)).map_err(io)?;
            if start != gguf::MAGIC {
                return Err(refused(
                    "this is neither a GGUF file nor named .safetensors or .safetensors.index.json; \
                     name one of those, or a folder that holds one",
                ));
            }
            Kind::Gguf
        }
    };
    Ok(Chosen { file: path.to_path_buf(), kind, name: model_name(&name) })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn kind_of_name(name: &str) -> Option<Kind> {
    let kinds = [(".gguf", Kind::Gguf), (".safetensors", Kind::Safetensors), (index::SUFFIX, Kind::Index)];
    kinds.into_iter().find(|(suffix, _)| name.ends_with(suffix)).map(|(_, kind)| kind)
}

/// A file's name without extension and place in a set.
fn model_name(file: &str) -> String {
    if let Some((prefix, _, _)) = split::parts_of_name(file) {
        return prefix.to_owned();
    }
    let stem = [index::SUFFIX, ".gguf", ".safetensors"].iter().find_map(|suffix| file.strip_suffix(suffix));
    stem.unwrap_or(file).to_owned()
}

/// In a folder, `model.safetensors` comes before an index, and both before a file of another name.
fn in_folder(path: &Path) -> Result<Chosen, LoadError> {
    let io = |source| LoadError::Io { file: path_name(path), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        names.push(entry.map_err(io)?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    let of = |wanted: Kind| names.iter().filter(move |name| kind_of_name(name) == Some(wanted)).collect::<Vec<_>>();
    let (single, indices, mut ggufs) = (of(Kind::Safetensors), of(Kind::Index), of(Kind::Gguf));
    // A split set counts once, by its first file.
    ggufs.retain(|name| split::parts_of_name(name).is_none_or(|(_, number, _)| number == 1));
    let main = single.iter().find(|name| name.as_str() == "model.safetensors");
    let (kind, file) = match (main, indices.as_slice(), single.as_slice(), ggufs.as_slice()) {
        (Some(name), ..) => (Kind::Safetensors, *name),
        (None, [name], ..) => (Kind::Index, *name),
        (None, [], [name], _) => (Kind::Safetensors, *name),
        (None, [], [], [name]) => (Kind::Gguf, *name),
        _ => {
            let found: Vec<&String> = indices.into_iter().chain(single).chain(ggufs).take(4).collect();
            let why = match found.as_slice() {
                [] => {
                    "this folder holds no .safetensors and no .gguf file; name the folder or file of a model".to_owned()
                }
                several => format!("this folder holds several models ({several:?} ..); name the file of one"),
            };
            return Err(LoadError::Layout { file: path_name(path), why });
        }
    };
    // "." and ".." have no name of their own.
    let named = if path.file_name().is_some() { path.to_path_buf() } else { path.canonicalize().map_err(io)? };
    Ok(Chosen { file: path.join(file), kind, name: file_name(&named) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_called_after_their_files() {
        for (file, name) in [
            ("rust-15m-q8_0.gguf", "rust-15m-q8_0"),
            ("big-00002-of-00010.gguf", "big"),
            ("model.safetensors", "model"),
            ("model.safetensors.index.json", "model"),
            ("blob", "blob"),
        ] {
            assert_eq!(model_name(file), name);
        }
    }
}
