//! Variants in several launches: passes over tokens, groups of sequences, scratch. The kernels here are small stand-ins for
//! a chunked recurrence whose results say which pass and slot they came from.

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_x};
use cuda_std::{global, kernel};
use varve::backend::{BackendError, Device, EmulatorConfig, Launch, Stream, View};
use varve::ops::delta_passes::{Beside, CHUNK, Passes, fits, steps};
use varve::ops::dispatch::{Dispatch, Needs, OpError, Pick, Preferred, Staged, Step, Table, Variant};
use varve::ops::{DeltaSizes, exactness::Exactness};
use varve_gpu::delta::RecParams;

const BOUNDS: Bounds = Bounds { threads: 1, min_blocks: 1 };
const HEADS: usize = 1;
/// Chunks of a pass.
const SLOTS: usize = 64;

/// Puts the number of each chunk's first token, plus one, into its slot.
///
/// # Safety
/// Grid and scratch as `delta_passes` says.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_prep(p: RecParams) {
    let chunks = grid_dim_x() / p.key_heads;
    let chunk = block_idx_x() % chunks;
    assert_eq!(chunks, p.span / CHUNK as u32);
    let slot = (block_idx_y() * chunks + chunk) as usize;
    assert!(slot < SLOTS);
    // SAFETY: the scratch has `SLOTS` elements here.
    unsafe { global::store(p.scratch.add(slot), (1 + p.first + chunk * CHUNK as u32) as f32) };
}

/// y of a token is the tokens of its sequence that came before it, plus a thousand times what its chunk's slot holds.
///
/// # Safety
/// As above; y and state as `RecParams` says.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_scan(p: RecParams) {
    let slots = (block_idx_y() * (p.span / CHUNK as u32)) as usize;
    // SAFETY: the grid's y is a sequence; every address is that of a token of it, its state or a slot of its.
    unsafe {
        let p = p.of_block();
        let mut before = global::load(p.state);
        for t in 0..p.tokens as usize {
            let slot = global::load(p.scratch.add(slots + t / CHUNK));
            global::store(p.y.add(t * p.y_stride as usize), before + 1000.0 * slot);
            before += 1.0;
        }
        global::store(p.state, before);
    }
}

const PASSES_BY: Passes = Passes { slots: SLOTS, prep: &PROBE_PREP, beside: None };
/// Two passes under way, in two parts of the scratch.
const BESIDE_BY: Passes = Passes { beside: Some(Beside { part: SLOTS, first: 512 }), ..PASSES_BY };

static PASSES: Table<DeltaSizes, RecParams> = Table {
    op: "probe",
    rows: &[
        Variant {
            name: "passes",
            kernel: |ask| fits(ask, SLOTS).map(|()| &PROBE_SCAN),
            launch: |_| Launch::new(1, 1),
            staged: Some(Staged {
                scratch_floats: |_| SLOTS,
                steps: |ask, scan, scratch| steps(ask, PASSES_BY, scan, scratch),
            }),
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "beside",
            kernel: |ask| fits(ask, SLOTS).map(|()| &PROBE_SCAN),
            launch: |_| Launch::new(1, 1),
            staged: Some(Staged {
                scratch_floats: |_| 2 * SLOTS,
                steps: |ask, scan, scratch| steps(ask, BESIDE_BY, scan, scratch),
            }),
            needs: Needs::ANY,
            preferred: Preferred::OptIn,
            exactness: Exactness::Bitwise,
        },
        Variant {
            staged: Some(Staged {
                scratch_floats: |_| usize::MAX,
                steps: |_, _, _| unreachable!("there is no such scratch"),
            }),
            ..Variant::base("too_much", |_| Ok(&PROBE_SCAN), |_| Launch::new(1, 1))
        },
        Variant::base(
            "base",
            |_| Ok(&PROBE_BASE),
            |ask| Launch { grid: [1, ask.sequences as u32, 1], ..Launch::new(1, 1) },
        ),
    ],
};

/// What `probe_scan` leaves, without scratch.
///
/// # Safety
/// As above.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn probe_base(p: RecParams) {
    // SAFETY: as above.
    unsafe {
        let p = p.of_block();
        for t in 0..p.tokens as usize {
            let chunk = (t / CHUNK * CHUNK) as f32;
            global::store(p.y.add(t * p.y_stride as usize), t as f32 + 1000.0 * (1.0 + chunk));
        }
        global::store(p.state, p.tokens as f32);
    }
}

