//! A prepared chunk of 32 tokens, as the tensor-core forms of `delta.rec` hand it from prep to scan, and the arithmetic of
//! f16 pairs that both use (docs/src/chunked_delta.md).
//!
//! An image holds each value times a power of two as two f16: `hi`, the nearest, and `lo`, the nearest to what is left.
//! Rows of 128 bytes (k and q, in two blocks of columns) and of 64 are stored so that the 16-byte units which a matrix
//! load (`ldmatrix`, `wgmma`) reads together lie in different banks: unit u of row r at `u ^ (r mod 8)`, in a row of 64
//! bytes at `u ^ (r / 2 mod 4)`.

use cuda_std::{float, warp};

use super::RecParams;

/// Tokens of a chunk.
pub const CHUNK: usize = 32;
/// Exponent of the scale of the k and q images: `|x| <= 1`. Without a lo part nothing needs a scale.
pub const fn key_scale(pairs: bool) -> i32 {
    if pairs { 8 } else { 0 }
}
/// Exponent of the scale of the P and T images: `|x| <= 1`.
pub const CHUNK_SCALE: i32 = 13;

/// Bytes of a k, q image: 64 rows (k of the 32 tokens, then q), 128 f16 each, as two blocks of 64 columns.
const KEY_IMAGE: usize = 64 * 256;
/// Bytes from columns 0..64 of a k, q image to columns 64..128.
pub const COLUMN_BLOCK: usize = 64 * 128;
/// Bytes of a P or T image: 32 rows (token t) of 32 f16 (token i).
const CHUNK_IMAGE: usize = 32 * 64;

/// Where the k, q images `[hi, lo]` of a key head start, in bytes.
pub const KEYS: [usize; 2] = [0, KEY_IMAGE];
/// Where the P images of a value head start; they follow the T image of the same part.
pub const P: [usize; 2] = [CHUNK_IMAGE, 3 * CHUNK_IMAGE];
/// Where the T images of a value head start.
pub const T: [usize; 2] = [0, 2 * CHUNK_IMAGE];
/// f32 of a value head's scalars: for each token beta, beta e^G_t, e^G_t and `e^(G_L - G_t) 2^-18`, 32 each.
pub const SCALARS: usize = 4 * CHUNK;
/// Where each scalar of the tokens starts.
pub const BETA: usize = 0;
/// See [`SCALARS`].
pub const BETA_DECAY: usize = CHUNK;
/// See [`SCALARS`].
pub const DECAY: usize = 2 * CHUNK;
/// See [`SCALARS`].
pub const REST: usize = 3 * CHUNK;
/// D is held times `2^(ey - 5)`, Y being held times `2^ey`: 32 products of T and Y cannot exceed 32 times the largest Y. So
/// the sums, which carry [`CHUNK_SCALE`] also, are to be multiplied by two to the minus this.
pub const D_SHIFT: i32 = CHUNK_SCALE + 5;

/// Parts of an image that a form uses.
pub const fn parts(pairs: bool) -> usize {
    if pairs { 2 } else { 1 }
}

/// Bytes of a key head's images.
pub const fn key_bytes(pairs: bool) -> usize {
    parts(pairs) * KEY_IMAGE
}

/// Bytes of a value head's images, T and P.
pub const fn image_bytes(pairs: bool) -> usize {
    parts(pairs) * 2 * CHUNK_IMAGE
}

/// Bytes of what a value head needs of a chunk: images, then scalars.
pub const fn head_bytes(pairs: bool) -> usize {
    image_bytes(pairs) + 4 * SCALARS
}

/// Bytes of a slot: [`head_bytes`] for each value head, then [`key_bytes`] for each key head.
pub const fn slot_bytes(pairs: bool, key_heads: usize, value_heads: usize) -> usize {
    value_heads * head_bytes(pairs) + key_heads * key_bytes(pairs)
}

/// Scratch of `slots` chunks in f32.
pub const fn scratch_floats(pairs: bool, key_heads: usize, value_heads: usize, slots: usize) -> usize {
    slots * slot_bytes(pairs, key_heads, value_heads) / 4
}

/// Where slot `slot` lies in scratch.
#[inline(always)]
fn slot_at<const PAIRS: bool>(p: &RecParams, slot: usize) -> *mut u8 {
    let bytes = slot_bytes(PAIRS, p.key_heads as usize, p.value_heads as usize);
    p.scratch.cast::<u8>().wrapping_add(slot * bytes)
}

/// Where value head `head` of slot `slot` lies in scratch.
#[inline(always)]
pub fn head_of<const PAIRS: bool>(p: &RecParams, slot: usize, head: usize) -> *mut u8 {
    slot_at::<PAIRS>(p, slot).wrapping_add(head * head_bytes(PAIRS))
}

/// Where the k, q images of key head `key_head` of slot `slot` lie in scratch.
#[inline(always)]
pub fn keys_of<const PAIRS: bool>(p: &RecParams, slot: usize, key_head: usize) -> *mut u8 {
    let keys = p.value_heads as usize * head_bytes(PAIRS) + key_head * key_bytes(PAIRS);
    slot_at::<PAIRS>(p, slot).wrapping_add(keys)
}

/// Byte of unit `unit` (8 f16) of row `row` of a k, q image.
#[inline(always)]
pub fn key_at(row: usize, unit: usize) -> usize {
    unit / 8 * COLUMN_BLOCK + row * 128 + ((unit % 8) ^ (row % 8)) * 16
}

