//! `delta.rec`: prompts from which on the chunked variants pay.

use super::{Measured, Source};

/// The measurement of all of them: 128 tokens and one sequence are the least and the most that it covers.
const H200: Measured = Measured {
    cc: 90,
    sms: [132, 132],
    from_tokens: 128,
    most_sequences: 1,
    source: Source {
        device: "NVIDIA H200",
        driver: "580.159.04",
        commit: "4d3a5c7",
        date: "2026-11-30",
        command: "varve bench --op delta.rec",
        rule: "below 0.97 x the fastest of lanes, keyhead, cols at this and all longer counts",
    },
};

/// `wg32`: 0.42 of `lanes` at 128 tokens.
pub const WG32: &[Measured] = &[H200];
/// `tc32`: 0.47.
pub const TC32: &[Measured] = &[H200];
/// `chunk32`: 0.86.
pub const CHUNK32: &[Measured] = &[H200];
