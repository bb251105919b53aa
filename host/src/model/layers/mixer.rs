//! A gated residual mixer (hyper-connection): reads a layer's input from the residual streams, writes its output back.
//!
//! ```text
//! n    = group_norm(s);  low = silu(n W_down / C);  gate = sigmoid(low W_up)
//! x    = mean over streams of gate * n;  inject = 2 sigmoid(n W_inject / C)
//! back:  s[stream c] += inject[c] * y
//! ```

use super::project;
use crate::backend::{BackendError, Buffer, Device};
use crate::model::config::StreamSizes;
use crate::model::rows::Rows;
use crate::model::run::Run;
use crate::model::weights::{Matrix, Names, Scope};
use crate::model::{ModelError, OpenError};
use crate::ops::hyper_mix::{MixArgs, mix};
use crate::ops::hyper_squeeze::{SqueezeArgs, squeeze};
use crate::ops::hyper_write::{WriteArgs, write};
use crate::ops::norm_rms::rms;

/// Weights.
pub struct Mixer {
    sizes: StreamSizes,
    hidden: usize,
    gain: Buffer<f32>,
    /// `[rank + streams, streams * hidden]`: down, then inject; only `rank` rows where nothing is written back.
    down: Matrix,
    /// `[streams * hidden, rank]`.
    up: Matrix,
}

/// Memory of a pass, shared by all mixers.
pub struct MixerScratch {
    normed: Rows<f32>,
    /// Low rank, then injections; wide enough for rows that are a multiple of four apart.
    pub low: Rows<f32>,
    up: Rows<f32>,
}

impl MixerScratch {
    /// For passes of up to `tokens` tokens.
    pub fn new(device: &Device, sizes: &StreamSizes, hidden: usize, tokens: usize) -> Result<Self, BackendError> {
        let wide = sizes.count * hidden;
        Ok(Self {
            normed: Rows::new(device, tokens, wide)?,
            low: Rows::new(device, tokens, (sizes.rank + sizes.count).next_multiple_of(4))?,
            up: Rows::new(device, tokens, wide)?,
        })
    }
}

/// Names of a mixer: norm, down, up, and inject where it has one.
pub struct MixerNames {
    /// Gain of the group norm.
    pub norm: Names,
    /// To the low rank.
    pub down: Names,
    /// From the low rank.
    pub up: Names,
    /// Injections.
    pub inject: Option<Names>,
}

impl Mixer {
    /// Reads the weights.
    pub fn load(scope: &Scope<'_>, names: &MixerNames, sizes: &StreamSizes, hidden: usize) -> Result<Self, OpenError> {
        let wide = sizes.count * hidden;
        let mut parts = vec![scope.part(names.down, &[sizes.rank, wide])];
        parts.extend(names.inject.map(|inject| scope.part(inject, &[sizes.count, wide])));
        Ok(Self {
            gain: scope.gain(names.norm, wide)?,
            down: scope.reader().matrix(&parts)?,
            up: scope.matrix(names.up, [wide, sizes.rank])?,
            sizes: sizes.clone(),
            hidden,
        })
    }

    /// Reads x `[tokens, hidden]` from the streams; the injections stay in `s` for [`write_back`](Self::write_back).
    pub fn read(
        &self,
        run: &Run<'_>,
        streams: &Rows<f32>,
        s: &mut MixerScratch,
        x: &mut Rows<f32>,
    ) -> Result<(), ModelError> {
        let (n, pick, stream) = (run.tokens, run.pick(), run.stream);
        let (count, rank) = (self.sizes.count, self.sizes.rank);
        let (gain, group) = (self.gain.view([count * self.hidden])?, (self.hidden, run.eps));
        rms(pick, stream, &streams.first(n)?, &gain, group, &mut s.normed.first_mut(n)?)?;
        let width = self.down.n_out();
        project(run, &self.down, &s.normed.first(n)?, s.low.columns_mut(n, 0..width)?)?;
        squeeze(pick, stream, SqueezeArgs { v: s.low.columns_mut(n, 0..width)?, rank, streams: count })?;
        project(run, &self.up, &s.low.columns(n, 0..rank)?, s.up.first_mut(n)?)?;
        mix(pick, stream, MixArgs { up: s.up.first(n)?, n: s.normed.first(n)?, streams: count, x: x.first_mut(n)? })?;
        Ok(())
    }

    /// Adds y `[tokens, hidden]` to the streams, with the injections of the last read.
    pub fn write_back(
        &self,
        run: &Run<'_>,
        y: &Rows<f32>,
        s: &MixerScratch,
        streams: &mut Rows<f32>,
    ) -> Result<(), ModelError> {
        let (n, rank) = (run.tokens, self.sizes.rank);
        let inj = s.low.columns(n, rank..rank + self.sizes.count)?;
        write(run.pick(), run.stream, WriteArgs { s: streams.first_mut(n)?, inj, y: y.first(n)? })?;
        Ok(())
    }
}
