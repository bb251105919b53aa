//! Rows that are not taken just because they could run: opt-in ones, and those that a measurement must recommend.

use cuda_std::kernel;
use cuda_std::launch::Bounds;
use varve::backend::{Caps, Launch, known_card};
use varve::ops::DeltaSizes;
use varve::ops::card::Card;
use varve::ops::dispatch::{Dispatch, Needs, OpError, Preferred, Reason, Spread, Table, Variant};
use varve::ops::exactness::Exactness;
use varve::ops::tuning::{Measured, Source};
use varve_gpu::delta::{RecParams, rec_cols, rec_keyhead};
use varve_tests::log::Log;
const SOURCE: Source = Source { device: "H200", driver: "", commit: "", date: "", command: "", rule: "" };
const PAYS: &[Measured] = &[Measured { cc: 90, sms: [120, 140], from_tokens: 128, most_sequences: 8, source: SOURCE }];

const fn row(
    name: &'static str,
    preferred: Preferred<DeltaSizes>,
    shared: fn(&DeltaSizes) -> Launch,
) -> Variant<DeltaSizes, RecParams> {
    Variant {
        name,
        kernel: |_| Ok(&rec_keyhead::DELTA_REC_KEYHEAD_VPK3),
        launch: shared,
        staged: None,
        needs: Needs { cc: 80, spread: Spread::Any },
        preferred,
        exactness: Exactness::Rounding { bound: 5e-6, ordinary: 5e-6, derived: "" },
    }
}

static TABLE: Table<DeltaSizes, RecParams> = Table {
    op: "probe",
    rows: &[
        row("loose", Preferred::OptIn, |_| Launch::new(1, 128)),
        row("measured", Preferred::Measured { table: PAYS, size: |ask| [ask.longest, ask.sequences] }, |_| Launch {
            dynamic_shared: 120_000,
            ..Launch::new(1, 128)
        }),
        Variant::base("base", |_| Ok(&rec_cols::DELTA_REC_COLS), |_| Launch::new(1, 128)),
    ],
};

/// A kernel of the module for sm_90a; never launched.
///
/// # Safety
/// None is needed: it does nothing.
#[kernel(sm = 90)]
#[launch_bounds(Bounds { threads: 32, min_blocks: 1 })]
pub unsafe fn probe_hopper(_p: RecParams) {}

static HOPPER: Table<DeltaSizes, RecParams> = Table {
    op: "probe",
    rows: &[
        Variant::base("hopper", |_| Ok(&PROBE_HOPPER), |_| Launch::new(1, 32)),
        Variant::base("base", |_| Ok(&rec_cols::DELTA_REC_COLS), |_| Launch::new(1, 128)),
    ],
};

#[test]
fn a_kernel_for_sm_90a_runs_on_9_0_alone() {
    let chosen = |card: &str| {
        let card = Card(known_card(card).unwrap());
        let rows = HOPPER.explain(&Dispatch::default(), &card, &prompt(64, 1));
        rows[0].reason.as_ref().map(Reason::to_string)
    };
    assert_eq!(chosen("H200"), None);
    for (card, cc) in [("A100", "8.0"), ("RTX 5090", "12.0")] {
        let why = format!("its kernel is in the module for sm_90a only; the device has compute capability {cc}");
        assert_eq!(chosen(card), Some(why));
    }
}

fn h200() -> Caps {
    known_card("H200").unwrap()
}

fn prompt(longest: usize, sequences: usize) -> DeltaSizes {
    DeltaSizes { sequences, longest, ..DeltaSizes::single(16, 48, longest * sequences) }
}

fn chosen(switches: &str, caps: Caps, sizes: &DeltaSizes) -> &'static str {
    TABLE.select(&Dispatch::new(switches.parse().unwrap()), &Card(caps), sizes).unwrap().variant
}

