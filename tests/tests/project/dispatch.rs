//! Dispatch on known cards, none of which has to be there.

use varve::backend::{Caps, known_card};
use varve::ops::card::Card;
use varve::ops::delta_commit::DELTA_COMMIT;
use varve::ops::delta_out_norm::{DELTA_OUT_NORM, OutNormSizes, OutputGate};
use varve::ops::delta_rec::DELTA_REC;
use varve::ops::dense_product::{DENSE_PRODUCT, ProductSizes, expanded_to};
use varve::ops::dispatch::{Dispatch, OpError, Reason};
use varve::ops::qsa_attend::QSA_ATTEND;
use varve::ops::qsa_scores::QSA_SCORES;
use varve::ops::qsa_topk::{QSA_TOPK, TopkSizes};
use varve::ops::weights::Kind;
use varve::ops::{DeltaSizes, exactness::Exactness};

fn card(name: &str) -> Card {
    Card(known_card(name).expect("a known card"))
}

fn with_sms(sms: u32) -> Card {
    Card(Caps { sms, ..known_card("H200").expect("a known card") })
}

const PROMPT: DeltaSizes = DeltaSizes::single(16, 48, 2048);

fn chosen(card: &Card, sizes: DeltaSizes) -> &'static str {
    DELTA_REC.select(&Dispatch::default(), card, &sizes).expect("the base runs everywhere").variant
}

#[test]
fn prompts_take_the_form_that_fits_the_sms() {
    for name in ["RTX 4090", "RTX 5090"] {
        assert_eq!(chosen(&card(name), PROMPT), "lanes", "{name}");
    }
    assert_eq!(chosen(&card("H200"), PROMPT), "wg32");
    assert_eq!(chosen(&card("H200"), DeltaSizes::single(16, 48, 31)), "lanes", "it was measured from 32 tokens on");
    let batch = |sequences| DeltaSizes { sequences, longest: 1024, ..PROMPT };
    assert_eq!(chosen(&card("H200"), batch(8)), "wg32");
    assert_eq!(chosen(&card("H200"), batch(9)), "lanes", "and for up to eight sequences");
    for name in ["A100", "RTX 4080 SUPER", "CMP 170HX", "L4"] {
        assert_eq!(chosen(&card(name), PROMPT), "keyhead", "{name}");
    }
    assert_eq!(chosen(&card("T4"), PROMPT), "cols", "7.5 has no cp.async");
    let found = [128, 127, 32, 31].map(|sms| chosen(&with_sms(sms), PROMPT));
    assert_eq!(found, ["lanes", "keyhead", "keyhead", "cols"], "128 blocks, one an SM; 64 blocks, two an SM");
}

#[test]
fn few_heads_take_segments() {
    let by_switch = Dispatch::new("delta.rec=wg32_split".parse().unwrap());
    let chosen = |dispatch: &Dispatch, heads: (usize, usize), tokens| {
        let sizes = DeltaSizes::single(heads.0, heads.1, tokens);
        DELTA_REC.select(dispatch, &card("H200"), &sizes).unwrap().variant
    };
    let heads = [(2, 6), (4, 12), (22, 22), (16, 48)];
    let split = "wg32_split";
    assert_eq!(
        heads.map(|heads| chosen(&by_switch, heads, 4096)),
        [split, split, split, "cols"],
        "no segments, so the base"
    );
    assert_eq!([64, 65].map(|tokens| chosen(&by_switch, (2, 6), tokens)), ["cols", split]);
    let plain = Dispatch::default();
    assert_eq!(heads.map(|heads| chosen(&plain, heads, 4096)), [split, split, split, "wg32"]);
    assert_eq!(
        [1023, 1024].map(|tokens| chosen(&plain, (2, 6), tokens)),
        ["wg32", split],
        "where it was measured to pay"
    );
}

#[test]
fn windows_end_at_eight_tokens() {
    for (tokens, variant) in [(1, "window"), (8, "window"), (9, "lanes")] {
        assert_eq!(chosen(&card("H200"), DeltaSizes::single(16, 48, tokens)), variant, "{tokens} tokens");
    }
}

#[test]
fn head_ratios_without_an_instance_take_the_base() {
    let sizes = DeltaSizes::single(8, 48, 31);
    assert_eq!(chosen(&card("H200"), sizes), "cols");
    let explained = DELTA_REC.explain(&Dispatch::default(), &card("H200"), &sizes);
    let lanes = explained.iter().find(|row| row.variant == "lanes").unwrap();
    assert!(matches!(&lanes.reason, Some(Reason::Sizes(why)) if why.contains("6 value heads")), "{:?}", lanes.reason);
}

#[test]
fn selections_go_by_rows_and_capacity() {
    let chosen = |name: &str, rows: usize, cells: usize| {
        let sizes = TopkSizes { rows, max_blocks: cells / 4 + 2 };
        QSA_TOPK.select(&Dispatch::default(), &card(name), &sizes).expect("the base runs everywhere").variant
    };
    let long = 262_144;
    assert_eq!([1, 16, 17].map(|rows| chosen("H200", rows, long)), ["cluster", "cluster", "wide"]);
    assert_eq!(chosen("H200", 4, 1_310_704), "cluster");
    assert_eq!(chosen("H200", 4, 1_310_720), "split", "the keys of a block of threads do not fit");
    assert_eq!([1, 8, 9].map(|rows| chosen("A100", rows, long)), ["split", "split", "wide"]);
    assert_eq!([32_768, 65_536, 131_072].map(|cells| chosen("T4", 4, cells)), ["reg", "split", "split"]);
    assert_eq!([131_072, 135_160, 135_164].map(|cells| chosen("RTX 4090", 2048, cells)), ["reg", "reg", "wide"]);
}

