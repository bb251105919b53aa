//! Panics: a kernel that panics must end with an error for the host, within its time and without storing anything.

use super::{BOUNDS, ProbeParams};
use cuda_std::{global, kernel};

/// Writes `2 * table[input[0]]` of a table of four; an index of four or more is a panic.
///
/// # Safety
/// One thread; `input` and `output` hold a word.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_panic_index(p: ProbeParams) {
    let table = [3u32, 1, 4, 1];
    // SAFETY: a word each, by contract.
    unsafe {
        let index = global::load(p.input) as usize;
        global::store(p.output, 2 * table[index]);
    }
}

/// Writes `100 / input[0]`; 0 is a panic, by the unwrapping of None.
///
/// # Safety
/// One thread; `input` and `output` hold a word.
#[kernel]
#[launch_bounds(BOUNDS)]
#[expect(clippy::unwrap_used, reason = "the panic is what this kernel is for")]
pub unsafe fn probe_panic_unwrap(p: ProbeParams) {
    // SAFETY: a word each, by contract.
    unsafe { global::store(p.output, 100u32.checked_div(global::load(p.input)).unwrap()) }
}
