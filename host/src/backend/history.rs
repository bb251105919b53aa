//! The last launches of a device, kept so that a failure found later can name them.

use super::cuda::api::Code;
use super::error::LaunchShape;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Launches kept: enough for the layer in flight, short enough to read.
const KEPT: usize = 16;

/// What was enqueued.
#[derive(Clone, Debug)]
pub enum Enqueued {
    /// One kernel.
    Kernel(LaunchShape),
    /// A graph of this many captured steps.
    Graph(usize),
}

/// One entry: the stream's number and what was enqueued on it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of the stream within its device.
    pub stream: u64,
    /// The launch.
    pub what: Enqueued,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Enqueued::Kernel(shape) => write!(f, "stream {}: {shape}", self.stream),
            Enqueued::Graph(steps) => write!(f, "stream {}: graph of {steps} steps", self.stream),
        }
    }
}

/// A kernel failed while it ran, and the context with it. The driver reports it at a later, innocent call; so here are
/// the launches before that call.
#[derive(Clone, Debug)]
pub struct Lost(Arc<LostInner>);

#[derive(Debug)]
struct LostInner {
    spec: String,
    call: &'static str,
    code: Code,
    recent: Vec<Record>,
}

impl Lost {
    /// The driver's answer.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The launches before it, the last one at the end.
    #[must_use]
    pub fn recent(&self) -> &[Record] {
        &self.0.recent
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostInner { spec, call, code, recent } = &*self.0;
        write!(f, "{spec} is lost: a kernel failed while it ran; {call} reported {code}. ")?;
        if recent.is_empty() {
            return f.write_str("Nothing had been launched by this process");
        }
        write!(f, "Launched before, the last one first:")?;
        recent.iter().rev().try_for_each(|r| write!(f, "\n  {r}"))?;
        f.write_str("\nRun the same on `--device emulator` to see which thread did what")
    }
}

impl std::error::Error for Lost {}

/// The last launches of one device, and whether it is lost.
#[derive(Debug, Default)]
pub struct History {
    recent: Mutex<VecDeque<Record>>,
    lost: OnceLock<Lost>,
}

impl History {
    /// Notes a launch.
    pub fn note(&self, stream: u64, what: Enqueued) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == KEPT {
            recent.pop_front();
        }
        recent.push_back(Record { stream, what });
    }

    /// Says that the device is lost; the first call's words stay.
    pub fn lose(&self, spec: &str, call: &'static str, code: Code) -> Lost {
        let first = || {
            let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
            Lost(Arc::new(LostInner { spec: spec.into(), call, code, recent }))
        };
        self.lost.get_or_init(first).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::emulator::Launch;

    #[test]
    fn a_lost_device_names_what_ran_before() {
        let history = History::default();
        for x in 1..=20 {
            let launch = Launch { grid: [x, 1, 1], block: [128, 1, 1], dynamic_shared: 0 };
            history.note(3, Enqueued::Kernel(LaunchShape { kernel: "delta_rec_cols", launch }));
        }
        let text = history.lose("cuda:0", "cuStreamSynchronize", Code(719)).to_string();
        assert!(text.starts_with("cuda:0 is lost"), "{text}");
        let newest = text.find("grid 20 x 1 x 1").expect("the last launch");
        let older = text.find("grid 5 x 1 x 1").expect("the sixteenth from the end");
        assert!(newest < older && !text.contains("grid 4 x"), "{text}");
        assert_eq!(history.lose("cuda:0", "cuMemFree", Code(700)).code(), Code(719), "the first answer stays");
    }
}
