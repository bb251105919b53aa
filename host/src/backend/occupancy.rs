//! Blocks of a kernel that fit on one SM, estimated from published rules where no driver can be asked.

use super::caps::{Caps, reserved_shared_bytes};
use cuda_std::launch::Bounds;

/// What a compiled kernel takes of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of one thread, as ptxas reports them.
    pub registers: u32,
    /// Static shared memory of one block, in bytes.
    pub static_shared_bytes: u32,
}

impl Resources {
    /// What launch bounds alone tell: the most registers with which `min_blocks` blocks of `threads` still fit, and no
    /// static shared memory. The compiler may use fewer registers, so real occupancy may be higher.
    #[must_use]
    pub fn from_bounds(caps: &Caps, bounds: Bounds) -> Self {
        let warps = bounds.threads.div_ceil(32).max(1) * bounds.min_blocks.max(1);
        let registers = (caps.regs_per_sm / warps / REGISTER_UNIT * REGISTER_UNIT / 32).min(255);
        Self { registers, static_shared_bytes: 0 }
    }
}

/// Registers are given to a warp in units of this many, on every architecture from 7.5 to 12.0.
const REGISTER_UNIT: u32 = 256;
/// Warps are placed on the four quarters of an SM.
const WARP_UNIT: u32 = 4;

/// Estimated resident blocks on one SM; 0 where not even one fits.
///
/// The rules are those of NVIDIA's occupancy calculator: registers go to warps in units of 256 out of a quarter of the
/// file each, shared memory in units of 128 bytes (256 on 7.5) plus what the system reserves. A driver's own answer is
/// better wherever there is one.
#[must_use]
pub fn estimate_blocks_per_sm(caps: &Caps, resources: Resources, block_threads: u32, dynamic_shared: u32) -> u32 {
    if block_threads == 0 || block_threads > 1024 {
        return 0;
    }
    let warps = block_threads.div_ceil(32);
    let by_threads = caps.max_threads_per_sm / 32 / warps;

    let registers_a_warp = (resources.registers * 32).next_multiple_of(REGISTER_UNIT).max(REGISTER_UNIT);
    let warps_by_registers = caps.regs_per_sm / WARP_UNIT / registers_a_warp * WARP_UNIT;
    let by_registers = warps_by_registers / warps;

    let asked = resources.static_shared_bytes.saturating_add(dynamic_shared);
    if asked > caps.shared_optin_bytes {
        return 0;
    }
    let unit = if caps.cc >= 80 { 128 } else { 256 };
    let shared = (asked + reserved_shared_bytes(caps.cc)).next_multiple_of(unit);
    let by_shared = caps.shared_per_sm_bytes.checked_div(shared).unwrap_or(u32::MAX);

    by_threads.min(by_registers).min(by_shared).min(caps.max_blocks_per_sm)
}

#[cfg(test)]
mod tests {
    use super::super::caps::known_card;
    use super::*;

    fn blocks(card: &str, registers: u32, static_shared_bytes: u32, threads: u32, dynamic: u32) -> u32 {
        let caps = known_card(card).expect("a known card");
        estimate_blocks_per_sm(&caps, Resources { registers, static_shared_bytes }, threads, dynamic)
    }

    #[test]
    fn each_resource_can_be_the_limit() {
        assert_eq!(blocks("H200", 16, 0, 128, 0), 16, "threads: 64 warps in blocks of 4");
        assert_eq!(blocks("H200", 16, 0, 32, 0), 32, "blocks");
        assert_eq!(blocks("H200", 186, 0, 128, 0), 2, "registers: 192 * 32 a warp, 2 warps a quarter");
        assert_eq!(blocks("H200", 255, 0, 256, 0), 1, "registers: 8 warps");
        assert_eq!(blocks("H200", 32, 0, 128, 47_360), 4, "shared: 47,360 + 1,024 = 48,384 of 233,472");
        assert_eq!(blocks("RTX 4090", 32, 16, 128, 47_344), 2, "shared: of 102,400");
        assert_eq!(blocks("T4", 32, 0, 1024, 0), 1, "threads of 7.5");
    }

    #[test]
    fn what_cannot_run_is_zero() {
        assert_eq!(blocks("RTX 4090", 32, 0, 128, 101_377), 0);
        assert_eq!(blocks("H200", 32, 0, 1025, 0), 0);
        assert_eq!(blocks("H200", 32, 0, 0, 0), 0);
        assert_eq!(blocks("H200", 255, 0, 1024, 0), 0, "255 registers for 32 warps");
    }

    #[test]
    fn bounds_alone_promise_their_blocks() {
        for caps in super::super::caps::known_cards() {
            for (threads, min_blocks) in [(128, 4), (256, 2), (64, 8), (1024, 1)] {
                let resources = Resources::from_bounds(&caps, Bounds { threads, min_blocks });
                let got = estimate_blocks_per_sm(&caps, resources, threads, 0);
                let room = caps.max_threads_per_sm / threads;
                assert!(got >= min_blocks.min(room), "{}: {threads} x {min_blocks}: {got}", caps.name);
            }
        }
    }
}
