//! Without a usable driver `auto` is the emulator and says why, and `cuda:0` is an error that says why.

use super::child;
use std::fs;
use std::path::PathBuf;
use varve::backend::{BackendError, Device, DeviceSpec, driver_slots};
use varve_tests::log::Log;

/// A folder with a `libcuda.so.1` that is no library: the loader finds it before the real one and gives up.
fn folder_without_driver() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("varve-no-driver-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("libcuda.so.1"), "").unwrap();
    folder
}

#[test]
fn a_machine_without_a_driver() {
    if !child::is_child() {
        let folder = folder_without_driver();
        let output =
            child::run("no_driver::a_machine_without_a_driver", &[("LD_LIBRARY_PATH", folder.to_str().unwrap())]);
        fs::remove_dir_all(&folder).unwrap();
        child::passed(&output);
        return;
    }
    // Before anything asks for the driver, its functions answer "no device".
    assert_eq!(cust::init(cust::CudaFlags::empty()).unwrap_err(), cust::error::CudaError::NoDevice);
    let why = driver_slots::load().unwrap_err();
    assert!(why.contains("libcuda.so.1"), "{why}");
    assert_eq!(cust::device::Device::num_devices().unwrap_err(), cust::error::CudaError::NoDevice);
    assert_eq!(Device::cuda_count().unwrap_err(), why);

    let error = Device::open(&DeviceSpec::Cuda(0)).unwrap_err();
    assert!(matches!(error, BackendError::NoDevice { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("cuda:0: the NVIDIA driver's library cannot be loaded: "), "{text}");
    assert!(
        text.contains("libcuda.so.1") && text.ends_with("`--device emulator` runs everything without a GPU"),
        "{text}"
    );

    let log = Log::default();
    let device = log.of(|| Device::open(&DeviceSpec::Auto).unwrap());
    assert!(device.caps().is_emulator && device.spec() == "emulator");
    assert!(device.fallback().unwrap().contains("libcuda.so.1"));
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "one line: {lines:?}");
    let lines = &lines[0];
    assert!(lines.contains("WARN") && lines.contains("--device auto: using the emulator"), "{lines}");
    assert!(lines.contains("because cuda:0: the NVIDIA driver's library cannot be loaded"), "{lines}");
    assert_eq!(device.upload(&[1.0f32]).unwrap().read().unwrap(), [1.0], "and it works");
}

#[test]
fn a_card_that_is_not_there_is_named() {
    let text = Device::open(&DeviceSpec::Cuda(4096)).unwrap_err().to_string();
    assert!(text.starts_with("cuda:4096: "), "{text}");
    if Device::cuda_count().is_ok_and(|n| n > 0) {
        assert!(text.contains("device(s), counted from 0"), "{text}");
    }
}
