//! Capture and replay.

use super::{child, device};
use varve::backend::{BackendError, Buffer, Device, EmulatorConfig, Launch, Stream};
use varve_gpu::probe::{ProbeParams, memory};

/// One step: `b` = the 64 rows of `a` in reverse order, on the stream.
fn reverse(s: &Stream, a: &Buffer<u32>, b: &mut Buffer<u32>) -> Result<(), BackendError> {
    let params = ProbeParams { input: a.as_ptr(), output: b.as_mut_ptr() };
    // SAFETY: one block of 64 threads; both buffers hold 64 rows of 8 words, and nothing else uses them.
    Ok(unsafe { s.launch(&memory::PROBE_SHARED_VECTOR, Launch::new(1, 64), params) }?)
}

fn rows(first: u32) -> Vec<u32> {
    (first..first + 512).collect()
}

fn reversed(data: &[u32]) -> Vec<u32> {
    data.chunks(8).rev().flatten().copied().collect()
}

#[test]
fn a_captured_graph_runs_when_it_is_launched_and_sees_the_memory_of_then() {
    let device = device();
    let s = device.stream().unwrap();
    let (mut a, mut b) = (device.upload(&rows(0)).unwrap(), device.upload(&[9u32; 512]).unwrap());
    let graph = s
        .capture(|s| {
            reverse(s, &a, &mut b)?;
            a.copy_from_on(s, &b)
        })
        .unwrap();
    assert_eq!(graph.steps(), 2);
    assert_eq!(b.read().unwrap(), [9; 512], "nothing runs during the capture");
    for n in 1..=5 {
        graph.launch(&s).unwrap();
        s.synchronize().unwrap();
        let want = if n % 2 == 1 { reversed(&rows(0)) } else { rows(0) };
        assert_eq!(a.read().unwrap(), want, "launch {n}");
    }
    a.write(&rows(1000)).unwrap();
    graph.launch(&device.stream().unwrap()).unwrap();
    assert_eq!(b.read().unwrap(), reversed(&rows(1000)), "on another stream");
}

#[test]
fn fills_are_captured_too() {
    let device = device();
    let s = device.stream().unwrap();
    let mut a = device.upload(&[1u32; 100]).unwrap();
    let graph = s.capture(|s| a.fill_bytes_on(s, 0xab)).unwrap();
    assert_eq!((graph.steps(), a.read().unwrap()), (1, vec![1; 100]));
    graph.launch(&s).unwrap();
    assert_eq!(a.read().unwrap(), [0xabab_abab; 100]);
}

#[test]
fn memory_of_a_graph_outlives_its_buffers() {
    let device = device();
    if !device.caps().is_emulator && !child::is_child() {
        // The tests of this process share the card, and the count with it.
        child::passed(&child::run("graphs::memory_of_a_graph_outlives_its_buffers", &[]));
        return;
    }
    let s = device.stream().unwrap();
    let a = device.upload(&rows(0)).unwrap();
    let mut b = device.alloc::<u32>(512).unwrap();
    let graph = s.capture(|s| reverse(s, &a, &mut b)).unwrap();
    drop(a);
    assert_eq!(device.allocations_held_by_graphs(), 1);
    let later = device.upload(&rows(5000)).unwrap(); // must not get the memory of `a`
    drop(device.alloc::<u32>(1).unwrap());
    assert_eq!(device.allocations_held_by_graphs(), 1, "what came after the capture is freed at once");
    graph.launch(&s).unwrap();
    assert_eq!(b.read().unwrap(), reversed(&rows(0)));
    drop(graph);
    assert_eq!(device.allocations_held_by_graphs(), 0);
    drop(later);
}

