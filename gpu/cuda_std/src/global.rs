//! Global memory: scalar accesses of 1 to 8 bytes, vector accesses of 8 and 16 bytes, prefetch.
//!
//! Kernels touch global memory only through these functions: each call is one access of the stated width on the GPU, and
//! the emulator checks its range and alignment. An access of n bytes needs an address that is a multiple of n.

use crate::imp;

mod sealed {
    pub trait Sealed {}
}

/// A scalar of 1, 2, 4 or 8 bytes that one memory instruction moves.
pub trait Word: sealed::Sealed + Copy + Send + Sync + 'static {}

/// A 32-bit [`Word`], which vector accesses and shuffles can move.
pub trait Word32: Word {
    /// The value's bits.
    fn to_u32(self) -> u32;
    /// The value of these bits.
    fn from_u32(bits: u32) -> Self;
}

macro_rules! words {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Word for $ty {}
    )*};
}
words!(f32 f64 u8 u16 u32 u64 i8 i16 i32 i64);

impl Word32 for f32 {
    #[inline(always)]
    fn to_u32(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_u32(bits: u32) -> Self {
        f32::from_bits(bits)
    }
}

impl Word32 for u32 {
    #[inline(always)]
    fn to_u32(self) -> u32 {
        self
    }
    #[inline(always)]
    fn from_u32(bits: u32) -> Self {
        bits
    }
}

impl Word32 for i32 {
    #[inline(always)]
    fn to_u32(self) -> u32 {
        self.cast_unsigned()
    }
    #[inline(always)]
    fn from_u32(bits: u32) -> Self {
        bits.cast_signed()
    }
}

/// Reads one scalar.
///
/// # Safety
/// `p` is a multiple of `size_of::<T>()` in initialised global memory, and no other thread writes it meanwhile.
#[inline(always)]
#[track_caller]
pub unsafe fn load<T: Word>(p: *const T) -> T {
    // SAFETY: same contract.
    unsafe { imp::global::load(p) }
}

/// Reads two consecutive values as one access of 8 bytes.
///
/// # Safety
/// As [`load`] for all 8 bytes; `p` is a multiple of 8.
#[inline(always)]
#[track_caller]
pub unsafe fn load2<T: Word32>(p: *const T) -> [T; 2] {
    // SAFETY: same contract.
    unsafe { imp::global::load2(p) }
}

/// Reads four consecutive values as one access of 16 bytes.
///
/// # Safety
/// As [`load`] for all 16 bytes; `p` is a multiple of 16.
#[inline(always)]
#[track_caller]
pub unsafe fn load4<T: Word32>(p: *const T) -> [T; 4] {
    // SAFETY: same contract.
    unsafe { imp::global::load4(p) }
}

/// [`load`] through the read-only cache.
///
/// # Safety
/// As [`load`]; nothing writes the location for the whole length of the launch.
#[inline(always)]
#[track_caller]
pub unsafe fn load_nc<T: Word>(p: *const T) -> T {
    // SAFETY: same contract.
    unsafe { imp::global::load_nc(p) }
}

/// [`load2`] through the read-only cache.
///
/// # Safety
/// As [`load2`]; nothing writes the location for the whole length of the launch.
#[inline(always)]
#[track_caller]
pub unsafe fn load2_nc<T: Word32>(p: *const T) -> [T; 2] {
    // SAFETY: same contract.
    unsafe { imp::global::load2_nc(p) }
}

/// [`load4`] through the read-only cache.
///
/// # Safety
/// As [`load4`]; nothing writes the location for the whole length of the launch.
#[inline(always)]
#[track_caller]
pub unsafe fn load4_nc<T: Word32>(p: *const T) -> [T; 4] {
    // SAFETY: same contract.
    unsafe { imp::global::load4_nc(p) }
}

/// [`load_nc`], issued in the order of the source: no such load is moved behind another, dropped or repeated by LLVM. For
/// loads that are to be under way before the first of them is used.
///
/// # Safety
/// As [`load_nc`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_nc_ordered<T: Word>(p: *const T) -> T {
    // SAFETY: same contract.
    unsafe { imp::global::load_nc_ordered(p) }
}

/// [`load2_nc`], issued in the order of the source as [`load_nc_ordered`].
///
/// # Safety
/// As [`load2_nc`].
#[inline(always)]
#[track_caller]
pub unsafe fn load2_nc_ordered<T: Word32>(p: *const T) -> [T; 2] {
    // SAFETY: same contract.
    unsafe { imp::global::load2_nc_ordered(p) }
}

/// [`load4_nc`], issued in the order of the source as [`load_nc_ordered`].
///
/// # Safety
/// As [`load4_nc`].
#[inline(always)]
#[track_caller]
pub unsafe fn load4_nc_ordered<T: Word32>(p: *const T) -> [T; 4] {
    // SAFETY: same contract.
    unsafe { imp::global::load4_nc_ordered(p) }
}

/// Writes one scalar.
///
/// # Safety
/// `p` is a multiple of `size_of::<T>()` in global memory, and no other thread accesses it meanwhile.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Word>(p: *mut T, v: T) {
    // SAFETY: same contract.
    unsafe { imp::global::store(p, v) }
}

/// [`store`] by an instruction that names global memory itself: for a pointer chosen between several, of which LLVM no longer
/// sees that they are parameters and would write a generic access.
///
/// # Safety
/// As [`store`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_named<T: Word32>(p: *mut T, v: T) {
    // SAFETY: same contract.
    unsafe { imp::global::store_named(p, v) }
}

/// Writes two consecutive values as one access of 8 bytes.
///
/// # Safety
/// As [`store`] for all 8 bytes; `p` is a multiple of 8.
#[inline(always)]
#[track_caller]
pub unsafe fn store2<T: Word32>(p: *mut T, v: [T; 2]) {
    // SAFETY: same contract.
    unsafe { imp::global::store2(p, v) }
}

/// Writes four consecutive values as one access of 16 bytes.
///
/// # Safety
/// As [`store`] for all 16 bytes; `p` is a multiple of 16.
#[inline(always)]
#[track_caller]
pub unsafe fn store4<T: Word32>(p: *mut T, v: [T; 4]) {
    // SAFETY: same contract.
    unsafe { imp::global::store4(p, v) }
}

/// Asks for the cache line of `p` to be brought into L2. A hint: it never faults and may do nothing.
///
/// # Safety
/// `p` points into global memory.
#[inline(always)]
pub unsafe fn prefetch_l2<T>(p: *const T) {
    // SAFETY: same contract.
    unsafe { imp::global::prefetch_l2(p.cast()) }
}
