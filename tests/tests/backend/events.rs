//! Events: time goes forward, streams wait, launches are timed.

use std::sync::Arc;

use super::device;
use varve::backend::{BackendError, Device, EmulatorConfig, Event, Launch, Profile};
use varve_gpu::probe::{ProbeParams, memory};

#[test]
fn time_between_events_goes_forward() {
    let device = device();
    let s = device.stream().unwrap();
    let mut a = device.alloc::<u8>(1 << 24).unwrap();
    let events: Vec<Event> = (0..4).map(|_| Event::new(&device).unwrap()).collect();
    for event in &events {
        s.record(event).unwrap();
        a.fill_bytes_on(&s, 1).unwrap();
    }
    let steps: Vec<f64> = events.windows(2).map(|w| Event::elapsed_us(&w[0], &w[1]).unwrap()).collect();
    assert!(steps.iter().all(|&us| us > 0.0 && us < 10e6), "{steps:?}");
    let whole = Event::elapsed_us(&events[0], &events[3]).unwrap();
    let sum: f64 = steps.iter().sum();
    assert!((whole - sum).abs() <= 2.0 + 0.01 * sum, "{whole} us in all, {sum} us in steps");
}

#[test]
fn an_event_without_a_record_has_no_time() {
    let device = device();
    let s = device.stream().unwrap();
    let (recorded, other) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    s.record(&recorded).unwrap();
    for (start, end) in [(&recorded, &other), (&other, &recorded)] {
        let error = Event::elapsed_us(start, end).unwrap_err();
        assert!(matches!(error, BackendError::NotRecorded { .. }), "{error}");
    }
    other.synchronize().unwrap();
}

#[test]
fn a_stream_waits_for_anothers_event() {
    let device = device();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let done = Event::new(&device).unwrap();
    let mut a = device.upload(&vec![0u8; 1 << 24]).unwrap();
    let mut b = device.alloc::<u8>(1 << 24).unwrap();
    for n in 1..=4u8 {
        a.fill_bytes_on(&first, n).unwrap();
        first.record(&done).unwrap();
        second.wait(&done).unwrap();
        b.copy_from_on(&second, &a).unwrap();
        second.record(&done).unwrap();
        first.wait(&done).unwrap();
    }
    second.synchronize().unwrap();
    assert!(b.read().unwrap().iter().all(|&v| v == 4));
}

#[test]
fn events_fork_and_join_a_capture() {
    let device = device();
    let (s, side) = (device.stream().unwrap(), device.stream().unwrap());
    let event = Event::new(&device).unwrap();
    let mut a = device.upload(&[0u32; 64]).unwrap();
    let graph = s
        .capture(|s| {
            a.fill_bytes_on(s, 1)?;
            s.record(&event)
        })
        .unwrap();
    graph.launch(&side).unwrap();
    assert_eq!(a.read().unwrap(), [0x0101_0101; 64]);
}

#[test]
fn events_stay_on_their_device() {
    let (device, other) = (device(), Device::emulator(EmulatorConfig::default()));
    let event = Event::new(&other).unwrap();
    let s = device.stream().unwrap();
    assert!(matches!(s.record(&event), Err(BackendError::OtherDevice { .. })));
    assert!(matches!(s.wait(&event), Err(BackendError::OtherDevice { .. })));
}

/// More launches than wait behind one hold, with what lets a hold go in their midst: memory, a copy, an answer.
#[test]
fn a_profile_times_every_launch_and_nothing_waits_for_ever() {
    let device = device();
    let mut s = device.stream().unwrap();
    let profile = Arc::new(Profile::new(&device));
    s.set_profile(profile.clone());
    let numbers: Vec<u32> = (0..512).collect();
    let (mut a, mut b) = (device.upload(&numbers).unwrap(), device.alloc::<u32>(512).unwrap());
    for n in 0..400 {
        let params = ProbeParams { input: a.as_ptr(), output: b.as_mut_ptr() };
        // SAFETY: one block of 64 threads; both buffers hold 64 rows of 8 words, and nothing else uses them.
        unsafe { s.launch(&memory::PROBE_SHARED_VECTOR, Launch::new(1, 64), params) }.unwrap();
        match n {
            10 => drop(device.upload(&[1u32; 9]).unwrap()),
            20 => a.copy_from_on(&s, &b).unwrap(),
            30 => assert_eq!(b.read_on(&s).unwrap()[..8], numbers[..8]),
            _ => {}
        }
    }
    profile.settle().unwrap();
    let costs = profile.take();
    let cost = costs["probe_shared_vector"];
    assert_eq!((costs.len(), cost.launches), (1, 400));
    assert!(cost.us > 0.0 && cost.us < 400.0 * 1e5, "{cost:?}");
    assert!(profile.take().is_empty());
}
