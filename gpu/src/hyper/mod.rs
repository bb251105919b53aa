//! Hyper-connections: `C` residual streams of width `d`, read into a layer and written back by gated mixers.
//!
//! A token's streams lie side by side, `W = C d` elements: stream c is `c d .. (c + 1) d`. Strides are in elements.

pub mod expand_quad;
pub mod mix_quad;
pub mod squeeze_quad;
pub mod write_quad;

use crate::quad::Quads;

/// Launch parameters of `hyper.expand`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExpandParams {
    /// f32 `[tokens][h_stride]`, width d.
    pub h: *const f32,
    /// f32 `[tokens][s_stride]`, width C d; disjoint from `h`.
    pub s: *mut f32,
    /// The rows of `h`.
    pub quads: Quads,
    /// C, at least 1.
    pub streams: u32,
    /// Elements from a token's row to the next.
    pub h_stride: u32,
    /// Elements from a token's row to the next.
    pub s_stride: u32,
}
const _: () = assert!(size_of::<ExpandParams>() == 40); // no padding: nothing uninitialised crosses the launch

/// Launch parameters of `hyper.squeeze`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SqueezeParams {
    /// f32 `[tokens][stride]`, width r + C, or r where nothing is injected; changed in place.
    pub v: *mut f32,
    /// The rows of `v`.
    pub quads: Quads,
    /// r: columns of the low-rank product.
    pub rank: u32,
    /// Elements from a token's row to the next.
    pub stride: u32,
    /// C, as the divisor.
    pub streams: f32,
}
const _: () = assert!(size_of::<SqueezeParams>() == 32);

/// Launch parameters of `hyper.mix`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MixParams {
    /// f32 `[tokens][up_stride]`, width C d: gates before the sigmoid.
    pub up: *const f32,
    /// f32 `[tokens][n_stride]`, width C d: the normed streams.
    pub n: *const f32,
    /// f32 `[tokens][x_stride]`, width d; disjoint from both.
    pub x: *mut f32,
    /// The rows of `x`.
    pub quads: Quads,
    /// C, at least 1.
    pub streams: u32,
    /// Elements from a token's row to the next.
    pub up_stride: u32,
    /// Elements from a token's row to the next.
    pub n_stride: u32,
    /// Elements from a token's row to the next.
    pub x_stride: u32,
    /// `1 / C`, rounded once on the host.
    pub inv_streams: f32,
}
const _: () = assert!(size_of::<MixParams>() == 56);

/// Launch parameters of `hyper.write`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WriteParams {
    /// f32 `[tokens][s_stride]`, width C d; changed in place.
    pub s: *mut f32,
    /// f32 `[tokens][inj_stride]`, width C.
    pub inj: *const f32,
    /// f32 `[tokens][y_stride]`, width d; `inj` and `y` are disjoint from `s`.
    pub y: *const f32,
    /// The rows of `y`.
    pub quads: Quads,
    /// C, at least 1.
    pub streams: u32,
    /// Elements from a token's row to the next.
    pub s_stride: u32,
    /// Elements from a token's row to the next.
    pub inj_stride: u32,
    /// Elements from a token's row to the next.
    pub y_stride: u32,
    /// 0: fills the struct.
    pub unused: u32,
}
const _: () = assert!(size_of::<WriteParams>() == 56);
