//! RMS norms over rows, or over equal groups of a row, with a gain that is stored as it is multiplied.

pub mod rms_warp;

/// Launch parameters of `norm.rms`. Pointers are 16-byte aligned, strides in elements and multiples of 4; y is x or disjoint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmsParams {
    /// f32 `[rows][x_stride]`: groups of `dim` values one after the other.
    pub x: *const f32,
    /// f32 `[groups * dim]`: what the normalised value is multiplied by (for most norms 1 + the weight of the HF file).
    pub gain: *const f32,
    /// f32 `[rows][y_stride]`.
    pub y: *mut f32,
    /// Rows, at least 1.
    pub rows: u32,
    /// Groups of a row.
    pub groups: u32,
    /// Values of a group, a multiple of 4.
    pub dim: u32,
    /// Elements from an x row to the next.
    pub x_stride: u32,
    /// Elements from a y row to the next.
    pub y_stride: u32,
    /// Added to the mean square.
    pub eps: f32,
    /// 1 / dim, rounded once on the host.
    pub inv_dim: f32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<RmsParams>() == 56);
