//! Device memory, and copies that have happened when they return.

use super::super::error::BackendError;
use super::api::{self, Code};
use super::context::Context;
use super::stream::Stream;
use cust::sys::CUdeviceptr;
use std::ffi::c_void;
use std::sync::Arc;

/// An allocation of at least one byte, aligned to 256 bytes by the driver.
pub struct Memory {
    context: Arc<Context>,
    address: CUdeviceptr,
}

impl Memory {
    /// Allocates; the contents are whatever was there.
    pub fn alloc(context: &Arc<Context>, bytes: usize) -> Result<Self, BackendError> {
        context.bind()?;
        let mut address = 0;
        // SAFETY: writes one address; freed in Drop.
        match unsafe { api::cuMemAlloc_v2(&raw mut address, bytes) } {
            Code::OUT_OF_MEMORY => {
                let (free, total) = context.memory_info()?;
                let available = format!("{free} of {total} are free");
                Err(BackendError::OutOfMemory { spec: context.spec.clone(), bytes, available })
            }
            code => {
                context.check("cuMemAlloc", code)?;
                Ok(Self { context: context.clone(), address })
            }
        }
    }

    /// The device address.
    pub fn address(&self) -> usize {
        self.address as usize // devices and hosts of 64 bits only
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The driver waits for work in flight when it frees; waiting here as well keeps a kernel's failure apart from the
        // free's own, and does not rest on a habit of the driver.
        let freed = self.context.synchronize().and_then(|()| {
            // SAFETY: allocated in `alloc`, freed only here, and no work is in flight.
            self.context.check("cuMemFree", unsafe { api::cuMemFree_v2(self.address) })
        });
        self.context.closed("device memory", freed);
    }
}

impl Context {
    /// Free and total bytes.
    pub fn memory_info(&self) -> Result<(usize, usize), BackendError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        self.check("cuMemGetInfo", unsafe { api::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free, total))
    }

    /// Enqueues a copy from host memory. Pageable memory has been read when this returns, but need not have arrived.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `from` and, on the device, writable at `to`; `from` stays readable until the
    /// stream is synchronised.
    pub unsafe fn upload(&self, s: &Stream, to: usize, from: *const c_void, bytes: usize) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: the caller's contract; the stream is of this context.
        let code = unsafe { api::cuMemcpyHtoDAsync_v2(to as CUdeviceptr, from, bytes, s.raw()) };
        self.check("cuMemcpyHtoDAsync", code)
    }

    /// Enqueues a copy to host memory.
    ///
    /// # Safety
    /// `bytes` bytes are writable at `to` until the stream is synchronised and, on the device, readable at `from`.
    pub unsafe fn download(&self, s: &Stream, to: *mut c_void, from: usize, bytes: usize) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: the caller's contract; the stream is of this context.
        let code = unsafe { api::cuMemcpyDtoHAsync_v2(to, from as CUdeviceptr, bytes, s.raw()) };
        self.check("cuMemcpyDtoHAsync", code)
    }

    /// Enqueues a copy within the device.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `from` and writable at `to` on the device, and the ranges are disjoint.
    pub unsafe fn copy(&self, s: &Stream, to: usize, from: usize, bytes: usize) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: the caller's contract; the stream is of this context.
        let code = unsafe { api::cuMemcpyDtoDAsync_v2(to as CUdeviceptr, from as CUdeviceptr, bytes, s.raw()) };
        self.check("cuMemcpyDtoDAsync", code)
    }

    /// Enqueues a fill.
    ///
    /// # Safety
    /// `bytes` bytes are writable at `to` on the device.
    pub unsafe fn fill(&self, s: &Stream, to: usize, byte: u8, bytes: usize) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: the caller's contract; the stream is of this context.
        let code = unsafe { api::cuMemsetD8Async(to as CUdeviceptr, byte, bytes, s.raw()) };
        self.check("cuMemsetD8Async", code)
    }

    /// Enqueues a fill with a word of 4 bytes.
    ///
    /// # Safety
    /// `words` words are writable at `to`, a multiple of 4, on the device.
    pub unsafe fn fill_words(&self, s: &Stream, to: usize, word: u32, words: usize) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: the caller's contract; the stream is of this context.
        let code = unsafe { api::cuMemsetD32Async(to as CUdeviceptr, word, words, s.raw()) };
        self.check("cuMemsetD32Async", code)
    }
}
