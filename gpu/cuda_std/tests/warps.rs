//! Warp collectives against their plain definitions, and what happens where lanes are not together.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Array, each_seed, fault_of, words};
use cuda_std::emulator::Fault;
use cuda_std::{shared, shared_array, thread, warp};

/// Runs a function of lane and value on two full warps with random values; gives all values and results.
fn on_lanes(f: impl Fn(u32, u32) -> u32 + Sync) -> (Vec<u32>, Vec<u32>) {
    let values: Vec<u32> = words(1).take(64).collect();
    let (input, out) = (Array::from(&values), Array::<u32>::poisoned(64));
    each_seed(1, 64, || {
        let t = thread::thread_idx_x() as usize;
        out.store(t, f(warp::lane_id(), input.load(t)));
    });
    (values, out.values())
}

/// Checks a shuffle for every operand and width: `from(lane, operand, width)` is the lane read, where it is in bounds.
fn check_shuffle(shuffle: impl Fn(u32, u32, u32) -> u32 + Sync, from: impl Fn(i64, i64, i64) -> Option<i64>) {
    for width in [1, 2, 4, 8, 16, 32] {
        for operand in 0..32 {
            let (values, got) = on_lanes(|_, v| shuffle(v, operand, width));
            for t in 0..64usize {
                let lane = from(t as i64 % 32, i64::from(operand), i64::from(width)).unwrap_or(t as i64 % 32);
                assert_eq!(got[t], values[t / 32 * 32 + lane as usize], "thread {t}, operand {operand}, width {width}");
            }
        }
    }
}

#[test]
fn shuffles_read_the_lane_that_ptx_names() {
    let within = |lane: i64, from: i64, width: i64| (from >= 0 && from / width == lane / width).then_some(from);
    check_shuffle(warp::shfl_up_width, |lane, delta, width| within(lane, lane - delta, width));
    check_shuffle(warp::shfl_down_width, |lane, delta, width| within(lane, lane + delta, width));
    check_shuffle(warp::shfl_idx_width, |lane, src, width| Some(lane / width * width + src % width));
    // PTX lets xor read a lower segment, never a higher one.
    check_shuffle(warp::shfl_xor_width, |lane, mask, width| {
        Some(lane ^ mask).filter(|from| from / width <= lane / width)
    });
}

#[test]
fn operands_may_differ_by_lane_and_types_keep_their_bits() {
    let (values, got) = on_lanes(|lane, v| warp::shfl_idx(v, (lane * 7 + 3) % 32));
    assert!((0..64).all(|t| got[t] == values[t / 32 * 32 + (t % 32 * 7 + 3) % 32]));
    let (values, got) = on_lanes(|_, v| warp::shfl_down(f32::from_bits(v), 1).to_bits());
    assert!((0..63).all(|t| got[t] == values[if t % 32 == 31 { t } else { t + 1 }]));
    let (values, got) = on_lanes(|_, v| warp::shfl_up(v.cast_signed(), 1).cast_unsigned());
    assert!((1..64).all(|t| got[t] == values[if t % 32 == 0 { t } else { t - 1 }]));
    let (values, got) = on_lanes(|_, v| warp::shfl_xor(v, 5));
    assert!((0..64).all(|t| got[t] == values[t ^ 5]));
}

#[test]
fn votes_see_every_lane() {
    let (values, got) = on_lanes(|_, v| warp::ballot(v % 3 == 0));
    let ballot =
        |warp: usize, p: &dyn Fn(u32) -> bool| (0..32).fold(0, |b, l| b | u32::from(p(values[32 * warp + l])) << l);
    assert!((0..64).all(|t| got[t] == ballot(t / 32, &|v| v % 3 == 0)));
    for limit in [0, 1 << 28, 1 << 30, u32::MAX] {
        let (_, got) = on_lanes(|_, v| u32::from(warp::any(v < limit)) | u32::from(warp::all(v < limit)) << 1);
        for (t, got) in got.into_iter().enumerate() {
            let ballot = ballot(t / 32, &|v| v < limit);
            assert_eq!(got, u32::from(ballot != 0) | u32::from(ballot == u32::MAX) << 1, "limit {limit}");
        }
    }
}

