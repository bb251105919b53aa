//! Launches: parameters arrive, limits are named, architecture and occupancy are known.

use super::{card, device};
use cuda_std::{global, kernel, launch::Bounds, thread};
use std::collections::HashMap;
use varve::backend::{
    BackendError, Device, EmulatorConfig, Launch, LaunchError, Resources, Stream, embedded_for, entries, known_card,
};
use varve_gpu::probe::{ProbeParams, copy, index, memory};

#[test]
fn every_thread_runs_once_with_its_indices() {
    let device = device();
    let s = device.stream().unwrap();
    let launch = Launch { grid: [2, 3, 2], block: [4, 2, 3], dynamic_shared: 0 };
    let mut output = device.alloc::<u32>(12 * 24 * index::INDEX_RESULTS).unwrap();
    let params = ProbeParams { input: std::ptr::null(), output: output.as_mut_ptr() };
    // SAFETY: a row for each of the 12 blocks of 24 threads.
    unsafe { s.launch(&index::PROBE_INDEX, launch, params).unwrap() };
    let rows = output.read().unwrap();
    let mut row = rows.chunks(index::INDEX_RESULTS);
    for block in 0..12u32 {
        for t in 0..24u32 {
            let b = [block % 2, block / 2 % 3, block / 6];
            let want = [[t % 4, t / 4 % 2, t / 8], b, [4, 2, 3], [2, 3, 2]].concat();
            assert_eq!(row.next().unwrap(), want, "block {block}, thread {t}");
        }
    }
}

#[test]
fn parameters_are_passed_by_value_with_their_gaps() {
    let device = device();
    let s = device.stream().unwrap();
    let mut output = device.alloc::<u32>(7).unwrap();
    let words = memory::Words4([3, 4, 5, 6]);
    let params = memory::FieldsParams { word: 1, long: 0x8877_6655_4433_2211, words, output: output.as_mut_ptr() };
    // SAFETY: one thread and seven words.
    unsafe { s.launch(&memory::PROBE_FIELDS, Launch::new(1, 1), params).unwrap() };
    assert_eq!(output.read_on(&s).unwrap(), [1, 0x4433_2211, 0x8877_6655, 3, 4, 5, 6]);
}

#[test]
fn dynamic_shared_memory_is_there_also_beyond_48_kib() {
    let device = device();
    let s = device.stream().unwrap();
    let data: Vec<u32> = (0..64 * 8).collect();
    let input = device.upload(&data).unwrap();
    let want: Vec<u32> = data.chunks(8).rev().flatten().copied().collect();
    let optin = device.caps().shared_optin_bytes;
    for dynamic_shared in [memory::DYNAMIC_BYTES, 49_152, optin - 1024, memory::DYNAMIC_BYTES] {
        let mut output = device.alloc::<u32>(64 * 8).unwrap();
        let params = ProbeParams { input: input.as_ptr(), output: output.as_mut_ptr() };
        // SAFETY: one block of 64 threads with at least the dynamic bytes that the kernel uses.
        unsafe {
            s.launch(&memory::PROBE_SHARED_DYNAMIC, Launch { dynamic_shared, ..Launch::new(1, 64) }, params).unwrap()
        };
        assert_eq!(output.read().unwrap(), want, "{dynamic_shared} bytes");
    }
}

/// Launches the index probe, which must be refused, and returns the error's text.
fn refusal(s: &Stream, launch: Launch) -> String {
    let params = ProbeParams { input: std::ptr::null(), output: std::ptr::null_mut() };
    // SAFETY: the launch is refused: no thread runs.
    unsafe { s.launch(&index::PROBE_INDEX, launch, params) }.expect_err("beyond the limits").to_string()
}

#[test]
fn a_launch_beyond_the_limits_names_kernel_grid_block_and_shared_bytes() {
    let device = device();
    let s = device.stream().unwrap();
    let text = refusal(&s, Launch::new(7, 1025));
    assert_eq!(
        text,
        format!(
            "kernel `probe_index` (grid 7 x 1 x 1, block 1025 x 1 x 1, 0 B dynamic shared): block x is 1025, the limit \
             is 1024 on {}",
            device.spec()
        )
    );
    let text = refusal(&s, Launch { dynamic_shared: 300 << 10, ..Launch::new(1, 32) });
    assert!(text.contains("kernel `probe_index`") && text.contains("307200 B dynamic shared"), "{text}");
    assert!(text.contains("dynamic shared memory in bytes is 307200, the limit is "), "{text}");
    let text = refusal(&s, Launch { grid: [1, 65_536, 1], ..Launch::new(1, 32) });
    assert!(text.contains("grid y is 65536, the limit is 65535"), "{text}");
    let text = refusal(&s, Launch::new(1, 257));
    assert!(text.contains("(by the kernel's launch bounds) is 257, the limit is 256"), "{text}");
    let text = refusal(&s, Launch::new(0, 32));
    assert!(text.contains("grid x is 0, the limit is 1"), "{text}");

    // None of that is blamed on the next call.
    s.synchronize().unwrap();
    parameters_are_passed_by_value_with_their_gaps();
}

#[test]
fn a_kernel_for_later_cards_is_refused_by_name() {
    let device = Device::emulator(EmulatorConfig { caps: known_card("T4"), ..EmulatorConfig::default() });
    let s = device.stream().unwrap();
    let params = ProbeParams { input: std::ptr::null(), output: std::ptr::null_mut() };
    // SAFETY: the launch is refused: no thread runs.
    let refused = unsafe { s.launch(&copy::PROBE_COPY_PIPELINE, Launch::new(1, 32), params) };
    assert!(matches!(&refused, Err(LaunchError::NeedsNewer { needs: 80, module: 75, .. })), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("`probe_copy_pipeline`") && text.contains("compute capability 7.5"), "{text}");
    assert_eq!(device.blocks_per_sm(&copy::PROBE_COPY_PIPELINE, 32, 0).unwrap(), 0);
    assert!(device.caps().is_emulator);
}

