//! Sets of GGUF files: `NAME-00001-of-00003.gguf` and so on, of which the first holds the metadata.

use std::path::{Path, PathBuf};

use super::Gguf;
use crate::model::LoadError;

pub(in crate::model) const NO: &str = "split.no";
pub(in crate::model) const COUNT: &str = "split.count";
pub(in crate::model) const TENSORS: &str = "split.tensors.count";
const EXTENSION: &str = ".gguf";

/// What a file's metadata say of the set it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct Split {
    /// Its number, from 0.
    no: u32,
    /// Files of the set, 2 or more.
    count: u32,
    /// Tensors of the set, if the file says so.
    tensors: Option<u64>,
}

impl Split {
    /// Reads the keys; none where the file is a whole model.
    pub fn of(file: &str, gguf: &Gguf) -> Result<Option<Self>, LoadError> {
        let metadata = &gguf.metadata;
        let Some(count) = metadata.find::<u32>(COUNT)? else { return Ok(None) };
        let no = metadata.need::<u32>(NO)?;
        if no >= count {
            return Err(LoadError::Value {
                file: file.to_owned(),
                key: NO.to_owned(),
                got: no.to_string(),
                wanted: format!("below {COUNT}, which is {count}"),
            });
        }
        let tensors = metadata.find::<u64>(TENSORS)?;
        Ok((count > 1).then_some(Self { no, count, tensors }))
    }
}

/// Prefix, number (from 1) and count in a name of the form `PREFIX-00001-of-00003.gguf`.
pub(in crate::model) fn parts_of_name(name: &str) -> Option<(&str, u32, u32)> {
    let (rest, count) = name.strip_suffix(EXTENSION)?.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let five = |digits: &str| {
        let all = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
        all.then(|| digits.parse::<u32>().ok()).flatten()
    };
    Some((prefix, five(number)?, five(count)?))
}

/// Paths of the whole set of which the file at `path` is one, in order; all are there.
///
/// # Errors
/// A name that contradicts the metadata; a file that is missing.
pub(in crate::model) fn members(path: &Path, file: &str, split: Split) -> Result<Vec<PathBuf>, LoadError> {
    let Split { no, count, .. } = split;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let prefix = match parts_of_name(name) {
        Some((prefix, _, of)) if of == count => prefix,
        _ => {
            let why = format!(
                "its metadata say that it is file {} of {count}, and its name does not end in -{:05}-of-{count:05}{EXTENSION}; \
                 give the files of the set their names back",
                no + 1,
                no + 1
            );
            return Err(LoadError::Shards { file: file.to_owned(), why });
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut members = Vec::new();
    for number in 1..=count {
        let shard = format!("{prefix}-{number:05}-of-{count:05}{EXTENSION}");
        let member = folder.join(&shard);
        if !member.is_file() {
            return Err(LoadError::ShardMissing { file: file.to_owned(), shard });
        }
        members.push(member);
    }
    Ok(members)
}

/// One file of a set, as it was read.
pub(in crate::model) struct Member {
    /// What messages call it.
    pub file: String,
    /// What it says of the set.
    pub split: Option<Split>,
    /// Tensors in it.
    pub n_tensors: usize,
}

/// Holds the files of a set against each other: numbers as in the names, one count, as many tensors as they promise.
pub(in crate::model) fn check(members: &[Member]) -> Result<(), LoadError> {
    let refused = |file: &str, why: String| Err(LoadError::Shards { file: file.to_owned(), why });
    let mut owners: Vec<Option<&str>> = vec![None; members.len()];
    let total: usize = members.iter().map(|member| member.n_tensors).sum();
    let mut misplaced = None;
    for (number, Member { file, split, .. }) in members.iter().enumerate() {
        let Some(Split { no, count, .. }) = *split else {
            return refused(file, format!("it has no key `{COUNT}` above 1, and the other files of its set do"));
        };
        if count as usize != members.len() {
            return refused(file, format!("it says {COUNT} = {count}, and its set has {} files", members.len()));
        }
        if let Some(twin) = owners[no as usize].replace(file) {
            return refused(file, format!("`{twin}` and it both say {NO} = {no}; fetch both again"));
        }
        if no as usize != number {
            misplaced.get_or_insert((file, no, number));
        }
    }
    if let Some((file, no, number)) = misplaced {
        return refused(file, format!("it says {NO} = {no}, and its name says {number}, counted from 0; rename it"));
    }
    let promised = |member: &Member| member.split.and_then(|split| split.tensors).filter(|&n| n != total as u64);
    match members.iter().find_map(|member| Some((&member.file, promised(member)?))) {
        Some((file, wanted)) => {
            let why =
                format!("it says {TENSORS} = {wanted}, and the files of its set hold {total}; fetch the set again");
            refused(file, why)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_are_taken_apart() {
        assert_eq!(parts_of_name("a-b-00002-of-00010.gguf"), Some(("a-b", 2, 10)));
        for no_set in
            ["a.gguf", "a-2-of-10.gguf", "a-00002-of-00010.bin", "a-+0002-of-00010.gguf", "00002-of-00010.gguf"]
        {
            assert_eq!(parts_of_name(no_set), None, "{no_set}");
        }
    }
}
