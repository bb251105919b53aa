//! Scratch of streams and of captured graphs.

use super::device;
use varve::backend::{BackendError, Stream};

/// The address of `len` elements of scratch.
fn address(s: &Stream, len: usize) -> usize {
    s.with_scratch(len, <*mut f32>::addr).unwrap()
}

#[test]
fn a_stream_keeps_its_scratch_and_shares_it_with_no_other() {
    let device = device();
    let (s, other) = (device.stream().unwrap(), device.stream().unwrap());
    assert_eq!(s.scratch_len(), 0);
    s.poison_scratch().unwrap();
    let first = address(&s, 64);
    assert_eq!((address(&s, 64), address(&s, 8), s.scratch_len()), (first, first, 64));
    assert_ne!(address(&other, 64), first);
    let larger = address(&s, 4096);
    assert_eq!((address(&s, 64), s.scratch_len()), (larger, 4096));
    s.poison_scratch().unwrap();
}

#[test]
fn what_cannot_be_allocated_leaves_what_there_is() {
    let s = device().stream().unwrap();
    let first = address(&s, 64);
    let error = s.with_scratch(usize::MAX, |_| panic!("there is no such scratch")).unwrap_err();
    assert!(matches!(error, BackendError::OutOfMemory { .. }), "{error}");
    assert_eq!((address(&s, 64), s.scratch_len()), (first, 64));
}

#[test]
fn a_graph_has_scratch_of_its_own_which_lives_as_long() {
    let device = device();
    let s = device.stream().unwrap();
    let plain = address(&s, 64);
    let mut captured = 0;
    let held = device.allocations_held_by_graphs();
    let graph = s.capture(|s| {
        captured = address(s, 64);
        assert_eq!(address(s, 64), captured, "one for the whole graph");
        Ok::<(), BackendError>(())
    });
    assert_ne!(captured, plain);
    assert_eq!(device.allocations_held_by_graphs(), held + 1);
    assert_eq!(address(&s, 64), plain);
    drop(graph.unwrap());
    assert_eq!(device.allocations_held_by_graphs(), held);

    let failed = s.capture(|s| {
        address(s, 64);
        s.synchronize()
    });
    assert!(failed.is_err());
    assert_eq!((device.allocations_held_by_graphs(), address(&s, 64)), (held, plain));
}
