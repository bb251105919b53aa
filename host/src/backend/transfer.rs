//! Moving data: between host and buffers, between buffers, and fills.
//!
//! [`write`](Buffer::write), [`read`](Buffer::read) and their kin wait for all streams and have happened when they return;
//! a capture of another thread ends first. Those that take a stream happen in its order.

use super::buffer::Buffer;
use super::cuda;
use super::device::Body;
use super::error::BackendError;
use super::stream::{self, Stream};
use bytemuck::Pod;
use cuda_std::emulator::memory::POISON;
use std::ops::Range;
use std::sync::RwLockReadGuard;

impl<T: Pod> Buffer<T> {
    fn same_length(&self, call: &'static str, data: usize) -> Result<(), BackendError> {
        if data == self.len { Ok(()) } else { Err(BackendError::Length { call, buffer: self.len, data }) }
    }

    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Overwrites the buffer, after all work on the device.
    ///
    /// # Errors
    /// [`BackendError::Length`] unless `data` has the buffer's length.
    pub fn write(&mut self, data: &[T]) -> Result<(), BackendError> {
        self.same_length("Buffer::write", data.len())?;
        self.write_at(0, data)
    }

    /// Overwrites elements `offset..`, after all work on the device.
    ///
    /// # Errors
    /// [`BackendError::Length`] where they are not within the buffer.
    pub fn write_at(&mut self, offset: usize, data: &[T]) -> Result<(), BackendError> {
        if offset.checked_add(data.len()).is_none_or(|end| end > self.len) {
            let data = offset.saturating_add(data.len());
            return Err(BackendError::Length { call: "Buffer::write_at", buffer: self.len, data });
        }
        let _gate = self.settled("Buffer::write")?;
        // SAFETY: within the buffer; all work that might use it is done.
        unsafe { self.put(offset, data) }
    }

    /// The contents, after all work on the device.
    ///
    /// # Errors
    /// [`BackendError::Lost`] if a kernel failed, [`BackendError::Capturing`] within a capture.
    pub fn read(&self) -> Result<Vec<T>, BackendError> {
        self.read_range(0..self.len)
    }

    /// The elements of `range`, after all work on the device.
    ///
    /// # Errors
    /// [`BackendError::Length`] where they are not within the buffer; else as [`read`](Self::read).
    pub fn read_range(&self, range: Range<usize>) -> Result<Vec<T>, BackendError> {
        if range.start > range.end || range.end > self.len {
            let data = range.start.max(range.end);
            return Err(BackendError::Length { call: "Buffer::read_range", buffer: self.len, data });
        }
        let _gate = self.settled("Buffer::read")?;
        match &self.device.inner().body {
            Body::Cuda { copies, .. } => self.download(copies, range),
            // SAFETY: within the buffer; all work that might write it is done.
            Body::Emulator(_) => Ok(unsafe { self.take(range) }),
        }
    }

