//! A launch with another kernel's parameter struct.

use varve::backend::{Launch, Stream};
use varve_gpu::delta::{OutNormParams, rec_cols::DELTA_REC_COLS};

fn launch(stream: &Stream, params: OutNormParams) {
    let _ = unsafe { stream.launch(&DELTA_REC_COLS, Launch::new(1, 128), params) };
}

fn main() {}