#[test]
fn reductions_give_every_lane_the_same_result() {
    let check = |f: &(dyn Fn(u32) -> u32 + Sync), combine: &dyn Fn(u32, u32) -> u32| {
        let (values, got) = on_lanes(|_, v| f(v));
        for t in 0..64 {
            assert_eq!(got[t], values[t / 32 * 32..][..32].iter().copied().reduce(combine).unwrap());
        }
    };
    let signed = |f: fn(i32) -> i32| move |v: u32| f(v.cast_signed()).cast_unsigned();
    check(&warp::redux_add_u32, &u32::wrapping_add);
    check(&warp::redux_min_u32, &u32::min);
    check(&warp::redux_max_u32, &u32::max);
    check(&signed(warp::redux_add_i32), &u32::wrapping_add);
    check(&signed(warp::redux_min_i32), &|a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned());
    check(&signed(warp::redux_max_i32), &|a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned());
    check(&warp::redux_and_u32, &|a, b| a & b);
    check(&warp::redux_or_u32, &|a, b| a | b);
    check(&warp::redux_xor_u32, &|a, b| a ^ b);
}

#[test]
fn the_butterfly_sum_has_the_documented_order() {
    let small = |v: u32| v as f32 / 1e9;
    let (values, got) = on_lanes(|_, v| warp::sum_xor(small(v)).to_bits());
    let mut sums: Vec<f32> = values.iter().map(|&v| small(v)).collect();
    for mask in [16, 8, 4, 2, 1] {
        sums = (0..64).map(|t| sums[t] + sums[t ^ mask]).collect();
    }
    assert!(got.iter().zip(&sums).all(|(got, sum)| *got == sum.to_bits()));
    let (values, got) = on_lanes(|_, v| warp::max_xor(small(v)).to_bits());
    for t in 0..64 {
        let max = values[t / 32 * 32..][..32].iter().map(|&v| small(v)).fold(0.0, f32::max);
        assert_eq!(got[t], max.to_bits());
    }
}

/// Bits of `NV` butterflies, of `scatter_sum` and of its form for values in the lane's own order, by lane.
fn scattered<const NV: usize>(seed: u32) -> Vec<[u32; 4]> {
    let values: Vec<f32> = words(seed).take(32 * NV).map(|v| f32::from_bits(v & 0xbfff_ffff | 0x2000_0000)).collect();
    let (input, out) = (Array::from(&values), Array::<u32>::poisoned(128));
    each_seed(1, 32, || {
        let lane = warp::lane_id() as usize;
        let own = warp::scatter_index::<NV>() as usize;
        let v: [f32; NV] = std::array::from_fn(|i| input.load(NV * lane + i));
        let sums = v.map(warp::sum_xor);
        let in_own_order: [f32; NV] = std::array::from_fn(|s| v[s ^ own]);
        let results = [warp::scatter_sum(v), warp::scatter_sum_own_first(in_own_order), sums[own]];
        for (i, x) in results.into_iter().enumerate() {
            out.store(4 * lane + i, x.to_bits());
        }
        out.store(4 * lane + 3, own as u32);
    });
    out.values().chunks_exact(4).map(|lane| [lane[0], lane[1], lane[2], lane[3]]).collect()
}

fn check_scattered<const NV: usize>() {
    for seed in 1..20 {
        for (lane, [sum, own_first, butterfly, own]) in scattered::<NV>(seed).into_iter().enumerate() {
            assert_eq!(own as usize, lane * NV / 32, "lane {lane} of {NV} values");
            assert_eq!([sum, own_first], [butterfly; 2], "lane {lane} of {NV} values, seed {seed}");
        }
    }
}

#[test]
fn scattered_sums_have_the_bits_of_butterflies() {
    check_scattered::<1>();
    check_scattered::<2>();
    check_scattered::<4>();
    check_scattered::<8>();
    check_scattered::<16>();
    check_scattered::<32>();
}

