//! A checkpoint on disk or in the program: its files, mapped into memory and checked in full, as one list of tensors.
//!
//! ```no_run
//! use varve::model::Checkpoint;
//! let checkpoint = Checkpoint::open("model.gguf".as_ref())?;
//! for tensor in checkpoint.tensors() {
//!     println!("{} {} {:?}: {} bytes", tensor.name, tensor.dtype, tensor.shape, checkpoint.bytes(tensor).len());
//! }
//! # Ok::<(), varve::model::LoadError>(())
//! ```

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::gguf::{self, Gguf, split};
use super::metadata::Metadata;
use super::ranges::{MAX_TENSORS, TensorInfo};
use super::safetensors::{self, index};
use super::{DType, LoadError, layout, shown::path_name};

/// Largest sidecar file that is read: tokenizers have up to 20 MB.
const MAX_SIDECAR: u64 = 64 << 20;

/// The two families of checkpoint files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One GGUF file, or a split set of them.
    Gguf,
    /// One safetensors file, or several with an index, and files beside them.
    Safetensors,
}

/// A tensor of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Unique in its checkpoint.
    pub name: String,
    /// Outermost dimension first; of GGUF files the reverse of what is stored.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// Index of its file.
    part: usize,
    /// First byte of its data in that file, and the number of bytes.
    data: (usize, usize),
}

impl Tensor {
    fn new(info: TensorInfo, part: usize) -> Self {
        let range = info.range();
        let data = (range.start, range.len());
        Self { name: info.name, shape: info.shape, dtype: info.dtype, part, data }
    }

    /// Number of values.
    #[must_use]
    pub fn n_elements(&self) -> usize {
        self.shape.iter().product() // checked when the file was read
    }

    /// Bytes of its data.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.data.1
    }

    /// First byte of its data in its file. Nothing is promised of its alignment in memory.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.data.0
    }
}

/// Bytes of one file.
enum Bytes {
    Mapped(Mmap),
    Static(&'static [u8]),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Static(bytes) => bytes,
        }
    }
}

/// One file of a checkpoint.
struct Part {
    /// What messages call it.
    file: String,
    bytes: Bytes,
}

/// A model's files, open and checked: every tensor's bytes are there.
pub struct Checkpoint {
    format: Format,
    name: String,
    /// Folder of the files beside it; none for GGUF, which needs none.
    folder: Option<PathBuf>,
    parts: Vec<Part>,
    /// Sorted by name.
    tensors: Vec<Tensor>,
    metadata: Option<Metadata>,
    notes: Vec<(String, String)>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({:?} {}, {} tensors)", self.format, self.name, self.tensors.len())
    }
}

