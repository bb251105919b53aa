//! Dispatch as data: one table an operation, one function that walks it, one that explains the walk.

use std::collections::HashSet;
use std::sync::Mutex;

use cuda_std::launch::Kernel;

use super::exactness::Exactness;
use super::switches::Switches;
use super::tuning;
use crate::backend::{BackendError, Caps, Device, Launch, Stream};

pub use super::reason::{OpError, Reason};
pub use super::variant::{Needs, Preferred, Spread, Staged, Step, Variant};

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

    /// What row `name` promises; no other name has results to hold to it.
    #[must_use]
    pub fn promise_of(&self, name: &str) -> Exactness {
        self.row(name).map_or(Exactness::Bitwise, |row| row.exactness)
    }

    /// In one word what the variant of that name promises.
    pub fn word_of(&self, name: &str) -> &'static str {
        self.row(name).map_or("unknown", |row| row.exactness.word())
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
        let have = caps.cc;
        if have < row.needs.cc {
            return Err(Reason::Compute { need: row.needs.cc, have });
        }
        let kernel = (row.kernel)(ask).map_err(Reason::Sizes)?;
        let need = kernel.info().sm;
        if caps.module_sm().is_none_or(|module| module < need) {
            return Err(Reason::Module { need, have });
        }
        let launch = (row.launch)(ask);
        if launch.dynamic_shared > caps.shared_optin_bytes {
            return Err(Reason::Shared { need: launch.dynamic_shared, have: caps.shared_optin_bytes });
        }
        Ok(Choice { variant: row.name, kernel, launch })
    }

    /// What `row` launches on `target` if all that it needs is there; whether it is preferred is another matter.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn fit(&self, row: &'static Variant<A, P>, target: &impl Target, ask: &A) -> Result<Choice<P>, Reason> {
        let choice = self.launch_of(row, target.caps(), ask)?;
        let Launch { grid, block, dynamic_shared } = choice.launch;
        let (of_sequence, sms) = (u64::from(grid[0]), target.caps().sms);
        let all: u64 = grid.iter().map(|&n| u64::from(n)).product();
        match row.needs.spread {
            Spread::BlockAnSm if of_sequence > u64::from(sms) => Err(Reason::Crowded { blocks: of_sequence, sms }),
            Spread::FourAnSm if all < 4 * u64::from(sms) => Err(Reason::Sparse { blocks: all, sms }),
            Spread::AnEighth if 8 * all < u64::from(sms) => Err(Reason::Few { blocks: all, sms }),
            Spread::Any | Spread::BlockAnSm | Spread::FourAnSm | Spread::AnEighth => Ok(choice),
            Spread::OneWave => {
                let per_sm = target.blocks_per_sm(choice.kernel, block.iter().product(), dynamic_shared)?;
                let (blocks, resident) = (of_sequence, u64::from(per_sm) * u64::from(sms));
                if blocks > resident {
                    return Err(Reason::NotResident { blocks, resident, per_sm, sms });
                }
                Ok(choice)
            }
        }
    }

    /// What `row` launches if switches let it, `target` has what it needs, and it is preferred there or named by a switch.
    fn judge(
        &self,
        row: &'static Variant<A, P>,
        dispatch: &Dispatch,
        target: &impl Target,
        ask: &A,
    ) -> Result<Choice<P>, Reason> {
        if let Some(switch) = dispatch.switches.excludes(self.op, row.name, self.base().name) {
            return Err(Reason::Switched(switch));
        }
        let choice = self.fit(row, target, ask)?;
        self.wanted(row, dispatch, target, ask).map(|()| choice)
    }

    /// Whether a row that fits is to be taken.
    fn wanted(
        &self,
        row: &'static Variant<A, P>,
        dispatch: &Dispatch,
        target: &impl Target,
        ask: &A,
    ) -> Result<(), Reason> {
        if dispatch.switches.names(self.op, row.name) {
            return Ok(());
        }
        let switch = || format!("{}={}", self.op, row.name);
        match &row.preferred {
            Preferred::Always => Ok(()),
            Preferred::OptIn => Err(Reason::OptIn { switch: switch() }),
            Preferred::Tabled(named) => match named(ask) {
                wanted if wanted == row.name => Ok(()),
                wanted => Err(Reason::Tabled { wanted, switch: switch() }),
            },
            Preferred::Measured { table, size } => tuning::pays(table, target.caps(), size(ask), &switch()),
        }
    }

    /// Every row with its reason; exactly one is chosen unless the base itself does not fit.
    pub fn explain(&self, dispatch: &Dispatch, target: &impl Target, ask: &A) -> Vec<Explained> {
        let mut taken = false;
        let explain = |row: &'static Variant<A, P>| {
            let fit = self.judge(row, dispatch, target, ask);
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
        let launch = |row: &'static Variant<A, P>, choice: Choice<P>| {
            let Choice { kernel, launch, .. } = choice;
            // SAFETY: the caller's contract; the row's `launch` and `steps` give the grids that the headers ask for.
            unsafe { row.run(stream, ask, Step { kernel, launch, params, early: false }) }
                .map(|run| run.map(|()| row.name))
        };
        match by {
            Pick::Best(dispatch) => self.first(dispatch, device, ask, launch),
            Pick::Named(name) => {
                let row = self.row(name)?;
                let unfit = |reason| OpError::Unfit { op: self.op, variant: row.name, reason: Box::new(reason) };
                launch(row, self.launch_of(row, device.caps(), ask).map_err(unfit)?)?.map_err(unfit)
            }
        }
    }

    /// The first row that is to run. A row passed over for the device's sake is named in the log, once.
    ///
    /// # Errors
    /// [`OpError::NoneFits`] with the base's reason when not even the base runs.
    pub fn select(&self, dispatch: &Dispatch, target: &impl Target, ask: &A) -> Result<Choice<P>, OpError> {
        self.first(dispatch, target, ask, |_, choice| Ok(Ok(choice)))
    }

    /// What `take` makes of the first row that is to run and that it does not refuse.
    fn first<R>(
        &self,
        dispatch: &Dispatch,
        target: &impl Target,
        ask: &A,
        take: impl Fn(&'static Variant<A, P>, Choice<P>) -> Result<Result<R, Reason>, OpError>,
    ) -> Result<R, OpError> {
        let mut last = None;
        for row in self.rows {
            let taken = match self.judge(row, dispatch, target, ask) {
                Ok(choice) => take(row, choice)?,
                Err(reason) => Err(reason),
            };
            match taken {
                Ok(taken) => return Ok(taken),
                Err(Reason::Switched(_)) => {}
                Err(reason) => {
                    // Of a row that would not be taken anyway it is no news.
                    if reason.is_of_device() && self.wanted(row, dispatch, target, ask).is_ok() {
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
