//! Holding a stream: what is enqueued behind a hold starts when that is let go, and so does not wait for the host in between.
//!
//! A hold is a host function of the stream that waits for a gate. Every call of the driver but launches and records opens it
//! first ([`Context::bind`]), since one that waits for the stream would wait for ever; and it opens itself after a while.

use super::super::error::BackendError;
use super::api::{self, Code};
use super::context::Context;
use super::stream::Stream;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest hold, if nobody lets it go: what was enqueued by then runs, and the host's waits are in its times.
const LONGEST: Duration = Duration::from_secs(1);

/// What a held stream waits for.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Waits until it is open, for `longest` at most; says whether it is.
    fn pass(&self, longest: Duration) -> bool {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.opened.wait_timeout_while(is_open, longest, |is_open| !*is_open);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The hold of a device that is not let go yet.
#[derive(Default)]
pub struct Hold(Mutex<Option<Arc<Gate>>>);

impl Hold {
    fn replace(&self, gate: Option<Arc<Gate>>) {
        let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), gate);
        if let Some(old) = old {
            old.open();
        }
    }

    /// Lets the stream go on.
    pub fn let_go(&self) {
        self.replace(None);
    }

    fn is_held(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Waits at the gate, on a thread of the driver.
///
/// # Safety
/// `gate` is a reference of an [`Arc<Gate>`] that this call takes over.
unsafe extern "C" fn pass(gate: *mut c_void) {
    // SAFETY: the caller's contract.
    let gate = unsafe { Arc::from_raw(gate.cast::<Gate>().cast_const()) };
    gate.pass(LONGEST);
}

impl Stream {
    /// Holds what is enqueued from here on, and lets the hold before go.
    pub fn hold(&self) -> Result<(), BackendError> {
        let context: &Context = self.context();
        context.enter()?;
        let gate = Arc::new(Gate::default());
        let given = Arc::into_raw(gate.clone()).cast_mut();
        // SAFETY: the stream lives; the driver calls the function once, or never if the device is lost before.
        let code = unsafe { api::cuLaunchHostFunc(self.raw(), pass, given.cast()) };
        if code != Code::SUCCESS {
            // SAFETY: the driver did not take the reference that was given to it.
            drop(unsafe { Arc::from_raw(given.cast_const()) });
        }
        context.check("cuLaunchHostFunc", code)?;
        context.hold.replace(Some(gate));
        Ok(())
    }

    /// Whether the newest hold is not let go yet.
    pub fn is_held(&self) -> bool {
        self.context().hold.is_held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_waits_until_it_is_opened_or_long_enough() {
        let (hold, gate) = (Hold::default(), Arc::new(Gate::default()));
        assert!(!gate.pass(Duration::from_millis(1)), "nobody opened it");
        hold.replace(Some(gate.clone()));
        assert!(hold.is_held());
        let waiting = std::thread::spawn(move || gate.pass(Duration::from_secs(60)));
        let next = Arc::new(Gate::default());
        hold.replace(Some(next.clone())); // the next hold lets the one before go
        assert!(waiting.join().expect("no panic"));
        assert!(!next.pass(Duration::from_millis(1)));
        hold.let_go();
        assert!(next.pass(Duration::ZERO) && !hold.is_held());
    }
}
