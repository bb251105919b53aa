//! Time of launches by kernel: two events around each, read when the host waits anyway.
//!
//! The stream is held until some launches are enqueued, so that none waits for the host between its events. These keep launches
//! apart that would otherwise overlap, and take a microsecond or two: an H200 shows 3.8 us for the smallest kernels. So a sum is an
//! upper bound, and kernels of a few microseconds are compared with each other, not with `varve bench`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::device::Device;
use super::error::{BackendError, LaunchError};
use super::event::Event;
use super::stream::Stream;

/// Launches that wait behind one hold: with their events far fewer than a driver's queue takes, which would wait for the
/// stream, but enough that the host is done with the next ones before they have run.
const HELD: usize = 128;

/// Launches of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// How many.
    pub launches: u64,
    /// Microseconds of all.
    pub us: f64,
}

/// What the launches of streams that were given this took.
pub struct Profile {
    device: Device,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Launches whose times nobody has read yet: symbol, start, end.
    pending: Vec<(&'static str, Event, Event)>,
    /// Events to use again.
    spare: Vec<Event>,
    /// Launches behind the newest hold.
    held: usize,
    costs: BTreeMap<&'static str, Cost>,
}

impl Profile {
    /// Nothing yet.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), inner: Mutex::default() }
    }

    /// Times what `enqueue` puts on the stream, under a kernel's symbol.
    pub(super) fn around(
        &self,
        stream: &Stream,
        symbol: &'static str,
        enqueue: impl FnOnce() -> Result<(), LaunchError>,
    ) -> Result<(), LaunchError> {
        let events = self.events(stream).and_then(|(start, end)| stream.record(&start).map(|()| (start, end)));
        enqueue()?;
        // A card that cannot record has failed, which the call that waits reports.
        if let Ok((start, end)) = events
            && stream.record(&end).is_ok()
        {
            self.inner().pending.push((symbol, start, end));
        }
        Ok(())
    }

    /// Events for a launch, which waits behind a hold.
    fn events(&self, stream: &Stream) -> Result<(Event, Event), BackendError> {
        let inner = &mut *self.inner();
        if inner.held == HELD || !stream.is_held() {
            // Making an event would let a hold go.
            while inner.spare.len() < 2 * HELD {
                inner.spare.push(Event::new(&self.device)?);
            }
            stream.hold()?;
            inner.held = 0;
        }
        inner.held += 1;
        let mut event = || inner.spare.pop().map_or_else(|| Event::new(&self.device), Ok);
        Ok((event()?, event()?))
    }

    /// Reads the times of all launches so far, waiting for the last.
    ///
    /// # Errors
    /// [`BackendError::Lost`] if a kernel failed.
    pub fn settle(&self) -> Result<(), BackendError> {
        let inner = &mut *self.inner();
        for (symbol, start, end) in std::mem::take(&mut inner.pending) {
            let us = Event::elapsed_us(&start, &end)?;
            let cost = inner.costs.entry(symbol).or_default();
            cost.launches += 1;
            cost.us += us;
            inner.spare.extend([start, end]);
        }
        Ok(())
    }

    /// The costs so far by kernel symbol; they start anew.
    #[must_use]
    pub fn take(&self) -> BTreeMap<&'static str, Cost> {
        std::mem::take(&mut self.inner().costs)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