#[test]
fn occupancy_has_an_answer_for_every_block() {
    let device = device();
    let kernel = &memory::PROBE_SHARED_DYNAMIC;
    let optin = device.caps().shared_optin_bytes;
    let plain = device.blocks_per_sm(kernel, 64, memory::DYNAMIC_BYTES).unwrap();
    let large = device.blocks_per_sm(kernel, 64, 60_000).unwrap();
    assert!(plain > large && large >= 1, "{plain} blocks, {large} with 60,000 bytes each");
    assert_eq!(device.blocks_per_sm(kernel, 64, 60_000).unwrap(), large, "from the cache");
    assert_eq!(device.blocks_per_sm(kernel, 64, optin + 1).unwrap(), 0);
    assert_eq!(device.blocks_per_sm(kernel, 65, 0).unwrap(), 0, "more threads than the bounds");
}

#[test]
fn a_faked_card_estimates_occupancy_from_given_resources() {
    let resources = Resources { registers: 168, static_shared_bytes: 0 };
    let device = Device::emulator(EmulatorConfig {
        caps: known_card("RTX 4090"),
        resources: HashMap::from([("probe_index".to_owned(), resources)]),
        ..EmulatorConfig::default()
    });
    // 168 registers: 5,376 a warp, 3 warps a quarter of the file, 12 warps, 3 blocks of 4 warps.
    assert_eq!(device.blocks_per_sm(&index::PROBE_INDEX, 128, 0).unwrap(), 3);
    assert_eq!(device.blocks_per_sm(&index::PROBE_INDEX, 128, 60_000).unwrap(), 1);
}

/// A kernel of the test program: no module holds it.
///
/// # Safety
/// `p.output` holds a word for each thread of one block.
#[kernel]
#[launch_bounds(Bounds { threads: 64, min_blocks: 1 })]
pub unsafe fn test_double_index(p: ProbeParams) {
    let t = thread::thread_idx_x();
    // SAFETY: one word a thread, by contract.
    unsafe { global::store(p.output.add(t as usize), 2 * t) }
}

#[test]
fn a_kernel_that_is_in_no_module_runs_on_the_emulator_alone() {
    let device = device();
    let s = device.stream().unwrap();
    let mut output = device.alloc::<u32>(64).unwrap();
    let params = ProbeParams { input: std::ptr::null(), output: output.as_mut_ptr() };
    // SAFETY: 64 words for 64 threads.
    let outcome = unsafe { s.launch(&TEST_DOUBLE_INDEX, Launch::new(1, 64), params) };
    if device.caps().is_emulator {
        outcome.unwrap();
        assert_eq!(output.read().unwrap(), (0..64).map(|t| 2 * t).collect::<Vec<u32>>());
    } else {
        assert!(matches!(outcome, Err(LaunchError::NotInModule { .. })), "{outcome:?}");
        assert_eq!(device.blocks_per_sm(&TEST_DOUBLE_INDEX, 64, 0).unwrap(), 0);
    }
}

#[test]
fn the_emulator_reports_an_access_beyond_a_buffer() {
    let device = Device::emulator(EmulatorConfig::default());
    let s = device.stream().unwrap();
    let mut output = device.alloc::<u32>(63).unwrap();
    let params = ProbeParams { input: std::ptr::null(), output: output.as_mut_ptr() };
    // SAFETY: not kept: the last thread writes beyond the buffer, which the emulator stops.
    let outcome = unsafe { s.launch(&TEST_DOUBLE_INDEX, Launch::new(1, 64), params) };
    assert!(matches!(outcome, Err(LaunchError::Fault { .. })), "{outcome:?}");
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("`test_double_index`") && text.contains("thread (63, 0, 0)"), "{text}");
}

#[test]
fn the_schedule_is_the_configured_one_and_changes_no_result() {
    for seed in [0, 1, 99] {
        let device = Device::emulator(EmulatorConfig { seed, races: true, workers: 1, ..EmulatorConfig::default() });
        let s = device.stream().unwrap();
        let input = device.upload(&[5u32, 6]).unwrap();
        let mut output = device.alloc::<u32>(512).unwrap();
        let params = ProbeParams { input: input.as_ptr(), output: output.as_mut_ptr() };
        // SAFETY: two blocks of 256 threads, a word a block and a word a thread.
        unsafe { s.launch(&memory::PROBE_SHARED_REVERSE, Launch::new(2, 256), params).unwrap() };
        let want: Vec<u32> = [5, 6].iter().flat_map(|w| (0..256).map(move |t| 255 - t + w)).collect();
        assert_eq!(output.read().unwrap(), want, "seed {seed}");
    }
}

#[test]
fn a_card_runs_the_module_of_its_compute_capability() {
    let Some(device) = card("the module of the compute capability") else { return };
    let module = embedded_for(device.caps()).unwrap();
    assert!(entries(module.ptx).any(|e| e == "probe_index"), "{} has no probe_index", module.file);
    eprintln!("{:?} runs {}", device.caps(), module.file);
    let (free, total) = device.memory_info().unwrap();
    assert!(free > 0 && free <= total);
}

#[test]
fn what_needs_a_card_says_so() {
    let device = Device::emulator(EmulatorConfig::default());
    assert!(matches!(device.memory_info(), Err(BackendError::NeedsCuda { .. })));
    let text = device.try_ptx("x", "").unwrap_err().to_string();
    assert_eq!(text, "emulator: Device::try_ptx needs a CUDA device");
}
