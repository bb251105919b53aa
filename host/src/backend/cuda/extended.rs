//! Launches with attributes: `cuLaunchKernelEx`, which is later than the functions that `cust_raw` declares.

use super::super::error::LaunchShape;
use super::super::l2::Window;
use super::api::{self, Code};
use cuda_std::emulator::Launch;
use cust::sys::{CUfunction, CUstream};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The function, as errors name it.
pub const CALL: &str = "cuLaunchKernelEx";
/// The CUDA version that brought the function, as the driver counts.
const SINCE: c_int = 11_080;

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Attribute {
    id: c_int,
    pad: c_int,
    /// A union of 64 bytes, on little-endian machines.
    value: [u64; 8],
}

impl Attribute {
    /// The launch may start before the one ahead of it has ended (programmatic dependent launch).
    pub fn early() -> Self {
        /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, an int.
        const ID: c_int = 6;
        Self { id: ID, pad: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// What the launch touches in the window stays in the L2, as far as room was set aside; the rest passes by.
    pub fn window(window: Window) -> Self {
        /// `CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW`: address, bytes, share that hits as f32, what hits, what misses.
        const ID: c_int = 1;
        /// `CU_ACCESS_PROPERTY_PERSISTING` and `CU_ACCESS_PROPERTY_STREAMING`.
        const HITS: u64 = 2;
        const MISSES: u64 = 1;
        let share = u64::from(window.share.to_bits());
        let value = [window.address as u64, window.bytes as u64, share | HITS << 32, MISSES, 0, 0, 0, 0];
        Self { id: ID, pad: 0, value }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    dynamic_shared: c_uint,
    stream: CUstream,
    attributes: *const Attribute,
    n_attributes: c_uint,
}
const _: () = assert!(size_of::<Attribute>() == 72 && size_of::<Config>() == 56);

type LaunchEx = unsafe extern "C" fn(*const Config, CUfunction, *mut *mut c_void, *mut *mut c_void) -> Code;

/// The driver's function; none where it has none.
fn launch_ex() -> Option<LaunchEx> {
    static FOUND: OnceLock<Option<LaunchEx>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let mut address = std::ptr::null_mut();
        // SAFETY: the name ends in a zero byte; writes one address.
        let code = unsafe { api::cuGetProcAddress(c"cuLaunchKernelEx".as_ptr(), &raw mut address, SINCE, 0) };
        // SAFETY: the driver's function of this name has this signature.
        (code == Code::SUCCESS && !address.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut c_void, LaunchEx>(address) })
    })
}

/// Whether the driver has launches with attributes.
pub fn is_there() -> bool {
    launch_ex().is_some()
}

/// Enqueues the kernel with its attributes; none where the driver cannot.
///
/// # Safety
/// As for `cuLaunchKernel`.
pub unsafe fn launch(
    function: CUfunction,
    stream: CUstream,
    shape: LaunchShape,
    attributes: &[Attribute],
    arguments: *mut *mut c_void,
) -> Option<Code> {
    let Launch { grid, block, dynamic_shared } = shape.launch;
    let (n_attributes, attributes) = (attributes.len() as c_uint, attributes.as_ptr());
    let config = Config { grid, block, dynamic_shared, stream, attributes, n_attributes };
    // SAFETY: the caller's contract; the driver copies what it is given during the call.
    launch_ex().map(|launch| unsafe { launch(&raw const config, function, arguments, std::ptr::null_mut()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lies_as_the_driver_reads_it() {
        let Attribute { id, value, .. } =
            Attribute::window(Window { address: 0x7f00_1000, bytes: 3 << 20, share: 0.5 });
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        assert_eq!((id, value[0], value[1]), (1, 0x7f00_1000, 3 << 20));
        assert_eq!([word(16), word(20), word(24), word(28)], [0.5f32.to_bits(), 2, 1, 0]);
    }
}
