//! Products of a warpgroup: its threads gather, the last one computes all results, straight into their registers.
//!
//! Results are there at once. What only a GPU would get wrong are faults: a product without a fence, a barrier or an exit
//! with products that were not waited for, and B that the asynchronous proxy cannot see yet (see `proxy`).

use std::panic::Location;

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::block::{Block, Primitive, Source, Status, raise, suspend};
use super::context;
use super::fault::{Access, Fault, Index};
use super::launch::wide_cpu;
pub(crate) use super::tile::Descriptor;

/// Threads of a warpgroup.
const THREADS: usize = 128;
/// Most columns of B.
const N_MAX: usize = 128;
/// Rows of B.
const K: usize = 16;
/// Columns that are computed together: two rows of them fit the registers of a CPU.
const BLOCK: usize = 32;

/// Products that a thread started: in its open group, and committed groups that it has not waited for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Started {
    open: u32,
    groups: u32,
    /// A fence was executed since the start or the last wait.
    fenced: bool,
}

/// A product, as all its threads must call it.
#[derive(Clone, Copy)]
struct Call {
    primitive: &'static Primitive,
    source: Source,
    columns: usize,
    trans_b: bool,
    b: Descriptor,
    accumulate: bool,
}

impl Call {
    /// Whether it is the same instruction. (Comparing two places compares their files' names.)
    #[inline]
    fn alike(&self, other: &Self) -> bool {
        let same_source = std::ptr::eq(self.source, other.source) || self.source == other.source;
        std::ptr::eq(self.primitive, other.primitive) && same_source
    }
}

/// What a thread brings: its sums, `columns / 2` of them, and its registers of A.
#[derive(Clone, Copy)]
struct Operands {
    acc: *mut f32,
    a: [u32; 4],
}

/// Threads that gather at a product.
pub(crate) struct Warpgroup {
    /// The product, while some have arrived.
    call: Option<Call>,
    arrived: usize,
    operands: [Operands; THREADS],
}

impl Warpgroup {
    fn new() -> Self {
        Self { call: None, arrived: 0, operands: [Operands { acc: std::ptr::null_mut(), a: [0; 4] }; THREADS] }
    }

    /// The primitive that threads of this group wait at.
    pub fn waits_for(&self) -> Option<&'static Primitive> {
        self.call.map(|call| call.primitive)
    }
}

/// The first half of a product: true where the thread must be suspended now.
#[inline(never)]
fn leave(call: Call, operands: Operands) -> bool {
    let block = context::block();
    let linear = context::with(|c| c.linear.get());
    // SAFETY: the running block; this exclusive reference ends before the thread is suspended.
    unsafe { (*block).product(linear, call, operands) }.unwrap_or_else(|fault| raise(fault))
}

impl Block {
    /// True where the thread must be suspended.
    fn product(&mut self, linear: u32, call: Call, operands: Operands) -> Result<bool, Fault> {
        let (g, lane) = (linear as usize / THREADS, linear as usize % THREADS);
        if self.warpgroups.is_empty() {
            self.warpgroups.resize_with(self.size as usize / THREADS, Warpgroup::new);
        }
        if let Some(problem) = self.refused(linear, &call) {
            return Err(Fault::BadOperand { place: self.place(call.source), primitive: call.primitive.name, problem });
        }
        self.threads[linear as usize].started.open += 1;
        let group = &mut self.warpgroups[g];
        if let Some(first) = group.call
            && !first.alike(&call)
        {
            self.threads[linear as usize].status = Status::Waiting(call.primitive, call.source);
            return Err(self.apart(g, call.primitive));
        }
        group.call = Some(call);
        group.operands[lane] = operands;
        group.arrived += 1;
        if group.arrived < THREADS {
            self.threads[linear as usize].status = Status::Waiting(call.primitive, call.source);
            return Ok(true);
        }
        group.arrived = 0;
        group.call = None;
        let mut b = [f16::ZERO; N_MAX * K];
        self.read_b(linear, &call, &mut b)?;
        self.warpgroups[g].multiply(&call, &b);
        let draws = self.ready.draws();
        for t in (g * THREADS) as u32..((g + 1) * THREADS) as u32 {
            if draws || t != linear {
                self.threads[t as usize].status = Status::Runnable;
                self.ready.push(t as u16);
            }
        }
        Ok(draws)
    }

    /// Why the thread cannot take part in the product.
    fn refused(&self, linear: u32, call: &Call) -> Option<String> {
        let Some(group) = self.warpgroups.get(linear as usize / THREADS) else {
            return Some(format!("the block's last warpgroup has only {} threads", self.size as usize % THREADS));
        };
        if !self.threads[linear as usize].started.fenced {
            return Some("no wgmma::fence since the thread's start or its last wait".to_owned());
        }
        if call.trans_b != call.b.mn_major {
            return Some(format!(
                "TRANS_B is {}, but B is {}-major",
                call.trans_b,
                if call.trans_b { "K" } else { "MN" }
            ));
        }
        let same = |first: &Call| (first.b, first.accumulate) == (call.b, call.accumulate);
        let differs = group.call.filter(|first| first.alike(call) && !same(first));
        differs.map(|_| "another thread of the warpgroup gave another descriptor, or another `accumulate`".to_owned())
    }

