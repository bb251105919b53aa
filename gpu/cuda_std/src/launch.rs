//! What a kernel declares about its launches: [`Bounds`] on both sides, the typed handle [`Kernel`] on the host.

/// Launch bounds of a kernel: what the compiler plans registers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most threads a block may have; a launch with more is an error.
    pub threads: u32,
    /// Blocks that shall fit on one SM at the same time.
    pub min_blocks: u32,
}

/// Typed handle of a kernel: what `#[kernel]` emits beside the function, in capitals. `P` is its parameter struct.
#[cfg(not(target_arch = "nvptx64"))]
pub struct Kernel<P: Copy + 'static> {
    info: KernelInfo,
    entry: unsafe fn(P),
}

/// What [`Kernel::info`] tells about a kernel, whatever its parameter type.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// The PTX entry, and the function's name.
    pub symbol: &'static str,
    /// Launch bounds.
    pub bounds: Bounds,
    /// Least architecture: 75, 80 or 90 (the latter is the module sm_90a).
    pub sm: u32,
    /// Blocks along the grid's x that start together, on SMs near each other; 1 without clusters. Divides the grid's x.
    pub cluster: u32,
    /// Name of the parameter type as the source writes it.
    pub params: &'static str,
    /// Size of the parameter struct.
    pub params_bytes: usize,
    /// Source file of the kernel.
    pub file: &'static str,
    /// Line of the kernel in [`file`](Self::file).
    pub line: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<P: Copy + 'static> Kernel<P> {
    /// A handle from its parts. Only `#[kernel]` calls this; the handle's symbol and entry belong together.
    #[doc(hidden)]
    #[must_use]
    pub const fn from_macro(info: KernelInfo, entry: unsafe fn(P)) -> Self {
        Self { info, entry }
    }

    /// Symbol, bounds, architecture, parameter type and place of the kernel.
    #[must_use]
    pub const fn info(&self) -> KernelInfo {
        self.info
    }

    /// The PTX entry.
    #[must_use]
    pub const fn symbol(&self) -> &'static str {
        self.info.symbol
    }

    /// Launch bounds.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        self.info.bounds
    }

    /// Least architecture: 75, 80 or 90.
    #[must_use]
    pub const fn sm(&self) -> u32 {
        self.info.sm
    }

    /// The host body of one thread.
    pub(crate) const fn entry(&self) -> unsafe fn(P) {
        self.entry
    }
}
