//! The order in which runnable threads (and blocks) take their turns.

use std::collections::VecDeque;

use super::{fault::Fault, launch::Options};

/// A small generator (splitmix64): the same numbers on every machine.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (n > 0, small against 2^32).
    pub fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }
}

/// The runnable threads of a block. Seed 0: first come, first served; else the next one is drawn.
pub(crate) struct Ready {
    queue: VecDeque<u16>,
    rng: Option<Rng>,
}

impl Ready {
    pub fn new(threads: usize) -> Self {
        Self { queue: VecDeque::with_capacity(threads), rng: None }
    }

    /// Makes threads `0..threads` runnable, for block `block` under `seed`.
    pub fn start(&mut self, threads: usize, seed: u64, block: u64) {
        self.rng = (seed != 0).then(|| Rng::new(seed ^ block.wrapping_mul(0xd134_2543_de82_ef95)));
        self.queue.clear();
        self.queue.extend((0..threads).map(|t| t as u16));
    }

    /// True where the thread that completes a barrier queues up with the others instead of going on.
    #[inline]
    pub fn draws(&self) -> bool {
        self.rng.is_some()
    }

    #[inline]
    pub fn push(&mut self, thread: u16) {
        self.queue.push_back(thread);
    }

    #[inline]
    pub fn extend(&mut self, threads: &[u16]) {
        self.queue.extend(threads);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<u16> {
        match &mut self.rng {
            None => self.queue.pop_front(),
            Some(_) if self.queue.is_empty() => None,
            Some(rng) => self.queue.swap_remove_back(rng.below(self.queue.len())),
        }
    }
}

/// A bijection of `0..n`: block k of the order that `seed` gives. Seed 0 is the identity.
pub(crate) struct BlockOrder {
    n: u64,
    factor: u64,
    offset: u64,
}

impl BlockOrder {
    pub fn new(n: u64, seed: u64) -> Self {
        if seed == 0 || n < 2 {
            return Self { n, factor: 1, offset: 0 };
        }
        let mut rng = Rng::new(!seed);
        let offset = rng.next() % n;
        let factor = loop {
            let factor = 1 + rng.next() % n;
            if gcd(factor, n) == 1 {
                break factor;
            }
        };
        Self { n, factor, offset }
    }

    pub fn at(&self, k: u64) -> u64 {
        ((u128::from(k) * u128::from(self.factor) + u128::from(self.offset)) % u128::from(self.n)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Runs `job` once for each seed, with `options` but for the seed, and compares the bytes it returns.
///
/// `job` sets up its memory, launches and gives back the result's bytes. Returns the bytes of the first seed.
///
/// # Errors
/// [`Fault::ScheduleDependent`] names the first two seeds that differ; a fault of `job` is passed on.
pub fn check_schedules(
    kernel: &str,
    seeds: &[u64],
    options: &Options,
    mut job: impl FnMut(&Options) -> Result<Vec<u8>, Fault>,
) -> Result<Vec<u8>, Fault> {
    let mut first: Option<(u64, Vec<u8>)> = None;
    for &seed in seeds {
        let bytes = job(&Options { seed, ..options.clone() })?;
        match &first {
            None => first = Some((seed, bytes)),
            Some((first_seed, wanted)) if *wanted != bytes => {
                let offset = wanted.iter().zip(&bytes).position(|(a, b)| a != b);
                return Err(Fault::ScheduleDependent {
                    kernel: kernel.to_owned(),
                    first: *first_seed,
                    second: seed,
                    offset: offset.unwrap_or(wanted.len().min(bytes.len())),
                });
            }
            Some(_) => {}
        }
    }
    Ok(first.map(|(_, bytes)| bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_order_is_a_bijection() {
        for n in [1, 2, 3, 12, 64, 97, 192] {
            for seed in 0..20 {
                let order = BlockOrder::new(n, seed);
                let mut seen: Vec<u64> = (0..n).map(|k| order.at(k)).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..n), "n {n}, seed {seed}");
            }
        }
    }

    #[test]
    fn ready_gives_each_thread_once_whatever_the_seed() {
        for seed in 0..5 {
            let mut ready = Ready::new(40);
            ready.start(40, seed, 3);
            let mut order: Vec<u16> = std::iter::from_fn(|| ready.pop()).collect();
            assert_eq!(order.is_sorted(), seed == 0);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..40));
        }
    }
}
