//! What can go wrong in a launch, in which kernel, block and thread, and what to do about it.

use std::fmt;

/// A thread of a kernel at a line of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Symbol of the kernel.
    pub kernel: String,
    /// Block index (x, y, z).
    pub block: [u32; 3],
    /// Thread index in the block (x, y, z).
    pub thread: [u32; 3],
    /// `file:line:column` of the primitive, or of the kernel.
    pub source: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { kernel, block, thread, source } = self;
        write!(f, "kernel `{kernel}`, block {}, thread {}, at {source}", Index(*block), Index(*thread))
    }
}

/// An index or extent as `(x, y, z)`.
#[derive(Clone, Copy)]
pub(crate) struct Index(pub [u32; 3]);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x}, {y}, {z})")
    }
}

/// A memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Device memory.
    Global,
    /// The block's shared memory.
    Shared,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Global => "global",
            Space::Shared => "shared",
        })
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An atomic operation.
    Atomic,
    /// An asynchronous copy, as its source or its destination.
    Copy,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic operation",
            Access::Copy => "asynchronous copy",
        })
    }
}

/// What one thread of a stuck block does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Thread index in the block (x, y, z).
    pub thread: [u32; 3],
    /// `waits at sync_threads (file:line:column)`, `has exited`, ..
    pub doing: String,
}

/// Lists the threads of a stuck block, equal neighbours together.
struct Threads<'a>(&'a [Stuck]);

impl fmt::Display for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        let runs: Vec<_> = self.0.chunk_by(|a, b| a.doing == b.doing).collect();
        for (i, run) in runs.iter().take(SHOWN).enumerate() {
            let (first, last) = (Index(run[0].thread), Index(run[run.len() - 1].thread));
            let separator = if i == 0 { "" } else { "; " };
            match run.len() {
                1 => write!(f, "{separator}thread {first} {}", run[0].doing)?,
                n => write!(f, "{separator}threads {first} to {last} ({n}): each {}", run[0].doing)?,
            }
        }
        if runs.len() > SHOWN { write!(f, "; and {} more groups of threads", runs.len() - SHOWN) } else { Ok(()) }
    }
}

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The launch asks for more than the hardware or the kernel's bounds allow; nothing ran (except for shared memory,
    /// whose static part is known only once the kernel runs).
    #[error("kernel `{kernel}`: {what} is {value}, the limit is {limit}; change the launch")]
    LaunchLimit {
        /// Symbol of the kernel.
        kernel: String,
        /// The quantity, as `grid y`.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// What is allowed (for a quantity that must not be zero: at least 1).
        limit: u64,
    },
    /// Threads wait for threads that never come.
    #[error("kernel `{kernel}`, block {}: deadlock: {}; every participant must reach the barrier", Index(*.block), Threads(.threads))]
    Deadlock {
        /// Symbol of the kernel.
        kernel: String,
        /// Block index.
        block: [u32; 3],
        /// The threads of the block (of the warp concerned), and what each does.
        threads: Vec<Stuck>,
    },
    /// Lanes of a warp are not together at a primitive that needs them together.
    #[error("kernel `{kernel}`, block {}: divergence at {primitive}: {}; all lanes named by the mask must execute the same primitive with the same mask", Index(*.block), Threads(.threads))]
    Divergence {
        /// Symbol of the kernel.
        kernel: String,
        /// Block index.
        block: [u32; 3],
        /// The primitive that some lanes reached.
        primitive: &'static str,
        /// The threads concerned, and what each does.
        threads: Vec<Stuck>,
    },
    /// A primitive got an operand that it does not take.
    #[error("{place}: {primitive}: {problem}")]
    BadOperand {
        /// Where.
        place: Place,
        /// The primitive.
        primitive: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// An access outside every known range.
    #[error("{place}: {access} of {bytes} bytes at {address:#x} is outside {space} memory: {hint}")]
    OutOfRange {
        /// Where.
        place: Place,
        /// The space of the accessor.
        space: Space,
        /// What it does.
        access: Access,
        /// First address.
        address: usize,
        /// Width.
        bytes: usize,
        /// The nearest range.
        hint: String,
    },
    /// An access whose address is no multiple of its width.
    #[error("{place}: {access} of {bytes} bytes in {space} memory at {address:#x}, which is no multiple of {bytes}")]
    Misaligned {
        /// Where.
        place: Place,
        /// The space of the accessor.
        space: Space,
        /// What it does.
        access: Access,
        /// First address.
        address: usize,
        /// Width.
        bytes: usize,
    },
    /// Shared bytes touched while an asynchronous copy to them is under way, or a thread that exits with copies under way, or
    /// that reaches a barrier or exits with products of its warpgroup under way.
    #[error("{place}: {problem}; wait for its group (and pass a barrier) first")]
    MissingWait {
        /// Where.
        place: Place,
        /// What happened, with the copy's issuer.
        problem: String,
    },
    /// A product of a warpgroup reads shared bytes that the asynchronous proxy cannot see yet.
    #[error(
        "{place}: {problem} with no fence and barrier since; the writer executes barrier::fence_async_shared, then a barrier comes"
    )]
    MissingFence {
        /// Where.
        place: Place,
        /// What is read, and who wrote it.
        problem: String,
    },
    /// Two threads touch the same shared bytes, one of them writing, with no barrier between.
    #[error("{place}: {access} of shared byte {offset} races with the {other_access} by thread {} at {other_source}: no barrier orders them", Index(*.other))]
    Race {
        /// Where the later access is.
        place: Place,
        /// What the later access does.
        access: Access,
        /// Offset in the block's shared memory.
        offset: usize,
        /// The other thread.
        other: [u32; 3],
        /// What it did.
        other_access: Access,
        /// Where it did it.
        other_source: String,
    },
    /// The guard bytes beside an allocation were overwritten, by an access that went past the accessors.
    #[error(
        "kernel `{kernel}` wrote outside an allocation of {len} bytes at {base:#x}: guard byte at offset {offset} changed"
    )]
    Canary {
        /// Symbol of the kernel.
        kernel: String,
        /// First address of the allocation.
        base: usize,
        /// Its length in bytes.
        len: usize,
        /// Offset of the first changed byte from `base`: negative, or at least `len`.
        offset: isize,
    },
    /// The kernel panicked. On a GPU this is a trap.
    #[error("{place}: panic: {message}")]
    Panic {
        /// Where.
        place: Place,
        /// The panic message.
        message: String,
    },
    /// The host could not provide what emulation needs.
    #[error("kernel `{kernel}`: the emulator could not map {what}: {error}; use smaller blocks or fewer workers")]
    Resources {
        /// Symbol of the kernel.
        kernel: String,
        /// What was needed.
        what: String,
        /// The system's answer.
        error: String,
    },
    /// The result depends on the order in which threads ran.
    #[error(
        "kernel `{kernel}`: results differ between schedule {first} and schedule {second} from byte {offset}: a barrier or a wait is missing"
    )]
    ScheduleDependent {
        /// Symbol of the kernel.
        kernel: String,
        /// The seed compared with.
        first: u64,
        /// The seed that differs.
        second: u64,
        /// First byte of the result that differs.
        offset: usize,
    },
}
