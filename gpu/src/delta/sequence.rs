//! The part of a `delta.rec` call that one block walks: its sequence of a batch, cut to the launch's window of tokens.

use cuda_std::global;
use cuda_std::thread::block_idx_y;

use super::RecParams;
use crate::geometry::HEAD_DIM;

/// The tokens and the state of a block.
#[derive(Clone, Copy)]
pub struct Part {
    /// First token, counted over all sequences.
    pub first: usize,
    /// Tokens, which may be none.
    pub tokens: u32,
    /// The sequence's state.
    pub state: *mut f32,
}

impl RecParams {
    /// The part of the block's sequence (the grid's y) that this launch walks. The same for all threads of the block.
    ///
    /// # Safety
    /// Pointers and sizes as [`RecParams`] says; `block_idx_y() < sequences`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn part(&self) -> Part {
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
        Part {
            first: first as usize,
            tokens: end.saturating_sub(first).min(self.span),
            state: self.state.wrapping_add(sequence * HEAD_DIM * self.value_heads as usize * HEAD_DIM),
        }
    }

    /// The call of that part alone: arrays start at its first token, `state` is the sequence's, `tokens` its count.
    ///
    /// # Safety
    /// As for [`part`](Self::part).
    #[inline(always)]
    #[must_use]
    pub unsafe fn of_block(self) -> Self {
        // SAFETY: the caller's.
        let Part { first, tokens, state } = unsafe { self.part() };
        // Of a sequence without tokens nothing is read; with strides wider than rows its start may lie behind the arrays.
        Self {
            qkv: self.qkv.wrapping_add(first * self.qkv_stride as usize),
            gate: self.gate.wrapping_add(first * self.gate_stride as usize),
            beta: self.beta.wrapping_add(first * self.beta_stride as usize),
            y: self.y.wrapping_add(first * self.y_stride as usize),
            state,
            tokens,
            ..self
        }
    }
}
