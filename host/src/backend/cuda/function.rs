//! Kernels of the loaded module: look-up, shared memory attributes, occupancy, launch.

use super::super::error::{BackendError, Code, LaunchError, LaunchShape};
use super::super::history::Enqueued;
use super::super::stream::How;
use super::api;
use super::context::Context;
use super::extended::{self, Attribute};
use super::stream::Stream;
use cuda_std::launch::KernelInfo;
use cust::sys::{CUfunction, CUfunction_attribute};
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Dynamic shared memory that a launch may ask for without opting in.
const SHARED_WITHOUT_OPTIN: u32 = 48 << 10;

/// A kernel of the loaded module.
pub struct Function {
    raw: CUfunction,
    static_shared: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// True once the kernel may use the device's opt-in amount.
    opted_in: bool,
    /// Blocks per SM by (threads of a block, dynamic shared bytes).
    occupancy: HashMap<(u32, u32), u32>,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Function {}

impl Context {
    /// The kernel of this symbol; `None` if the module lacks it.
    pub fn function(&self, symbol: &'static str) -> Result<Option<Arc<Function>>, BackendError> {
        if let Some(found) = self.functions.read().unwrap_or_else(PoisonError::into_inner).get(symbol) {
            return Ok(Some(found.clone()));
        }
        let (Some(module), Ok(name)) = (self.raw_module(), CString::new(symbol)) else { return Ok(None) };
        self.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends in a zero byte.
        match unsafe { api::cuModuleGetFunction(&raw mut raw, module, name.as_ptr()) } {
            Code::NOT_FOUND => return Ok(None),
            code => self.check("cuModuleGetFunction", code)?,
        }
        let static_shared = self.attribute(raw, CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let function = Arc::new(Function { raw, static_shared, state: Mutex::default() });
        let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(functions.entry(symbol).or_insert(function).clone()))
    }

    fn attribute(&self, function: CUfunction, attribute: CUfunction_attribute) -> Result<u32, BackendError> {
        let mut value: c_int = 0;
        // SAFETY: a function of this context's module.
        self.check("cuFuncGetAttribute", unsafe { api::cuFuncGetAttribute(&raw mut value, attribute, function) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn set_attribute(&self, f: CUfunction, attribute: CUfunction_attribute, value: u32) -> Result<(), BackendError> {
        let value = c_int::try_from(value).unwrap_or(c_int::MAX);
        self.bind()?;
        // SAFETY: a function of this context's module.
        self.check("cuFuncSetAttribute", unsafe { api::cuFuncSetAttribute(f, attribute, value) })
    }

    /// Blocks of the kernel that one SM holds, from the driver; 0 if none fits.
    pub fn blocks_per_sm(&self, f: &Function, threads: u32, dynamic_shared: u32) -> Result<u32, BackendError> {
        let mut state = f.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.bind()?;
        self.occupancy(f, &mut state, threads, dynamic_shared)
    }

    fn occupancy(
        &self,
        f: &Function,
        state: &mut State,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<u32, BackendError> {
        if let Some(&blocks) = state.occupancy.get(&(threads, dynamic_shared)) {
            return Ok(blocks);
        }
        if f.static_shared.saturating_add(dynamic_shared) > self.caps.shared_optin_bytes {
            return Ok(0);
        }
        self.opt_in(f, state, dynamic_shared)?;
        let (mut blocks, threads_int) = (0, c_int::try_from(threads).unwrap_or(c_int::MAX));
        // SAFETY: a function of this context's module.
        let code = unsafe {
            api::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                f.raw,
                threads_int,
                dynamic_shared as usize,
            )
        };
        self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let blocks = u32::try_from(blocks).unwrap_or(0);
        state.occupancy.insert((threads, dynamic_shared), blocks);
        Ok(blocks)
    }

    /// Lets the kernel use all the dynamic shared memory that the device allows, once, when a launch first needs it.
    fn opt_in(&self, f: &Function, state: &mut State, dynamic_shared: u32) -> Result<(), BackendError> {
        if state.opted_in || f.static_shared.saturating_add(dynamic_shared) <= SHARED_WITHOUT_OPTIN {
            return Ok(());
        }
        let most = self.caps.shared_optin_bytes.saturating_sub(f.static_shared);
        self.set_attribute(f.raw, CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)?;
        state.opted_in = true;
        Ok(())
    }

    /// The kernel, ready for a launch of this shape: what happens once a kernel has happened then.
    pub fn prepare(&self, info: &KernelInfo, shape: LaunchShape) -> Result<Arc<Function>, LaunchError> {
        let spec = || self.spec.clone();
        let function = self.function(info.symbol).map_err(|error| failed(shape, error))?;
        let function =
            function.ok_or_else(|| LaunchError::NotInModule { shape, module: self.module_sm, spec: spec() })?;
        let dynamic_shared = shape.launch.dynamic_shared;
        let shared = u64::from(function.static_shared) + u64::from(dynamic_shared);
        if shared > u64::from(self.caps.shared_optin_bytes) {
            let (what, limit) = ("shared memory of a block", u64::from(self.caps.shared_optin_bytes));
            return Err(LaunchError::Limit { shape, what, got: shared, limit, spec: spec() });
        }
        {
            let mut state = function.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.opt_in(&function, &mut state, dynamic_shared).map_err(|error| failed(shape, error))?;
        }
        Ok(function)
    }

    /// Enqueues the kernel on the stream. Limits of grid and block were checked by the caller. An early one may start
    /// before the launch ahead of it has ended, where device and driver can.
    ///
    /// # Safety
    /// `params` points to the kernel's parameter struct, and the kernel's own contract holds for it.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        info: &KernelInfo,
        shape: LaunchShape,
        how: How,
        params: *const c_void,
    ) -> Result<(), LaunchError> {
        let (function, launch) = (self.prepare(info, shape)?, shape.launch);
        self.enter().map_err(|error| failed(shape, error))?;
        let mut arguments = [params.cast_mut()];
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        let early = (how.early && self.caps.cc >= 90).then(Attribute::early);
        let attributes: Vec<_> = early.into_iter().chain(how.window.map(Attribute::window)).collect();
        let started = if attributes.is_empty() {
            None
        } else {
            // SAFETY: the entry has one parameter, which the driver copies during the call; function and stream are of this
            // context. What the kernel does with it is the caller's contract.
            unsafe { extended::launch(function.raw, stream.raw(), shape, &attributes, arguments.as_mut_ptr()) }
        };
        let call = if started.is_some() { extended::CALL } else { "cuLaunchKernel" };
        // SAFETY: as above.
        let code = started.unwrap_or_else(|| unsafe {
            api::cuLaunchKernel(
                function.raw,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                launch.dynamic_shared,
                stream.raw(),
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        });
        self.check(call, code).map_err(|error| failed(shape, error))?;
        self.history.note(stream.number(), Enqueued::Kernel(shape));
        Ok(())
    }
}

/// A launch of this shape that ended in `error`.
fn failed(shape: LaunchShape, error: BackendError) -> LaunchError {
    match error {
        BackendError::Lost(lost) => LaunchError::Lost { shape, lost },
        BackendError::Driver { spec, call, code } => LaunchError::Driver { shape, call, code, spec },
        other => LaunchError::Setup { shape, error: Box::new(other) },
    }
}
