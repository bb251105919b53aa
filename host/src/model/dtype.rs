//! Element types of tensors: every type that GGUF or safetensors defines, with its number, name and block geometry.
//!
//! A type being known says that its bytes can be counted and listed, not that a kernel reads it.

/// Element type of a stored tensor, by the name that its format gives it.
#[allow(missing_docs, non_camel_case_types)] // the names of the formats' own tables, which say what each is
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    BOOL,
    C64,
    F4,
    F6_E2M3,
    F6_E3M2,
    F8_E4M3,
    F8_E5M2,
    F8_E8M0,
    F8_E4M3FNUZ,
    F8_E5M2FNUZ,
    Q1_0,
    Q2_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ1_S,
    IQ1_M,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    IQ4_NL,
    IQ4_XS,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
}

/// What the tables of the two formats say of a type.
struct Row {
    dtype: DType,
    name: &'static str,
    /// GGML's number for it; none where only safetensors has the type.
    ggml: Option<u32>,
    /// Whether safetensors has it, under the same name.
    safetensors: bool,
    /// Consecutive values of a row that are stored together, and the bytes they take.
    block: (u32, u32),
}

macro_rules! rows {
    ($($dtype:ident $ggml:expr, $safetensors:expr, $len:expr, $bytes:expr;)*) => {
        &[$(Row {
            dtype: DType::$dtype,
            name: stringify!($dtype),
            ggml: $ggml,
            safetensors: $safetensors,
            block: ($len, $bytes),
        }),*]
    };
}

/// Bytes are spelt as GGML's structs add up: scales, then quantized values. In the order of [`DType`].
const TABLE: &[Row] = rows! {
    F32     Some(0),  true,    1, 4;
    F16     Some(1),  true,    1, 2;
    BF16    Some(30), true,    1, 2;
    F64     Some(28), true,    1, 8;
    I8      Some(24), true,    1, 1;
    I16     Some(25), true,    1, 2;
    I32     Some(26), true,    1, 4;
    I64     Some(27), true,    1, 8;
    U8      None,     true,    1, 1;
    U16     None,     true,    1, 2;
    U32     None,     true,    1, 4;
    U64     None,     true,    1, 8;
    BOOL    None,     true,    1, 1;
    C64     None,     true,    1, 8;
    F4      None,     true,    2, 1;
    F6_E2M3 None,     true,    4, 3;
    F6_E3M2 None,     true,    4, 3;
    F8_E4M3 None,     true,    1, 1;
    F8_E5M2 None,     true,    1, 1;
    F8_E8M0 None,     true,    1, 1;
    F8_E4M3FNUZ None, true,    1, 1;
    F8_E5M2FNUZ None, true,    1, 1;
    Q1_0    Some(41), false, 128, 2 + 16;
    Q2_0    Some(42), false,  64, 2 + 16;
    Q4_0    Some(2),  false,  32, 2 + 16;
    Q4_1    Some(3),  false,  32, 2 + 2 + 16;
    Q5_0    Some(6),  false,  32, 2 + 4 + 16;
    Q5_1    Some(7),  false,  32, 2 + 2 + 4 + 16;
    Q8_0    Some(8),  false,  32, 2 + 32;
    Q8_1    Some(9),  false,  32, 2 + 2 + 32;
    Q2_K    Some(10), false, 256, 2 + 2 + 16 + 64;
    Q3_K    Some(11), false, 256, 2 + 12 + 32 + 64;
    Q4_K    Some(12), false, 256, 2 + 2 + 12 + 128;
    Q5_K    Some(13), false, 256, 2 + 2 + 12 + 32 + 128;
    Q6_K    Some(14), false, 256, 2 + 16 + 64 + 128;
    Q8_K    Some(15), false, 256, 4 + 256 + 32;
    IQ1_S   Some(19), false, 256, 2 + 32 + 16;
    IQ1_M   Some(29), false, 256, 32 + 16 + 8;
    IQ2_XXS Some(16), false, 256, 2 + 64;
    IQ2_XS  Some(17), false, 256, 2 + 64 + 8;
    IQ2_S   Some(22), false, 256, 2 + 64 + 16;
    IQ3_XXS Some(18), false, 256, 2 + 64 + 32;
    IQ3_S   Some(21), false, 256, 2 + 64 + 8 + 32 + 4;
    IQ4_NL  Some(20), false,  32, 2 + 16;
    IQ4_XS  Some(23), false, 256, 2 + 2 + 4 + 128;
    TQ1_0   Some(34), false, 256, 2 + 4 + 48;
    TQ2_0   Some(35), false, 256, 2 + 64;
    MXFP4   Some(39), false,  32, 1 + 16;
    NVFP4   Some(40), false,  64, 4 + 32;
};

