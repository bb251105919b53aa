//! The CUDA driver, bound when it is first wanted and not when the program starts.
//!
//! `cust_raw` declares 353 functions `cu*` and expects the linker to find them in `libcuda.so`. Here each of them is
//! defined: a jump through its slot of one table. A slot starts at a function that returns 100
//! (`CUDA_ERROR_NO_DEVICE`); [`load`] opens `libcuda.so.1` and fills the slots with what it finds there. A function that
//! the driver does not have gets one that returns 500 (`CUDA_ERROR_NOT_FOUND`). So one binary starts everywhere, and
//! answers "no device" on a machine without a driver.
//!
//! The trampolines are naked functions with unmangled names, which keeps them in the link whatever the order of the
//! libraries and whatever the linker drops as unused. They touch no argument register: any signature passes through.

use super::driver_symbols::with_driver_symbols;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What the driver's functions return before a driver is bound.
const NO_DEVICE: i32 = 100;
/// What a function returns that the bound driver does not have.
const NOT_FOUND: i32 = 500;

extern "C" fn no_device() -> i32 {
    NO_DEVICE
}

extern "C" fn not_found() -> i32 {
    NOT_FOUND
}

macro_rules! define_slots {
    ($($name:ident,)*) => {
        /// Where a function's address lies in the table.
        #[allow(non_camel_case_types)] // the driver's names
        #[derive(Clone, Copy)]
        enum Slot { $($name),* }

        /// The names of all slots, in the table's order.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        static SLOTS: [AtomicPtr<c_void>; NAMES.len()] =
            [const { AtomicPtr::new(no_device as *mut c_void) }; NAMES.len()];

        /// The functions themselves, under the driver's names.
        #[allow(non_snake_case)]
        mod trampolines {
            use super::{SLOTS, Slot};
            $(
                /// A jump to what the slot of this name holds.
                ///
                /// # Safety
                /// The driver's contract for the function of this name; called through `cust_raw`'s declaration only.
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $name() {
                    #[cfg(target_arch = "x86_64")]
                    core::arch::naked_asm!(
                        "jmp qword ptr [rip + {slots} + {offset}]",
                        slots = sym SLOTS,
                        offset = const Slot::$name as usize * size_of::<*mut ()>(),
                    );
                    // x16 is the scratch register that the procedure call standard leaves to veneers like this one.
                    #[cfg(target_arch = "aarch64")]
                    core::arch::naked_asm!(
                        "adrp x16, {slots} + {offset}",
                        "ldr x16, [x16, :lo12:{slots} + {offset}]",
                        "br x16",
                        slots = sym SLOTS,
                        offset = const Slot::$name as usize * size_of::<*mut ()>(),
                    );
                }
            )*
        }
    };
}
with_driver_symbols!(define_slots);

/// What [`load`] found.
#[derive(Debug)]
pub struct Driver {
    /// Names of `cust_raw`'s functions that this driver lacks: later or earlier versions of it have them.
    pub missing: Vec<&'static str>,
}

/// Opens `libcuda.so.1` and fills the table, once a process; later calls return the first one's answer.
///
/// # Errors
/// Why there is no driver: the dynamic loader's words, or that the library found lacks `cuInit`.
pub fn load() -> Result<&'static Driver, String> {
    static LOADED: OnceLock<Result<Driver, String>> = OnceLock::new();
    LOADED.get_or_init(bind).as_ref().map_err(Clone::clone)
}

fn bind() -> Result<Driver, String> {
    // SAFETY: the NVIDIA driver's library runs initialisers that are meant for any process.
    let library = unsafe { libloading::Library::new("libcuda.so.1") }
        .map_err(|e| format!("the NVIDIA driver's library cannot be loaded: {}", loader_words(&e)))?;
    let mut missing = Vec::new();
    let mut found = Vec::with_capacity(NAMES.len());
    for &name in NAMES {
        // SAFETY: only the address is taken; `cust_raw` declares the type that calls go through.
        match unsafe { library.get::<*mut c_void>(name) } {
            Ok(symbol) => found.push(*symbol),
            Err(_) => {
                missing.push(name);
                found.push(not_found as *mut c_void);
            }
        }
    }
    if missing.contains(&"cuInit") {
        return Err("libcuda.so.1 was found but has no cuInit: it is not the NVIDIA driver's library".into());
    }
    for (slot, address) in SLOTS.iter().zip(found) {
        slot.store(address, Ordering::Release);
    }
    std::mem::forget(library); // the table points into it for the rest of the process
    Ok(Driver { missing })
}

/// The dynamic loader's own sentence, which libloading keeps as the error's source.
fn loader_words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
