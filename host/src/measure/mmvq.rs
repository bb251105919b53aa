//! `mmvq.product` with the quantizer of its vectors, in the same launch or before it: a captured graph of calls, over as many
//! matrices as the L2 cannot hold, or over one, of which it keeps what is left after the reads of neighbours.

use half::f16;
use varve_gpu::mmvq::Format;

use super::case::{MeasureError, Prepared, between_events, promised_graphs};
use super::floor::Floor;
use super::gap::Gap;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, SetAside, Stream};
use crate::ops::add::Add;
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::{MMVQ_PRODUCT, QuantizedMatrix, QuantizedProductSizes, Vectors};
use crate::ops::mmvq_quantize::{QuantizedMut, il_words, q8_words};
use crate::proof::random::{Array, Random};

/// What is in the L2 when a timed call starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InL2 {
    /// Other matrices: so many take turns that none stays.
    Cold,
    /// The call's own matrix, as far as the L2 holds it.
    Warm,
    /// What is left of its own matrix after a neighbour has read so many MB of other weights.
    Gap(u16),
    /// The same, with [`SET_ASIDE`] bytes of the L2 kept for its own matrix.
    Persist(u16),
}

/// Bytes of the L2 that [`InL2::Persist`] sets aside where the card has as many.
pub const SET_ASIDE: usize = 20 << 20;

impl InL2 {
    /// The names, of which the last two mean MB of other weights between calls.
    pub const NAMES: [&'static str; 4] = ["cold", "warm", "gap", "persist"];

    /// By name; `mb` megabytes are read between calls.
    #[must_use]
    pub fn named(name: &str, mb: u16) -> Option<Self> {
        let states = [Self::Cold, Self::Warm, Self::Gap(mb), Self::Persist(mb)];
        Self::NAMES.iter().position(|&known| known == name).map(|i| states[i])
    }

    /// MB that are read between calls.
    fn gap(self) -> Option<u16> {
        match self {
            Self::Cold | Self::Warm => None,
            Self::Gap(mb) | Self::Persist(mb) => Some(mb),
        }
    }
}

/// A measured product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmvqCase {
    /// Format of the matrix.
    pub format: Format,
    /// Its columns.
    pub n_in: usize,
    /// Its rows.
    pub n_out: usize,
    /// Vectors.
    pub columns: usize,
    /// What is in the L2.
    pub in_l2: InL2,
}

impl MmvqCase {
    /// Bytes of the matrix.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let (values, bytes) = self.format.block();
        self.n_out * (self.n_in / values) * bytes
    }

    /// Matrices in turn: at least 24, and four times what the L2 holds, up to 4 GiB.
    fn matrices(&self, l2_bytes: u64) -> usize {
        let four_l2 = usize::try_from(4 * l2_bytes).unwrap_or(usize::MAX).div_ceil(self.bytes());
        if self.in_l2 == InL2::Cold { four_l2.max(24).min(((4 << 30) / self.bytes()).max(1)) } else { 1 }
    }
}

/// A product that is set up.
pub struct Mmvq {
    stream: Stream,
    sizes: MmvqCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    /// What neighbours do, alone: its time is taken from that of the arms.
    gap: Option<Graph>,
    #[allow(dead_code)] // owned for its Drop
    aside: Option<SetAside>,
    launches: usize,
}

struct Operands {
    sizes: MmvqCase,
    matrices: Vec<Buffer<u8>>,
    x: Buffer<f32>,
    q8: Buffer<u32>,
    il: Buffer<u32>,
    y: Buffer<f32>,
    gap: Option<Gap>,
    aside: Option<SetAside>,
}

/// Bytes of random blocks that a matrix repeats.
const SOME_BYTES: usize = 4 << 20;

