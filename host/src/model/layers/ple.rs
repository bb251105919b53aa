//! The n-gram embedding of a layer, added to the streams.
//!
//! ```text
//! emb  = table rows of the token's n-gram hashes;  key = group_norm(emb W_key);  query = group_norm(s);  val = emb W_val
//! gate = sigmoid(sign(dot) sqrt(max(|dot|, 1e-6))),  dot = key . query / sqrt(hidden), stream by stream
//! u    = gate * val;  m = group_norm(u);  s += u + silu(dilated conv(m))
//! ```

use super::project_all;
use crate::backend::{BackendError, Buffer, Device};
use crate::model::config::{Config, PleHash, PleSizes, StreamSizes};
use crate::model::ngram::NgramHash;
use crate::model::rows::Rows;
use crate::model::run::Run;
use crate::model::weights::{Matrix, Part, Scope, Segment};
use crate::model::{ModelError, OpenError};
use crate::ops::conv_window::{WindowArgs, window};
use crate::ops::dense_embed::embed;
use crate::ops::norm_rms::rms;
use crate::ops::ple_conv::{ConvArgs, conv};
use crate::ops::ple_gate::{GateArgs, gate};

/// Weights.
pub struct Ple {
    sizes: PleSizes,
    streams: StreamSizes,
    hidden: usize,
    /// Constants of the hash.
    pub hash: NgramHash,
    /// `[rows, dim / heads]`.
    table: Segment,
    key: Matrix,
    value: Matrix,
    key_gain: Buffer<f32>,
    query_gain: Buffer<f32>,
    conv_gain: Buffer<f32>,
    /// `[streams * hidden, taps]`.
    taps: Buffer<f32>,
}

/// What a sequence keeps for a layer: f32 `[(taps - 1) * dilation, streams * hidden]`, the last rows of m.
pub struct PleState {
    /// The rows.
    pub window: Rows<f32>,
}

impl PleState {
    /// Before the first token: zeros.
    pub fn new(device: &Device, sizes: &PleSizes, wide: usize) -> Result<Self, BackendError> {
        Ok(Self { window: Rows::zeroed(device, sizes.window(), wide)? })
    }
}

/// Memory of a pass.
pub struct PleScratch {
    ids: Rows<u32>,
    emb: Rows<f32>,
    key: Rows<f32>,
    query: Rows<f32>,
    val: Rows<f32>,
    u: Rows<f32>,
    m: Rows<f32>,
}

impl PleScratch {
    /// For passes of up to `tokens` tokens.
    pub fn new(
        device: &Device,
        sizes: &PleSizes,
        wide: usize,
        hidden: usize,
        tokens: usize,
    ) -> Result<Self, BackendError> {
        let rows = |width| Rows::new(device, tokens, width);
        Ok(Self {
            ids: Rows::new(device, tokens, sizes.heads())?,
            emb: rows(sizes.dim)?,
            key: rows(wide)?,
            query: rows(wide)?,
            val: rows(hidden)?,
            u: rows(wide)?,
            m: rows(wide)?,
        })
    }
}

impl Ple {
    /// Reads the weights of the layer that is number `index` among those with an n-gram embedding.
    pub fn load(
        scope: &Scope<'_>,
        (config, sizes, streams): (&Config, &PleSizes, &StreamSizes),
        index: usize,
    ) -> Result<Self, OpenError> {
        let (hidden, wide) = (config.hidden, config.wide());
        let (hash, table) = (hash(scope, config, sizes, index)?, table(scope, sizes)?);
        let reach = hash.offsets.iter().zip(&hash.moduli).map(|(o, m)| o.saturating_add(*m)).max().unwrap_or(0);
        if table.rows() > 0 && reach > table.rows() as u64 {
            let what = format!("the n-gram hash reaches row {reach} of a table of {} rows", table.rows());
            return Err(OpenError::Contradiction { file: scope.reader().file_name(), what });
        }
        let taps = scope.values(("ple.conv1d.weight", "ple_conv1d.weight"), &[wide, sizes.kernel])?;
        Ok(Self {
            hash,
            table,
            key: scope.matrix(("ple.key_proj.weight", "ple_key.weight"), [wide, sizes.dim])?,
            value: scope.matrix(("ple.value_proj.weight", "ple_value.weight"), [hidden, sizes.dim])?,
            key_gain: scope.gain(("ple.norm_key.weight", "ple_norm_key.weight"), wide)?,
            query_gain: scope.gain(("ple.norm_query.weight", "ple_norm_query.weight"), wide)?,
            conv_gain: scope.gain(("ple.norm_conv.weight", "ple_norm_conv.weight"), wide)?,
            taps: scope.reader().device().upload(&taps)?,
            sizes: sizes.clone(),
            streams: streams.clone(),
            hidden,
        })
    }