fn reasons(switches: &str, caps: Caps, sizes: &DeltaSizes) -> Vec<String> {
    let rows = TABLE.explain(&Dispatch::new(switches.parse().unwrap()), &Card(caps), sizes);
    rows.iter().map(|row| row.reason.as_ref().map_or("-".to_owned(), Reason::to_string)).collect()
}

#[test]
fn measured_rows_run_where_they_were_measured_to_pay() {
    assert_eq!(chosen("", h200(), &prompt(128, 1)), "measured");
    assert_eq!(chosen("", h200(), &prompt(128, 8)), "measured");
    assert_eq!(chosen("", h200(), &prompt(127, 1)), "base");
    assert_eq!(chosen("", h200(), &prompt(128, 9)), "base");
    assert_eq!(chosen("", Caps { sms: 119, ..h200() }, &prompt(4096, 1)), "base", "another kind of device");
    assert_eq!(chosen("", known_card("A100").unwrap(), &prompt(4096, 1)), "base");
    assert_eq!(chosen("", Caps { is_emulator: true, ..h200() }, &prompt(4096, 1)), "base");
}

#[test]
fn a_switch_overrides_preference_but_not_needs() {
    let short = prompt(1, 1);
    assert_eq!(chosen("probe=measured", h200(), &short), "measured");
    assert_eq!(chosen("probe=loose", h200(), &short), "loose");
    assert_eq!(chosen("probe=measured", known_card("A100").unwrap(), &short), "measured");
    assert_eq!(chosen("probe=measured", Caps { is_emulator: true, ..h200() }, &short), "measured");
    assert_eq!(chosen("probe=measured", known_card("RTX 4090").unwrap(), &short), "base", "99 KiB of shared memory");
    assert_eq!(chosen("probe=loose", known_card("T4").unwrap(), &short), "base", "7.5");
    assert_eq!(chosen("probe=-measured", h200(), &prompt(4096, 1)), "base");
}

#[test]
fn reasons_say_what_would_take_the_row() {
    let opt_in = "opt-in: `probe=loose` takes it";
    assert_eq!(reasons("", h200(), &prompt(128, 1)), [opt_in, "-", "-"]);
    let short = "64 tokens in the longest sequence; it pays from 128 on (H200)";
    assert_eq!(reasons("", h200(), &prompt(64, 1)), [opt_in, short, "-"]);
    let unmeasured = "not measured on this kind of device; `probe=measured` takes it";
    assert_eq!(reasons("", known_card("A100").unwrap(), &prompt(128, 1)), [opt_in, unmeasured, "-"]);
    let shared = "needs 120000 B of shared memory a block, the device allows 101376 B";
    assert_eq!(reasons("", known_card("RTX 4090").unwrap(), &prompt(128, 1)), [opt_in, shared, "-"]);
}

#[test]
fn preference_is_no_news_but_what_the_device_lacks_is_said_once() {
    let lines_of = |switches: &str| {
        let log = Log::default();
        log.of(|| {
            let dispatch = Dispatch::new(switches.parse().unwrap());
            for _ in 0..3 {
                for card in ["T4", "A100", "RTX 4090", "H200"] {
                    TABLE.select(&dispatch, &Card(known_card(card).unwrap()), &prompt(64, 1)).unwrap();
                }
            }
        });
        log.lines()
    };
    let none: [&str; 0] = [];
    assert_eq!(lines_of(""), none, "rows that nobody wants there");
    let lines = lines_of("probe=measured");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("probe/measured does not run here: needs compute capability 8.0"), "{lines:?}");
    let lines = &lines[1..];
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("probe/measured does not run here: needs 120000 B of shared memory"), "{lines:?}");
}

#[test]
fn without_a_base_the_error_has_the_last_reason() {
    let dispatch = Dispatch::new("probe=-base".parse().unwrap());
    let error = TABLE.select(&dispatch, &Card(known_card("A100").unwrap()), &prompt(64, 1)).err().unwrap();
    assert!(matches!(&error, OpError::NoneFits { reason, .. } if reason.contains("not measured")), "{error}");
}
