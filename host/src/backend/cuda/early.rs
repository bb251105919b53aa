//! Launches that may start before the one ahead of them has ended (programmatic dependent launch): `cuLaunchKernelEx`,
//! which is later than the functions that `cust_raw` declares.

use super::super::error::LaunchShape;
use super::api::{self, Code};
use cuda_std::emulator::Launch;
use cust::sys::{CUfunction, CUstream};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const EARLY: c_int = 6;
/// The function, as errors name it.
pub const CALL: &str = "cuLaunchKernelEx";
/// The CUDA version that brought the function, as the driver counts.
const SINCE: c_int = 11_080;

/// `CUlaunchAttribute`.
#[repr(C)]
struct Attribute {
    id: c_int,
    pad: c_int,
    /// A union of 64 bytes; of this attribute the first word counts.
    value: [c_int; 16],
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

/// Enqueues the kernel so that it may start early; none where the driver cannot.
///
/// # Safety
/// As for `cuLaunchKernel`.
pub unsafe fn launch(
    function: CUfunction,
    stream: CUstream,
    shape: LaunchShape,
    arguments: *mut *mut c_void,
) -> Option<Code> {
    let mut value = [0; 16];
    value[0] = 1;
    let attribute = Attribute { id: EARLY, pad: 0, value };
    let Launch { grid, block, dynamic_shared } = shape.launch;
    let config = Config { grid, block, dynamic_shared, stream, attributes: &raw const attribute, n_attributes: 1 };
    // SAFETY: the caller's contract; the driver copies what it is given during the call.
    launch_ex().map(|launch| unsafe { launch(&raw const config, function, arguments, std::ptr::null_mut()) })
}
