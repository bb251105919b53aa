//! Device memory of one element type.
//!
//! **When memory is freed.** Dropping a buffer waits for the device, then frees; so a launch that was enqueued before the
//! drop still finds its memory. A buffer that was alive when a graph was captured is freed with the graph (`keep.rs`).
//! Allocating and dropping in a loop therefore costs a wait each time: keep scratch buffers.

use super::cuda;
use super::device::{Body, Device};
use super::error::BackendError;
use super::view::{ShapeError, View, ViewMut, dense_strides};
use bytemuck::Pod;
use cuda_std::emulator::memory::Allocation;
use std::fmt;
use std::marker::PhantomData;

/// The memory itself; freed on drop.
pub(super) enum Memory {
    #[allow(dead_code)] // owned for its Drop
    Cuda(cuda::Memory),
    #[allow(dead_code)] // owned for its Drop
    Emulator(Allocation),
}

/// `len` elements of device memory, 256-byte aligned.
pub struct Buffer<T> {
    pub(super) device: Device,
    /// `None` only while it is dropped.
    memory: Option<Memory>,
    number: u64,
    /// Device address of the first element.
    pub(super) address: *mut T,
    pub(super) len: usize,
    elements: PhantomData<T>,
}

// SAFETY: a buffer owns its memory; its address means the same on every thread.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: through a shared reference the host only reads; kernels follow the contract of their launch.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "Buffer<{name}>({} elements at {:p} of {})", self.len, self.address, self.device.spec())
    }
}

impl<T: Pod> Buffer<T> {
    pub(super) fn alloc(device: &Device, len: usize) -> Result<Self, BackendError> {
        const { assert!(align_of::<T>() <= 256 && size_of::<T>() > 0) };
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            let available = "more than an address can count".into();
            return Err(BackendError::OutOfMemory { spec: device.spec().into(), bytes: usize::MAX, available });
        };
        let number = device.inner().keep.number();
        let (memory, address) = match &device.inner().body {
            Body::Cuda { context, .. } => {
                let memory = cuda::Memory::alloc(context, bytes.max(1))?;
                let address = std::ptr::without_provenance_mut(memory.address());
                (Memory::Cuda(memory), address)
            }
            Body::Emulator(machine) => {
                let mut memory = machine.alloc(bytes)?;
                let address = memory.as_mut_ptr();
                (Memory::Emulator(memory), address)
            }
        };
        Ok(Self { device: device.clone(), memory: Some(memory), number, address, len, elements: PhantomData })
    }

    pub(super) fn upload(device: &Device, data: &[T]) -> Result<Self, BackendError> {
        let buffer = Self::alloc(device, data.len())?;
        let _gate = device.inner().keep.host_call("Device::upload")?;
        // SAFETY: just allocated for `data.len()` elements: nothing else knows the memory.
        unsafe { buffer.put(0, data)? };
        Ok(buffer)
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Device address of the first element, for a kernel to read.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.address
    }

    /// Device address of the first element, for a kernel to write.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.address
    }

    /// The whole buffer as a dense array.
    ///
    /// # Errors
    /// [`ShapeError::Length`] unless the dimensions' product is the length.
    pub fn view<const N: usize>(&self, dims: [usize; N]) -> Result<View<'_, T, N>, ShapeError> {
        View::new(self.address, self.len, dims)
    }

    /// The whole buffer as a dense writable array.
    ///
    /// # Errors
    /// [`ShapeError::Length`] unless the dimensions' product is the length.
    pub fn view_mut<const N: usize>(&mut self, dims: [usize; N]) -> Result<ViewMut<'_, T, N>, ShapeError> {
        ViewMut::new(self.address, self.len, dims)
    }

    /// The start of the buffer as a dense array of another element type, whatever its bytes mean there.
    ///
    /// # Errors
    /// [`ShapeError::Beyond`] where an element would lie past the end.
    pub fn view_as<U: Pod, const N: usize>(&self, dims: [usize; N]) -> Result<View<'_, U, N>, ShapeError> {
        View::strided(self.address.cast(), self.len_as::<U>(), 0, dims, dense_strides(dims))
    }

    /// [`view_as`](Self::view_as), writable.
    ///
    /// # Errors
    /// [`ShapeError::Beyond`] where an element would lie past the end.
    pub fn view_as_mut<U: Pod, const N: usize>(&mut self, dims: [usize; N]) -> Result<ViewMut<'_, U, N>, ShapeError> {
        ViewMut::strided(self.address.cast(), self.len_as::<U>(), 0, dims, dense_strides(dims))
    }

    /// Elements of another type that the buffer has room for.
    #[must_use]
    pub fn len_as<U: Pod>(&self) -> usize {
        const { assert!(align_of::<U>() <= 256 && size_of::<U>() > 0) };
        self.len * size_of::<T>() / size_of::<U>()
    }

    /// A part of the buffer, from element `offset` on, with strides in elements.
    ///
    /// # Errors
    /// [`ShapeError::Beyond`] where an element would lie past the end.
    pub fn view_strided<const N: usize>(
        &self,
        offset: usize,
        dims: [usize; N],
        strides: [usize; N],
    ) -> Result<View<'_, T, N>, ShapeError> {
        View::strided(self.address, self.len, offset, dims, strides)
    }

    /// A writable part of the buffer, from element `offset` on, with strides in elements.
    ///
    /// # Errors
    /// [`ShapeError::Beyond`], or [`ShapeError::Overlap`] where two indices would be one element.
    pub fn view_strided_mut<const N: usize>(
        &mut self,
        offset: usize,
        dims: [usize; N],
        strides: [usize; N],
    ) -> Result<ViewMut<'_, T, N>, ShapeError> {
        ViewMut::strided(self.address, self.len, offset, dims, strides)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.device.inner().keep.give_back(self.number, memory);
        }
    }
}