/// y and the first element of each state.
type Found = (Vec<f32>, Vec<f32>);

/// Runs sequences of these lengths.
fn run(device: &Device, by: Pick<'_>, lengths: &[usize]) -> Result<Found, OpError> {
    // SAFETY: `with` gives what the table's kernels ask for.
    with(device, lengths, |stream, sizes, params| unsafe { PASSES.enqueue(by, stream, sizes, params).map(drop) })
}

/// Lets `work` launch over sequences of these lengths.
fn with(
    device: &Device,
    lengths: &[usize],
    work: impl FnOnce(&Stream, &DeltaSizes, RecParams) -> Result<(), OpError>,
) -> Result<Found, OpError> {
    let tokens = lengths.iter().sum::<usize>();
    let starts: Vec<u32> = lengths.iter().fold(vec![0], |mut starts, &n| {
        starts.push(starts[starts.len() - 1] + n as u32);
        starts
    });
    let single = DeltaSizes::single(HEADS, HEADS, tokens);
    let sizes = DeltaSizes { sequences: lengths.len(), longest: *lengths.iter().max().unwrap(), ..single };
    let stream = device.stream().unwrap();
    let starts = device.upload(&starts).unwrap();
    let mut state = device.upload(&vec![0.0f32; sizes.sequences * sizes.state_len()]).unwrap();
    let mut y = device.alloc::<f32>(tokens).unwrap();
    let view: View<'_, u32, 1> = starts.view([lengths.len() + 1]).unwrap();
    let params = RecParams {
        qkv: std::ptr::null(),
        gate: std::ptr::null(),
        beta: std::ptr::null(),
        state: state.as_mut_ptr(),
        y: y.as_mut_ptr(),
        starts: if lengths.len() == 1 { std::ptr::null() } else { view.ptr() },
        scratch: std::ptr::null_mut(),
        tokens: tokens as u32,
        qkv_stride: 0,
        gate_stride: 0,
        beta_stride: 0,
        y_stride: 1,
        key_heads: 1,
        value_heads: 1,
        keep_state: 0,
        sequences: lengths.len() as u32,
        first: 0,
        span: sizes.longest as u32,
        reserved: 0,
    };
    work(&stream, &sizes, params)?;
    let states = state.read().unwrap().chunks(sizes.state_len()).map(|state| state[0]).collect();
    Ok((y.read().unwrap(), states))
}

fn emulator() -> Device {
    Device::emulator(EmulatorConfig::default())
}

#[test]
fn every_token_is_walked_once_by_the_pass_that_prepared_its_chunk() {
    let device = emulator();
    let many: Vec<usize> = (0..130).map(|i| [1, 33, 0, 64, 95][i % 5]).collect();
    for lengths in [&[1][..], &[32], &[33], &[2048], &[2049], &[4099], &[1, 33, 0, 64, 130], &[700, 0, 1023], &many] {
        let base = run(&device, Pick::Named("base"), lengths).unwrap();
        for variant in ["passes", "beside"] {
            assert_eq!(run(&device, Pick::Named(variant), lengths).unwrap(), base, "{variant}, {lengths:?}");
        }
    }
}

#[test]
fn a_captured_call_has_all_its_launches_and_runs_on_any_stream() {
    let (device, lengths) = (emulator(), [70, 2049 - 70]);
    let replayed = with(&device, &lengths, |stream, sizes, params| {
        let captured = stream.capture(|stream| {
            // SAFETY: as in `run`; the graph is launched while its operands live.
            unsafe { PASSES.enqueue(Pick::Named("passes"), stream, sizes, params) }.unwrap();
            Ok::<(), BackendError>(())
        });
        let graph = captured.unwrap();
        assert_eq!(graph.steps(), 4, "two passes of two launches");
        let other = device.stream().unwrap();
        graph.launch(&other).unwrap();
        other.synchronize().unwrap();
        Ok(())
    });
    assert_eq!(replayed.unwrap(), run(&device, Pick::Named("base"), &lengths).unwrap());
}

