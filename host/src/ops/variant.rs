//! One row of an operation's table: what it launches, what it needs, when it is wanted, what it promises.

use cuda_std::launch::Kernel;

use super::exactness::Exactness;
use super::reason::{OpError, Reason};
use super::tuning::Measured;
use crate::backend::{Launch, Stream};

/// What a variant needs of the device, apart from sizes.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Least compute capability, 75 = 7.5. A kernel of the module sm_90a needs 9.0 exactly, which its declaration says.
    pub cc: u32,
    /// How the launch's blocks must fit on the SMs for the variant to pay.
    pub spread: Spread,
}

/// How a launch's blocks must fit on the SMs. Speed only: a kernel runs in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// It does not matter.
    Any,
    /// All blocks of one sequence (the grid's x) resident at once: each walks all tokens, so a second wave would double
    /// the time. Further sequences of a batch make further waves by any form.
    OneWave,
    /// No SM gets two blocks of one sequence (the grid's x): a warp has its scheduler for itself.
    BlockAnSm,
    /// Every SM gets four blocks: fewer would leave memory bandwidth unused.
    FourAnSm,
    /// There is a block for every eighth SM: fewer take as long as that many, and other forms cut the work smaller.
    AnEighth,
}

impl Needs {
    /// Runs everywhere.
    pub const ANY: Self = Self { cc: 0, spread: Spread::Any };
}

/// When a row that could run is taken. A switch that names the row overrides this, but not what the row needs.
#[derive(Debug)]
pub enum Preferred<A: 'static> {
    /// Whenever it can run.
    Always,
    /// Only where a switch names it: its promise is looser than what callers may take for granted.
    OptIn,
    /// Where a table of its operation names it for the call's sizes; `&A` knows what the table says.
    Tabled(fn(&A) -> &'static str),
    /// Where a row of a table of measurements says that it pays.
    Measured {
        /// Kinds of devices with their thresholds.
        table: &'static [Measured],
        /// What thresholds are compared with: tokens of the longest sequence, and sequences.
        size: fn(&A) -> [usize; 2],
    },
}

/// A variant that one call launches in several steps, with scratch between them, or in one that may start early.
pub struct Staged<A: 'static, P: Copy + 'static> {
    /// f32 elements of scratch, or 0 for none. Pure.
    pub scratch_floats: fn(&A) -> usize,
    /// The launches of a call, in order, from the row's choice, the call's parameters and the address of the scratch.
    /// Pure: nothing is read at the address.
    pub steps: fn(&A, &Step<P>, *mut f32) -> Vec<Step<P>>,
}

/// One launch.
pub struct Step<P: Copy + 'static> {
    /// Kernel instance.
    pub kernel: &'static Kernel<P>,
    /// Grid, block, dynamic shared memory.
    pub launch: Launch,
    /// Its parameters.
    pub params: P,
    /// Whether it may start beside the step before it (`cuda_std::grid`).
    pub early: bool,
}

/// One implementation of an operation for sizes `A` with launch parameters `P`.
pub struct Variant<A: 'static, P: Copy + 'static> {
    /// Name after the slash of `op/name`.
    pub name: &'static str,
    /// The kernel instance for these sizes, or why there is none. Pure.
    pub kernel: fn(&A) -> Result<&'static Kernel<P>, String>,
    /// Grid, block and dynamic shared memory for these sizes. Pure; called only when `kernel` gave one.
    pub launch: fn(&A) -> Launch,
    /// How the call becomes several launches; none: it is the one above.
    pub staged: Option<Staged<A, P>>,
    /// Device requirements.
    pub needs: Needs,
    /// When it is taken.
    pub preferred: Preferred<A>,
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
        let (staged, needs, preferred) = (None, Needs::ANY, Preferred::Always);
        Self { name, kernel, launch, staged, needs, preferred, exactness: Exactness::Base }
    }

    /// Enqueues `call`, in steps if the row is staged. The inner error refuses the call: nothing was enqueued then.
    ///
    /// # Safety
    /// The parameters of `call`, but for scratch and what `steps` sets, are what the row's kernels ask for.
    pub(super) unsafe fn run(&self, stream: &Stream, ask: &A, call: Step<P>) -> Result<Result<(), Reason>, OpError> {
        let launch = |step: &Step<P>| {
            // SAFETY: the caller's contract; `steps` adds what staged kernels ask for, in scratch of the stream, which
            // keeps it in order with every other use.
            unsafe {
                let Step { kernel, launch, params, early } = *step;
                if early { stream.launch_early(kernel, launch, params) } else { stream.launch(kernel, launch, params) }
            }
        };
        let Some(staged) = &self.staged else { return Ok(Ok(launch(&call)?)) };
        let enqueue = |scratch| (staged.steps)(ask, &call, scratch).iter().try_for_each(launch);
        let floats = (staged.scratch_floats)(ask);
        if floats == 0 {
            return Ok(Ok(enqueue(std::ptr::null_mut())?));
        }
        match stream.with_scratch(floats, enqueue) {
            Ok(enqueued) => Ok(Ok(enqueued?)),
            Err(error) => Ok(Err(Reason::Scratch(error))),
        }
    }
}
