//! `dense.product`: calls from which on tensor cores pay.

use super::{Measured, Source};

/// `mma`: 0.83 of `tile` for 2,560 rows by 6,144 columns and 128 tokens, 0.15 to 0.24 at 512; about even at 16.
pub const MMA: &[Measured] = &[Measured {
    cc: 90,
    sms: [132, 132],
    from_tokens: 128,
    most_sequences: 1,
    source: Source {
        device: "NVIDIA H200",
        driver: "580.159.04",
        commit: "25a1804",
        date: "2026-11-30",
        command: "varve bench --op dense.product --variant mma tile",
        rule: "below 0.97 x the fastest of rows2, rows8, tile at this and all longer counts with a block for an eighth of the SMs",
    },
}];
