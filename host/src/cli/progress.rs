//! Progress bars of long work: on stderr, where that is a terminal and nobody asked for JSON.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for `steps` steps, or one that shows nothing.
pub fn bar(steps: usize, json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed_precise} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// A bar for bytes, whose number is set later, or one that shows nothing.
pub fn bytes(json: bool) -> ProgressBar {
    let bar = bar(0, json);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} loading") {
        bar.set_style(style);
    }
    bar
}
