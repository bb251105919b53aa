//! Products of a warpgroup.

use crate::rig::{Rig, UNWRITTEN, noise, rigs_for};
use cuda_std::launch::Kernel;
use half::f16;
use varve::backend::Launch;
use varve_gpu::probe::{ProbeParams, wgmma::*};

const ROWS: usize = 64;

/// A [64][k], B [k][n] and C [64][n] as plain matrices.
struct Case {
    k: usize,
    n: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Case {
    fn new(k: usize, n: usize, mut value: impl FnMut() -> f32) -> Self {
        let mut matrix = |rows: usize, columns: usize| (0..rows * columns).map(|_| value()).collect();
        Self { k, n, a: matrix(ROWS, k), b: matrix(k, n), c: matrix(ROWS, n) }
    }

    /// Row and first column of register `r` of step `step` of A.
    fn a_place(&self, thread: usize, step: usize, r: usize) -> usize {
        let row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8;
        row * self.k + 16 * step + r / 2 * 8 + thread % 4 * 2
    }

    /// Place of sum `i`.
    fn c_place(&self, thread: usize, i: usize) -> usize {
        (thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8) * self.n + i / 4 * 8 + thread % 4 * 2 + i % 2
    }

    fn each_register(&self, mut f: impl FnMut([f32; 2])) {
        for thread in 0..128 {
            for step in 0..self.k / 16 {
                for r in 0..4 {
                    let at = self.a_place(thread, step, r);
                    f([self.a[at], self.a[at + 1]]);
                }
            }
        }
    }

    /// B's atoms, K-major in rows of `row_k` elements, tile after tile of `row_k` rows of B.
    fn k_major(&self, row_k: usize) -> Vec<u32> {
        let mut words = vec![0; self.k * self.n / 2];
        for (k, n) in (0..self.k).flat_map(|k| (0..self.n).map(move |n| (k, n))) {
            let element = (k / row_k * self.n + n) * row_k + k % row_k;
            words[element / 2] |= bits(self.b[k * self.n + n]) << (element % 2 * 16);
        }
        words
    }

    /// B's atoms, MN-major: for 8 rows of B after another, 64 columns after another.
    fn mn_major(&self) -> Vec<u32> {
        let mut words = vec![0; self.k * self.n / 2];
        for (k, n) in (0..self.k).flat_map(|k| (0..self.n).map(move |n| (k, n))) {
            let atom = k / 8 * (self.n / 64) + n / 64;
            let element = (atom * 8 + k % 8) * 64 + n % 64;
            words[element / 2] |= bits(self.b[k * self.n + n]) << (element % 2 * 16);
        }
        words
    }

    /// Runs the probe on A's words, B's atoms and the sums, and hands each result, the exact value of A B and the sum of
    /// magnitudes to `check`.
    fn run(
        &self,
        kernel: &'static Kernel<ProbeParams>,
        a: &[u32],
        b: &[u32],
        check: impl Fn(&Rig, usize, f64, f64, f64),
    ) {
        let sums = 128 * self.n / 2;
        let c = (0..sums).map(|i| self.c[self.c_place(i / (self.n / 2), i % (self.n / 2))].to_bits());
        let input: Vec<u32> = a.iter().chain(b).copied().chain(c).collect();
        let launch = Launch { dynamic_shared: 4 * b_words(self.k, self.n) as u32, ..Launch::new(1, 128) };
        for rig in rigs_for(kernel) {
            let got = rig.words(kernel, launch, &input, &vec![UNWRITTEN; sums]);
            for (i, &d) in got.iter().enumerate() {
                let place = self.c_place(i / (self.n / 2), i % (self.n / 2));
                let (row, column) = (place / self.n, place % self.n);
                let term = |k: usize| f64::from(self.a[row * self.k + k]) * f64::from(self.b[k * self.n + column]);
                let (sum, size) = (0..self.k).fold((0.0, 0.0), |(s, m), k| (s + term(k), m + term(k).abs()));
                check(&rig, place, f64::from(f32::from_bits(d)), sum, size);
            }
        }
    }
}

fn bits(x: f32) -> u32 {
    u32::from(f16::from_f32(x).to_bits())
}

/// Small integers: every order of summation is exact.
fn integers(seed: u64) -> impl FnMut() -> f32 {
    let mut next = noise(seed);
    move || (next() % 33) as f32 - 16.0
}

/// Values of f16 of about 1 with full mantissas.
fn fractions(seed: u64) -> impl FnMut() -> f32 {
    let mut next = noise(seed);
    move || f16::from_f32(next() as f32 / (1u64 << 31) as f32 - 1.0).to_f32()
}

/// As for the products of a warp: exact on integers; on fractions within the rounding of truncated additions.
fn product(kernel: &'static Kernel<ProbeParams>, k: usize, n: usize, atoms: impl Fn(&Case) -> Vec<u32>) {
    let words = |case: &Case| {
        let mut words = Vec::new();
        case.each_register(|[low, high]| words.push(bits(low) | bits(high) << 16));
        words
    };
    let exact = Case::new(k, n, integers(51));
    exact.run(kernel, &words(&exact), &atoms(&exact), |rig, place, d, sum, _| {
        assert_eq!(d, f64::from(exact.c[place]) + sum, "{} on {rig}, element {place}", kernel.symbol());
    });
    let rounded = Case::new(k, n, fractions(52));
    rounded.run(kernel, &words(&rounded), &atoms(&rounded), |rig, place, d, sum, size| {
        let c = f64::from(rounded.c[place]);
        let bound = (size + c.abs()) * (k + 1) as f64 * 2f64.powi(-24) * 4.0;
        let error = (d - (c + sum)).abs();
        assert!(error <= bound, "{} on {rig}, {place}: off by {error:e}, allowed {bound:e}", kernel.symbol());
    });
}

#[test]
fn k_major_products_match() {
    product(&PROBE_WGMMA_N32, 32, 32, |case| case.k_major(32));
    product(&PROBE_WGMMA_N64, 64, 64, |case| case.k_major(64));
    product(&PROBE_WGMMA_N128, 64, 128, |case| case.k_major(64));
}

#[test]
fn mn_major_products_match() {
    product(&PROBE_WGMMA_TRANS_N64, 32, 64, Case::mn_major);
    product(&PROBE_WGMMA_TRANS_N128, 32, 128, Case::mn_major);
}

/// `6 A B` with A of 22 bits: two f16 hold it to 2^-22 of its magnitude.
#[test]
fn chains_of_products_match() {
    let mut next = noise(53);
    let mut case = Case::new(CHAIN_K, 64, fractions(54));
    case.a.fill_with(|| next() as f32 / (1u64 << 31) as f32 - 1.0);
    let mut words = Vec::new();
    case.each_register(|pair| words.extend(pair.map(f32::to_bits)));
    case.run(&PROBE_WGMMA_CHAIN, &words, &case.k_major(64), |rig, place, d, sum, size| {
        let bound = 6.0 * size * ((2 * CHAIN_K + 1) as f64 * 2f64.powi(-22) + 2f64.powi(-22));
        let error = (d - 6.0 * sum).abs();
        assert!(error <= bound, "on {rig}, {place}: off by {error:e}, allowed {bound:e}");
    });
}

/// The check above can fail: a unit of B that another place of its row holds is noticed.
#[test]
#[should_panic(expected = "probe_wgmma_n64")]
fn a_unit_in_the_wrong_place_is_noticed() {
    product(&PROBE_WGMMA_N64, 64, 64, |case| {
        let mut words = case.k_major(64);
        for i in 0..4 {
            words.swap(32 * 9 + i, 32 * 9 + 4 + i);
        }
        words
    });
}
