//! Order between two launches of a stream, of which the second may start early (programmatic dependent launch). Needs
//! sm_90a.
//!
//! The host allows a launch to start before the one ahead of it has ended. It then starts once every block of that one
//! has executed [`let_next_start`] or ended, and takes the place that those blocks leave. What it must not do before
//! the one ahead has ended it does behind [`wait_for_previous`]. Launches that the host does not allow to start early
//! are not concerned: both are without effect there.

use crate::imp;

/// Says that the next launch of the stream may start as far as this block goes. Nothing in modules below sm_90a.
#[inline(always)]
pub fn let_next_start() {
    imp::grid::let_next_start();
}

/// Waits until the launch ahead in the stream has ended and its writes are seen. A launch that starts early executes it
/// in one block at least, else it may itself end first, and what follows it would not be behind both.
#[inline(always)]
pub fn wait_for_previous() {
    imp::grid::wait_for_previous();
}
