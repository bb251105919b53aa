//! How kernels of `fused` are listed.

/// Kernels of `fused::body`, a line each, `INSTANCES`, the list of them, and `shared`, what their blocks need: name and handle,
/// format's type and name, rows side by side, columns.
macro_rules! instances {
    ($bounds:ident; $($name:ident $handle:ident $quad:ident $format:ident $rows:literal $columns:literal;)*) => {
        $(
            /// An instance of `fused::body`.
            ///
            /// # Safety
            /// Shapes, alignment and room as `ProductParams` says; grid, block and shared memory as the file's header says.
            #[cuda_std::kernel(sm = 90)]
            #[launch_bounds($bounds)]
            pub unsafe fn $name(p: crate::mmvq::ProductParams) {
                // SAFETY: same contract.
                unsafe { crate::mmvq::fused::body::<$quad, $rows, $columns>(p) }
            }
        )*

        /// The kernels of this file.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static INSTANCES: &[crate::mmvq::Instance] = &[$(crate::mmvq::Instance {
            format: crate::mmvq::Format::$format,
            columns: $columns,
            rows: $rows,
            kernel: &$handle,
        }),*];

        /// Dynamic shared memory of a block of this file's kernel for the format; 0 where there is none.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) const fn shared(format: crate::mmvq::Format, n_in: u32) -> u32 {
            match format {
                $(crate::mmvq::Format::$format => crate::mmvq::fused::shared_bytes::<$quad>($columns, n_in),)*
                _ => 0,
            }
        }
    };
}
pub(crate) use instances;