#[test]
fn a_capture_refuses_what_waits_for_the_device() {
    let device = device();
    let s = device.stream().unwrap();
    let mut a = device.upload(&[1u32, 2]).unwrap();
    let graph = s
        .capture(|s| {
            assert!(matches!(a.read(), Err(BackendError::Capturing { .. })));
            assert!(matches!(a.read_on(s), Err(BackendError::Capturing { .. })));
            assert!(matches!(a.write(&[3, 4]), Err(BackendError::Capturing { .. })));
            assert!(matches!(a.write_on(s, &[3, 4]), Err(BackendError::Capturing { .. })));
            assert!(matches!(s.synchronize(), Err(BackendError::Capturing { .. })));
            assert!(matches!(device.synchronize(), Err(BackendError::Capturing { .. })));
            assert!(s.capture(|_| Ok::<_, BackendError>(())).is_err(), "captures do not nest");
            let fresh = device.alloc::<u32>(10)?; // allocating is fine, and so is dropping
            drop(fresh);
            a.fill_bytes_on(s, 0)
        })
        .unwrap();
    assert_eq!(a.read().unwrap(), [1, 2]);
    graph.launch(&s).unwrap();
    assert_eq!(a.read().unwrap(), [0, 0]);
    let text = BackendError::Capturing { call: "Buffer::read" }.to_string();
    assert!(text.contains("not possible while a graph is captured"), "{text}");
}

#[test]
fn a_capture_that_fails_or_panics_leaves_a_usable_stream() {
    #[derive(Debug)]
    enum Failure {
        Own,
        Backend(#[allow(dead_code)] BackendError), // for the message of a failed `unwrap`
    }
    impl From<BackendError> for Failure {
        fn from(error: BackendError) -> Self {
            Self::Backend(error)
        }
    }
    let device = device();
    let s = device.stream().unwrap();
    let mut a = device.upload(&[1u32; 8]).unwrap();
    let failed = s.capture(|s| {
        a.fill_bytes_on(s, 2)?;
        Err(Failure::Own)
    });
    assert!(matches!(failed, Err(Failure::Own)));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = s.capture::<BackendError>(|_| panic!("within a capture"));
    }));
    assert!(panicked.is_err());
    a.fill_bytes_on(&s, 3).unwrap();
    assert_eq!(a.read().unwrap(), [0x0303_0303; 8], "runs at once again");
    assert!(s.capture(|s| a.fill_bytes_on(s, 4)).is_ok());
}

#[test]
fn an_empty_graph_is_a_graph() {
    let device = device();
    let s = device.stream().unwrap();
    let graph = s.capture(|_| Ok::<_, BackendError>(())).unwrap();
    assert_eq!(graph.steps(), 0);
    graph.launch(&s).unwrap();
    s.synchronize().unwrap();
}

#[test]
fn a_graph_stays_on_its_device_and_does_not_nest() {
    let device = device();
    let s = device.stream().unwrap();
    let graph = s.capture(|_| Ok::<_, BackendError>(())).unwrap();
    let other = Device::emulator(EmulatorConfig::default()).stream().unwrap();
    assert!(matches!(graph.launch(&other), Err(BackendError::OtherDevice { .. })));
    let nested = s.capture(|s| graph.launch(s));
    assert!(matches!(nested, Err(BackendError::Capturing { call: "Graph::launch" })));
}

#[test]
fn captures_of_several_threads_take_turns() {
    let device = device();
    std::thread::scope(|scope| {
        for t in 0..4u32 {
            let device = device.clone();
            scope.spawn(move || {
                let s = device.stream().unwrap();
                for n in 0..20 {
                    let mut a = device.upload(&[t; 300]).unwrap();
                    let graph = s.capture(|s| a.fill_bytes_on(s, n)).unwrap();
                    assert_eq!(a.read().unwrap(), [t; 300]);
                    graph.launch(&s).unwrap();
                    assert_eq!(a.read_on(&s).unwrap(), [u32::from(n) * 0x0101_0101; 300]);
                }
            });
        }
    });
    if device.caps().is_emulator {
        assert_eq!(device.allocations_held_by_graphs(), 0); // other tests share a card
    }
}
