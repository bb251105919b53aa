//! What dispatch may know about a device, and the published figures of some cards for tests without them.

/// The properties of a device that choices depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The card's name as its driver says it.
    pub name: String,
    /// Compute capability times ten: 90 is 9.0.
    pub cc: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Most shared memory of one block, static and dynamic together, in bytes (with the opt-in attribute).
    pub shared_optin_bytes: u32,
    /// Shared memory of one SM, in bytes.
    pub shared_per_sm_bytes: u32,
    /// 32-bit registers of one SM.
    pub regs_per_sm: u32,
    /// Most resident threads of one SM.
    pub max_threads_per_sm: u32,
    /// Most resident blocks of one SM.
    pub max_blocks_per_sm: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Version of the driver, or what stands in for it.
    pub driver: String,
    /// True where kernels run on the emulator, whatever card the figures above describe.
    pub is_emulator: bool,
}

impl Caps {
    /// The architecture of the embedded module that this device runs: 90 is `sm_90a`, which cards of compute capability
    /// 9.0 alone can load; `None` below 7.5, for which no module exists.
    #[must_use]
    pub fn module_sm(&self) -> Option<u32> {
        match self.cc {
            90 => Some(90),
            80.. => Some(80),
            75.. => Some(75),
            _ => None,
        }
    }

    /// Compute capability as NVIDIA writes it: `9.0`.
    #[must_use]
    pub fn cc_text(&self) -> String {
        format!("{}.{}", self.cc / 10, self.cc % 10)
    }

    /// The emulator's own figures: a Hopper card's limits, since it runs every kernel, and one SM for each worker.
    #[must_use]
    pub fn emulator(workers: u32) -> Self {
        Self {
            name: "SIMT emulator".into(),
            sms: workers,
            driver: concat!("varve ", env!("CARGO_PKG_VERSION")).into(),
            is_emulator: true,
            ..card("H200", 90, 1, 0)
        }
    }
}

/// Per-SM figures by compute capability: (shared bytes an SM, threads, blocks), CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability". The opt-in limit of a block is 1 KiB less from 8.0 on.
fn sm_limits(cc: u32) -> (u32, u32, u32) {
    match cc {
        ..80 => (64 << 10, 1024, 16),
        80 => (164 << 10, 2048, 32),
        86 => (100 << 10, 1536, 16),
        89 => (100 << 10, 1536, 24),
        90..120 => (228 << 10, 2048, 32),
        _ => (100 << 10, 1536, 24),
    }
}

/// Bytes of shared memory that the system keeps for itself in each block.
pub(super) fn reserved_shared_bytes(cc: u32) -> u32 {
    if cc >= 80 { 1 << 10 } else { 0 }
}

fn card(name: &str, cc: u32, sms: u32, l2_mib: u64) -> Caps {
    let (shared_per_sm_bytes, max_threads_per_sm, max_blocks_per_sm) = sm_limits(cc);
    Caps {
        name: name.into(),
        cc,
        sms,
        shared_optin_bytes: shared_per_sm_bytes - reserved_shared_bytes(cc),
        shared_per_sm_bytes,
        regs_per_sm: 1 << 16,
        max_threads_per_sm,
        max_blocks_per_sm,
        l2_bytes: l2_mib << 20,
        driver: "none: published figures".into(),
        is_emulator: false,
    }
}

/// Published figures of cards, for tests of choices that need no card.
///
/// SMs and L2 are those of the vendor's architecture papers, but for the H200's L2, which is what its driver reports
/// (580.159). "CMP 170HX" is the GA100 with 70 SMs.
#[must_use]
pub fn known_cards() -> Vec<Caps> {
    vec![
        card("H200", 90, 132, 60),
        card("H100", 90, 132, 50),
        card("A100", 80, 108, 40),
        card("CMP 170HX", 80, 70, 32),
        card("RTX 5090", 120, 170, 96),
        card("RTX 4090", 89, 128, 72),
        card("RTX 4080 SUPER", 89, 80, 64),
        card("RTX 3090", 86, 82, 6),
        card("L4", 89, 58, 48),
        card("T4", 75, 40, 4),
    ]
}

/// The known card of this name.
#[must_use]
pub fn known_card(name: &str) -> Option<Caps> {
    known_cards().into_iter().find(|c| c.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_go_by_compute_capability() {
        let module = |cc| Caps { cc, ..card("any", 80, 1, 1) }.module_sm();
        let chosen = [70, 75, 80, 86, 89, 90, 100, 120].map(module);
        assert_eq!(chosen, [None, Some(75), Some(80), Some(80), Some(80), Some(90), Some(80), Some(80)]);
    }

    #[test]
    fn known_cards_have_the_published_shared_memory() {
        let shared = |name: &str| known_card(name).map(|c| (c.shared_optin_bytes, c.shared_per_sm_bytes));
        assert_eq!(shared("H200"), Some((232_448, 233_472)));
        assert_eq!(shared("A100"), Some((166_912, 167_936)));
        assert_eq!(shared("RTX 4090"), Some((101_376, 102_400)));
        assert_eq!(shared("T4"), Some((65_536, 65_536)));
        assert_eq!(shared("GTX 1080"), None);
    }
}