/// At least so many bytes of random blocks, whose scales are of ordinary size.
pub(super) fn blocks(format: Format, len: usize) -> Vec<u8> {
    let random = Random::new(1, Array::Key);
    let (_, bytes) = format.block();
    let mut out: Vec<u8> =
        (0..len.next_multiple_of(bytes).div_ceil(8)).flat_map(|i| random.bits(i as u64).to_le_bytes()).collect();
    out.truncate(len.next_multiple_of(bytes));
    for (i, block) in out.chunks_exact_mut(bytes).enumerate() {
        for &at in format.scales() {
            let scale = f16::from_f64(0.002 * (0.5 + random.uniform(i as u64)));
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    out
}

/// `count` matrices of `bytes` bytes that repeat `some` blocks.
pub(super) fn copies(
    device: &Device,
    some: &[u8],
    bytes: usize,
    count: usize,
) -> Result<Vec<Buffer<u8>>, MeasureError> {
    let data: Vec<u8> = some.iter().copied().cycle().take(bytes).collect();
    let mut matrices = vec![device.upload(&data)?];
    for _ in 1..count {
        let mut copy = device.alloc(bytes)?;
        copy.copy_from(&matrices[0])?;
        matrices.push(copy);
    }
    Ok(matrices)
}

impl Operands {
    fn new(device: &Device, sizes: MmvqCase) -> Result<Self, MeasureError> {
        let MmvqCase { n_in, n_out, columns, .. } = sizes;
        let activations = Random::new(1, Array::Query);
        let some = blocks(sizes.format, sizes.bytes().min(SOME_BYTES));
        let x: Vec<f32> = (0..columns * n_in).map(|i| activations.normal(i as u64) as f32).collect();
        let gap = sizes.in_l2.gap().map(|mb| Gap::new(device, (sizes.format, n_in), mb.into())).transpose()?;
        let persists = matches!(sizes.in_l2, InL2::Persist(_));
        Ok(Self {
            sizes,
            gap,
            aside: persists.then(|| SetAside::new(device, SET_ASIDE)).transpose()?,
            matrices: copies(device, &some, sizes.bytes(), sizes.matrices(device.caps().l2_bytes))?,
            x: device.upload(&x)?,
            q8: device.alloc(q8_words(n_in, columns))?,
            il: device.alloc(il_words(n_in, columns))?,
            y: device.alloc(columns * n_out)?,
        })
    }

    /// Call `i`, behind what neighbours do before it.
    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        if let Some(gap) = &mut self.gap {
            gap.launch(stream, i)?;
        }
        let Some(aside) = &self.aside else { return self.call(stream, variant, i) };
        let window = aside.window(&self.matrices[0].view([self.matrices[0].len()])?);
        stream.keeping(window, || self.call(stream, variant, i))
    }

    fn call(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let MmvqCase { format, n_in, n_out, columns, .. } = self.sizes;
        let (q8_len, il_len) = (self.q8.len(), self.il.len());
        let il = if variant == MMVQ_PRODUCT.base().name { None } else { Some(self.il.view_mut([il_len])?) };
        let to = QuantizedMut { q8: self.q8.view_mut([q8_len])?, il };
        let matrix = &self.matrices[i % self.matrices.len()];
        let w = QuantizedMatrix { format, bytes: matrix.view([matrix.len()])?, n_out, n_in };
        let mut y = self.y.view_mut([columns, n_out])?;
        Vectors::new(self.x.view([columns, n_in])?, to).product(
            Pick::Named(variant),
            stream,
            &w,
            &Add::Nothing,
            &mut y,
        )?;
        Ok(())
    }
}

impl Mmvq {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that breaks its promise.
    pub fn new(device: &Device, sizes: MmvqCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let MmvqCase { format, n_in, n_out, columns, .. } = sizes;
        let ask = QuantizedProductSizes::on(device.caps(), Pick::Named(""), format, [n_in, n_out], columns);
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let rows = MMVQ_PRODUCT.rows.iter().rev().filter(|row| named(row.name));
        let arms: Vec<_> =
            rows.filter(|&row| MMVQ_PRODUCT.launch_of(row, device.caps(), &ask).is_ok()).map(|row| row.name).collect();
        let launches = launches(device);
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), gap: None, aside: None, launches };
        let name = case.case();
        let arms = (&case.stream, &case.arms[..], case.launches);
        case.graphs = promised_graphs(
            (MMVQ_PRODUCT.op, &name),
            arms,
            |variant| MMVQ_PRODUCT.promise_of(variant),
            &mut operands,
            |operands| &mut operands.y,
            Operands::launch,
        )?;
        if let Some(gap) = &mut operands.gap {
            let alone = |stream: &Stream| (0..launches).try_for_each(|i| gap.launch(stream, i));
            case.gap = Some(case.stream.capture(alone)?);
        }
        case.aside = operands.aside.take();
        Ok(case)
    }
}

impl Prepared for Mmvq {
    fn op(&self) -> &'static str {
        MMVQ_PRODUCT.op
    }

    fn case(&self) -> String {
        let MmvqCase { format, n_in, n_out, columns, in_l2 } = self.sizes;
        let state = match in_l2 {
            InL2::Cold => "cold".to_owned(),
            InL2::Warm => "warm".to_owned(),
            InL2::Gap(mb) => format!("behind reads of {mb} MB"),
            InL2::Persist(mb) => {
                let kept = self.aside.as_ref().map_or(0, SetAside::bytes) as f64 / f64::from(1 << 20);
                format!("behind reads of {mb} MB, {kept:.1} MiB set aside")
            }
        };
        format!("{} {n_in}x{n_out}, {columns} vectors, {state}, with the quantizer", format.name())
    }

    fn tokens(&self) -> usize {
        self.sizes.columns
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        MMVQ_PRODUCT.word_of(self.arms[arm])
    }

    fn cold_matrix(&self) -> Option<(Format, [usize; 2])> {
        let MmvqCase { format, n_in, n_out, in_l2, .. } = self.sizes;
        (in_l2 == InL2::Cold).then_some((format, [n_in, n_out]))
    }

    fn floor(&self) -> Floor {
        Floor::mmvq_product(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let time = |graph: &Graph| between_events(&self.stream, || Ok(graph.launch(&self.stream)?));
        let gap = self.gap.as_ref().map_or(Ok(0.0), time)?;
        Ok((time(&self.graphs[arm])? - gap) / self.launches as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatorConfig;

    #[test]
    fn the_reads_of_neighbours_are_timed_alone_too() {
        let device = Device::emulator(EmulatorConfig::default());
        let case = |in_l2| MmvqCase { format: Format::Q8_0, n_in: 64, n_out: 4, columns: 1, in_l2 };
        let wanted = ["plain".to_owned()];
        let mut gap = Mmvq::new(&device, case(InL2::Gap(1)), &wanted).expect("the emulator reads, too");
        assert_eq!((gap.case().contains("behind reads of 1 MB"), gap.cold_matrix()), (true, None));
        let steps = |graph: &Graph| graph.steps() / gap.launches;
        // Reads, quantizer, product; then the reads alone.
        assert_eq!((steps(&gap.graphs[0]), gap.gap.as_ref().map(steps)), (3, Some(1)));
        assert!(gap.time(0).expect("it runs").is_finite());
        let error = Mmvq::new(&device, case(InL2::Persist(1)), &wanted).err().expect("there is no L2 to keep it in");
        assert!(error.is_of_device(), "{error}");
    }

    #[test]
    fn states_have_names() {
        let named = InL2::NAMES.map(|name| InL2::named(name, 7));
        assert_eq!(named, [Some(InL2::Cold), Some(InL2::Warm), Some(InL2::Gap(7)), Some(InL2::Persist(7))]);
        assert_eq!(InL2::named("hot", 7), None);
    }
}
