//! Every kernel against its budget (`gpu/src/catalog.rs`, each number with its reason) on every architecture.

use cuda_builder::Resources;
use varve_gpu::catalog::{self, Budget};

use super::assemble::resources;

/// Registers of an SM, on every architecture that is assembled for.
const SM_REGISTERS: u32 = 65_536;
/// A warp's registers are handed out in steps of this many.
const REGISTER_STEP: u32 = 256;

/// What a kernel has beyond its budget.
fn over(budget: Budget, r: &Resources) -> Vec<String> {
    let limits = [
        ("registers", r.registers, budget.registers),
        ("bytes of static shared memory", r.shared_bytes, budget.shared_bytes),
        ("bytes spilt", r.spill_bytes, 0),
        ("bytes of stack", r.stack_bytes, 0),
        ("series of wgmma that wait for each other", r.serialized.into(), 0),
    ];
    let beyond = limits.iter().filter(|(_, got, limit)| got > limit);
    beyond.map(|(what, got, limit)| format!("{} on {}: {got} {what}, at most {limit}", r.kernel, r.arch)).collect()
}

#[test]
fn every_kernel_keeps_its_budget_on_every_architecture() {
    let Some(all) = resources() else { return };
    let rows = catalog::entries();
    let mut wrong = Vec::new();
    for r in all {
        let row = rows.iter().find(|row| row.kernel.symbol == r.kernel);
        wrong.extend(over(row.unwrap_or_else(|| panic!("{} has no row", r.kernel)).budget, r));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The blocks that the launch bounds promise an SM fit its registers.
#[test]
fn promised_blocks_fit_the_registers() {
    let Some(all) = resources() else { return };
    let rows = catalog::entries();
    for r in all {
        let bounds = rows.iter().find(|row| row.kernel.symbol == r.kernel).unwrap().kernel.bounds;
        let warp = (r.registers * 32).next_multiple_of(REGISTER_STEP);
        let needed = warp * bounds.threads.div_ceil(32) * bounds.min_blocks;
        assert!(needed <= SM_REGISTERS, "{} on {}: {needed} registers for {bounds:?}", r.kernel, r.arch);
    }
}

#[test]
fn each_limit_can_be_exceeded() {
    let budget = Budget { registers: 32, shared_bytes: 16, reason: "a test" };
    let within = Resources {
        kernel: "k".into(),
        arch: "sm_80".into(),
        registers: 32,
        spill_bytes: 0,
        stack_bytes: 0,
        shared_bytes: 16,
        barriers: 1,
        serialized: false,
    };
    assert_eq!(over(budget, &within), [""; 0]);
    for beyond in [
        Resources { registers: 33, ..within.clone() },
        Resources { spill_bytes: 4, ..within.clone() },
        Resources { stack_bytes: 8, ..within.clone() },
        Resources { shared_bytes: 17, ..within.clone() },
        Resources { serialized: true, ..within.clone() },
    ] {
        assert_eq!(over(budget, &beyond).len(), 1, "{beyond:?}");
    }
}
