//! Quantized products: that the tests of their tails would notice a missing select, and that oracle and kernels cut blocks
//! into the same calls.

use cuda_std::kernel;
use cuda_std::launch::Bounds;
use varve::backend::{Device, EmulatorConfig, Launch};
use varve::proof::reference::mmvq as reference;
use varve_gpu::format::il;
use varve_gpu::mmvq::call::{ANCHORED, Call, Iq2Xs, Iq3S, Iq4Nl, Iq4Xs, Q3K, Q4K, Q5K, Q6K, Q8Zero};
use varve_gpu::mmvq::{Format, ProductParams, hoist};

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
            q8: std::ptr::null(),
            il: copy.as_ptr(),
            y: y.as_mut_ptr(),
            add: std::ptr::null(),
            n_in: n as u32,
            n_out: 1,
            columns: 1,
            y_stride: 1,
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