impl Checkpoint {
    /// Opens a folder in the layout of the Hugging Face hub, a `.safetensors` file, its `.safetensors.index.json`, or a
    /// `.gguf` file (of a split set: any of its files). A folder with one `.gguf` file and no safetensors will do too.
    ///
    /// # Errors
    /// Every fault of every file; see [`LoadError`].
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let chosen = layout::choose(path)?;
        let mut checkpoint = match chosen.kind {
            layout::Kind::Gguf => Self::open_gguf(&chosen.file)?,
            layout::Kind::Safetensors => Self::open_safetensors(&chosen.file)?,
            layout::Kind::Index => Self::open_index(&chosen.file)?,
        };
        checkpoint.name = chosen.name;
        Ok(checkpoint)
    }

    /// Reads a GGUF file that is compiled into the program; `name` is what messages call it. The bytes may lie anywhere.
    ///
    /// # Errors
    /// As for a file.
    pub fn from_static(name: &str, bytes: &'static [u8]) -> Result<Self, LoadError> {
        let gguf = gguf::parse(name, bytes)?;
        let part = Part { file: name.to_owned(), bytes: Bytes::Static(bytes) };
        let mut checkpoint = Self::whole_gguf(part, gguf)?;
        checkpoint.name = name.to_owned();
        Ok(checkpoint)
    }

    fn open_gguf(path: &Path) -> Result<Self, LoadError> {
        let part = map(path)?;
        let gguf = gguf::parse(&part.file, part.bytes.get())?;
        let Some(set) = split::Split::of(&part.file, &gguf)? else {
            return Self::whole_gguf(part, gguf);
        };
        let paths = split::members(path, &part.file, set)?;
        drop((part, gguf)); // read again in its place: one file's metadata at a time
        let (mut parts, mut tensors, mut members, mut metadata) = (Vec::new(), Vec::new(), Vec::new(), None);
        for path in paths {
            let part = map(&path)?;
            let gguf = gguf::parse(&part.file, part.bytes.get())?;
            let (split, n_tensors) = (split::Split::of(&part.file, &gguf)?, gguf.tensors.len());
            members.push(split::Member { file: part.file.clone(), split, n_tensors });
            add(&mut tensors, &part.file, gguf.tensors, parts.len())?;
            metadata.get_or_insert(gguf.metadata);
            parts.push(part);
        }
        split::check(&members)?;
        Self::build(Format::Gguf, parts, tensors, metadata)
    }

    fn whole_gguf(part: Part, gguf: Gguf) -> Result<Self, LoadError> {
        let mut tensors = Vec::new();
        add(&mut tensors, &part.file, gguf.tensors, 0)?;
        Self::build(Format::Gguf, vec![part], tensors, Some(gguf.metadata))
    }

    fn open_safetensors(path: &Path) -> Result<Self, LoadError> {
        let part = map(path)?;
        let file = safetensors::parse(&part.file, part.bytes.get())?;
        let mut tensors = Vec::new();
        add(&mut tensors, &part.file, file.tensors, 0)?;
        let mut checkpoint = Self::build(Format::Safetensors, vec![part], tensors, None)?;
        checkpoint.notes = file.notes;
        checkpoint.folder = Some(folder_of(path));
        Ok(checkpoint)
    }

    fn open_index(path: &Path) -> Result<Self, LoadError> {
        let name = path_name(path);
        let bytes = read(path, index::MAX_BYTES)?;
        let index = index::parse(&name, &bytes)?;
        let folder = folder_of(path);
        if let Some(shard) = index.shards.iter().find(|shard| !folder.join(shard).is_file()) {
            return Err(LoadError::ShardMissing { file: name, shard: shard.clone() });
        }
        let (mut parts, mut tensors, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (number, shard) in index.shards.iter().enumerate() {
            let part = map(&folder.join(shard))?;
            let file = safetensors::parse(&part.file, part.bytes.get())?;
            hold_against(&name, &index, number, &file.tensors)?;
            add(&mut tensors, &part.file, file.tensors, number)?;
            parts.push(part);
            if number == 0 {
                notes = file.notes;
            }
        }
        let mut checkpoint = Self::build(Format::Safetensors, parts, tensors, None)?;
        (checkpoint.notes, checkpoint.folder) = (notes, Some(folder));
        Ok(checkpoint)
    }

    fn build(
        format: Format,
        parts: Vec<Part>,
        mut tensors: Vec<Tensor>,
        metadata: Option<Metadata>,
    ) -> Result<Self, LoadError> {
        tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let (file, name) = (parts[pair[1].part].file.clone(), pair[0].name.clone());
            return Err(LoadError::Duplicate { file, what: "tensor of the set", name });
        }
        Ok(Self { format, name: String::new(), folder: None, parts, tensors, metadata, notes: Vec::new() })
    }

    /// The format of its files.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// A name for messages and for the model's id: the folder's or the file's, without extension or number.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// All tensors, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter()
    }

    /// All tensors in the order of their data, file by file.
    pub fn stored_order(&self) -> impl Iterator<Item = &Tensor> {
        let mut tensors: Vec<&Tensor> = self.tensors.iter().collect();
        tensors.sort_unstable_by_key(|tensor| (tensor.part, tensor.offset()));
        tensors.into_iter()
    }

    /// The tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        let at = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).ok()?;
        Some(&self.tensors[at])
    }

    /// The tensor's data, at any alignment.
    ///
    /// # Panics
    /// Where `tensor` is of another checkpoint, which has other files.
    #[must_use]
    pub fn bytes(&self, tensor: &Tensor) -> &[u8] {
        let (begin, len) = tensor.data;
        &self.parts[tensor.part].bytes.get()[begin..begin + len]
    }

    /// The file that holds the tensor, as messages call it.
    ///
    /// # Panics
    /// As [`bytes`](Self::bytes).
    #[must_use]
    pub fn file_of(&self, tensor: &Tensor) -> &str {
        &self.parts[tensor.part].file
    }

    /// Files and their sizes in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.parts.iter().map(|part| (part.file.as_str(), part.bytes.get().len()))
    }

    /// The key/value pairs of a GGUF file, of a set those of its first; none for safetensors.
    #[must_use]
    pub fn gguf(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The free texts (`__metadata__`) of a safetensors file, of a set those of its first.
    #[must_use]
    pub fn notes(&self) -> &[(String, String)] {
        &self.notes
    }

    /// The file of this name beside the safetensors, `config.json` for example; none where there is no such file, and
    /// for GGUF, which holds everything itself.
    ///
    /// # Errors
    /// What the system says, or that it has more than 64 MiB.
    pub fn sidecar(&self, file: &str) -> Result<Option<Vec<u8>>, LoadError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let path = folder.join(file);
        if !path.exists() {
            return Ok(None);
        }
        read(&path, MAX_SIDECAR).map(Some)
    }
}

