//! The devices that probes run on, and what goes in and comes out.

use cuda_std::launch::Kernel;
use varve::backend::{BackendError, Buffer, Device, DeviceSpec, EmulatorConfig, Launch, LaunchError, Stream};
use varve_gpu::probe::ProbeParams;

/// A device with a stream.
pub struct Rig {
    pub device: Device,
    stream: Stream,
    name: String,
}

/// The device of `VARVE_DEVICE`, by default the emulator: in order, with two random schedules, with the race check.
pub fn rigs() -> Vec<Rig> {
    let spec: DeviceSpec = std::env::var("VARVE_DEVICE").map_or(DeviceSpec::Emulator, |text| text.parse().unwrap());
    if spec != DeviceSpec::Emulator {
        return vec![Rig::new(Device::open(&spec).unwrap(), String::new())];
    }
    [(0, false), (1, false), (0x5eed, false), (7, true)]
        .map(|(seed, races)| {
            let device = Device::emulator(EmulatorConfig { seed, races, ..EmulatorConfig::default() });
            Rig::new(device, format!(", schedule {seed}{}", if races { " with race check" } else { "" }))
        })
        .into()
}

/// [`rigs`] that can run `kernel`; the others are named.
pub fn rigs_for<P: Copy + 'static>(kernel: &Kernel<P>) -> Vec<Rig> {
    let (able, unable): (Vec<_>, Vec<_>) =
        rigs().into_iter().partition(|rig| rig.device.caps().module_sm().is_some_and(|sm| sm >= kernel.sm()));
    for rig in unable {
        eprintln!("{}: skipped on {rig}, which is below sm_{}", kernel.symbol(), kernel.sm());
    }
    able
}

impl std::fmt::Display for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.device.spec(), self.name)
    }
}

impl Rig {
    fn new(device: Device, name: String) -> Self {
        Self { stream: device.stream().unwrap(), device, name }
    }

    /// A buffer with `data`.
    pub fn upload(&self, data: &[u32]) -> Buffer<u32> {
        self.device.upload(data).unwrap()
    }

    /// Launches and waits.
    pub fn launch<P: Copy + 'static>(&self, kernel: &'static Kernel<P>, launch: Launch, params: P) {
        self.try_launch(kernel, launch, params).unwrap_or_else(|e| panic!("{self}: {e}"));
    }

    /// Launches and waits; the error as text.
    pub fn try_launch<P: Copy + 'static>(
        &self,
        kernel: &'static Kernel<P>,
        launch: Launch,
        params: P,
    ) -> Result<(), String> {
        // SAFETY: the tests give each probe the buffers that its contract asks for.
        let launched: Result<(), LaunchError> = unsafe { self.stream.launch(kernel, launch, params) };
        launched.map_err(|e| e.to_string())?;
        let waited: Result<(), BackendError> = self.stream.synchronize();
        waited.map_err(|e| e.to_string())
    }

    /// Runs a probe on `input`; `output` is what the output buffer holds before, and the result what it holds after.
    pub fn words(
        &self,
        kernel: &'static Kernel<ProbeParams>,
        launch: Launch,
        input: &[u32],
        output: &[u32],
    ) -> Vec<u32> {
        let (input, mut output) = (self.upload(input), self.upload(output));
        self.launch(kernel, launch, ProbeParams { input: input.as_ptr(), output: output.as_mut_ptr() });
        output.read().unwrap()
    }
}

/// Runs a probe whose thread i turns row i of `input` (`N` words) into a row of `M` words, on every rig, and compares with
/// `expected`. The input is cut into blocks of `threads`, so its rows must be a multiple of that.
pub fn check_rows<const N: usize, const M: usize>(
    kernel: &'static Kernel<ProbeParams>,
    threads: u32,
    input: &[[u32; N]],
    expected: impl Fn(usize) -> [u32; M],
) {
    assert!(input.len().is_multiple_of(threads as usize), "a thread without a row would read past the input");
    let blocks = u32::try_from(input.len()).unwrap() / threads;
    let flat: Vec<u32> = input.iter().flatten().copied().collect();
    for rig in rigs_for(kernel) {
        let got = rig.words(kernel, Launch::new(blocks, threads), &flat, &vec![UNWRITTEN; input.len() * M]);
        for (i, (row, got)) in input.iter().zip(got.chunks(M)).enumerate() {
            let want = expected(i);
            for k in 0..M {
                assert!(
                    same(got[k], want[k]),
                    "{} on {rig}: thread {i}, result {k}: {:#010x}, expected {:#010x}, for {row:#010x?}",
                    kernel.symbol(),
                    got[k],
                    want[k]
                );
            }
        }
    }
}

/// What outputs hold before: a NaN that no operation makes.
pub const UNWRITTEN: u32 = 0xffab_cdef;

/// [`check_rows`] for results that are f32: two NaN are the same.
pub fn check_float_rows<const N: usize, const M: usize>(
    kernel: &'static Kernel<ProbeParams>,
    threads: u32,
    input: &[[u32; N]],
    expected: impl Fn(usize) -> [f32; M],
) {
    check_rows(kernel, threads, input, |i| expected(i).map(|x| if x.is_nan() { ANY_NAN } else { x.to_bits() }));
}

/// Stands for every f32 NaN in an expectation, except the one that stands for nothing written.
const ANY_NAN: u32 = 0x7fc0_1234;

fn same(got: u32, want: u32) -> bool {
    got == want || (want == ANY_NAN && f32::from_bits(got).is_nan() && got != UNWRITTEN)
}

/// Words that look random: SplitMix64, the upper halves.
pub fn noise(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }
}

/// `rows` rows of noise.
pub fn noise_rows<const N: usize>(seed: u64, rows: usize) -> Vec<[u32; N]> {
    let mut next = noise(seed);
    (0..rows).map(|_| std::array::from_fn(|_| next())).collect()
}

/// f32 bits where arithmetic has its corners: zeros, subnormals, powers of two and their neighbours, halves, limits, NaN.
pub fn corners() -> Vec<u32> {
    let magnitudes = [
        0u32,
        1,
        2,
        0x1000,
        0x007f_ffff,
        0x0080_0000,
        0x0080_0001,
        0x3300_0000,
        0x3380_0000,
        0x3880_0000,
        0x3e99_999a,
        0x3eff_ffff,
        0x3f00_0000,
        0x3f00_0001,
        0x3f31_7218,
        0x3f7f_ffff,
        0x3f80_0000,
        0x3f80_0001,
        0x3fc0_0000,
        0x4020_0000,
        0x4049_0fdb,
        0x41a0_0000,
        0x41a0_0001,
        0x42ae_ac4f,
        0x42b1_7217,
        0x42b1_7218,
        0x42cf_f1b5,
        0x4300_0000,
        0x4316_0000,
        0x477f_e000,
        0x477f_efff,
        0x477f_f000,
        0x4b00_0000,
        0x4b00_0001,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7f80_0001,
        0x7fc0_0000,
        0x7fff_ffff,
    ];
    magnitudes.iter().flat_map(|&m| [m, m | 0x8000_0000]).collect()
}
