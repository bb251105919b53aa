//! Integer primitives by their plain definitions.

fn per_byte(a: u32, b: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
}

#[inline(always)]
pub(crate) fn dp4a(a: i32, b: i32, c: i32) -> i32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    (0..4).fold(c, |sum, i| sum.wrapping_add(i32::from(a[i].cast_signed()) * i32::from(b[i].cast_signed())))
}

#[inline(always)]
pub(crate) fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    (0..4).fold(c, |sum, i| sum.wrapping_add(u32::from(a[i]) * u32::from(b[i])))
}

#[inline(always)]
pub(crate) fn dp4a_us(a: u32, b: i32, c: i32) -> i32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    (0..4).fold(c, |sum, i| sum.wrapping_add(i32::from(a[i]) * i32::from(b[i].cast_signed())))
}

#[inline(always)]
pub(crate) fn prmt(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let choose = |i: u32| {
        let code = (selector >> (4 * i)) & 15;
        let byte = bytes[(code & 7) as usize];
        if code & 8 == 0 { byte } else { (byte.cast_signed() >> 7).cast_unsigned() }
    };
    u32::from_le_bytes([choose(0), choose(1), choose(2), choose(3)])
}

#[inline(always)]
pub(crate) fn funnel_shift_l(lo: u32, hi: u32, shift: u32) -> u32 {
    (((u64::from(hi) << 32 | u64::from(lo)) << (shift % 32)) >> 32) as u32
}

#[inline(always)]
pub(crate) fn funnel_shift_r(lo: u32, hi: u32, shift: u32) -> u32 {
    ((u64::from(hi) << 32 | u64::from(lo)) >> (shift % 32)) as u32
}

#[inline(always)]
pub(crate) fn vabsdiffu4(a: u32, b: u32) -> u32 {
    per_byte(a, b, u8::abs_diff)
}

#[inline(always)]
pub(crate) fn opaque(x: usize) -> usize {
    x
}
