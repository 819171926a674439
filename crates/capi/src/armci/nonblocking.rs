//! Non-blocking requests, and waiting for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void};
use pario::memory::Pending;

use super::{Armci, current};
use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// The handle of requests, in C.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct armci_hdl_t {
    /// The id of the requests; 0 is none.
    pub id: c_int,
    /// The process that the last of them concerns.
    pub proc: c_int,
    /// Whether it collects requests: `IS_AGGREGATE`, or any other number.
    pub aggregate: c_int,
}

/// Marks a handle that collects requests. A handle that was never initialised hardly has it.
const IS_AGGREGATE: c_int = 0x4147_4752;

/// A request that is under way.
struct NbRequest {
    /// The process that it concerns.
    rank: u32,
    started: Pending<()>,
}

/// The requests under way, by the id in their handle; those without a handle have the id 0.
#[derive(Default)]
pub struct NbRequests {
    by_id: HashMap<c_int, HandleRequests>,
}

#[derive(Default)]
struct HandleRequests {
    /// The address of the handle.
    handle: usize,
    /// In the order in which they were started.
    requests: Vec<NbRequest>,
}

/// The id of requests without a handle.
const NO_HANDLE: c_int = 0;

static LAST: AtomicI32 = AtomicI32::new(0);

impl Armci {
    /// Stores a started request and writes its handle.
    ///
    /// # Safety
    /// `handle` is null or points to a handle.
    unsafe fn register(&self, (rank, started): (u32, Pending<()>), handle: *mut armci_hdl_t) {
        let mut own = match handle.is_null() {
            true => armci_hdl_t::default(),
            // SAFETY: the caller guarantees a handle.
            false => unsafe { handle.read_unaligned() },
        };
        own.proc = c_int::try_from(rank).unwrap_or(c_int::MAX);
        if !self.is_live(&own, handle) {
            own.id = NO_HANDLE;
        }
        if !started.is_done() {
            if own.id == NO_HANDLE && !handle.is_null() {
                own.id = LAST.fetch_add(1, Ordering::Relaxed).rem_euclid(c_int::MAX) + 1;
            }
            let by_id = &mut self.requests.lock().by_id;
            let requests = by_id.entry(own.id).or_default();
            requests.handle = handle.addr();
            requests.requests.push(NbRequest { rank, started });
        }
        if !handle.is_null() {
            // SAFETY: as above.
            unsafe { handle.write_unaligned(own) };
        }
    }

    /// Whether requests of a handle are under way. The address counts as well, so that the content
    /// of a handle that was never initialised does not name requests of another one.
    fn is_live(&self, own: &armci_hdl_t, handle: *const armci_hdl_t) -> bool {
        let requests = self.requests.lock();
        let known = requests.by_id.get(&own.id);
        own.id != NO_HANDLE && known.is_some_and(|known| known.handle == handle.addr())
    }

    /// Waits for the requests of a handle.
    ///
    /// # Safety
    /// `handle` is null or points to a handle.
    unsafe fn finish_handle(&self, handle: *mut armci_hdl_t) -> CallResult<()> {
        if handle.is_null() {
            return Err(ErrnoError::invalid("the request handle is NULL"));
        }
        // SAFETY: the caller guarantees a handle.
        let id = unsafe { std::mem::replace(&mut (*handle).id, NO_HANDLE) };
        if id == NO_HANDLE {
            return Ok(());
        }
        let found = self.requests.lock().by_id.remove(&id);
        wait_for(found.unwrap_or_default().requests)
    }

    /// Waits for the requests to processes that `which` selects. Returns the first error.
    pub fn finish(&self, which: impl Fn(u32) -> bool) -> CallResult<()> {
        let mut found = Vec::new();
        self.requests.lock().by_id.retain(|_, handle| {
            found.extend(handle.requests.extract_if(.., |request| which(request.rank)));
            !handle.requests.is_empty()
        });
        wait_for(found)
    }

