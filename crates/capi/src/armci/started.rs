//! Requests that were started, and waiting for them.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void};
use pario::team::PendingAccess;

use super::{Armci, current};
use crate::border::returning;
use crate::errors::{Done, Failed};
use crate::team::done;

/// A request as a program knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct armci_hdl_t {
    /// Which one; 0 is none.
    pub id: c_int,
    /// The process that it concerns.
    pub proc: c_int,
}

/// A request that is under way.
pub struct Request {
    /// The process that it concerns.
    pub rank: u32,
    /// Nobody has asked for a handle: whoever waits for all waits for it.
    pub is_implicit: bool,
    started: PendingAccess<'static>,
}

static LAST: AtomicI32 = AtomicI32::new(0);

impl Armci {
    /// Keeps a request that was started, and tells who it is.
    ///
    /// # Safety
    /// The handle must be null, or a place for one.
    pub unsafe fn keep(
        &self,
        (rank, started): (u32, PendingAccess<'static>),
        handle: *mut armci_hdl_t,
    ) -> c_int {
        let proc = c_int::try_from(rank).unwrap_or(c_int::MAX);
        let mut id = 0;
        if !started.is_done() {
            id = LAST.fetch_add(1, Ordering::Relaxed).rem_euclid(c_int::MAX) + 1;
            let request = Request { rank, is_implicit: handle.is_null(), started };
            self.requests.lock().insert(id, request);
        }
        if !handle.is_null() {
            // SAFETY: the caller says that there is a place for it.
            unsafe { handle.write(armci_hdl_t { id, proc }) };
        }
        0
    }

    /// Waits for some requests.
    pub fn finish(&self, which: impl Fn(&Request) -> bool) -> Done<()> {
        let found: Vec<Request> = {
            let mut requests = self.requests.lock();
            requests.extract_if(|_, request| which(request)).map(|(_, request)| request).collect()
        };
        let mut result = Ok(());
        for request in found {
            let one = done(request.started.wait());
            result = result.and(one);
        }
        result
    }
}

/// Begins something, and keeps it.
///
/// # Safety
/// The handle must be null, or a place for one.
pub unsafe fn begin(
    handle: *mut armci_hdl_t,
    start: impl FnOnce(&Armci) -> Done<(u32, PendingAccess<'static>)>,
) -> c_int {
    returning(|| {
        let armci = current()?;
        let begun = start(&armci)?;
        // SAFETY: the caller says so.
        Ok(unsafe { armci.keep(begun, handle) })
    })
}

/// Begins to put.
///
/// # Safety
/// So many bytes must be at the source; the handle is null, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbPut(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.start_put(src, dst, bytes, proc)) }
}

/// Begins to get.
///
/// # Safety
/// There must be room for so many bytes, which belong to nobody else until it was waited for; the
/// handle is null, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbGet(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.start_get(src, dst, bytes, proc)) }
}

/// Begins to accumulate.
///
/// # Safety
/// So many bytes must be at the source, and a number at the scale; the handle is null, or a place for
/// one.
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
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.start_acc((optype, scale), src, dst, bytes, proc)) }
}

/// Waits for a request.
///
/// # Safety
/// The handle must be null, or one that was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Wait(handle: *mut armci_hdl_t) -> c_int {
    returning(|| {
        let armci = current()?;
        if handle.is_null() {
            return Err(Failed::invalid("a null pointer for a handle"));
        }
        // SAFETY: the caller says that there is one.
        let id = unsafe { std::mem::replace(&mut (*handle).id, 0) };
        let request = armci.requests.lock().remove(&id);
        match request {
            Some(request) => done(request.started.wait()).map(|()| 0),
            // It was done when it was started, or was waited for before.
            None => Ok(0),
        }
    })
}

/// Whether a request is done: 0 if it is, and 1 if it is not.
///
/// # Safety
/// The handle must be null, or one that was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Test(handle: *mut armci_hdl_t) -> c_int {
    returning(|| {
        let armci = current()?;
        if handle.is_null() {
            return Err(Failed::invalid("a null pointer for a handle"));
        }
        // SAFETY: the caller says that there is one.
        let id = unsafe { (*handle).id };
        let requests = armci.requests.lock();
        let is_done = requests.get(&id).is_none_or(|request| request.started.is_done());
        Ok(c_int::from(!is_done))
    })
}

/// Waits for all requests without handles.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_WaitAll() -> c_int {
    returning(|| current()?.finish(|request| request.is_implicit).map(|()| 0))
}

/// Waits for all requests without handles that concern a process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_WaitProc(proc: c_int) -> c_int {
    returning(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        armci.finish(|request| request.rank == rank && request.is_implicit).map(|()| 0)
    })
}
