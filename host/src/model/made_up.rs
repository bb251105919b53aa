//! Made-up state: what a sequence would hold behind many tokens, in random numbers. Its text means nothing; what its passes
//! cost is what they cost at that depth.

use bytemuck::Pod;

use super::rows::Rows;
use crate::backend::{BackendError, Buffer};

/// Values that are written at a time.
const STEP: usize = 1 << 20;

/// Random numbers in -1..1, the same in every run.
pub struct Numbers(u64);

impl Numbers {
    /// From the start.
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Overwrites a buffer with what `of` makes of numbers.
    pub fn fill<T: Pod>(&mut self, buffer: &mut Buffer<T>, of: impl Fn(f32) -> T) -> Result<(), BackendError> {
        for first in (0..buffer.len()).step_by(STEP) {
            let values: Vec<T> = (first..buffer.len().min(first + STEP)).map(|_| of(self.next())).collect();
            buffer.write_at(first, &values)?;
        }
        Ok(())
    }

    /// Overwrites rows with numbers in -1..1.
    pub fn fill_rows(&mut self, rows: &mut Rows<f32>) -> Result<(), BackendError> {
        self.fill(rows.buffer_mut(), |x| x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, EmulatorConfig};

    #[test]
    fn numbers_are_spread_and_the_same_each_time() {
        let device = Device::emulator(EmulatorConfig::default());
        let fill = || {
            let mut rows = Rows::new(&device, 100, 10).expect("fits");
            Numbers::new().fill_rows(&mut rows).expect("writes");
            rows.read(100).expect("reads")
        };
        let values = fill();
        assert_eq!(values, fill());
        assert!(values.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(
            values.iter().filter(|x| **x > 0.5).count() > 150 && values.iter().filter(|x| **x < -0.5).count() > 150
        );
    }
}
