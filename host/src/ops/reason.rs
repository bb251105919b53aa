//! Why a variant does not run, and why an operation was not enqueued.

use crate::backend::{BackendError, LaunchError, ShapeError};

/// Why a variant does not run.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The device is too old.
    #[error("needs compute capability {}.{}, the device has {}.{}", need / 10, need % 10, have / 10, have % 10)]
    Compute {
        /// Needed, 80 = 8.0.
        need: u32,
        /// What the device has.
        have: u32,
    },
    /// The kernel is in another module than the one that the device loads.
    #[error(
        "its kernel is in the module for sm_{need}{} only; the device has compute capability {}.{}",
        if *need == 90 { "a" } else { "" }, have / 10, have % 10
    )]
    Module {
        /// The module's architecture.
        need: u32,
        /// Compute capability of the device.
        have: u32,
    },
    /// A block takes more shared memory than the device gives it.
    #[error("needs {need} B of shared memory a block, the device allows {have} B")]
    Shared {
        /// Bytes of a block.
        need: u32,
        /// The device's limit, opt-in included.
        have: u32,
    },
    /// No instance of the kernel for these sizes.
    #[error("{0}")]
    Sizes(String),
    /// Too many blocks for one wave.
    #[error("{blocks} blocks, but only {resident} are resident at once ({per_sm} an SM, {sms} SMs)")]
    NotResident {
        /// Blocks of the launch.
        blocks: u64,
        /// Blocks the device holds.
        resident: u64,
        /// Blocks an SM holds.
        per_sm: u32,
        /// SMs of the device.
        sms: u32,
    },
    /// More blocks than SMs.
    #[error("{blocks} blocks on {sms} SMs: some SM would get two")]
    Crowded {
        /// Blocks of the launch.
        blocks: u64,
        /// SMs of the device.
        sms: u32,
    },
    /// Fewer than four blocks an SM.
    #[error("only {blocks} blocks for {sms} SMs: some SM would get fewer than four")]
    Sparse {
        /// Blocks of the launch.
        blocks: u64,
        /// SMs of the device.
        sms: u32,
    },
    /// Less than a block for every eighth SM.
    #[error("only {blocks} blocks for {sms} SMs: other variants cut the work smaller")]
    Few {
        /// Blocks of the launch.
        blocks: u64,
        /// SMs of the device.
        sms: u32,
    },
    /// Excluded by a switch.
    #[error("switched off by `{0}`")]
    Switched(String),
    /// Taken only where a switch names it.
    #[error("opt-in: `{switch}` takes it")]
    OptIn {
        /// That switch.
        switch: String,
    },
    /// The operation's table names another variant.
    #[error("the table names `{wanted}` for these sizes; `{switch}` takes this one")]
    Tabled {
        /// What the table names.
        wanted: &'static str,
        /// What takes this one anyway.
        switch: String,
    },
    /// No measurement says that it pays here.
    #[error("not measured on this kind of device; `{switch}` takes it")]
    Unmeasured {
        /// What takes it anyway.
        switch: String,
    },
    /// Too short to pay.
    #[error("{tokens} tokens in the longest sequence; it pays from {from} on ({device})")]
    Short {
        /// Tokens of the longest sequence.
        tokens: usize,
        /// The measured threshold.
        from: usize,
        /// Where it was measured.
        device: &'static str,
    },
    /// Too many sequences to pay.
    #[error("{sequences} sequences; it pays up to {most} ({device})")]
    Many {
        /// Sequences of the call.
        sequences: usize,
        /// The measured threshold.
        most: usize,
        /// Where it was measured.
        device: &'static str,
    },
    /// Its scratch could not be allocated.
    #[error("no scratch: {0}")]
    Scratch(#[source] BackendError),
    /// The occupancy query failed.
    #[error("occupancy query failed: {0}")]
    Occupancy(#[from] BackendError),
}

impl Reason {
    /// Whether the device is to blame, so that its owner wants to know: sizes, switches and measured preferences are not.
    pub(super) fn is_of_device(&self) -> bool {
        match self {
            Self::Compute { .. }
            | Self::Module { .. }
            | Self::Shared { .. }
            | Self::NotResident { .. }
            | Self::Crowded { .. }
            | Self::Scratch(_)
            | Self::Occupancy(_) => true,
            Self::Sizes(_)
            | Self::Sparse { .. }
            | Self::Few { .. }
            | Self::Switched(_)
            | Self::OptIn { .. }
            | Self::Tabled { .. }
            | Self::Unmeasured { .. }
            | Self::Short { .. }
            | Self::Many { .. } => false,
        }
    }
}

/// An operation that was not enqueued.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// An operand that is not of the shape, or not laid out as the kernels read it.
    #[error(transparent)]
    Layout(#[from] ShapeError),
    /// A size or stride the kernels cannot take.
    #[error("{op}: {what} is {got}, {rule}")]
    Value {
        /// Operation.
        op: &'static str,
        /// What is wrong.
        what: &'static str,
        /// Its value.
        got: String,
        /// What it must satisfy.
        rule: &'static str,
    },
    /// No operation of that name.
    #[error("there is no operation `{name}`; known: {known}")]
    NoOp {
        /// What was asked for.
        name: String,
        /// Operations.
        known: String,
    },
    /// No variant of that name.
    #[error("{op} has no variant `{name}`; known: {known}")]
    NoVariant {
        /// Operation.
        op: &'static str,
        /// What was asked for.
        name: String,
        /// Names in the table.
        known: String,
    },
    /// The named variant cannot run here.
    #[error("{op}/{variant} does not run here: {reason}")]
    Unfit {
        /// Operation.
        op: &'static str,
        /// Variant.
        variant: &'static str,
        /// Why.
        reason: Box<Reason>,
    },
    /// No row of the table fits.
    #[error("{op}: no variant runs here: {reason}")]
    NoneFits {
        /// Operation.
        op: &'static str,
        /// The base's reason.
        reason: String,
    },
    /// The launch failed.
    #[error(transparent)]
    Launch(Box<LaunchError>),
}

impl From<LaunchError> for OpError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(Box::new(error))
    }
}
