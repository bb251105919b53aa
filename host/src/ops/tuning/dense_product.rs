//! `dense.product`: calls from which on tensor cores pay.

use super::{Measured, Source};

/// `mma`: with 80 blocks and more 0.19 of `tile` at 128 tokens, 0.14 to 0.20 at 512. It needs a block for every second SM.
pub const MMA: &[Measured] = &[Measured {
    cc: 90,
    sms: [132, 132],
    from_tokens: 128,
    most_sequences: 1,
    source: Source {
        device: "NVIDIA H200",
        driver: "580.159.04",
        commit: "46366fa",
        date: "2026-11-30",
        command: "varve bench --op dense.product --variant mma tile",
        rule: "below 0.97 x the fastest of rows2, rows8, tile at this and all longer counts",
    },
}];

/// `mma_narrow`: about even with `tile` at 16 tokens, more are not measured.
pub const MMA_NARROW: &[Measured] = &[];
