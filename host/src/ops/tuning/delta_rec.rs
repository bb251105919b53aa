//! `delta.rec`: prompts from which on the chunked variants pay.

use super::{Measured, Source};

/// The measurement of all of them: 32 tokens are the least that it covers, 8 sequences of 512 the most.
const H200: Measured = Measured {
    cc: 90,
    sms: [132, 132],
    from_tokens: 32,
    most_sequences: 8,
    source: Source {
        device: "NVIDIA H200",
        driver: "580.159.04",
        commit: "between e4d9c72 and 43632ea",
        date: "2026-11-30",
        command: "varve bench --op delta.rec",
        rule: "below 0.97 x the fastest of lanes, keyhead, cols at this and all longer counts",
    },
};

/// `wg32_split`, against `wg32`: 0.67, 0.78, 0.92 of it with 6, 12, 16 value heads at 1,024 tokens; at 512 ahead with 6 only.
pub const WG32_SPLIT: &[Measured] = &[Measured {
    from_tokens: 1024,
    most_sequences: 1,
    source: Source {
        commit: "4bc66dd",
        command: "varve bench --op delta.rec --heads 2 6, 4 12, 16 16 --variant wg32 wg32_split",
        rule: "below 0.97 x wg32 at this and all longer counts, with each of the head counts",
        ..H200.source
    },
    ..H200
}];
/// `wg32`: 0.84 of `lanes` at 32 tokens, 0.42 at 128.
pub const WG32: &[Measured] = &[H200];
/// `tc32`: 0.89, 0.47.
pub const TC32: &[Measured] = &[H200];
/// `chunk32`: 0.91 at 96 tokens; with 8 sequences of 512 `keyhead` is ahead of it.
pub const CHUNK32: &[Measured] = &[Measured { from_tokens: 96, most_sequences: 3, ..H200 }];
