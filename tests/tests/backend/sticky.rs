//! A kernel that fails is named, not the innocent call that finds out.

use super::{child, device};
use varve::backend::{BackendError, Launch, LaunchError};
use varve_gpu::probe::{ProbeParams, index, panic};

#[test]
fn a_kernel_that_traps_is_named() {
    if !child::is_child() {
        // A trap ends a card's context, which all tests of a process share.
        child::passed(&child::run("sticky::a_kernel_that_traps_is_named", &[]));
        return;
    }
    let device = device();
    let s = device.stream().unwrap();
    let input = device.upload(&[4u32]).unwrap(); // the table has four entries
    let mut output = device.upload(&[7u32]).unwrap();
    let mut rows = device.alloc::<u32>(64 * index::INDEX_RESULTS).unwrap();
    let params = ProbeParams { input: input.as_ptr(), output: output.as_mut_ptr() };
    let innocent = ProbeParams { input: std::ptr::null(), output: rows.as_mut_ptr() };
    // SAFETY: a row for each of 64 threads.
    unsafe { s.launch(&index::PROBE_INDEX, Launch::new(1, 64), innocent).unwrap() };
    // SAFETY: one thread and a word each.
    let outcome = unsafe { s.launch(&panic::PROBE_PANIC_INDEX, Launch::new(1, 1), params) };
    if device.caps().is_emulator {
        assert!(matches!(outcome, Err(LaunchError::Fault { .. })), "{outcome:?}");
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("kernel `probe_panic_index`") && text.contains("panic"), "{text}");
        assert_eq!(output.read().unwrap(), [7], "and the emulator goes on");
        return;
    }
    outcome.unwrap();
    let error = s.synchronize().unwrap_err();
    let BackendError::Lost(lost) = &error else { panic!("{error:?}") };
    assert_eq!(lost.recent().len(), 2);
    let text = error.to_string();
    let (culprit, before) = (text.find("`probe_panic_index`").unwrap(), text.find("`probe_index`").unwrap());
    assert!(culprit < before, "the last launch first: {text}");
    eprintln!("{text}");
    // Everything after it says the same.
    let again = output.read().unwrap_err();
    assert_eq!(again.to_string(), text);
    // SAFETY: as above.
    let refused = unsafe { s.launch(&index::PROBE_INDEX, Launch::new(1, 64), innocent) };
    assert!(matches!(&refused, Err(LaunchError::Lost { .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("`probe_panic_index`"));
}