    /// Waits for the requests without handles to processes that `which` selects.
    fn finish_implicit(&self, which: impl Fn(u32) -> bool) -> CallResult<()> {
        let mut requests = self.requests.lock();
        let Some(implicit) = requests.by_id.get_mut(&NO_HANDLE) else { return Ok(()) };
        let found = implicit.requests.extract_if(.., |request| which(request.rank)).collect();
        drop(requests);
        wait_for(found)
    }

    /// Ends all requests: waits for puts, and withdraws gets, whose memory may be gone.
    pub fn end_requests(&self) {
        let all = std::mem::take(&mut *self.requests.lock());
        for request in all.by_id.into_values().flat_map(|handle| handle.requests) {
            // The program has not waited, and so does not want the error.
            let _ = request.started.cancel();
        }
    }
}

/// Waits for requests. Returns the first error.
fn wait_for(requests: Vec<NbRequest>) -> CallResult<()> {
    let mut result = Ok(());
    for request in requests {
        let one = team_result(request.started.wait());
        result = result.and(one);
    }
    result
}

/// Starts a request and stores it. If requests of the handle are under way, it first waits for
/// them, unless the handle collects requests.
///
/// # Safety
/// `handle` is null or points to a handle.
pub unsafe fn start_nonblocking(
    handle: *mut armci_hdl_t,
    start: impl FnOnce(&Armci) -> CallResult<(u32, Pending<()>)>,
) -> c_int {
    return_errno(|| {
        let armci = current()?;
        // SAFETY: the caller guarantees it.
        unsafe {
            if !handle.is_null() && (*handle).aggregate != IS_AGGREGATE {
                let own = handle.read_unaligned();
                if armci.is_live(&own, handle) {
                    armci.finish_handle(handle)?;
                }
            }
            armci.register(start(&armci)?, handle);
        }
        Ok(0)
    })
}

/// Makes a handle collect requests: `ARMCI_Wait` then waits for all of them.
///
/// # Safety
/// `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_SET_AGGREGATE_HANDLE(handle: *mut armci_hdl_t) {
    // SAFETY: the caller guarantees it.
    exit_on_error("ARMCI_SET_AGGREGATE_HANDLE", || unsafe { set_aggregate(handle, IS_AGGREGATE) });
}

/// Makes a handle that of single requests again. Those that it has collected stay with it.
///
/// # Safety
/// `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_UNSET_AGGREGATE_HANDLE(handle: *mut armci_hdl_t) {
    // SAFETY: the caller guarantees it.
    exit_on_error("ARMCI_UNSET_AGGREGATE_HANDLE", || unsafe { set_aggregate(handle, 0) });
}

/// # Safety
/// `handle` is null or points to a handle.
unsafe fn set_aggregate(handle: *mut armci_hdl_t, aggregate: c_int) -> CallResult<()> {
    if handle.is_null() {
        return Err(ErrnoError::invalid("the request handle is NULL"));
    }
    // SAFETY: the caller guarantees a handle.
    unsafe { (*handle).aggregate = aggregate };
    Ok(())
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

/// Waits for the requests of a handle.
///
/// # Safety
/// `handle` is null or was written by a call that started a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Wait(handle: *mut armci_hdl_t) -> c_int {
    // SAFETY: the caller guarantees it. A request that is not there was complete when it started,
    // or another call has waited for it.
    return_errno(|| unsafe { current()?.finish_handle(handle) }.map(|()| 0))
}

/// Returns 0 if the requests of a handle are complete, otherwise 1.
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
        let own = requests.by_id.get(&id).filter(|_| id != NO_HANDLE);
        let is_done =
            own.is_none_or(|own| own.requests.iter().all(|request| request.started.is_done()));
        Ok(c_int::from(!is_done))
    })
}

/// Waits for all requests without handles.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_WaitAll() -> c_int {
    return_errno(|| current()?.finish_implicit(|_| true).map(|()| 0))
}

/// Waits for all requests without handles to a process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_WaitProc(proc: c_int) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        armci.finish_implicit(|own| own == rank).map(|()| 0)
    })
}
