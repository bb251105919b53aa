//! Quantized products: that the tests of their tails would notice a missing select, that oracle and kernels cut blocks into the
//! same calls, and that tiles of `mma` take turns in shared memory, for which parity's matrices are too small on the emulator.

use cuda_std::kernel;
use cuda_std::launch::Bounds;
use varve::backend::{Device, EmulatorConfig, Launch};
use varve::proof::reference::mmvq as reference;
use varve_gpu::format::il;
use varve_gpu::mmvq::call::{ANCHORED, Call, Iq2Xs, Iq3S, Iq4Nl, Iq4Xs, Q3K, Q4K, Q5K, Q6K, Q8Zero};
use varve_gpu::mmvq::{Format, ProductParams, hoist, mma};

const BOUNDS: Bounds = hoist::BOUNDS;

/// # Safety
/// As the kernels of `mmvq.product/hoist_b4_r2`.
#[kernel]
#[launch_bounds(BOUNDS)]
unsafe fn with_select(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { hoist::rows::<Iq4Xs, 1, 1, 1, ANCHORED, true>(&p) }
}

/// # Safety
/// As the kernels of `mmvq.product/hoist_b4_r2`.
#[kernel]
#[launch_bounds(BOUNDS)]
unsafe fn without_select(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { hoist::rows::<Iq4Xs, 1, 1, 1, ANCHORED, false>(&p) }
}

/// One row of ten blocks: half of the third chunk's lanes have none.
#[test]
fn a_tail_without_its_select_is_noticed() {
    let (format, n) = (Format::IQ4_XS, 2560);
    let mut weights: Vec<u8> = (0..n / 256 * format.block().1).map(|i| (i * 73 + 11) as u8).collect();
    for block in weights.chunks_exact_mut(format.block().1) {
        block[..2].copy_from_slice(&0x2c00u16.to_le_bytes());
    }
    let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
    let blocks = reference::blocks(&reference::quantize(&x));
    let want = reference::row(format, &weights, &blocks);
    let device = Device::emulator(EmulatorConfig::default());
    let (w, copy) = (device.upload(&weights).unwrap(), device.upload(&reference::interleave(&[blocks], 1)).unwrap());
    assert_eq!(copy.len(), il::words(n, 1));
    let run = |kernel| {
        let mut y = device.upload(&[0.0f32]).unwrap();
        let params = ProductParams {
            w: w.as_ptr(),
            w2: std::ptr::null(),
            ids: std::ptr::null(),
            q8: std::ptr::null(),
            il: copy.as_ptr(),
            y: y.as_mut_ptr(),
            y2: std::ptr::null_mut(),
            add: std::ptr::null(),
            n_in: n as u32,
            n_out: 1,
            rows: 1,
            columns: 1,
            y_stride: 1,
            span: u32::MAX,
            add_stride: 0,
            x_stride: 0,
            x: std::ptr::null(),
        };
        // SAFETY: a matrix of one row, its vector's copy and one result, all of which outlive the launch.
        unsafe { device.stream().unwrap().launch(kernel, Launch::new(1, BOUNDS.threads), params) }.unwrap();
        y.read().unwrap()[0]
    };
    assert_eq!(run(&WITH_SELECT).to_bits(), want.to_bits());
    assert_ne!(run(&WITHOUT_SELECT).to_bits(), want.to_bits(), "the last block counts once for every lane past it");
}

/// Ten tiles in one block, six of which are under way at once, in three blocks, and in a block each: the same bits, near the exact ones.
#[test]
fn tiles_that_take_turns_are_those_that_do_not() {
    let (n, n_out, columns) = (512, 9 * 16 + 5, 3);
    let x: Vec<f32> = (0..columns * n).map(|i| (i as f32 * 0.37).sin()).collect();
    for instance in mma::INSTANCES.iter().filter(|instance| instance.rows == 1) {
        let (values, bytes) = instance.format.block();
        let row_bytes = n / values * bytes;
        let mut weights: Vec<u8> = (0..n_out * row_bytes).map(|i| (i * 73 + i / 251 * 37 + 11) as u8).collect();
        for block in weights.chunks_exact_mut(bytes) {
            for &at in instance.format.scales() {
                block[at..at + 2].copy_from_slice(&0x2c00u16.to_le_bytes());
            }
        }
        let block = mma::Block::of(n as u32, row_bytes as u32).unwrap();
        assert_eq!((block.own, block.threads), (1, 128));
        let device = Device::emulator(EmulatorConfig::default());
        let (w, x_there) = (device.upload(&weights).unwrap(), device.upload(&x).unwrap());
        let run = |blocks: u32| {
            let mut y = device.upload(&vec![f32::NAN; columns * n_out]).unwrap();
            let params = ProductParams {
                w: w.as_ptr(),
                w2: std::ptr::null(),
                ids: std::ptr::null(),
                x: x_there.as_ptr(),
                q8: std::ptr::null(),
                il: std::ptr::null(),
                y: y.as_mut_ptr(),
                y2: std::ptr::null_mut(),
                add: std::ptr::null(),
                n_in: n as u32,
                n_out: n_out as u32,
                rows: n_out as u32,
                columns: columns as u32,
                y_stride: n_out as u32,
                span: u32::MAX,
                add_stride: 0,
                x_stride: n as u32,
            };
            let launch = Launch { dynamic_shared: block.shared_bytes, ..Launch::new(blocks, block.threads) };
            // SAFETY: matrix, vectors and results are as long as the sizes say, and outlive the launch.
            unsafe { device.stream().unwrap().launch(instance.kernel, launch, params) }.unwrap();
            y.read().unwrap()
        };
        let apart = run(10);
        for blocks in [1, 3] {
            assert!(run(blocks).iter().zip(&apart).all(|(a, b)| a.to_bits() == b.to_bits()), "{blocks} blocks");
        }
        for (c, x) in x.chunks_exact(n).enumerate() {
            let x = reference::blocks(&reference::quantize(x));
            for row in 0..n_out {
                let near = reference::near_row(instance.format, &weights[row * row_bytes..][..row_bytes], &x);
                let got = f64::from(apart[c * n_out + row]);
                assert!((got - near.value).abs() <= near.slack, "{:?}, row {row}: {got}, {near:?}", instance.format);
            }
        }
    }
}

#[test]
fn kernels_cut_blocks_as_the_oracle_does() {
    fn cut<F: Call>() -> (Format, (usize, usize), (usize, usize)) {
        (F::FORMAT, (F::VALUES, F::BYTES), (F::LPB, F::SLOTS))
    }
    let all = [
        cut::<Q8Zero>(),
        cut::<Iq4Nl>(),
        cut::<Q3K>(),
        cut::<Q4K>(),
        cut::<Q5K>(),
        cut::<Q6K>(),
        cut::<Iq4Xs>(),
        cut::<Iq3S>(),
        cut::<Iq2Xs>(),
    ];
    assert_eq!(all.map(|(format, ..)| format), Format::ALL);
    for (format, block, lanes_and_slots) in all {
        assert_eq!(block, format.block(), "{format:?}");
        assert_eq!(lanes_and_slots, reference::lanes_and_slots(format), "{format:?}");
    }
}
