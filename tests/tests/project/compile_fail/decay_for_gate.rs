//! A plain view where log decay is asked for: a decay factor cannot slip in.

use varve::backend::{View, ViewMut};
use varve::ops::delta_rec::{RecArgs, StateAfter};

fn args<'a>(
    qkv: View<'a, f32, 2>,
    decay: View<'a, f32, 2>,
    beta: View<'a, f32, 2>,
    state: ViewMut<'a, f32, 3>,
    y: ViewMut<'a, f32, 2>,
) -> RecArgs<'a> {
    RecArgs { qkv, gate: decay, beta, state, y, key_heads: 1, state_after: StateAfter::Updated, batch: None }
}

fn main() {}
