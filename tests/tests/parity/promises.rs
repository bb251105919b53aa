//! A variant is tested here by being in its operation's table.

use varve::proof::run::{Devices, Event, OPERATIONS, Scale, Selection, run};

use crate::device;

fn prove(op: &str) {
    let device = device();
    let scale = if device.caps().is_emulator { Scale::Small } else { Scale::Full };
    let (mut failed, mut covered) = (Vec::new(), std::collections::BTreeSet::new());
    let selection = Selection { op: Some(op.into()), ..Selection::default() };
    let summary = run(&selection, &Devices::new(device, 3, 0), scale, &mut |event| {
        if let Event::Row(row) = event {
            covered.insert(row.variant);
            if !row.pass {
                failed.push(format!("{}/{} {}: {:?}", row.op, row.variant, row.case, row.reason));
            }
        }
    })
    .unwrap();
    for skipped in &summary.skipped {
        println!("skipped {}/{}: {}", skipped.op, skipped.variant, skipped.reason);
    }
    assert!(failed.is_empty(), "{} of {} rows failed:\n{}", failed.len(), summary.rows, failed.join("\n"));
    let operation = OPERATIONS.iter().find(|operation| operation.op == op).unwrap();
    let skipped: Vec<_> = summary.skipped.iter().map(|skipped| skipped.variant).collect();
    for variant in (operation.variants)() {
        assert!(covered.contains(variant) || skipped.contains(&variant), "{op}/{variant} has no row");
    }
}

#[test]
fn recurrence_variants_keep_their_promises() {
    prove("delta.rec");
}

#[test]
fn commit_keeps_its_promise() {
    prove("delta.commit");
}

#[test]
fn output_norm_variants_keep_their_promises() {
    prove("delta.out_norm");
}

/// Operations that are judged element by element, all by one harness.
const PLAIN: &[&str] = &[
    "delta.conv",
    "delta.gates",
    "delta.gated_norm",
    "dense.dequantize",
    "dense.embed",
    "dense.product",
    "norm.rms",
    "attn.norm_rope",
    "attn.softmax",
    "qsa.append",
    "qsa.scores",
    "qsa.topk",
    "qsa.store",
    "qsa.attend",
    "hyper.expand",
    "hyper.squeeze",
    "hyper.mix",
    "hyper.write",
    "ple.gate",
    "ple.conv",
    "conv.window",
    "moe.router",
    "moe.plan",
    "mmvq.quantize",
    "mmvq.product",
    "moe.product",
    "moe.silu_mul",
    "moe.combine",
];

#[test]
fn plain_operations_keep_their_promises() {
    PLAIN.iter().for_each(|op| prove(op));
}

#[test]
fn every_operation_has_its_test_here() {
    let ops: Vec<_> = OPERATIONS.iter().map(|operation| operation.op).collect();
    let tested = [&["delta.rec", "delta.commit", "delta.out_norm"], PLAIN].concat();
    assert_eq!(ops, tested, "add a test for the new operation above");
}