    /// The fault of a warpgroup whose threads are not together.
    pub(crate) fn apart(&self, group: usize, primitive: &'static Primitive) -> Fault {
        let threads = (group * THREADS) as u32..((group + 1) * THREADS) as u32;
        Fault::Divergence {
            kernel: self.grid().kernel.to_owned(),
            block: self.index,
            primitive: primitive.name,
            threads: threads.map(|t| self.stuck(t)).collect(),
        }
    }

    /// Reads B through its descriptor: element (k, n) goes to `b[n / BLOCK][k][n % BLOCK]`.
    fn read_b(&mut self, linear: u32, call: &Call, b: &mut [f16; N_MAX * K]) -> Result<(), Fault> {
        let Call { b: descriptor, columns, .. } = *call;
        let at = |k: usize, n: usize| (n / BLOCK * K + k) * BLOCK + n % BLOCK;
        if descriptor.mn_major {
            for k in 0..K {
                for n in (0..columns).step_by(8) {
                    let unit = self.read_unit(linear, descriptor, k, n / 8, call)?;
                    b[at(k, n)..][..8].copy_from_slice(&unit);
                }
            }
        } else {
            for n in 0..columns {
                for k in (0..K).step_by(8) {
                    let unit = self.read_unit(linear, descriptor, n, k / 8, call)?;
                    for (i, &x) in unit.iter().enumerate() {
                        b[at(k + i, n)] = x;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads 16 bytes of B.
    #[inline]
    fn read_unit(
        &mut self,
        linear: u32,
        b: Descriptor,
        row: usize,
        unit: usize,
        call: &Call,
    ) -> Result<[f16; 8], Fault> {
        let offset = b.offset(self.arena.base() as usize, row, unit);
        let address = self.arena.base() as usize + offset;
        if offset >= self.arena.len() || self.arena.shadow(offset, 16) != 0 {
            self.check_shared(address, 16, Access::Read, call.source)?;
            if self.races.is_some() {
                // The other warps read too: a write of the running thread's own warp races with one of theirs.
                self.check_race((linear + 64) % 128 + linear / 128 * 128, offset, 16, Access::Read, call.source)?;
            }
        }
        if let Some(writer) = self.proxy.as_mut().and_then(|proxy| proxy.hidden(offset, 16)) {
            let writer = Index(self.thread_index(writer));
            let problem =
                format!("{} reads B at shared offset {offset}, which thread {writer} wrote", call.primitive.name);
            return Err(Fault::MissingFence { place: self.place(call.source), problem });
        }
        // SAFETY: 16 bytes of the arena, checked above; any bits are f16s.
        Ok(unsafe { (address as *const [f16; 8]).read() })
    }

    /// The fault of a thread that comes to a barrier, or exits, with products under way.
    pub(crate) fn under_way(&self, linear: u32, what: &str, source: String) -> Option<Fault> {
        let Started { open, groups, .. } = self.threads[linear as usize].started;
        let problem = match (open, groups) {
            (0, 0) => return None,
            (0, _) => format!("the thread {what} with {groups} groups of warpgroup products not waited for"),
            _ => format!("the thread {what} with {open} warpgroup products not committed"),
        };
        Some(Fault::MissingWait { place: self.place_of(linear, source), problem })
    }
}

impl Started {
    #[inline(always)]
    pub fn none(self) -> bool {
        self.open | self.groups == 0
    }
}

impl Warpgroup {
    /// Adds A B to the sums of all threads.
    fn multiply(&mut self, call: &Call, b16: &[f16; N_MAX * K]) {
        let mut b = [0.0; N_MAX * K];
        let used = call.columns * K;
        b16[..used].convert_to_f32_slice(&mut b[..used]);
        #[cfg(target_arch = "x86_64")]
        if wide_cpu() {
            // SAFETY: the CPU has AVX2; the threads' sums are theirs to take, see `rows`.
            unsafe { self.rows_wide(call, &b) };
            return;
        }
        self.rows(call, &b);
    }

    /// [`rows`](Self::rows), compiled for AVX2.
    ///
    /// # Safety
    /// The CPU has it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn rows_wide(&mut self, call: &Call, b: &[f32; N_MAX * K]) {
        self.rows(call, b);
    }

    /// Two rows at a time, which four lanes hold: the products with k ascending, each product and each sum rounded.
    #[inline(always)]
    fn rows(&mut self, call: &Call, b: &[f32; N_MAX * K]) {
        let (blocks, _) = b.as_chunks::<BLOCK>();
        for lanes in self.operands.chunks_exact(4) {
            let a = rows_of_a(lanes);
            for (block, b) in blocks.chunks_exact(K).take(call.columns / BLOCK).enumerate() {
                let mut sums = [[0.0f32; BLOCK]; 2];
                if call.accumulate {
                    for (t, lane) in lanes.iter().enumerate() {
                        // SAFETY: see `part`; read only.
                        let part = unsafe { *lane.part(block) };
                        for (j, tile) in part.iter().enumerate() {
                            for (sums, pair) in sums.iter_mut().zip(tile) {
                                sums[8 * j + 2 * t..][..2].copy_from_slice(pair);
                            }
                        }
                    }
                }
                for (k, b) in b.iter().enumerate() {
                    for c in 0..BLOCK {
                        sums[0][c] += a[0][k] * b[c];
                        sums[1][c] += a[1][k] * b[c];
                    }
                }
                for (t, lane) in lanes.iter().enumerate() {
                    // SAFETY: see `part`; nothing else refers to the lane's sums now.
                    let part = unsafe { &mut *lane.part(block) };
                    for (j, tile) in part.iter_mut().enumerate() {
                        for (sums, pair) in sums.iter().zip(tile) {
                            pair.copy_from_slice(&sums[8 * j + 2 * t..][..2]);
                        }
                    }
                }
            }
        }
    }
}

impl Operands {
    /// The lane's sums of a block of columns: `[j][r][e]` is column 8 j + 2 t + e of the block, in row g + 8 r.
    ///
    /// The pointer is good for reads and writes where the block exists: `acc` is the exclusive reference of a thread that
    /// is suspended in the call, or is the running one.
    #[inline(always)]
    fn part(&self, block: usize) -> *mut [[[f32; 2]; 2]; BLOCK / 8] {
        self.acc.wrapping_add(BLOCK / 2 * block).cast()
    }
}

/// Rows g and g + 8 of A, from the four lanes that hold them.
#[inline(always)]
fn rows_of_a(lanes: &[Operands]) -> [[f32; K]; 2] {
    let mut a16 = [[f16::ZERO; K]; 2];
    for (t, lane) in lanes.iter().enumerate() {
        for (r, word) in lane.a.into_iter().enumerate() {
            let k = r / 2 * 8 + 2 * t;
            a16[r % 2][k] = f16::from_bits(word as u16);
            a16[r % 2][k + 1] = f16::from_bits((word >> 16) as u16);
        }
    }
    let mut a = [[0.0; K]; 2];
    a16.as_flattened().convert_to_f32_slice(a.as_flattened_mut());
    a
}

macro_rules! products {
    ($($name:ident, $primitive:ident, $regs:literal;)*) => {$(
        static $primitive: Primitive = Primitive { name: stringify!($name), aligned: true };

        /// Host body of the product of this name in [`wgmma`](crate::wgmma).
        ///
        /// # Safety
        /// None on the host: breaches are faults.
        #[inline(always)]
        #[track_caller]
        pub(crate) unsafe fn $name<const TRANS_B: bool>(
            acc: &mut [f32; $regs],
            a: [u32; 4],
            b: Descriptor,
            accumulate: bool,
        ) {
            let (primitive, source) = (&$primitive, Location::caller());
            let call = Call { primitive, source, columns: 2 * $regs, trans_b: TRANS_B, b, accumulate };
            // As at barriers, the switch is inlined into the kernel.
            if leave(call, Operands { acc: acc.as_mut_ptr(), a }) {
                suspend();
            }
        }
    )*};
}

products! {
    mma_m64n32k16_f16, MMA_M64N32K16_F16, 16;
    mma_m64n64k16_f16, MMA_M64N64K16_F16, 32;
    mma_m64n128k16_f16, MMA_M64N128K16_F16, 64;
}

/// Changes what the running thread started.
#[inline(always)]
fn with_started(change: impl FnOnce(&mut Started)) {
    let block = context::block();
    let linear = context::with(|c| c.linear.get()) as usize;
    // SAFETY: the running block; the reference ends here.
    change(unsafe { &mut (&mut (*block).threads)[linear].started });
}

/// Host body of [`wgmma::fence`](crate::wgmma::fence).
#[inline(always)]
pub(crate) fn fence() {
    with_started(|started| started.fenced = true);
}

/// Host body of [`wgmma::commit`](crate::wgmma::commit).
#[inline(always)]
pub(crate) fn commit() {
    with_started(|started| {
        started.groups += 1;
        started.open = 0;
    });
}

/// Host body of [`wgmma::wait`](crate::wgmma::wait).
#[inline(always)]
pub(crate) fn wait<const N: u32>() {
    with_started(|started| {
        started.groups = started.groups.min(N);
        started.fenced = false;
    });
}

/// Host body of [`wgmma::hold`](crate::wgmma::hold): results are there at once.
#[inline(always)]
pub(crate) fn hold<const N: usize>(_acc: &mut [f32; N]) {}
