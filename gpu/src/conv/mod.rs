//! What causal convolutions over tokens share: the window of rows that a call leaves to the next.

pub mod window_quad;

use crate::quad::Quads;

/// Launch parameters of `conv.window`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WindowParams {
    /// f32 `[rows][window_stride]`: the last inputs before the call, oldest first; changed in place to those after it.
    pub window: *mut f32,
    /// f32 `[tokens][x_stride]`: the call's inputs; disjoint from the window.
    pub x: *const f32,
    /// One row of the width.
    pub quads: Quads,
    /// Rows of the window.
    pub rows: u32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Elements from a row to the next.
    pub window_stride: u32,
    /// Elements from a token's row to the next.
    pub x_stride: u32,
    /// 0: fills the struct.
    pub unused: u32,
}
const _: () = assert!(size_of::<WindowParams>() == 48); // no padding: nothing uninitialised crosses the launch
