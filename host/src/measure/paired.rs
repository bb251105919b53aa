//! Arms that alternate in one process: a card lowers its clock under load, so only figures of one rotation compare.

/// Times of one arm in microseconds a call.
#[derive(Clone, Debug)]
pub struct Times {
    sorted: Vec<f64>,
}

impl Times {
    fn new(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self { sorted: times }
    }

    /// Median of the rounds.
    pub fn median(&self) -> f64 {
        let n = self.sorted.len();
        if n % 2 == 1 { self.sorted[n / 2] } else { (self.sorted[n / 2 - 1] + self.sorted[n / 2]) / 2.0 }
    }

    /// Fastest round.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// Slowest round.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }
}

/// Runs every arm once a round, another one first in each round: `warmup` rounds that do not count, then `rounds` that
/// do. `time` runs one arm and returns microseconds a call.
///
/// # Errors
/// The first error of `time`.
pub fn alternate<E>(
    arms: usize,
    warmup: usize,
    rounds: usize,
    mut time: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Vec<Times>, E> {
    let mut times = vec![Vec::with_capacity(rounds); arms];
    for round in 0..warmup + rounds {
        for i in 0..arms {
            let arm = (round + i) % arms;
            let us = time(arm)?;
            if round >= warmup {
                times[arm].push(us);
            }
        }
    }
    Ok(times.into_iter().map(Times::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_take_turns_in_going_first() {
        let mut order = Vec::new();
        let times = alternate::<()>(3, 1, 3, |arm| {
            order.push(arm);
            Ok(order.len() as f64)
        })
        .expect("no arm fails");
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
        assert_eq!(times[0].median(), 8.0, "calls 6, 8 and 10");
        assert_eq!((times[1].min(), times[1].max()), (4.0, 11.0));
    }
}
