//! Parts of a model by themselves: the n-gram hash and the recurrence.

use varve::backend::{Device, DeviceSpec};
use varve::model::ngram::NgramHash;
use varve::ops::LogGate;
use varve::ops::delta_rec::{DELTA_REC, RecArgs, StateAfter, recurrence_by};
use varve::ops::exactness::Exactness;
use varve_gpu::geometry::HEAD_DIM;

use crate::oracle::Oracle;

#[test]
fn table_rows_of_every_prompt() {
    let oracle = Oracle::open("qwen4_exp_tiny");
    let hash = NgramHash::derive(0, 3, 2, 1024, (1234, 500), 1000);
    for n in [1, 7, 64, 257] {
        let tokens = oracle.tokens(n);
        let wanted: Vec<u64> = oracle.i64(&format!("seq{n}.ple_rows")).into_iter().map(|row| row as u64).collect();
        for cut in [0, 1, n / 2, n] {
            let (first, rest) = tokens.split_at(cut);
            let mut rows = Vec::new();
            hash.rows(&[], first, &mut rows);
            hash.rows(&first[cut.saturating_sub(2)..], rest, &mut rows);
            assert_eq!(rows, wanted, "seq{n}, cut at {cut}");
        }
    }
}

/// The recurrence of layer 3 against float64 values from exactly the same inputs, by every variant.
#[test]
fn recurrence_of_a_layer() {
    const KEYS: usize = 2;
    const HEADS: usize = 6;
    let oracle = Oracle::open("qwen4_exp_tiny");
    let [q, k, v, g, beta] = ["q", "k", "v", "g", "beta"].map(|name| oracle.f32(&format!("gdn.{name}")));
    let tokens = q.len() / (KEYS * HEAD_DIM);
    // Value heads are tiled here and grouped by key head there.
    let grouped = |tiled: usize| tiled % KEYS * (HEADS / KEYS) + tiled / KEYS;
    let mut qkv = Vec::new();
    for t in 0..tokens {
        for heads in [&q, &k] {
            for head in heads[t * KEYS * HEAD_DIM..][..KEYS * HEAD_DIM].chunks_exact(HEAD_DIM) {
                let scale = 1.0 / (head.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() + 1e-6).sqrt();
                qkv.extend(head.iter().map(|&x| (f64::from(x) * scale) as f32));
            }
        }
        qkv.extend((0..HEADS).flat_map(|h| v[(t * HEADS + grouped(h)) * HEAD_DIM..][..HEAD_DIM].to_vec()));
    }
    let tile = |x: &[f32]| -> Vec<f32> {
        x.chunks_exact(HEADS).flat_map(|row| (0..HEADS).map(|h| row[grouped(h)]).collect::<Vec<_>>()).collect()
    };
    let device = Device::open(&DeviceSpec::Emulator).unwrap();
    let stream = device.stream().unwrap();
    let (qkv, g, beta) = (device.upload(&qkv), device.upload(&tile(&g)), device.upload(&tile(&beta)));
    let (qkv, g, beta) = (qkv.unwrap(), g.unwrap(), beta.unwrap());
    for row in DELTA_REC.rows.iter().filter(|row| row.name != "window") {
        let variant = row.name;
        let bounds = match row.exactness {
            Exactness::Rounding { bound, .. } => [bound, bound],
            Exactness::Base | Exactness::Bitwise => [1e-6, 5e-6],
        };
        let mut state = device.upload(&vec![0.0f32; HEAD_DIM * HEADS * HEAD_DIM]).unwrap();
        let mut y = device.alloc::<f32>(tokens * HEADS * HEAD_DIM).unwrap();
        let args = RecArgs {
            qkv: qkv.view([tokens, (2 * KEYS + HEADS) * HEAD_DIM]).unwrap(),
            gate: LogGate(g.view([tokens, HEADS]).unwrap()),
            beta: beta.view([tokens, HEADS]).unwrap(),
            state: state.view_mut([HEAD_DIM, HEADS, HEAD_DIM]).unwrap(),
            y: y.view_mut([tokens, HEADS * HEAD_DIM]).unwrap(),
            key_heads: KEYS,
            state_after: StateAfter::Updated,
            batch: None,
        };
        recurrence_by(variant, &stream, args).unwrap();
        let (y, state) = (y.read().unwrap(), state.read().unwrap());
        let core = oracle.f32("gdn.core");
        let first = tokens - core.len() / (HEADS * HEAD_DIM);
        let mut worst = [0.0f64; 2];
        for (i, &wanted) in core.iter().enumerate() {
            let (t, head, c) = (first + i / (HEADS * HEAD_DIM), i / HEAD_DIM % HEADS, i % HEAD_DIM);
            let tiled = (0..HEADS).find(|&h| grouped(h) == head).unwrap();
            let got = y[(t * HEADS + tiled) * HEAD_DIM + c];
            worst[0] = worst[0].max((f64::from(got) - f64::from(wanted)).abs());
        }
        for (i, &wanted) in oracle.f32("gdn.state").iter().enumerate() {
            let (head, row, c) = ([0, 5][i / (HEAD_DIM * HEAD_DIM)], i / HEAD_DIM % HEAD_DIM, i % HEAD_DIM);
            let tiled = (0..HEADS).find(|&h| grouped(h) == head).unwrap();
            let got = state[(row * HEADS + tiled) * HEAD_DIM + c];
            worst[1] = worst[1].max((f64::from(got) - f64::from(wanted)).abs());
        }
        println!("{variant}: core within {:.2e}, state within {:.2e}", worst[0], worst[1]);
        assert!(worst[0] < bounds[0] && worst[1] < bounds[1], "{variant}: core {}, state {}", worst[0], worst[1]);
    }
}