/// Byte of unit `unit` of row `row` of a P or T image.
#[inline(always)]
pub fn chunk_at(row: usize, unit: usize) -> usize {
    row * 64 + (unit ^ (row / 2 % 4)) * 16
}

/// A lane's byte in `ldmatrix_x4` of 16 rows and 16 columns of an image, in one of two orders of its four 8 x 8 matrices.
///
/// [`rows_first`](Self::rows_first): the registers are an A fragment; transposed, 0 and 1 are a B fragment of the first
/// eight columns, 2 and 3 of the last. [`columns_first`](Self::columns_first): 0 and 1 are a B fragment of the first eight
/// rows, 2 and 3 of the last.
#[derive(Clone, Copy)]
pub struct MatrixLane {
    row: usize,
    key_unit: usize,
    chunk_unit: usize,
}

impl MatrixLane {
    /// Matrices in the order (rows 0..8, columns 0..8), (8.., 0..8), (0..8, 8..), (8.., 8..).
    #[inline(always)]
    pub fn rows_first() -> Self {
        let m = warp::lane_id() as usize / 8;
        Self::of(m % 2, m / 2)
    }

    /// Matrices in the order (rows 0..8, columns 0..8), (0..8, 8..), (8.., 0..8), (8.., 8..).
    #[inline(always)]
    pub fn columns_first() -> Self {
        let m = warp::lane_id() as usize / 8;
        Self::of(m / 2, m % 2)
    }

    /// As [`columns_first`](Self::columns_first), but the last eight rows are `step` behind the first.
    #[inline(always)]
    pub fn apart(step: usize) -> Self {
        let m = warp::lane_id() as usize / 8;
        let near = Self::of(0, m % 2);
        Self { row: near.row + m / 2 * step, ..near }
    }

    #[inline(always)]
    fn of(row_block: usize, unit: usize) -> Self {
        let r = warp::lane_id() as usize % 8;
        Self { row: row_block * 8 + r, key_unit: (unit ^ r) * 16, chunk_unit: (unit ^ (r / 2)) * 16 }
    }

    /// Byte for rows `row0 ..` (a multiple of 8) and columns `16 step ..` of a k, q image.
    #[inline(always)]
    pub fn key(&self, row0: usize, step: usize) -> usize {
        step / 4 * COLUMN_BLOCK + row0 * 128 + self.row * 128 + ((step % 4 * 32) ^ self.key_unit)
    }

    /// Byte for rows `row0 ..` (a multiple of 8) and columns `16 step ..` of a P or T image.
    #[inline(always)]
    pub fn chunk(&self, row0: usize, step: usize) -> usize {
        row0 * 64 + self.row * 64 + ((step * 32) ^ self.chunk_unit)
    }
}

/// The two B fragments of a load whose matrices came in [`MatrixLane`]'s order for it.
#[inline(always)]
pub fn pairs(x: [u32; 4]) -> [[u32; 2]; 2] {
    [[x[0], x[1]], [x[2], x[3]]]
}

/// `e^x` of the decays between tokens, x <= 0 or not wanted: the product and the instruction round, together below 2^-22
/// absolute.
#[inline(always)]
pub fn decay(x: f32) -> f32 {
    float::exp2_approx(x * core::f32::consts::LOG2_E)
}

/// `2^e` for |e| <= 126.
#[inline(always)]
pub fn power_of_two(e: i32) -> f32 {
    f32::from_bits(((127 + e) << 23).cast_unsigned())
}

/// The exponent E, at most 100 in size, for which the largest of a set of values times `2^E` is in `2^13 .. 2^14`, from
/// the bits of its magnitude.
#[inline(always)]
pub fn scale_exponent(magnitude_bits: u32) -> i32 {
    (140 - (magnitude_bits >> 23).cast_signed()).clamp(-100, 100)
}

/// The larger of the two magnitudes; a NaN does not count (its products are NaN anyway).
#[inline(always)]
pub fn larger(a: f32, b: f32) -> f32 {
    float::max(a, float::abs(b))
}

/// The largest magnitude that any lane of the warp has found.
#[inline(always)]
#[track_caller]
pub fn warp_largest(magnitude: f32) -> f32 {
    f32::from_bits(warp::redux_max_u32(magnitude.to_bits()))
}

/// Two values as f16 pairs: `[hi, lo]`, the first value in the lower half. Without `PAIRS` lo is 0.
#[inline(always)]
pub fn split<const PAIRS: bool>(a: f32, b: f32) -> [u32; 2] {
    let hi = float::f32x2_to_f16x2(a, b);
    if !PAIRS {
        return [hi, 0];
    }
    let [ha, hb] = float::f16x2_to_f32x2(hi);
    [hi, float::f32x2_to_f16x2(a - ha, b - hb)]
}

/// A fragments `[hi, lo]` of one k-step from two neighbouring C tiles: the registers of C are in the order that A wants.
#[inline(always)]
pub fn fragments<const PAIRS: bool>(left: &[f32], right: &[f32]) -> [[u32; 4]; 2] {
    let a = split::<PAIRS>(left[0], left[1]);
    let b = split::<PAIRS>(left[2], left[3]);
    let c = split::<PAIRS>(right[0], right[1]);
    let d = split::<PAIRS>(right[2], right[3]);
    [[a[0], b[0], c[0], d[0]], [a[1], b[1], c[1], d[1]]]
}
