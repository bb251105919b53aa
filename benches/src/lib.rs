//! What the criterion benches share: the device, floors beside groups, and an arm's time as criterion asks for it.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use varve::backend::{Device, DeviceSpec};
use varve::environment::Environment;
use varve::measure::case::Prepared;
use varve::measure::copy::copy_bandwidth;
use varve::measure::paired::alternate;
use varve::measure::plan::Planned;

/// The device that `VARVE_DEVICE` names, else the first card, else the emulator.
///
/// # Panics
/// Where the environment or the device it names is of no use.
pub fn device() -> Device {
    let device = Environment::read()
        .map_err(|e| e.to_string())
        .and_then(|environment| environment.open(None, DeviceSpec::Auto).map_err(|e| e.to_string()));
    let device = device.unwrap_or_else(|error| panic!("no device: {error}"));
    let how =
        if device.caps().is_emulator { "wall time on the emulator, no figures of a GPU" } else { "device events" };
    println!("device: {} ({}), {how}", device.caps().name, device.caps().driver);
    device
}

/// Benches every arm of every case as criterion groups, then prints the table of alternating rounds.
///
/// # Panics
/// Where a case cannot be set up or run: a bench without a figure is a failure.
pub fn family(c: &mut Criterion, device: &Device, plan: &[Planned]) {
    let bandwidth = copy_bandwidth(device).unwrap_or_else(|error| panic!("copy: {error}"));
    println!("copies move {:.0} GB/s", bandwidth / 1e9);
    let mut table = Vec::new();
    for planned in plan {
        let mut case = planned.prepare(device, &[]).unwrap_or_else(|error| panic!("{}: {error}", planned.op()));
        let floor = case.floor();
        let name = format!("{} {} ({})", case.op(), case.case(), case.how());
        println!(
            "{name}: floor {} bytes = {:.2} us at that rate, {} flops",
            floor.bytes,
            floor.bytes_us(bandwidth),
            floor.flops
        );
        let mut group = c.benchmark_group(&name);
        group.throughput(Throughput::Bytes(floor.bytes));
        for arm in 0..case.arms().len() {
            let variant = case.arms()[arm];
            group.bench_function(variant, |b| b.iter_custom(|n| total(case.as_mut(), arm, n)));
        }
        group.finish();
        let rounds = alternate(case.arms().len(), 1, 5, |arm| case.time(arm));
        let times = rounds.unwrap_or_else(|error| panic!("{name}: {error}"));
        for (variant, t) in case.arms().iter().zip(&times) {
            let ratio = times[0].median() / t.median();
            table.push(format!("{name} {variant}: {:.2} us, {ratio:.2}x the base", t.median()));
        }
    }
    println!("alternating rounds, medians of 5:");
    table.iter().for_each(|line| println!("  {line}"));
}

fn total(case: &mut dyn Prepared, arm: usize, launches: u64) -> Duration {
    let mut us = 0.0;
    for _ in 0..launches {
        us += case.time(arm).unwrap_or_else(|error| panic!("{}: {error}", case.op()));
    }
    Duration::from_secs_f64(us * 1e-6)
}
