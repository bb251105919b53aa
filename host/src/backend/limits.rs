//! What every launch is checked for before either body sees it, so that both say the same.

use super::caps::Caps;
use super::error::{LaunchError, LaunchShape};
use cuda_std::launch::KernelInfo;

/// Most blocks along x, y, z, and most threads along x, y, z: the same from compute capability 7.5 to 12.0.
const GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const BLOCK: [u32; 3] = [1024, 1024, 64];
/// Most threads of a block.
const BLOCK_THREADS: u32 = 1024;

/// Checks architecture, grid, block and dynamic shared memory of a launch.
///
/// # Errors
/// [`LaunchError::NeedsNewer`] or [`LaunchError::Limit`].
pub fn check(spec: &str, caps: &Caps, info: &KernelInfo, shape: LaunchShape) -> Result<(), LaunchError> {
    let module = caps.module_sm().unwrap_or(0);
    if info.sm > module {
        let (cc, spec) = (caps.cc_text(), spec.to_owned());
        return Err(LaunchError::NeedsNewer { shape, needs: info.sm, cc, module, spec });
    }
    let within = |what: &'static str, got: u64, limit: u32| {
        if (1..=u64::from(limit)).contains(&got) {
            return Ok(());
        }
        let limit = if got == 0 { 1 } else { limit.into() };
        Err(LaunchError::Limit { shape, what, got, limit, spec: spec.to_owned() })
    };
    let launch = shape.launch;
    for (axis, name) in ["grid x", "grid y", "grid z"].into_iter().enumerate() {
        within(name, launch.grid[axis].into(), GRID[axis])?;
    }
    for (axis, name) in ["block x", "block y", "block z"].into_iter().enumerate() {
        within(name, launch.block[axis].into(), BLOCK[axis])?;
    }
    let threads = launch.block.iter().map(|&n| u64::from(n)).product();
    if !launch.grid[0].is_multiple_of(info.cluster) {
        return Err(LaunchError::Cluster { shape, cluster: info.cluster, spec: spec.to_owned() });
    }
    within("threads of a block", threads, BLOCK_THREADS)?;
    within("threads of a block (by the kernel's launch bounds)", threads, info.bounds.threads)?;
    if launch.dynamic_shared > 0 {
        within("dynamic shared memory in bytes", launch.dynamic_shared.into(), caps.shared_optin_bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::caps::known_card;
    use super::*;
    use cuda_std::emulator::Launch;
    use cuda_std::launch::Bounds;

    fn refused(card: &str, sm: u32, grid: [u32; 3], block: [u32; 3], dynamic_shared: u32) -> Option<String> {
        let info = KernelInfo {
            symbol: "probe",
            bounds: Bounds { threads: 256, min_blocks: 1 },
            sm,
            cluster: if sm == 90 { 2 } else { 1 },
            params: "P",
            params_bytes: 8,
            file: file!(),
            line: line!(),
        };
        let shape = LaunchShape { kernel: info.symbol, launch: Launch { grid, block, dynamic_shared } };
        let caps = known_card(card).expect("known");
        check("cuda:0", &caps, &info, shape).err().map(|e| e.to_string())
    }

    #[test]
    fn each_limit_names_kernel_quantity_and_value() {
        assert_eq!(refused("H200", 90, [2, 65_535, 65_535], [16, 1, 16], 232_448), None);
        let cases = [
            (refused("H200", 90, [3, 1, 1], [32, 1, 1], 0), "grid x is 3, no multiple of the 2 blocks of a cluster"),
            (refused("H200", 75, [1 << 31, 1, 1], [32, 1, 1], 0), "grid x is 2147483648, the limit is 2147483647"),
            (refused("H200", 75, [1, 65_536, 1], [32, 1, 1], 0), "grid y is 65536, the limit is 65535"),
            (refused("H200", 75, [1, 1, 0], [32, 1, 1], 0), "grid z is 0, the limit is 1"),
            (refused("H200", 75, [1, 1, 1], [1025, 1, 1], 0), "block x is 1025, the limit is 1024"),
            (refused("H200", 75, [1, 1, 1], [1, 1, 65], 0), "block z is 65, the limit is 64"),
            (refused("H200", 75, [1, 1, 1], [64, 32, 1], 0), "threads of a block is 2048, the limit is 1024"),
            (refused("H200", 75, [1, 1, 1], [257, 1, 1], 0), "launch bounds) is 257, the limit is 256"),
            (refused("H200", 75, [1, 1, 1], [32, 1, 1], 307_200), "in bytes is 307200, the limit is 232448 on cuda:0"),
            (
                refused("T4", 80, [1, 1, 1], [32, 1, 1], 0),
                "needs the module for sm_80; cuda:0 has compute capability 7.5",
            ),
            (refused("RTX 5090", 90, [1, 1, 1], [32, 1, 1], 0), "capability 12.0 and runs the one for sm_80"),
        ];
        for (text, part) in cases {
            let text = text.expect(part);
            assert!(text.starts_with("kernel `probe` (grid ") && text.contains(part), "{part}: {text}");
        }
    }
}
