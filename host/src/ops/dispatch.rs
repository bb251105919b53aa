//! Dispatch as data: one table an operation, one function that walks it, one that explains the walk.

use std::collections::HashSet;
use std::sync::Mutex;

use cuda_std::launch::Kernel;

use super::exactness::Exactness;
use super::switches::Switches;
use crate::backend::{BackendError, Caps, Device, Launch, LaunchError, ShapeError, Stream};

/// What a variant needs of the device, apart from sizes.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Least compute capability, 75 = 7.5.
    pub cc: u32,
    /// How the launch's blocks must fit on the SMs for the variant to pay.
    pub spread: Spread,
}

/// How a launch's blocks must fit on the SMs. Speed only: a kernel runs in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// It does not matter.
    Any,
    /// All blocks resident at once: each walks all tokens, so a second wave would double the time.
    OneWave,
    /// No SM gets two blocks: a warp has its scheduler for itself.
    BlockAnSm,
    /// Every SM gets four blocks: fewer would leave memory bandwidth unused.
    FourAnSm,
}

impl Needs {
    /// Runs everywhere.
    pub const ANY: Self = Self { cc: 0, spread: Spread::Any };
}

/// One implementation of an operation for sizes `A` with launch parameters `P`.
pub struct Variant<A: 'static, P: Copy + 'static> {
    /// Name after the slash of `op/name`.
    pub name: &'static str,
    /// The kernel instance for these sizes, or why there is none. Pure.
    pub kernel: fn(&A) -> Result<&'static Kernel<P>, String>,
    /// Grid, block and dynamic shared memory for these sizes. Pure; called only when `kernel` gave one.
    pub launch: fn(&A) -> Launch,
    /// Device requirements.
    pub needs: Needs,
    /// Promise against the base row.
    pub exactness: Exactness,
}

impl<A: 'static, P: Copy + 'static> Variant<A, P> {
    /// The base of an operation: runs on every device.
    pub const fn base(
        name: &'static str,
        kernel: fn(&A) -> Result<&'static Kernel<P>, String>,
        launch: fn(&A) -> Launch,
    ) -> Self {
        Self { name, kernel, launch, needs: Needs::ANY, exactness: Exactness::Base }
    }
}

/// An operation's variants in order of preference; the last row is the base and runs everywhere.
pub struct Table<A: 'static, P: Copy + 'static> {
    /// Operation name, family first: `delta.rec`.
    pub op: &'static str,
    /// Rows, most wanted first.
    pub rows: &'static [Variant<A, P>],
}

/// The device as dispatch sees it: a real one, or a known card in a test.
pub trait Target {
    /// Limits of the device.
    fn caps(&self) -> &Caps;
    /// Blocks of the kernel that one SM holds.
    ///
    /// # Errors
    /// What the driver said.
    fn blocks_per_sm<P: Copy>(
        &self,
        kernel: &Kernel<P>,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<u32, BackendError>;
}

impl Target for Device {
    fn caps(&self) -> &Caps {
        Self::caps(self)
    }

