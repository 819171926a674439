//! Non-blocking requests, and waiting for them.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void};
use pario::memory::Pending;

use super::{Armci, current};
use crate::boundary::return_errno;
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// The handle of a request, in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct armci_hdl_t {
    /// The id of the request; 0 is none.
    pub id: c_int,
    /// The process that it concerns.
    pub proc: c_int,
}

/// A request that is under way.
pub struct NbRequest {
    /// The process that it concerns.
    pub rank: u32,
    /// Whether it has no handle: the calls that wait for all requests wait for it.
    pub is_implicit: bool,
    started: Pending<()>,
}

static LAST: AtomicI32 = AtomicI32::new(0);

impl Armci {
    /// Stores a started request and writes its handle.
    ///
    /// # Safety
    /// `handle` is null or points to a handle.
    pub unsafe fn register(
        &self,
        (rank, started): (u32, Pending<()>),
        handle: *mut armci_hdl_t,
    ) -> c_int {
        let proc = c_int::try_from(rank).unwrap_or(c_int::MAX);
        let mut id = 0;
        if !started.is_done() {
            id = LAST.fetch_add(1, Ordering::Relaxed).rem_euclid(c_int::MAX) + 1;
            let request = NbRequest { rank, is_implicit: handle.is_null(), started };
            self.requests.lock().insert(id, request);
        }
        if !handle.is_null() {
            // SAFETY: the caller guarantees room for a handle.
            unsafe { handle.write(armci_hdl_t { id, proc }) };
        }
        0
    }

    /// Waits for the requests that `which` selects. Returns the first error.
    pub fn finish(&self, which: impl Fn(&NbRequest) -> bool) -> CallResult<()> {
        let found: Vec<NbRequest> = {
            let mut requests = self.requests.lock();
            requests.extract_if(|_, request| which(request)).map(|(_, request)| request).collect()
        };
        let mut result = Ok(());
        for request in found {
            let one = team_result(request.started.wait());
            result = result.and(one);
        }
        result
    }
}

/// Starts a request and stores it.
///
/// # Safety
/// `handle` is null or points to a handle.
pub unsafe fn start_nonblocking(
    handle: *mut armci_hdl_t,
    start: impl FnOnce(&Armci) -> CallResult<(u32, Pending<()>)>,
) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let started = start(&armci)?;
        // SAFETY: the caller guarantees it.
        Ok(unsafe { armci.register(started, handle) })
    })
}

/// Starts a put.
///
/// # Safety
/// `src` is null or points to `bytes` bytes; `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbPut(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { start_nonblocking(handle, |armci| armci.start_put(src, dst, bytes, proc)) }
}

/// Starts a get.
///
/// # Safety
/// `dst` is null or has room for `bytes` bytes, which nothing else uses until the request is over;
/// `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbGet(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { start_nonblocking(handle, |armci| armci.start_get(src, dst, bytes, proc)) }
}

/// Starts an accumulation.
///
/// # Safety
/// `src` is null or points to `bytes` bytes, and `scale` is null or points to a number of the type;
/// `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbAcc(
    optype: c_int,
    scale: *mut c_void,
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        start_nonblocking(handle, |armci| armci.start_acc((optype, scale), src, dst, bytes, proc))
    }
}

/// Waits for a request.
///
/// # Safety
/// `handle` is null or was written by a call that started a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Wait(handle: *mut armci_hdl_t) -> c_int {
    return_errno(|| {
        let armci = current()?;
        if handle.is_null() {
            return Err(ErrnoError::invalid("the request handle is NULL"));
        }
        // SAFETY: the caller guarantees a handle.
        let id = unsafe { std::mem::replace(&mut (*handle).id, 0) };
        let request = armci.requests.lock().remove(&id);
        match request {
            Some(request) => team_result(request.started.wait()).map(|()| 0),
            // It was complete when it started, or a wait has completed it.
            None => Ok(0),
        }
    })
}

/// Returns 0 if a request is complete, otherwise 1.
///
/// # Safety
/// `handle` is null or was written by a call that started a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Test(handle: *mut armci_hdl_t) -> c_int {
    return_errno(|| {
        let armci = current()?;
        if handle.is_null() {
            return Err(ErrnoError::invalid("the request handle is NULL"));
        }
        // SAFETY: the caller guarantees a handle.
        let id = unsafe { (*handle).id };
        let requests = armci.requests.lock();
        let is_done = requests.get(&id).is_none_or(|request| request.started.is_done());
        Ok(c_int::from(!is_done))
    })
}

/// Waits for all requests without handles.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_WaitAll() -> c_int {
    return_errno(|| current()?.finish(|request| request.is_implicit).map(|()| 0))
}

/// Waits for all requests without handles to a process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_WaitProc(proc: c_int) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        armci.finish(|request| request.rank == rank && request.is_implicit).map(|()| 0)
    })
}
