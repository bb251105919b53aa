//! The part of a `delta.rec` call that one block walks: its sequence of a batch, cut to the launch's window of tokens.

use cuda_std::global;
use cuda_std::thread::block_idx_y;

use super::RecParams;
use crate::geometry::HEAD_DIM;

impl RecParams {
    /// The call of the block's sequence (the grid's y) alone: arrays start at its first token of this launch, `state` is its
    /// own, `tokens` its count, which may be 0. The same for all threads of the block.
    ///
    /// # Safety
    /// Pointers and sizes as [`RecParams`] says; `block_idx_y() < sequences`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of_block(self) -> Self {
        let sequence = block_idx_y() as usize;
        let (start, end) = if self.starts.is_null() {
            (0, self.tokens)
        } else {
            // SAFETY: `sequence + 1 <= sequences`; nobody writes the starts during the launch.
            let [start, end] =
                unsafe { [global::load(self.starts.add(sequence)), global::load(self.starts.add(sequence + 1))] };
            (start.min(self.tokens), end.min(self.tokens))
        };
        let first = start.saturating_add(self.first).min(end);
        let tokens = end.saturating_sub(first).min(self.span);
        let at = first as usize;
        // SAFETY: `first <= tokens` of the call, so every address stays in its array or just behind it.
        unsafe {
            Self {
                qkv: self.qkv.add(at * self.qkv_stride as usize),
                gate: self.gate.add(at * self.gate_stride as usize),
                beta: self.beta.add(at * self.beta_stride as usize),
                state: self.state.add(sequence * HEAD_DIM * self.value_heads as usize * HEAD_DIM),
                y: self.y.wrapping_add(at * self.y_stride as usize),
                tokens,
                ..self
            }
        }
    }
}
