//! Thread and block indices.

use crate::rig::{UNWRITTEN, rigs};
use varve::backend::Launch;
use varve_gpu::probe::index::{INDEX_RESULTS, PROBE_INDEX};

#[test]
fn indices_and_extents_are_those_of_the_launch() {
    let launch = Launch { grid: [3, 2, 4], block: [5, 3, 2], dynamic_shared: 0 };
    let threads: u32 = launch.grid.iter().chain(&launch.block).product();
    let mut expected = Vec::new();
    let [gx, gy, gz] = launch.grid;
    let [bx, by, bz] = launch.block;
    for (z, y, x) in product(gz, gy, gx) {
        for (tz, ty, tx) in product(bz, by, bx) {
            expected.extend([tx, ty, tz, x, y, z, bx, by, bz, gx, gy, gz]);
        }
    }
    for rig in rigs() {
        let start = vec![UNWRITTEN; threads as usize * INDEX_RESULTS];
        assert_eq!(rig.words(&PROBE_INDEX, launch, &[0], &start), expected, "{rig}");
    }
}

fn product(a: u32, b: u32, c: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}