fn add(all: &mut Vec<Tensor>, file: &str, infos: Vec<TensorInfo>, part: usize) -> Result<(), LoadError> {
    let got = (all.len() + infos.len()) as u64;
    if got > MAX_TENSORS {
        let what = "the number of tensors up to this file".to_owned();
        return Err(LoadError::Limit { file: file.to_owned(), what, got, limit: MAX_TENSORS });
    }
    all.extend(infos.into_iter().map(|info| Tensor::new(info, part)));
    Ok(())
}

/// Holds the tensors of one shard (sorted by name) against the index.
fn hold_against(file: &str, index: &index::Index, shard: usize, tensors: &[TensorInfo]) -> Result<(), LoadError> {
    let named = |tensor: &str| (file.to_owned(), tensor.to_owned(), index.shards[shard].clone());
    let listed = |name: &str| {
        let at = index.tensors.binary_search_by(|(tensor, _)| tensor.as_str().cmp(name)).ok()?;
        Some(index.tensors[at].1)
    };
    if let Some(tensor) = tensors.iter().find(|tensor| listed(&tensor.name) != Some(shard)) {
        let (file, tensor, shard) = named(&tensor.name);
        return Err(LoadError::NotInIndex { file, tensor, shard });
    }
    let there = |name: &str| tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).is_ok();
    if let Some((tensor, _)) = index.tensors.iter().find(|(name, of)| *of == shard && !there(name)) {
        let (file, tensor, shard) = named(tensor);
        return Err(LoadError::NotInShard { file, tensor, shard });
    }
    Ok(())
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_path_buf()
}

/// Opens a regular file; a pipe or a device would block or never end.
fn open(path: &Path) -> Result<(File, u64), LoadError> {
    let name = || path_name(path);
    let io = |source| LoadError::Io { file: name(), source };
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(LoadError::Layout { file: name(), why: "this is no regular file".to_owned() });
    }
    Ok((File::open(path).map_err(io)?, metadata.len()))
}

fn map(path: &Path) -> Result<Part, LoadError> {
    let (file, len) = open(path)?;
    let name = path_name(path);
    if len == 0 {
        return Ok(Part { file: name, bytes: Bytes::Static(&[]) }); // an empty mapping is not for every system
    }
    // SAFETY: read-only mapping of a regular file that this program never writes; documented: nobody else may while it runs.
    let mapped = unsafe { Mmap::map(&file) };
    match mapped {
        Ok(mapped) => Ok(Part { file: name, bytes: Bytes::Mapped(mapped) }),
        Err(source) => Err(LoadError::Io { file: name, source }),
    }
}

/// The whole of a small file.
fn read(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let (file, got) = open(path)?;
    let name = || path_name(path);
    if got > limit {
        return Err(LoadError::Limit { file: name(), what: "its size in bytes".to_owned(), got, limit });
    }
    let mut bytes = Vec::new();
    let end = file.take(limit).read_to_end(&mut bytes);
    end.map(|_| bytes).map_err(|source| LoadError::Io { file: name(), source })
}
