//! The part of the L2 that is set aside for lines that stay.

use super::super::error::BackendError;
use super::api;
use super::context::Context;
use std::ffi::c_int;

/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
const LIMIT: c_int = 6;
/// `CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE` and `CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE`.
const MOST_SET_ASIDE: c_int = 108;
const MOST_WINDOW: c_int = 109;

impl Context {
    /// Bytes of the L2 that can be set aside, and of a window; 0 where the card has no such thing.
    pub fn most_set_aside(&self) -> Result<[usize; 2], BackendError> {
        let ask = |attribute| {
            let mut value = 0;
            // SAFETY: writes one integer.
            let code = unsafe { api::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
            self.check("cuDeviceGetAttribute", code).map(|()| usize::try_from(value).unwrap_or(0))
        };
        Ok([ask(MOST_SET_ASIDE)?, ask(MOST_WINDOW)?])
    }

    /// Bytes that are set aside.
    pub fn set_aside(&self) -> Result<usize, BackendError> {
        self.bind()?;
        let mut bytes = 0;
        // SAFETY: writes one size.
        self.check("cuCtxGetLimit", unsafe { api::cuCtxGetLimit(&raw mut bytes, LIMIT) })?;
        Ok(bytes)
    }

    /// Sets so many bytes aside; the driver may round.
    pub fn set_set_aside(&self, bytes: usize) -> Result<(), BackendError> {
        self.bind()?;
        // SAFETY: no pointers.
        self.check("cuCtxSetLimit", unsafe { api::cuCtxSetLimit(LIMIT, bytes) })
    }

    /// Makes all lines ordinary ones.
    pub fn let_lines_go(&self) -> Result<(), BackendError> {
        self.synchronize()?;
        // SAFETY: no arguments; the context is current.
        self.check("cuCtxResetPersistingL2Cache", unsafe { api::cuCtxResetPersistingL2Cache() })
    }
}
