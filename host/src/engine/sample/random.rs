//! Random numbers of one request: PCG32 (XSH-RR, 64-bit state), the same on every machine.

/// A PCG32 generator.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
    increment: u64,
}

/// The stream that the generator's authors use in their example; all requests use it, with seeds of their own.
const STREAM: u64 = 54;

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self { state: 0, increment: STREAM << 1 | 1 };
        random.next_u32();
        random.state = random.state.wrapping_add(seed);
        random.next_u32();
        random
    }

    #[allow(clippy::cast_possible_truncation)] // the algorithm keeps 32 of the 64 bits
    fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.increment);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// A number in [0, 1), a multiple of 2^-53. Takes two steps of the generator.
    pub(super) fn unit(&mut self) -> f64 {
        let bits = u64::from(self.next_u32()) << 32 | u64::from(self.next_u32());
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authors_values_come_out() {
        let mut random = Random::new(42);
        let values: Vec<u32> = (0..6).map(|_| random.next_u32()).collect();
        assert_eq!(values, [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e]);
    }

    #[test]
    fn units_fill_their_interval() {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..10_000).map(|_| random.unit()).collect();
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        assert!((values.iter().sum::<f64>() / 10_000.0 - 0.5).abs() < 0.01);
    }
}