    /// Fills the buffer with one byte value, after all work on the device.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), BackendError> {
        let _gate = self.settled("Buffer::fill_bytes")?;
        let bytes = self.bytes();
        match &self.device.inner().body {
            Body::Cuda { context, copies } => {
                // SAFETY: the buffer's own bytes.
                unsafe { context.fill(copies, self.address.addr(), byte, bytes)? };
                copies.synchronize()
            }
            Body::Emulator(_) => {
                // SAFETY: the buffer's own bytes; all work that might use them is done.
                unsafe { self.address.cast::<u8>().write_bytes(byte, bytes) };
                Ok(())
            }
        }
    }

    /// Fills the buffer with what the emulator gives to fresh memory, after all work on the device: NaN as f32, f16 and
    /// bf16. So a test finds elements that no kernel wrote.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn poison(&mut self) -> Result<(), BackendError> {
        let pattern = POISON.to_le_bytes();
        let words = self.bytes() / 4;
        if let Body::Cuda { context, copies } = &self.device.inner().body {
            let _gate = self.settled("Buffer::poison")?;
            let tail = self.address.addr() + 4 * words;
            // SAFETY: the buffer's own bytes, 256-byte aligned; the tail has fewer than 4, and the pattern outlives the call.
            unsafe {
                context.fill_words(copies, self.address.addr(), POISON, words)?;
                context.upload(copies, tail, pattern.as_ptr().cast(), self.bytes() % 4)?;
            }
            return copies.synchronize();
        }
        let _gate = self.settled("Buffer::poison")?;
        let start = self.address.cast::<u8>();
        for i in 0..self.bytes() {
            // SAFETY: the buffer's own bytes; all work that might use them is done.
            unsafe { start.add(i).write(pattern[i % 4]) };
        }
        Ok(())
    }

    /// Copies another buffer of the same length, after all work on the device.
    ///
    /// # Errors
    /// [`BackendError::Length`], [`BackendError::OtherDevice`]; else as [`read`](Self::read).
    pub fn copy_from(&mut self, source: &Self) -> Result<(), BackendError> {
        self.same_length("Buffer::copy_from", source.len)?;
        self.device.expect("Buffer::copy_from", &source.device)?;
        let _gate = self.settled("Buffer::copy_from")?;
        let bytes = self.bytes();
        match &self.device.inner().body {
            Body::Cuda { context, copies } => {
                // SAFETY: both buffers have that many bytes; two buffers are disjoint.
                unsafe { context.copy(copies, self.address.addr(), source.address.addr(), bytes)? };
                copies.synchronize()
            }
            Body::Emulator(_) => {
                // SAFETY: as above; all work that might use them is done.
                unsafe { self.address.copy_from_nonoverlapping(source.address, self.len) };
                Ok(())
            }
        }
    }

    /// Overwrites the buffer in the stream's order. The data has been read when this returns.
    ///
    /// # Errors
    /// [`BackendError::Length`], [`BackendError::OtherDevice`], or [`BackendError::Capturing`]: a graph would keep the
    /// address of `data`.
    pub fn write_on(&mut self, s: &Stream, data: &[T]) -> Result<(), BackendError> {
        const CALL: &str = "Buffer::write_on";
        self.same_length(CALL, data.len())?;
        s.device().expect(CALL, &self.device)?;
        s.refuse_while_capturing(CALL)?;
        match (&self.device.inner().body, s.body()) {
            (Body::Cuda { context, .. }, stream::Body::Cuda(raw)) => {
                // SAFETY: `bytes` of both; `data` is borrowed until the stream is done.
                unsafe { context.upload(raw, self.address.addr(), data.as_ptr().cast(), self.bytes())? };
                raw.synchronize()
            }
            // SAFETY: within the buffer; the emulator's streams have no work left.
            _ => unsafe { self.put(0, data) },
        }
    }

    /// The contents in the stream's order; waits for that stream alone.
    ///
    /// # Errors
    /// [`BackendError::OtherDevice`]; [`BackendError::Lost`] if a kernel failed; [`BackendError::Capturing`].
    pub fn read_on(&self, s: &Stream) -> Result<Vec<T>, BackendError> {
        const CALL: &str = "Buffer::read_on";
        s.device().expect(CALL, &self.device)?;
        s.refuse_while_capturing(CALL)?;
        match s.body() {
            stream::Body::Cuda(raw) => self.download(raw, 0..self.len),
            // SAFETY: the whole buffer; the emulator's streams have no work left.
            stream::Body::Emulator(_) => Ok(unsafe { self.take(0..self.len) }),
        }
    }

    /// Fills the buffer with one byte value in the stream's order; may be captured.
    ///
    /// # Errors
    /// [`BackendError::OtherDevice`], or the driver's answer.
    pub fn fill_bytes_on(&mut self, s: &Stream, byte: u8) -> Result<(), BackendError> {
        s.device().expect("Buffer::fill_bytes_on", &self.device)?;
        s.count_step();
        match (&self.device.inner().body, s.body()) {
            // SAFETY: the buffer's own bytes.
            (Body::Cuda { context, .. }, stream::Body::Cuda(raw)) => unsafe {
                context.fill(raw, self.address.addr(), byte, self.bytes())
            },
            // SAFETY: the buffer's own bytes, which live as long as a graph that was captured (`keep.rs`).
            (_, stream::Body::Emulator(raw)) => unsafe {
                raw.fill(self.address.cast(), byte, self.bytes()).map_err(BackendError::from)
            },
            (Body::Emulator(_), stream::Body::Cuda(_)) => unreachable!("the devices are the same"),
        }
    }

    /// Copies another buffer of the same length in the stream's order; may be captured.
    ///
    /// # Errors
    /// [`BackendError::Length`], [`BackendError::OtherDevice`], or the driver's answer.
    pub fn copy_from_on(&mut self, s: &Stream, source: &Self) -> Result<(), BackendError> {
        const CALL: &str = "Buffer::copy_from_on";
        self.same_length(CALL, source.len)?;
        self.device.expect(CALL, &source.device)?;
        s.device().expect(CALL, &self.device)?;
        s.count_step();
        let bytes = self.bytes();
        match (&self.device.inner().body, s.body()) {
            // SAFETY: both buffers have that many bytes; two buffers are disjoint.
            (Body::Cuda { context, .. }, stream::Body::Cuda(raw)) => unsafe {
                context.copy(raw, self.address.addr(), source.address.addr(), bytes)
            },
            // SAFETY: as above; both live as long as a graph that was captured (`keep.rs`).
            (_, stream::Body::Emulator(raw)) => unsafe {
                raw.copy(self.address.cast(), source.address.cast(), bytes).map_err(BackendError::from)
            },
            (Body::Emulator(_), stream::Body::Cuda(_)) => unreachable!("the devices are the same"),
        }
    }

    /// Waits for the device on behalf of a call from the host.
    fn settled(&self, call: &'static str) -> Result<RwLockReadGuard<'_, ()>, BackendError> {
        let gate = self.device.inner().keep.host_call(call)?;
        if let Body::Cuda { context, .. } = &self.device.inner().body {
            context.synchronize()?;
        }
        Ok(gate)
    }

    /// Copies `data` to elements `offset..` and waits for the copy.
    ///
    /// # Safety
    /// The elements are within the buffer and no work under way uses them.
    pub(super) unsafe fn put(&self, offset: usize, data: &[T]) -> Result<(), BackendError> {
        match &self.device.inner().body {
            Body::Cuda { context, copies } => {
                let to = self.address.addr() + offset * size_of::<T>();
                // SAFETY: within the buffer; `data` is borrowed until the stream is done.
                unsafe { context.upload(copies, to, data.as_ptr().cast(), size_of_val(data))? };
                copies.synchronize()
            }
            Body::Emulator(_) => {
                // SAFETY: within the buffer; host data and device memory are disjoint.
                unsafe { self.address.add(offset).copy_from_nonoverlapping(data.as_ptr(), data.len()) };
                Ok(())
            }
        }
    }

    /// Copies elements from the emulator's memory.
    ///
    /// # Safety
    /// They are within the buffer, of an emulated device, and no work under way writes them.
    unsafe fn take(&self, range: Range<usize>) -> Vec<T> {
        // SAFETY: the memory is initialised (poison at least), and any bits are a `T`.
        unsafe { std::slice::from_raw_parts(self.address.add(range.start), range.len()) }.to_vec()
    }

    fn download(&self, stream: &cuda::Stream, range: Range<usize>) -> Result<Vec<T>, BackendError> {
        let (from, n) = (self.address.addr() + range.start * size_of::<T>(), range.len());
        let mut data = Vec::<T>::with_capacity(n);
        // SAFETY: `n` elements of capacity, `n` within the buffer; the vector lives until the stream is done.
        unsafe { stream.context().download(stream, data.as_mut_ptr().cast(), from, n * size_of::<T>())? };
        stream.synchronize()?;
        // SAFETY: the copy wrote them, and any bits are a `T`.
        unsafe { data.set_len(n) };
        Ok(data)
    }
}