    fn blocks_per_sm<P: Copy>(
        &self,
        kernel: &Kernel<P>,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<u32, BackendError> {
        Self::blocks_per_sm(self, kernel, threads, dynamic_shared)
    }
}

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
    /// Excluded by a switch.
    #[error("switched off by `{0}`")]
    Switched(String),
    /// The occupancy query failed.
    #[error("occupancy query failed: {0}")]
    Occupancy(#[from] BackendError),
}

/// What to launch.
pub struct Choice<P: Copy + 'static> {
    /// Variant name.
    pub variant: &'static str,
    /// Kernel instance.
    pub kernel: &'static Kernel<P>,
    /// Grid, block, dynamic shared memory.
    pub launch: Launch,
}

/// One line of an explanation.
pub struct Explained {
    /// Variant name.
    pub variant: &'static str,
    /// Its promise.
    pub exactness: Exactness,
    /// True for the row that runs.
    pub chosen: bool,
    /// Kernel symbol where there is an instance for the sizes.
    pub kernel: Option<&'static str>,
    /// Why it does not run; none for the chosen row and for rows behind it that could run.
    pub reason: Option<Reason>,
}

impl<A, P: Copy + 'static> Table<A, P> {
    /// The base variant.
    pub fn base(&self) -> &'static Variant<A, P> {
        &self.rows[self.rows.len() - 1]
    }

    /// The operation's name and its variants', most wanted first.
    pub fn listed(&self) -> (&'static str, Vec<&'static str>) {
        (self.op, self.rows.iter().map(|row| row.name).collect())
    }

    /// The row of that name.
    ///
    /// # Errors
    /// [`OpError::NoVariant`] lists the names.
    pub fn row(&self, name: &str) -> Result<&'static Variant<A, P>, OpError> {
        self.rows.iter().find(|row| row.name == name).ok_or_else(|| OpError::NoVariant {
            op: self.op,
            name: name.to_owned(),
            known: self.listed().1.join(", "),
        })
    }

    /// What `row` launches for these sizes where it can run at all; whether that is wise is [`Self::fit`]'s matter.
    ///
    /// # Errors
    /// The reason why it cannot run.
    pub fn launch_of(&self, row: &'static Variant<A, P>, caps: &Caps, ask: &A) -> Result<Choice<P>, Reason> {
        if caps.cc < row.needs.cc {
            return Err(Reason::Compute { need: row.needs.cc, have: caps.cc });
        }
        let kernel = (row.kernel)(ask).map_err(Reason::Sizes)?;
        Ok(Choice { variant: row.name, kernel, launch: (row.launch)(ask) })
    }

    /// What `row` launches on `target` if all its conditions hold, switches aside.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn fit(&self, row: &'static Variant<A, P>, target: &impl Target, ask: &A) -> Result<Choice<P>, Reason> {
        let choice = self.launch_of(row, target.caps(), ask)?;
        let launch = &choice.launch;
        let blocks: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
        let sms = target.caps().sms;
        match row.needs.spread {
            Spread::Any => {}
            Spread::BlockAnSm if blocks > u64::from(sms) => return Err(Reason::Crowded { blocks, sms }),
            Spread::FourAnSm if blocks < 4 * u64::from(sms) => return Err(Reason::Sparse { blocks, sms }),
            Spread::BlockAnSm | Spread::FourAnSm => {}
            Spread::OneWave => {
                let threads = launch.block.iter().product();
                let per_sm = target.blocks_per_sm(choice.kernel, threads, launch.dynamic_shared)?;
                let resident = u64::from(per_sm) * u64::from(sms);
                if blocks > resident {
                    return Err(Reason::NotResident { blocks, resident, per_sm, sms });
                }
            }
        }
        Ok(choice)
    }

    /// Every row with its reason; exactly one is chosen unless the base itself does not fit.
    pub fn explain(&self, dispatch: &Dispatch, target: &impl Target, ask: &A) -> Vec<Explained> {
        let mut taken = false;
        let explain = |row: &'static Variant<A, P>| {
            let fit = match dispatch.switches.excludes(self.op, row.name, self.base().name) {
                Some(switch) => Err(Reason::Switched(switch)),
                None => self.fit(row, target, ask),
            };
            let chosen = fit.is_ok() && !taken;
            taken |= chosen;
            let kernel = (row.kernel)(ask).ok().map(|kernel| kernel.symbol());
            Explained { variant: row.name, exactness: row.exactness, chosen, kernel, reason: fit.err() }
        };
        self.rows.iter().map(explain).collect()
    }

    /// Launches the preferred variant, or the one named by `by`, and returns its name.
    ///
    /// # Errors
    /// [`OpError::NoneFits`], or for a named one [`OpError::NoVariant`] and [`OpError::Unfit`]; [`OpError::Launch`].
    ///
    /// # Safety
    /// `params` satisfies the contract of every kernel of the table for the sizes `ask`.
    pub unsafe fn enqueue(
        &'static self,
        by: Pick<'_>,
        stream: &Stream,
        ask: &A,
        params: P,
    ) -> Result<&'static str, OpError> {
        let device = stream.device();
        let choice = match by {
            Pick::Best(dispatch) => self.select(dispatch, device, ask)?,
            Pick::Named(name) => {
                let row = self.row(name)?;
                self.launch_of(row, device.caps(), ask).map_err(|reason| OpError::Unfit {
                    op: self.op,
                    variant: row.name,
                    reason: Box::new(reason),
                })?
            }
        };
        // SAFETY: the caller's contract; the table's `launch` gives the grid that the kernel's header asks for.
        unsafe { stream.launch(choice.kernel, choice.launch, params)? };
        Ok(choice.variant)
    }

    /// The first row that fits. A row passed over for the device's sake is named in the log, once.
    ///
    /// # Errors
    /// [`OpError::NoneFits`] with the base's reason when not even the base runs.
    pub fn select(&self, dispatch: &Dispatch, target: &impl Target, ask: &A) -> Result<Choice<P>, OpError> {
        let mut last = None;
        for row in self.rows {
            if dispatch.switches.excludes(self.op, row.name, self.base().name).is_some() {
                continue;
            }
            match self.fit(row, target, ask) {
                Ok(choice) => return Ok(choice),
                Err(reason) => {
                    if !matches!(reason, Reason::Sizes(_) | Reason::Sparse { .. }) {
                        dispatch.say_once(self.op, row.name, &reason);
                    }
                    last = Some(reason);
                }
            }
        }
        Err(OpError::NoneFits {
            op: self.op,
            reason: last.map_or_else(|| "all rows switched off".into(), |r| r.to_string()),
        })
    }
}

/// How an operation's variant is picked.
#[derive(Clone, Copy, Debug)]
pub enum Pick<'a> {
    /// The most wanted one that runs here.
    Best(&'a Dispatch),
    /// This one, for tests and measurements.
    Named(&'a str),
}

/// Switches, and which fallbacks the log already knows.
#[derive(Debug, Default)]
pub struct Dispatch {
    /// Which variants may run.
    pub switches: Switches,
    said: Mutex<HashSet<String>>,
}

impl Dispatch {
    /// A dispatcher with these switches.
    pub fn new(switches: Switches) -> Self {
        Self { switches, said: Mutex::default() }
    }

    fn say_once(&self, op: &str, variant: &str, reason: &Reason) {
        let line = format!("{op}/{variant} does not run here: {reason}");
        let mut said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if said.insert(line.clone()) {
            tracing::warn!("{line}");
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