/// Numbers that GGML once gave out and took back, with the type's name then.
const REMOVED: [(u32, &str); 8] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

impl DType {
    /// Every type.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.dtype)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize] // the table is in the order of the enum, as a test below holds it to
    }

    /// The type with this number in GGUF files.
    #[must_use]
    pub fn from_ggml(number: u32) -> Option<Self> {
        TABLE.iter().find(|row| row.ggml == Some(number)).map(|row| row.dtype)
    }

    /// Name of a type that GGUF files no longer hold, by its number.
    #[must_use]
    pub fn removed_from_ggml(number: u32) -> Option<&'static str> {
        REMOVED.iter().find(|(removed, _)| *removed == number).map(|(_, name)| *name)
    }

    /// The type with this name in safetensors headers.
    #[must_use]
    pub fn from_safetensors(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.safetensors && row.name == name).map(|row| row.dtype)
    }

    /// Name of the type, as its format spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Number of the type in GGUF files; none where only safetensors has it.
    #[must_use]
    pub fn ggml(self) -> Option<u32> {
        self.row().ggml
    }

    /// Consecutive values of a row that are stored together; 1 for plain numbers.
    #[must_use]
    pub fn block_len(self) -> usize {
        self.row().block.0 as usize
    }

    /// Bytes of one block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        self.row().block.1 as usize
    }

    /// Bytes of a row of `len` values; none where `len` is no multiple of the block, or the bytes are beyond counting.
    #[must_use]
    pub fn row_bytes(self, len: usize) -> Option<usize> {
        let blocks = len.is_multiple_of(self.block_len()).then(|| len / self.block_len())?;
        blocks.checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_its_keys_are_unique() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.dtype as usize, i, "{}", row.name);
            assert_eq!(format!("{:?}", row.dtype), row.name);
        }
        let numbers: Vec<u32> = TABLE.iter().filter_map(|row| row.ggml).chain(REMOVED.map(|(n, _)| n)).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        assert_eq!(numbers.iter().max(), Some(&42));
        assert_eq!(numbers.len(), 43, "the numbers 0 to 42 are all spoken for");
    }

    #[test]
    fn every_number_and_name_leads_back_to_its_type() {
        for dtype in DType::all() {
            assert_eq!(dtype.ggml().map_or(Some(dtype), DType::from_ggml), Some(dtype));
            assert!(dtype.ggml().is_some() || DType::from_safetensors(dtype.name()) == Some(dtype), "{dtype}");
        }
        assert_eq!(DType::from_safetensors("Q8_0"), None, "a GGUF type is no safetensors type");
        assert_eq!(DType::from_ggml(31), None);
        assert_eq!(DType::removed_from_ggml(31), Some("Q4_0_4_4"));
    }

    #[test]
    fn rows_are_counted_in_blocks() {
        // Bits a value, as the formats are known by.
        let bits = |d: DType| d.block_bytes() as f64 * 8.0 / d.block_len() as f64;
        for (dtype, wanted) in [
            (DType::Q8_0, 8.5),
            (DType::Q4_K, 4.5),
            (DType::Q6_K, 6.5625),
            (DType::IQ3_S, 3.4375),
            (DType::IQ1_M, 1.75),
            (DType::IQ2_XXS, 2.0625),
            (DType::IQ4_XS, 4.25),
            (DType::MXFP4, 4.25),
            (DType::F6_E2M3, 6.0),
        ] {
            assert_eq!(bits(dtype), wanted, "{dtype}");
        }
        assert_eq!(DType::Q8_0.row_bytes(64), Some(68));
        assert_eq!(DType::Q8_0.row_bytes(33), None);
        assert_eq!(DType::F64.row_bytes(usize::MAX), None);
    }
}
