//! Writes GGUF files, also such as no sane writer would: every count, length, type and offset can be a lie.

pub const U8: u32 = 0;
pub const I8: u32 = 1;
pub const U16: u32 = 2;
pub const I16: u32 = 3;
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;
pub const U64: u32 = 10;
pub const I64: u32 = 11;
pub const F64: u32 = 12;

/// Tensor types by their GGML numbers.
pub const T_F32: u32 = 0;
pub const T_F16: u32 = 1;
pub const T_Q8_0: u32 = 8;

/// A string with its length before it.
pub fn string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

/// An array of `claimed` elements, of which `payload` holds what there is.
pub fn array(kind: u32, claimed: u64, payload: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &claimed.to_le_bytes(), payload].concat()
}

/// A tensor's info, and its data.
#[derive(Clone)]
pub struct Info {
    pub name: Vec<u8>,
    /// As stored: innermost first.
    pub dims: Vec<u64>,
    pub kind: u32,
    pub data: Vec<u8>,
    /// The offset to write; without one, where the data is put.
    pub offset: Option<u64>,
    /// The number of dimensions to write; without one, the right one.
    pub n_dims: Option<u32>,
}

impl Info {
    pub fn new(name: &str, dims: &[u64], kind: u32, bytes: usize) -> Self {
        let data = (0..bytes).map(|i| (i * 7 + 1) as u8).collect();
        Self { name: name.as_bytes().to_vec(), dims: dims.to_vec(), kind, data, offset: None, n_dims: None }
    }

    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }
}

/// A file in the making.
#[derive(Clone)]
pub struct File {
    pub magic: [u8; 4],
    pub version: u32,
    pub n_entries: Option<u64>,
    pub n_tensors: Option<u64>,
    pub align: usize,
    pub entries: Vec<Vec<u8>>,
    pub infos: Vec<Info>,
}

impl File {
    pub fn new() -> Self {
        let (entries, infos) = (Vec::new(), Vec::new());
        Self { magic: *b"GGUF", version: 3, n_entries: None, n_tensors: None, align: 32, entries, infos }
    }

    /// A key with a value of this type, whose bytes are given.
    pub fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.entries.push([&string(key), &kind.to_le_bytes()[..], value].concat());
        self
    }

    pub fn u16(self, key: &str, value: u16) -> Self {
        self.entry(key, U16, &value.to_le_bytes())
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.entry(key, U32, &value.to_le_bytes())
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.entry(key, STRING, &string(value))
    }

    pub fn tensor(mut self, info: Info) -> Self {
        self.infos.push(info);
        self
    }

    pub fn build(&self) -> Vec<u8> {
        let mut out = [&self.magic[..], &self.version.to_le_bytes()].concat();
        out.extend(self.n_tensors.unwrap_or(self.infos.len() as u64).to_le_bytes());
        out.extend(self.n_entries.unwrap_or(self.entries.len() as u64).to_le_bytes());
        out.extend(self.entries.concat());
        let mut data: Vec<u8> = Vec::new();
        for info in &self.infos {
            out.extend(string(&info.name));
            out.extend(info.n_dims.unwrap_or(info.dims.len() as u32).to_le_bytes());
            info.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(info.kind.to_le_bytes());
            out.extend(info.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&info.data);
            data.resize(data.len().next_multiple_of(self.align), 0);
        }
        if !self.infos.is_empty() {
            out.resize(out.len().next_multiple_of(self.align), 0);
        }
        out.extend(data);
        out
    }
}

/// A sound file with a value of every type, arrays of them, an array in an array, and tensors of three types; the last
/// byte of it is the last of a tensor.
pub fn base() -> File {
    let words = ["", "ab", "é", "<|end|>"].map(string).concat();
    let nested = [array(U8, 2, &[1, 2]), array(STRING, 1, &string("in"))].concat();
    File::new()
        .text("general.architecture", "qwen35")
        .u32("general.alignment", 32)
        .entry("u8", U8, &[200])
        .entry("i8", I8, &[200])
        .entry("u16", U16, &60_000u16.to_le_bytes())
        .entry("i16", I16, &(-5i16).to_le_bytes())
        .entry("i32", I32, &(-70_000i32).to_le_bytes())
        .entry("f32", F32, &1.5f32.to_le_bytes())
        .entry("bool", BOOL, &[1])
        .entry("u64", U64, &(1u64 << 40).to_le_bytes())
        .entry("i64", I64, &(-(1i64 << 40)).to_le_bytes())
        .entry("f64", F64, &2.5f64.to_le_bytes())
        .entry("words", ARRAY, &array(STRING, 4, &words))
        .entry("flags", ARRAY, &array(BOOL, 3, &[1, 0, 1]))
        .entry("ints", ARRAY, &array(I32, 2, &[1, 0, 0, 0, 255, 255, 255, 255]))
        .entry("nested", ARRAY, &array(ARRAY, 2, &nested))
        .tensor(Info::new("a.weight", &[16, 3], T_F32, 192))
        .tensor(Info::new("b.weight", &[64, 2], T_Q8_0, 136))
        .tensor(Info::new("c.bias", &[5], T_F16, 10))
        .tensor(Info::new("d.weight", &[4, 2, 2, 2], T_F32, 128))
}
