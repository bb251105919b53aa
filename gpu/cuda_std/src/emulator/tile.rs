//! Tiles of B for products of a warpgroup: where their elements lie in the running block's shared memory.

use std::panic::Location;

use super::block::{Source, raise};
use super::context;
use super::fault::Fault;

/// A tile of B, as the face describes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Host address.
    start: usize,
    /// Bytes of an atom's row.
    swizzle: usize,
    /// Bytes from 64 columns to the next 64 of MN-major tiles.
    block_stride: usize,
    /// Bytes from 8 rows to the next 8.
    group_stride: usize,
    pub mn_major: bool,
}

impl Descriptor {
    #[inline(always)]
    #[track_caller]
    pub(crate) fn k_major<const SWIZZLE: usize>(tile: *const u8, group_stride: usize) -> Self {
        const { assert!(SWIZZLE == 128 || SWIZZLE == 64, "swizzles of 128 and 64 bytes exist here") };
        let start = tile as usize;
        Self { start, swizzle: SWIZZLE, block_stride: 0, group_stride, mn_major: false }.checked(Location::caller())
    }

    #[inline(always)]
    #[track_caller]
    pub(crate) fn mn_major_128(tile: *const u8, block_stride: usize, group_stride: usize) -> Self {
        let start = tile as usize;
        Self { start, swizzle: 128, block_stride, group_stride, mn_major: true }.checked(Location::caller())
    }

    #[inline(always)]
    #[track_caller]
    pub(crate) fn advance(self, bytes: usize) -> Self {
        if !bytes.is_multiple_of(16) {
            refuse(format!("advanced by {bytes} bytes, which is no multiple of 16"), Location::caller());
        }
        Self { start: self.start + bytes, ..self }
    }

    /// The descriptor, if its fields can hold it.
    #[inline(never)]
    fn checked(self, source: Source) -> Self {
        // SAFETY: the running block, read only.
        let block = unsafe { &*context::block() };
        let atom = 8 * self.swizzle;
        let problem = match block.shared_offset(self.start) {
            None => "the tile is not in the block's shared memory".to_owned(),
            Some(offset) if !offset.is_multiple_of(atom) => {
                format!("the tile starts at shared offset {offset}, which is no multiple of {atom}")
            }
            Some(_) if block.arena.static_bytes() > 0 => {
                "the kernel has static shared arrays, behind which tiles are at no multiple of 1024".to_owned()
            }
            Some(_) => {
                let wrong = |stride: &&usize| !stride.is_multiple_of(atom) || **stride >= 1 << 18;
                match [self.block_stride, self.group_stride].iter().find(wrong) {
                    Some(stride) => format!("a stride of {stride} bytes, which is no multiple of {atom} below 2^18"),
                    None => return self,
                }
            }
        };
        refuse(problem, source)
    }

    /// Shared offset of unit `unit` (16 bytes) of row `row`, where shared memory starts at `base`.
    pub fn offset(self, base: usize, row: usize, unit: usize) -> usize {
        let within = row / 8 * self.group_stride + row % 8 * self.swizzle + unit % 8 * 16;
        let plain = (self.start + unit / 8 * self.block_stride + within).wrapping_sub(base);
        plain ^ (((plain >> 7) & (self.swizzle / 16 - 1)) << 4)
    }
}

/// Ends the block: a descriptor that there cannot be.
#[cold]
#[inline(never)]
fn refuse(problem: String, source: Source) -> ! {
    // SAFETY: the running block, read only.
    let place = unsafe { (*context::block()).place(source) };
    raise(Fault::BadOperand { place, primitive: "wgmma descriptor", problem })
}
