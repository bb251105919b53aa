//! `qsa.attend`: prompts from which on the tensor-core variant pays.

use super::{Measured, Source};

/// `prompt`: 0.39 of `chunk` at 512 rows, 0.38 at 2,048 (int8; f16: 0.37, 0.33). Fewer rows than 512 were not measured but for
/// windows, where it is ten times slower.
pub const PROMPT: &[Measured] = &[Measured {
    cc: 90,
    sms: [132, 132],
    from_tokens: 512,
    most_sequences: 1,
    source: Source {
        device: "NVIDIA H200",
        driver: "580.159.04",
        commit: "3966708",
        date: "2026-11-30",
        command: "varve bench --op qsa.attend --tokens 512 2048",
        rule: "below 0.97 x chunk at this and all longer counts",
    },
}];
