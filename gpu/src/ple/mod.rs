//! PLE, the n-gram hash embedding: its gate and its convolution. `C` streams of width `d`, `W = C d`; strides in
//! elements.

pub mod conv_quad;
pub mod gate_warp;

use crate::quad::Quads;

/// Launch parameters of `ple.gate`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GateParams {
    /// f32 `[tokens][key_stride]`, width C d, normed.
    pub key: *const f32,
    /// f32 `[tokens][query_stride]`, width C d, normed.
    pub query: *const f32,
    /// f32 `[tokens][val_stride]`, width d.
    pub val: *const f32,
    /// f32 `[tokens][u_stride]`, width C d; disjoint from the others.
    pub u: *mut f32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// d, at least 1.
    pub dim: u32,
    /// C, at least 1.
    pub streams: u32,
    /// Elements from a token's row to the next.
    pub key_stride: u32,
    /// Elements from a token's row to the next.
    pub query_stride: u32,
    /// Elements from a token's row to the next.
    pub val_stride: u32,
    /// Elements from a token's row to the next.
    pub u_stride: u32,
    /// `1 / sqrt(d)`, rounded once on the host.
    pub inv_sqrt_dim: f32,
}
const _: () = assert!(size_of::<GateParams>() == 64); // no padding: nothing uninitialised crosses the launch

/// Launch parameters of `ple.conv`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConvParams {
    /// f32 `[tokens][m_stride]`, width W: the normed input.
    pub m: *const f32,
    /// f32 `[(K - 1) dilation][window_stride]`, width W: the input of the tokens before the call, oldest first; not
    /// read where K = 1.
    pub window: *const f32,
    /// f32 `[W][K]`: the last tap is the token's own.
    pub taps: *const f32,
    /// f32 `[tokens][u_stride]`, width W.
    pub u: *const f32,
    /// f32 `[tokens][s_stride]`, width W; changed in place, disjoint from the others.
    pub s: *mut f32,
    /// The rows of `s`.
    pub quads: Quads,
    /// K, at least 1.
    pub taps_len: u32,
    /// Tokens from a tap to the next.
    pub dilation: u32,
    /// Elements from a token's row to the next.
    pub m_stride: u32,
    /// Elements from a row to the next.
    pub window_stride: u32,
    /// Elements from a token's row to the next.
    pub u_stride: u32,
    /// Elements from a token's row to the next.
    pub s_stride: u32,
    /// 0: fills the struct.
    pub unused: u32,
}
const _: () = assert!(size_of::<ConvParams>() == 80);
