//! A kernel that panics: the host gets an error that names the kernel, soon, and nothing was stored.
//!
//! On a card the trap ends the process's context, so each such launch has a process of its own: this test program again,
//! with one test and `VARVE_PANIC_CHILD` set.

use crate::rig::{Rig, UNWRITTEN, rigs};
use cuda_std::launch::Kernel;
use std::process::Command;
use std::time::{Duration, Instant};
use varve::backend::Launch;
use varve_gpu::probe::{ProbeParams, panic::*};

const CHILD: &str = "VARVE_PANIC_CHILD";

#[test]
fn kernels_that_could_panic_work_when_they_need_not() {
    for rig in rigs() {
        assert_eq!(rig.words(&PROBE_PANIC_INDEX, Launch::new(1, 1), &[2], &[UNWRITTEN]), [8], "{rig}");
        assert_eq!(rig.words(&PROBE_PANIC_UNWRAP, Launch::new(1, 1), &[7], &[UNWRITTEN]), [14], "{rig}");
    }
}

#[test]
fn an_index_out_of_range_is_an_error_of_the_kernel() {
    ends_with_an_error("panics::an_index_out_of_range_is_an_error_of_the_kernel", &PROBE_PANIC_INDEX, 4);
}

#[test]
fn an_unwrapped_none_is_an_error_of_the_kernel() {
    ends_with_an_error("panics::an_unwrapped_none_is_an_error_of_the_kernel", &PROBE_PANIC_UNWRAP, 0);
}

fn ends_with_an_error(test: &str, kernel: &'static Kernel<ProbeParams>, input: u32) {
    for rig in rigs() {
        if rig.device.caps().is_emulator || std::env::var_os(CHILD).is_some() {
            fails(&rig, kernel, input);
        } else {
            let program = std::env::current_exe().unwrap();
            let child = Command::new(program).args(["--exact", test, "--nocapture"]).env(CHILD, "1").output().unwrap();
            let text = String::from_utf8_lossy(&child.stdout);
            assert!(
                child.status.success() && text.contains("1 passed"),
                "{rig}: {text}{}",
                String::from_utf8_lossy(&child.stderr)
            );
        }
    }
}

fn fails(rig: &Rig, kernel: &'static Kernel<ProbeParams>, input: u32) {
    let (input, mut output) = (rig.upload(&[input]), rig.upload(&[UNWRITTEN]));
    let params = ProbeParams { input: input.as_ptr(), output: output.as_mut_ptr() };
    let start = Instant::now();
    let error = rig.try_launch(kernel, Launch::new(1, 1), params).expect_err("a panic must be an error");
    assert!(start.elapsed() < Duration::from_secs(1), "{rig}: {:?}", start.elapsed());
    assert!(error.contains(kernel.symbol()), "{rig}: the error does not name the kernel: {error}");
    if rig.device.caps().is_emulator {
        assert_eq!(output.read().unwrap(), [UNWRITTEN], "{rig}");
    }
}