#[test]
fn masked_forms_work_on_parts_of_a_warp() {
    let (values, got) = on_lanes(|lane, v| match lane {
        0..8 => warp::shfl_xor_masked(0x0000_00ff, v, 3),
        8..20 => warp::ballot_masked(0x000f_ff00, v % 2 == 0),
        _ => {
            u32::from(warp::any_masked(0xfff0_0000, v % 16 == 0)) | u32::from(warp::all_masked(0xfff0_0000, v > 9)) << 1
        }
    });
    for t in 0..64usize {
        let lanes = &values[t / 32 * 32..][..32];
        let wanted = match t % 32 {
            lane @ 0..8 => lanes[lane ^ 3],
            8..20 => (8..20).fold(0, |b, l| b | u32::from(lanes[l] % 2 == 0) << l),
            _ => {
                let any = lanes[20..].iter().any(|v| v % 16 == 0);
                u32::from(any) | u32::from(lanes[20..].iter().all(|&v| v > 9)) << 1
            }
        };
        assert_eq!(got[t], wanted, "thread {t}");
    }
}

#[test]
fn a_value_from_a_lane_that_takes_no_part_is_a_nan() {
    let (_, got) = on_lanes(|lane, v| if lane < 4 { warp::shfl_down_masked(0xf, v, 1) } else { 0 });
    assert!(f32::from_bits(got[3]).is_nan());
    let out = Array::<u32>::poisoned(40);
    each_seed(1, 40, || {
        let t = thread::thread_idx_x();
        out.store(t as usize, warp::shfl_xor(t, 16) ^ warp::ballot(true));
    });
    let got = out.values();
    assert!((0..32).all(|t| got[t] == (t as u32 ^ 16) ^ u32::MAX));
    assert!((32..40).all(|t| f32::from_bits(got[t] ^ 0xff).is_nan()));
}

#[test]
fn sync_warp_orders_shared_memory_within_a_warp() {
    let out = Array::<u32>::poisoned(64);
    each_seed(1, 64, || {
        let slots = shared_array![u32; 64];
        let t = thread::thread_idx_x() as usize;
        // SAFETY: t < 64; each warp reads its own lanes' words, after `sync_warp`.
        unsafe {
            shared::store(slots.add(t), t as u32);
            warp::sync_warp(warp::FULL_MASK);
            out.store(t, shared::load(slots.add(t ^ 31)));
        }
    });
    assert!(out.values().into_iter().eq((0..64).map(|t| t ^ 31)));
}

/// The primitive and the threads of a divergence.
fn divergence(body: impl Fn(u32) + Sync) -> (&'static str, Vec<String>) {
    let fault = fault_of(32, || body(warp::lane_id()));
    let Fault::Divergence { primitive, threads, .. } = fault else { panic!("{fault}") };
    (primitive, threads.into_iter().map(|t| t.doing).collect())
}

#[test]
fn lanes_that_are_not_together_are_divergent() {
    let (primitive, doing) = divergence(|lane| {
        if lane < 16 {
            let _ = warp::ballot(true);
        }
    });
    assert_eq!(primitive, "ballot");
    assert!(doing[15].starts_with("waits at ballot") && doing[16] == "has exited", "{doing:?}");

    let (primitive, doing) = divergence(|lane| {
        if lane == 20 {
            thread::sync_threads();
        }
        let _ = warp::shfl_xor(lane, 1);
    });
    assert_eq!(primitive, "shfl_xor");
    assert!(doing[20].starts_with("waits at sync_threads"), "{doing:?}");

    let (primitive, doing) = divergence(|lane| {
        let _ = if lane < 31 { warp::shfl_xor(lane, 1) } else { warp::shfl_down(lane, 1) };
    });
    assert_eq!(primitive, "shfl_down");
    assert!(doing[0].starts_with("waits at shfl_xor"), "{doing:?}");

    let (primitive, _) = divergence(|lane| warp::sync_warp(if lane == 3 { 0xf } else { warp::FULL_MASK }));
    assert_eq!(primitive, "sync_warp");
}

#[test]
fn wrong_masks_and_widths_are_named() {
    let fault = fault_of(32, || warp::sync_warp(0xffff));
    let Fault::BadOperand { place, primitive: "sync_warp", problem } = &fault else { panic!("{fault}") };
    assert_eq!((place.thread, problem.as_str()), ([16, 0, 0], "mask 0x0000ffff does not name the calling lane 16"));
    let fault = fault_of(32, || {
        let _ = warp::shfl_xor_width(1u32, 1, 12);
    });
    let Fault::BadOperand { problem, .. } = &fault else { panic!("{fault}") };
    assert_eq!(problem, "width 12 is none of 1, 2, 4, 8, 16, 32");
}
