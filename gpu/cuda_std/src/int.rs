//! Integer primitives: byte dot products, byte permutation, four bytes at a time, bit work. All exact.
//!
//! `dp4a`, `prmt`, `vabsdiffu4` and the funnel shifts are single GPU instructions. The other byte operations are not (PTX
//! has names for them, which ptxas expands to 20 to 45 instructions since sm_70), so they are written here once from
//! word-wide operations that both sides run.
//!
//! Bytes are numbered from the least significant: byte 0 is `x & 0xff`.
//!
//! ```
//! use cuda_std::int;
//! assert_eq!(int::prmt(0x3322_1100, 0x7766_5544, 0x7531), 0x7755_3311);
//! assert_eq!(int::vsub4(0x0000_0005, 0x0000_0107), 0x0000_fffe);
//! ```

use crate::imp;

/// The top bit of every byte.
const TOPS: u32 = 0x8080_8080;

/// `c + sum of a_i * b_i` over the four signed bytes, modulo 2^32.
#[inline(always)]
#[must_use]
pub fn dp4a(a: i32, b: i32, c: i32) -> i32 {
    imp::int::dp4a(a, b, c)
}

/// `c + sum of a_i * b_i` over the four unsigned bytes, modulo 2^32.
#[inline(always)]
#[must_use]
pub fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
    imp::int::dp4a_u32(a, b, c)
}

/// `c + sum of a_i * b_i` over four bytes, unsigned ones of `a` and signed ones of `b`, modulo 2^32.
#[inline(always)]
#[must_use]
pub fn dp4a_us(a: u32, b: i32, c: i32) -> i32 {
    imp::int::dp4a_us(a, b, c)
}

/// Byte permutation, `prmt.b32`: byte i of the result is chosen by bits 4i to 4i + 3 of `selector` (upper bits of it are
/// ignored). Their low three bits number a byte of `a` (0 to 3) or `b` (4 to 7); with the fourth bit set the result byte is
/// that byte's sign, 0x00 or 0xff.
#[inline(always)]
#[must_use]
pub fn prmt(a: u32, b: u32, selector: u32) -> u32 {
    imp::int::prmt(a, b, selector)
}

/// The upper word of `hi:lo << (shift % 32)`.
#[inline(always)]
#[must_use]
pub fn funnel_shift_l(lo: u32, hi: u32, shift: u32) -> u32 {
    imp::int::funnel_shift_l(lo, hi, shift)
}

/// The lower word of `hi:lo >> (shift % 32)`.
#[inline(always)]
#[must_use]
pub fn funnel_shift_r(lo: u32, hi: u32, shift: u32) -> u32 {
    imp::int::funnel_shift_r(lo, hi, shift)
}

/// Per byte `|a - b|` of unsigned bytes.
#[inline(always)]
#[must_use]
pub fn vabsdiffu4(a: u32, b: u32) -> u32 {
    imp::int::vabsdiffu4(a, b)
}

/// Per byte `a + b`, modulo 256.
#[inline(always)]
#[must_use]
pub const fn vadd4(a: u32, b: u32) -> u32 {
    // Without their top bits the bytes cannot carry into each other; those are added apart.
    ((a & !TOPS) + (b & !TOPS)) ^ ((a ^ b) & TOPS)
}

/// Per byte `a - b`, modulo 256.
#[inline(always)]
#[must_use]
pub const fn vsub4(a: u32, b: u32) -> u32 {
    ((a | TOPS) - (b & !TOPS)) ^ ((a ^ !b) & TOPS)
}

/// Per byte `a - b` of signed bytes, held to -128 .. 127.
#[inline(always)]
#[must_use]
pub fn vsubss4(a: u32, b: u32) -> u32 {
    let difference = vsub4(a, b);
    // It left the range where the signs of a and b differ and the difference has not the sign of a.
    let left_range = top_to_mask((a ^ b) & (a ^ difference));
    let limit = top_to_mask(a) ^ !TOPS;
    select(left_range, limit, difference)
}

/// Per byte 0xff where `a == b`, else 0.
#[inline(always)]
#[must_use]
pub fn vcmpeq4(a: u32, b: u32) -> u32 {
    let x = a ^ b;
    top_to_mask(!(((x & !TOPS) + !TOPS) | x))
}

/// Per byte the larger of signed bytes.
#[inline(always)]
#[must_use]
pub fn vmaxs4(a: u32, b: u32) -> u32 {
    select(less_signed(a, b), b, a)
}

/// Per byte the smaller of signed bytes.
#[inline(always)]
#[must_use]
pub fn vmins4(a: u32, b: u32) -> u32 {
    select(less_signed(a, b), a, b)
}

/// Per byte the larger of unsigned bytes.
#[inline(always)]
#[must_use]
pub fn vmaxu4(a: u32, b: u32) -> u32 {
    select(less_unsigned(a, b), b, a)
}

/// Per byte the smaller of unsigned bytes.
#[inline(always)]
#[must_use]
pub fn vminu4(a: u32, b: u32) -> u32 {
    select(less_unsigned(a, b), a, b)
}

/// Number of bits set.
#[inline(always)]
#[must_use]
pub const fn popc(x: u32) -> u32 {
    x.count_ones()
}

/// Number of zero bits above the highest one, 32 for 0.
#[inline(always)]
#[must_use]
pub const fn clz(x: u32) -> u32 {
    x.leading_zeros()
}

/// The bits in reverse order.
#[inline(always)]
#[must_use]
pub const fn brev(x: u32) -> u32 {
    x.reverse_bits()
}

/// Bits `pos` to `pos + len - 1` of `x`, right-aligned; bits beyond 31 read as 0.
#[inline(always)]
#[must_use]
pub const fn bfe_u32(x: u32, pos: u32, len: u32) -> u32 {
    let shifted = if pos < 32 { x >> pos } else { 0 };
    if len < 32 { shifted & ((1 << len) - 1) } else { shifted }
}

/// The upper 32 bits of the 64-bit product.
#[inline(always)]
#[must_use]
pub const fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((a as u64 * b as u64) >> 32) as u32
}

/// Returns `x`, while the compiler takes the result for an unknown number. A kernel that computes many addresses from a
/// pitch at its start and again at its end would otherwise keep all of them in registers in between.
#[inline(always)]
#[must_use]
pub fn opaque(x: usize) -> usize {
    imp::int::opaque(x)
}

/// 0xff for each byte whose top bit is set, else 0.
#[inline(always)]
fn top_to_mask(x: u32) -> u32 {
    prmt(x, 0, 0xba98)
}

#[inline(always)]
const fn select(mask: u32, set: u32, clear: u32) -> u32 {
    (set & mask) | (clear & !mask)
}

/// Mask of the bytes where `a < b`. Where the top bits are equal the difference tells, else they tell.
#[inline(always)]
fn less_unsigned(a: u32, b: u32) -> u32 {
    top_to_mask((!a & b) | (!(a ^ b) & vsub4(a, b)))
}

#[inline(always)]
fn less_signed(a: u32, b: u32) -> u32 {
    top_to_mask((a & !b) | (!(a ^ b) & vsub4(a, b)))
}