#[test]
fn passes_cover_the_longest_sequence_and_groups_all_sequences() {
    let shape = |sequences, longest| {
        let sizes = DeltaSizes { sequences, longest, ..DeltaSizes::single(2, 6, sequences * longest) };
        // SAFETY: a plain value of integers and null pointers.
        let params: RecParams = unsafe { std::mem::zeroed() };
        let scan = Step { kernel: &PROBE_SCAN, launch: Launch::new(16, 384), params, early: false };
        let all = steps(&sizes, PASSES_BY, &scan, std::ptr::null_mut());
        all.iter().map(|s| (s.launch.grid, s.params.first, s.params.span, s.params.sequences)).collect::<Vec<_>>()
    };
    let one =
        [([128, 1, 1], 0, 2048, 1), ([16, 1, 1], 0, 2048, 1), ([2, 1, 1], 2048, 32, 1), ([16, 1, 1], 2048, 32, 1)];
    assert_eq!(shape(1, 2049), one, "64 chunks of 2 key heads, then one");
    let three = [([40, 3, 1], 0, 640, 3), ([16, 3, 1], 0, 640, 3), ([2, 3, 1], 640, 32, 3), ([16, 3, 1], 640, 32, 3)];
    assert_eq!(shape(3, 641), three, "five times four chunks of each sequence, then one");
    let groups: Vec<_> = shape(33, 140).into_iter().step_by(2).collect();
    let (whole, rest) = (([8, 16, 1], 0, 128, 16), ([2, 16, 1], 128, 32, 16));
    let wanted = [whole, rest, whole, rest, ([10, 1, 1], 0, 160, 1)];
    assert_eq!(groups, wanted, "16 sequences by four chunks a pass, twice, then the last one in one pass");
}

#[test]
fn passes_that_overlap_grow_and_take_the_parts_of_the_scratch_in_turn() {
    let scratch: *mut f32 = std::ptr::without_provenance_mut(4096);
    let shape = |sizes: DeltaSizes| {
        // SAFETY: a plain value of integers and null pointers.
        let params: RecParams = unsafe { std::mem::zeroed() };
        let scan = Step { kernel: &PROBE_SCAN, launch: Launch::new(16, 384), params, early: false };
        let all = steps(&sizes, BESIDE_BY, &scan, scratch);
        let part = |s: &Step<RecParams>| (s.params.scratch.addr() - scratch.addr()) / 4 / SLOTS;
        all.iter().map(|s| (s.params.first, s.params.span, part(s), s.early)).collect::<Vec<_>>()
    };
    let of = |longest| shape(DeltaSizes::single(2, 6, longest));
    assert_eq!(of(1023), [(0, 1024, 0, false), (0, 1024, 0, false)], "too short for two passes");
    let grown = [(0, 512, 0), (512, 640, 1), (1152, 768, 0), (1920, 1024, 1), (2944, 1280, 0), (4224, 1440, 1)];
    let pairs = grown.map(|(first, span, part)| [(first, span, part, first > 0), (first, span, part, false)]);
    assert_eq!(of(5633), pairs.concat(), "only what prepares starts early, and not in the first pass");
    let kept = DeltaSizes { state_kept: true, ..DeltaSizes::single(2, 6, 2048) };
    assert_eq!(shape(kept).len(), 2, "a state that is kept has one pass");
}

#[test]
fn a_kept_state_needs_one_pass() {
    let kept = |longest| DeltaSizes { state_kept: true, ..DeltaSizes::single(2, 6, longest) };
    assert_eq!(fits(&kept(2048), SLOTS), Ok(()));
    assert!(fits(&kept(2049), SLOTS).unwrap_err().contains("one pass of 2048 tokens must do for 2049"));
    assert_eq!(fits(&DeltaSizes { state_kept: false, ..kept(2049) }, SLOTS), Ok(()));
}

#[test]
fn without_scratch_the_next_row_runs_and_the_log_says_so_once() {
    let device = emulator();
    let error = run(&device, Pick::Named("too_much"), &[5]).unwrap_err();
    assert!(matches!(&error, OpError::Unfit { variant: "too_much", .. }), "{error}");
    assert!(error.to_string().contains("probe/too_much does not run here: no scratch: emulator: "), "{error}");

    let log = varve_tests::log::Log::default();
    let dispatch = Dispatch::new("probe=-passes".parse().unwrap());
    log.of(|| {
        for _ in 0..3 {
            let got = run(&device, Pick::Best(&dispatch), &[5]).unwrap();
            assert_eq!(got, run(&device, Pick::Named("base"), &[5]).unwrap());
        }
    });
    let lines = log.lines();
    assert!(lines.len() == 1 && lines[0].contains("WARN"), "{lines:?}");
    assert!(lines[0].contains("probe/too_much does not run here: no scratch"), "{lines:?}");
}
