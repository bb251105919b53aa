//! PTX that the driver refuses: the message has the JIT log, the versions and the kernel.

use super::card;
use varve::backend::{BackendError, Device};

fn refused(device: &Device, ptx: &str) -> String {
    let error = device.try_ptx("test.ptx", ptx).unwrap_err();
    assert!(matches!(error, BackendError::Module(_)), "{error:?}");
    let text = error.to_string();
    eprintln!("{text}\n");
    text
}

fn ptx(version: &str, target: &str, body: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n\n.visible .entry jit_test()\n{{\n    {body}\n}}\n"
    )
}

#[test]
fn a_refused_module_says_why() {
    let Some(device) = card("a_refused_module_says_why") else { return };
    device.try_ptx("test.ptx", &ptx("7.0", "sm_75", "ret;")).unwrap();

    let driver = device.caps().driver.clone();
    let text = refused(&device, &ptx("99.0", "sm_80", "ret;"));
    for part in [".version 99.0, .target sm_80", "PTX 99.0 needs a later driver", &driver, "`jit_test`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = refused(&device, &ptx("7.0", "sm_75", "nonsense.b32 %r0;"));
    assert!(text.contains("JIT log:") && text.contains("`jit_test`") && text.contains("line 7"), "{text}");
    let text = refused(&device, &ptx("7.0", "sm_99", "ret;"));
    assert!(text.contains(".target sm_99"), "{text}");
    device.upload(&[1u8]).unwrap().read().unwrap();
}