    /// Adds the embedding of `tokens`, which come after `before`, to the streams; moves the window on.
    pub fn forward(
        &self,
        run: &Run<'_>,
        (before, tokens): (&[u32], &[u32]),
        state: &mut PleState,
        s: &mut PleScratch,
        streams: &mut Rows<f32>,
    ) -> Result<(), ModelError> {
        let (n, pick, stream, count) = (run.tokens, run.pick(), run.stream, self.streams.count);
        let (wide, group) = (count * self.hidden, (self.hidden, run.eps));
        let mut rows = Vec::with_capacity(n * self.sizes.heads());
        self.hash.rows(before, tokens, &mut rows);
        // Loading checked that no row is beyond the table, whose rows have 32-bit numbers.
        s.ids.write(&rows.iter().map(|&row| u32::try_from(row).unwrap_or(u32::MAX)).collect::<Vec<_>>())?;
        let ids = s.ids.line(rows.len())?;
        embed(pick, stream, &self.table.stored()?, &ids, &mut s.emb.split_mut(n, self.sizes.heads())?)?;
        let (key, value) = ((&self.key, s.u.first_mut(n)?), (&self.value, s.val.first_mut(n)?));
        project_all(run, &s.emb.first(n)?, [key, value])?;
        rms(pick, stream, &s.u.first(n)?, &self.key_gain.view([wide])?, group, &mut s.key.first_mut(n)?)?;
        let query_gain = self.query_gain.view([wide])?;
        rms(pick, stream, &streams.first(n)?, &query_gain, group, &mut s.query.first_mut(n)?)?;
        let (key, query, val) = (s.key.first(n)?, s.query.first(n)?, s.val.first(n)?);
        gate(pick, stream, GateArgs { key, query, val, streams: count, u: s.u.first_mut(n)? })?;
        rms(pick, stream, &s.u.first(n)?, &self.conv_gain.view([wide])?, group, &mut s.m.first_mut(n)?)?;
        conv(
            pick,
            stream,
            ConvArgs {
                m: s.m.first(n)?,
                window: state.window.all()?,
                taps: self.taps.view([wide, self.sizes.kernel])?,
                u: s.u.first(n)?,
                s: streams.first_mut(n)?,
                dilation: self.sizes.ngram,
            },
        )?;
        window(pick, stream, WindowArgs { window: state.window.all_mut()?, x: s.m.first(n)? })?;
        Ok(())
    }
}

/// The hash constants: those of the file, which must be the derived ones where both are known.
fn hash(scope: &Scope<'_>, config: &Config, sizes: &PleSizes, index: usize) -> Result<NgramHash, OpenError> {
    let (seed, base) = match &sizes.hash {
        PleHash::Stored { multipliers, moduli, offsets } => {
            let (multipliers, moduli, offsets) = (multipliers.clone(), moduli.clone(), offsets.clone());
            let hash = NgramHash { multipliers, moduli, offsets, eos: sizes.eos };
            return checked(scope, hash);
        }
        PleHash::Derived { seed, base } => (*seed, *base),
    };
    let derived = NgramHash::derive(index, sizes.ngram, sizes.heads_per_ngram, config.vocab, (seed, base), sizes.eos);
    let stored = |what: &str, len: usize| {
        let name = format!("{}ple.ple_embedding.{what}", scope.name(("", "")));
        Ok::<_, OpenError>(scope.reader().integers(&name, len)?.map(|values| (name, values)))
    };
    let constants = [
        (stored("layer_multipliers", sizes.ngram)?, &derived.multipliers),
        (stored("ngram_heads_vocab_sizes", sizes.heads())?, &derived.moduli),
        (stored("ngram_heads_offsets", sizes.heads())?, &derived.offsets),
    ];
    for (stored, derived) in constants {
        if let Some((name, values)) = stored.filter(|(_, values)| values != derived) {
            let what = format!(
                "tensor `{name}` holds {values:?}, and the configuration (seed {seed}, base {base}) gives {derived:?}"
            );
            return Err(OpenError::Contradiction { file: scope.reader().file_name(), what });
        }
    }
    checked(scope, derived)
}

/// Refuses constants that no table can have.
fn checked(scope: &Scope<'_>, hash: NgramHash) -> Result<NgramHash, OpenError> {
    if hash.moduli.contains(&0) {
        let what = "a hash head has 0 table rows".to_owned();
        return Err(OpenError::Contradiction { file: scope.reader().file_name(), what });
    }
    Ok(hash)
}

/// The table, from one tensor or from its shards in numeric order.
fn table(scope: &Scope<'_>, sizes: &PleSizes) -> Result<Segment, OpenError> {
    let (reader, width) = (scope.reader(), sizes.dim / sizes.heads());
    let base = "ple.ple_embedding.ngram_embedding.";
    let rows_of = |name: &str| reader.shape_of(name).filter(|shape| shape.len() == 2).map(|shape| shape[0]);
    if reader.is_gguf() {
        let name = "per_layer_token_embd.weight".to_owned();
        let rows = rows_of(&name).unwrap_or(1);
        return reader.table(&[Part::new(name, &[rows, width])]);
    }
    let name = |shard: usize| format!("{}{base}shard_{shard}.weight", scope.name(("", "")));
    let shards = (0..).map(name).map_while(|name| rows_of(&name).map(|rows| Part::new(name, &[rows, width])));
    let mut parts: Vec<Part> = shards.collect();
    if parts.is_empty() {
        let whole = format!("{}{base}weight", scope.name(("", "")));
        parts.push(Part::new(
            rows_of(&whole).map_or(name(0), |_| whole.clone()),
            &[rows_of(&whole).unwrap_or(1), width],
        ));
    }
    reader.table(&parts)
}