#[test]
fn switches_choose_and_the_reason_says_so() {
    let dispatch = Dispatch::new("delta.rec=keyhead".parse().unwrap());
    assert_eq!(DELTA_REC.select(&dispatch, &card("H200"), &PROMPT).unwrap().variant, "keyhead");
    let rows = DELTA_REC.explain(&dispatch, &card("H200"), &PROMPT);
    let reasons: Vec<_> = rows.iter().map(|row| row.reason.as_ref().map(ToString::to_string)).collect();
    let off = Some("switched off by `delta.rec=keyhead`".to_owned());
    let [others @ .., keyhead, cols] = &reasons[1..] else { panic!("{reasons:?}") };
    assert!(others.iter().all(|reason| *reason == off), "{others:?}");
    assert_eq!([keyhead, cols], [&None, &None], "keyhead chosen, the base would do");
    assert_eq!(rows.iter().filter(|row| row.chosen).map(|row| row.variant).collect::<Vec<_>>(), ["keyhead"]);

    let dispatch = Dispatch::new("delta.rec=-cols,delta.rec=-keyhead,delta.rec=-lanes".parse().unwrap());
    let error = DELTA_REC.select(&dispatch, &card("A100"), &PROMPT).err().unwrap();
    assert!(matches!(&error, OpError::NoneFits { reason, .. } if reason.contains("not measured")), "{error}");
}

#[test]
fn blocks_are_expanded_to_f16_only_where_tensor_cores_take_it() {
    let sizes = |tokens| [tokens, 10_240, 2560];
    let by_mma = Dispatch::new("dense.product=mma".parse().unwrap());
    let plain = Dispatch::default();
    let chosen = |name: &str, tokens| expanded_to(&plain, &card(name), sizes(tokens));
    assert_eq!([chosen("H200", 512), chosen("H200", 9), chosen("A100", 512)], [Kind::F16, Kind::F32, Kind::F32]);
    assert_eq!(expanded_to(&plain, &card("H200"), [2048, 324, 10_240]), Kind::F32, "48 blocks for 132 SMs");
    assert_eq!(expanded_to(&by_mma, &card("A100"), sizes(1)), Kind::F16, "80 blocks for 108 SMs");
    assert_eq!(expanded_to(&by_mma, &card("T4"), sizes(2048)), Kind::F32, "7.5 has none of these");
    assert_eq!(expanded_to(&by_mma, &card("A100"), [9, 64, 36]), Kind::F32, "rows at multiples of 8 bytes");
    let off = Dispatch::new("dense.product=-mma,dense.product=-mma_narrow".parse().unwrap());
    assert_eq!(expanded_to(&off, &card("H200"), sizes(2048)), Kind::F32);
    let ask = ProductSizes { tokens: 2048, n_out: 64, n_in: 64, kind: Kind::F32, aligned: true };
    assert_ne!(DENSE_PRODUCT.select(&by_mma, &card("H200"), &ask).unwrap().variant, "mma", "f32 weights");
}

#[test]
fn every_table_ends_in_its_base_and_the_base_needs_nothing_special() {
    let rec: Vec<_> = DELTA_REC.rows.iter().map(|row| row.exactness).collect();
    let norm: Vec<_> = DELTA_OUT_NORM.rows.iter().map(|row| row.exactness).collect();
    let commit: Vec<_> = DELTA_COMMIT.rows.iter().map(|row| row.exactness).collect();
    let scores: Vec<_> = QSA_SCORES.rows.iter().map(|row| row.exactness).collect();
    for exactness in [rec, norm, commit, scores] {
        let (last, rest) = exactness.split_last().unwrap();
        assert_eq!(*last, Exactness::Base);
        assert!(!rest.contains(&Exactness::Base));
    }
    let sizes = OutNormSizes { tokens: 1, value_heads: 48, gate: OutputGate::Silu };
    let choice = DELTA_OUT_NORM.select(&Dispatch::default(), &card("T4"), &sizes).unwrap();
    assert_eq!(choice.variant, "warp");
}

#[test]
fn every_rounding_bound_is_derived_where_its_row_says() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/exactness.md")).unwrap();
    let anchor = |heading: &str| heading.to_lowercase().replace(' ', "-");
    let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
    assert!(headings.iter().any(|heading| heading == "chunked"), "{headings:?}");
    let of_rec = DELTA_REC.rows.iter().map(|row| (row.name, row.exactness));
    let of_product = DENSE_PRODUCT.rows.iter().map(|row| (row.name, row.exactness));
    let of_scores = QSA_SCORES.rows.iter().map(|row| (row.name, row.exactness));
    let of_attend = QSA_ATTEND.rows.iter().map(|row| (row.name, row.exactness));
    let mut found = 0;
    for (name, exactness) in of_rec.chain(of_product).chain(of_scores).chain(of_attend) {
        if let Exactness::Rounding { bound, ordinary, derived } = exactness {
            let heading = derived.strip_prefix("exactness.md#").unwrap();
            assert!(ordinary <= bound && headings.iter().any(|known| known == heading), "{name}: {derived}");
            found += 1;
        }
    }
    assert!(found >= 8, "{found} rows");
}
