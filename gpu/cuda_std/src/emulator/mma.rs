//! Matrix fragments and products: the warp's lanes gather, the last one computes all results.

use std::panic::Location;

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::block::Primitive;
use super::fault::Access;
use super::shared;
use super::warp::{Slots, gather, lane_id};
use crate::warp::FULL_MASK;

/// Reads the matrices whose row addresses lie in the slots, and leaves each lane's registers there.
fn load_matrices<const MATRICES: usize, const TRANSPOSED: bool>(slots: &mut Slots, _lanes: u32) {
    let mut rows = [[[0u16; 8]; 8]; MATRICES];
    for (lane, row) in rows.as_flattened_mut().iter_mut().enumerate() {
        let address = u64::from(slots[lane][0]) | u64::from(slots[lane][1]) << 32;
        // SAFETY: each lane checked its own row's range and alignment before it came here.
        *row = unsafe { (address as usize as *const [u16; 8]).read() };
    }
    for (lane, slot) in slots.iter_mut().enumerate() {
        let (g, t) = (lane / 4, lane % 4);
        for (register, m) in slot.iter_mut().zip(&rows) {
            let [low, high] = [2 * t, 2 * t + 1].map(|i| if TRANSPOSED { m[i][g] } else { m[g][i] });
            *register = u32::from(low) | u32::from(high) << 16;
        }
    }
}

macro_rules! ldmatrix {
    ($($name:ident, $primitive:ident, $matrices:literal, $transposed:literal;)*) => {$(
        static $primitive: Primitive = Primitive { name: stringify!($name), aligned: true };

        /// Host body of the load of this name in [`mma`](crate::mma).
        ///
        /// # Safety
        /// Nothing races with the access; range and alignment are checked.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub(crate) unsafe fn $name(row: *const u8) -> [u32; $matrices] {
            let source = Location::caller();
            if lane_id() < 8 * $matrices {
                shared::check::<16>(row as usize, Access::Read, source);
            }
            let address = row as usize as u64;
            let mut words = [0; 4];
            words[..2].copy_from_slice(&[address as u32, (address >> 32) as u32]);
            gather(&$primitive, FULL_MASK, &mut words, load_matrices::<$matrices, $transposed>, source);
            std::array::from_fn(|i| words[i])
        }
    )*};
}

ldmatrix! {
    ldmatrix_x2, LDMATRIX_X2, 2, false;
    ldmatrix_x2_trans, LDMATRIX_X2_TRANS, 2, true;
    ldmatrix_x4, LDMATRIX_X4, 4, false;
    ldmatrix_x4_trans, LDMATRIX_X4_TRANS, 4, true;
}

/// Word of a slot where the B registers start, and where the accumulators start (their results overwrite word 0..4).
const B: usize = 4;
const C: usize = 6;

/// Row and column of accumulator `i` of `lane`.
fn c_at(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2)
}

/// Gives every element of A and B as the registers hold them: `PER` elements of `32 / PER` bits to a register.
/// `a(row, column, bits)`, `b(row, column, bits)`.
fn each_element<const PER: usize>(
    slots: &Slots,
    mut a: impl FnMut(usize, usize, u32),
    mut b: impl FnMut(usize, usize, u32),
) {
    let width = 32 / PER;
    let bits = |word: u32, e: usize| if PER == 1 { word } else { word >> (width * e) & ((1 << width) - 1) };
    for (lane, slot) in slots.iter().enumerate() {
        let (g, t) = (lane / 4, lane % 4);
        for e in 0..PER {
            for (r, &word) in slot[..B].iter().enumerate() {
                a(g + r % 2 * 8, r / 2 * 4 * PER + PER * t + e, bits(word, e));
            }
            for (r, &word) in slot[B..C].iter().enumerate() {
                b(r * 4 * PER + PER * t + e, g, bits(word, e));
            }
        }
    }
}

/// `C + A B` in f32: the products with k ascending, each product and each sum rounded.
fn product_f32<const K: usize>(slots: &mut Slots, a: &[[f32; K]; 16], b: &[[f32; 8]; K]) {
    let mut acc = [[0.0f32; 8]; 16];
    for (lane, slot) in slots.iter().enumerate() {
        for (i, &word) in slot[C..C + 4].iter().enumerate() {
            let (row, column) = c_at(lane, i);
            acc[row][column] = f32::from_bits(word);
        }
    }
    for (sums, a_row) in acc.iter_mut().zip(a) {
        for (&x, b_row) in a_row.iter().zip(b) {
            for (sum, &y) in sums.iter_mut().zip(b_row) {
                *sum += x * y;
            }
        }
    }
    for (lane, slot) in slots.iter_mut().enumerate() {
        for (i, word) in slot[..4].iter_mut().enumerate() {
            let (row, column) = c_at(lane, i);
            *word = acc[row][column].to_bits();
        }
    }
}

