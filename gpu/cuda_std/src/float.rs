//! Replaced by the float part.

/// `a * b + c`, rounded once.
#[inline(always)]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// The larger value; a NaN loses against a number.
#[inline(always)]
#[must_use]
pub fn max(a: f32, b: f32) -> f32 {
    a.max(b)
}
