//! The formats by name, and how kernels for them are listed.

#[cfg(not(target_arch = "nvptx64"))]
use super::ProductParams;
use crate::format;

/// Formats of matrices.
#[allow(non_camel_case_types, missing_docs)] // the names of the GGUF types
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    Q8_0,
    IQ4_NL,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_XS,
    IQ3_S,
    IQ2_XS,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Q8_0,
        Self::IQ4_NL,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_XS,
        Self::IQ3_S,
        Self::IQ2_XS,
    ];

    /// Values of a block, and its bytes.
    #[must_use]
    pub const fn block(self) -> (usize, usize) {
        match self {
            Self::Q8_0 => (format::q8_0::VALUES, format::q8_0::BYTES),
            Self::IQ4_NL => (format::iq4_nl::VALUES, format::iq4_nl::BYTES),
            Self::Q3_K => (format::q3_k::VALUES, format::q3_k::BYTES),
            Self::Q4_K => (format::q4_k::VALUES, format::q4_k::BYTES),
            Self::Q5_K => (format::q5_k::VALUES, format::q5_k::BYTES),
            Self::Q6_K => (format::q6_k::VALUES, format::q6_k::BYTES),
            Self::IQ4_XS => (format::iq4_xs::VALUES, format::iq4_xs::BYTES),
            Self::IQ3_S => (format::iq3_s::VALUES, format::iq3_s::BYTES),
            Self::IQ2_XS => (format::iq2_xs::VALUES, format::iq2_xs::BYTES),
        }
    }

    /// Offsets of a block's f16 scales.
    #[must_use]
    pub const fn scales(self) -> &'static [usize] {
        match self {
            Self::Q3_K => &[108],
            Self::Q6_K => &[208],
            Self::Q4_K | Self::Q5_K => &[0, 2],
            Self::Q8_0 | Self::IQ4_NL | Self::IQ4_XS | Self::IQ3_S | Self::IQ2_XS => &[0],
        }
    }

    /// The name that GGUF tools use, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::IQ4_NL => "iq4_nl",
            Self::Q3_K => "q3_k",
            Self::Q4_K => "q4_k",
            Self::Q5_K => "q5_k",
            Self::Q6_K => "q6_k",
            Self::IQ4_XS => "iq4_xs",
            Self::IQ3_S => "iq3_s",
            Self::IQ2_XS => "iq2_xs",
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Format {
    /// Appends the values of whole blocks: exact, but for the one rounding that Q4_K and Q5_K define.
    pub fn dequantize(self, bytes: &[u8], out: &mut Vec<f32>) {
        fn blocks<const B: usize, const V: usize>(
            bytes: &[u8],
            out: &mut Vec<f32>,
            values: fn(&[u8; B], &mut [f32; V]),
        ) {
            let (blocks, start) = (bytes.as_chunks::<B>().0, out.len());
            out.resize(start + blocks.len() * V, 0.0);
            for (block, out) in blocks.iter().zip(out[start..].as_chunks_mut::<V>().0) {
                values(block, out);
            }
        }
        match self {
            Self::Q8_0 => blocks(bytes, out, format::q8_0::dequantize),
            Self::IQ4_NL => blocks(bytes, out, format::iq4_nl::dequantize),
            Self::Q3_K => blocks(bytes, out, format::q3_k::dequantize),
            Self::Q4_K => blocks(bytes, out, format::q4_k::dequantize),
            Self::Q5_K => blocks(bytes, out, format::q5_k::dequantize),
            Self::Q6_K => blocks(bytes, out, format::q6_k::dequantize),
            Self::IQ4_XS => blocks(bytes, out, format::iq4_xs::dequantize),
            Self::IQ3_S => blocks(bytes, out, format::iq3_s::dequantize),
            Self::IQ2_XS => blocks(bytes, out, format::iq2_xs::dequantize),
        }
    }
}

/// A kernel of `mmvq.product`.
#[cfg(not(target_arch = "nvptx64"))]
pub struct Instance {
    /// Of the matrix.
    pub format: Format,
    /// Columns that it computes.
    pub columns: usize,
    /// Matrix rows of a warp, in `plain` of a block.
    pub rows: usize,
    /// The kernel.
    pub kernel: &'static cuda_std::launch::Kernel<ProductParams>,
}

/// Kernels of a generic body, a line each, and `INSTANCES`, the list of them: name and handle, format, rows, parts, columns
/// of a part.
macro_rules! instances {
    ($arch:tt, $bounds:tt, $body:ident; $($name:ident $handle:ident $format:ident $rows:literal $parts:literal $columns:literal;)*) => {
        $(
            /// An instance of the file's body.
            ///
            /// # Safety
            /// Shapes, alignment and room as `ProductParams` says; grid and block as the file's header says.
            #[cuda_std::kernel(sm = $arch)]
            #[launch_bounds($bounds)]
            pub unsafe fn $name(p: crate::mmvq::ProductParams) {
                // SAFETY: same contract.
                unsafe {
                    $body::<$crate::mmvq::call::$format, $rows, $parts, $columns, { $crate::mmvq::call::form($parts * $columns) }>(p)
                }
            }
        )*

        /// The kernels of this file.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static INSTANCES: &[crate::mmvq::Instance] = &[$(crate::mmvq::Instance {
            format: <$crate::mmvq::call::$format as crate::mmvq::call::Call>::FORMAT,
            columns: $parts * $columns,
            rows: $rows,
            kernel: &$handle,
        }),*];
    };
}
pub(crate) use instances;