fn product_f16(slots: &mut Slots, _lanes: u32) {
    let (mut a16, mut b16) = ([[f16::ZERO; 16]; 16], [[f16::ZERO; 8]; 16]);
    each_element::<2>(
        slots,
        |row, k, bits| a16[row][k] = f16::from_bits(bits as u16),
        |k, column, bits| b16[k][column] = f16::from_bits(bits as u16),
    );
    let (mut a, mut b) = ([[0.0; 16]; 16], [[0.0; 8]; 16]);
    a16.as_flattened().convert_to_f32_slice(a.as_flattened_mut());
    b16.as_flattened().convert_to_f32_slice(b.as_flattened_mut());
    product_f32(slots, &a, &b);
}

fn product_bf16(slots: &mut Slots, _lanes: u32) {
    let (mut a, mut b) = ([[0.0; 16]; 16], [[0.0; 8]; 16]);
    each_element::<2>(
        slots,
        |row, k, bits| a[row][k] = f32::from_bits(bits << 16),
        |k, column, bits| b[k][column] = f32::from_bits(bits << 16),
    );
    product_f32(slots, &a, &b);
}

fn product_tf32(slots: &mut Slots, _lanes: u32) {
    const TF32: u32 = !0 << 13;
    let (mut a, mut b) = ([[0.0; 8]; 16], [[0.0; 8]; 8]);
    each_element::<1>(
        slots,
        |row, k, bits| a[row][k] = f32::from_bits(bits & TF32),
        |k, column, bits| b[k][column] = f32::from_bits(bits & TF32),
    );
    product_f32(slots, &a, &b);
}

fn product_s8(slots: &mut Slots, _lanes: u32) {
    let (mut a, mut b) = ([[0i32; 32]; 16], [[0i32; 32]; 8]);
    let signed = |bits: u32| i32::from(bits as u8 as i8);
    each_element::<4>(slots, |row, k, bits| a[row][k] = signed(bits), |k, column, bits| b[column][k] = signed(bits));
    for (lane, slot) in slots.iter_mut().enumerate() {
        for i in 0..4 {
            let (row, column) = c_at(lane, i);
            let sum: i32 = a[row].iter().zip(&b[column]).map(|(x, y)| x * y).sum();
            slot[i] = slot[C + i].wrapping_add(sum as u32);
        }
    }
}

macro_rules! products {
    ($($name:ident, $primitive:ident, $ty:ty, $to:expr, $from:expr, $compute:expr;)*) => {$(
        static $primitive: Primitive = Primitive { name: stringify!($name), aligned: true };

        /// Host body of the product of this name in [`mma`](crate::mma).
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub(crate) fn $name(a: [u32; 4], b: [u32; 2], c: [$ty; 4]) -> [$ty; 4] {
            let mut words = [0; 10];
            words[..B].copy_from_slice(&a);
            words[B..C].copy_from_slice(&b);
            words[C..].copy_from_slice(&c.map($to));
            gather(&$primitive, FULL_MASK, &mut words, $compute, Location::caller());
            std::array::from_fn(|i| $from(words[i]))
        }
    )*};
}

products! {
    mma_m16n8k16_f16, MMA_M16N8K16_F16, f32, f32::to_bits, f32::from_bits, product_f16;
    mma_m16n8k16_bf16, MMA_M16N8K16_BF16, f32, f32::to_bits, f32::from_bits, product_bf16;
    mma_m16n8k8_tf32, MMA_M16N8K8_TF32, f32, f32::to_bits, f32::from_bits, product_tf32;
    mma_m16n8k32_s8, MMA_M16N8K32_S8, i32, i32::cast_unsigned, u32::cast_signed, product_s8;
}

static MMA_M16N8K16_S8: Primitive = Primitive { name: "mma_m16n8k16_s8", aligned: true };

/// Host body of the product of this name in [`mma`](crate::mma): the first half of the k of one with 32, whose other half
/// is zero.
#[inline(always)]
#[track_caller]
#[must_use]
pub(crate) fn mma_m16n8k16_s8(a: [u32; 2], b: u32, c: [i32; 4]) -> [i32; 4] {
    let mut words = [0; 10];
    words[..2].copy_from_slice(&a);
    words[B] = b;
    words[C..].copy_from_slice(&c.map(i32::cast_unsigned));
    gather(&MMA_M16N8K16_S8, FULL_MASK, &mut words, product_s8, Location::caller());
    std::array::from_fn(|i| words[i].cast_signed())
}
