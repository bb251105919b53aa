//! `delta.gates/elem`: log decay and beta of every token and value head.
//!
//! Math      gate = neg_a * softplus(a + dt_bias), beta = sigmoid(b)
//! Shapes    `GatesParams`
//! Mapping   a thread a token and head, heads fastest
//! Order     none: nothing is added up
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel};

use super::GatesParams;

/// Small blocks: a token of the largest model has 48 heads.
pub const BOUNDS: Bounds = Bounds { threads: 64, min_blocks: 8 };

/// # Safety
/// Shapes as `GatesParams` says; grid `tokens * value_heads / 64` rounded up, block 64.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_gates_elem(p: GatesParams) {
    let at = block_idx_x() * BOUNDS.threads + thread_idx_x();
    let (token, head) = ((at / p.value_heads) as usize, (at % p.value_heads) as usize);
    if token >= p.tokens as usize {
        return;
    }
    // SAFETY: `token < tokens`, `head < value_heads`; one writer an element.
    unsafe {
        let row = p.ba.add(token * p.ba_stride as usize);
        let (b, a) = (global::load_nc(row.add(head)), global::load_nc(row.add(p.value_heads as usize + head)));
        let (neg_a, bias) = (global::load_nc(p.neg_a.add(head)), global::load_nc(p.dt_bias.add(head)));
        global::store(p.gate.add(at as usize), neg_a * float::softplus(a + bias));
        global::store(p.beta.add(at as usize), float::sigmoid(b));
    }
}
