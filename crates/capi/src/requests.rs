//! Started requests: their ids and results.
//!
//! An id is free when its request is over and a caller has fetched the result. The number of
//! requests is limited. A request that is refused leaves the file's pointer unchanged.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use libc::{c_int, c_long};
use pario::{Pending, ShownRequest};
use parking_lot::Mutex;

use crate::buffers::CallerBuffers;
use crate::errors::{
    CallResult, EPFSLBADID, EPFSLMREQUEST, ErrnoContext, ErrnoError, IntoCallResult,
};
use crate::process;

/// Default limit of started requests per process.
const DEFAULT_LIMIT: usize = 20;
/// The variable that changes the limit.
const LIMIT_VARIABLE: &str = "PARIO_REQUESTS";

/// A started request, or its result.
#[derive(Debug)]
pub enum StartedIo {
    /// A read into one buffer.
    Read(Pending<usize>),
    /// A read whose bytes are copied to several buffers when it is over.
    Scatter(Pending<Bytes>, CallerBuffers),
    /// A write.
    Write(Pending<()>),
    /// The result.
    Over(CallResult<()>),
}

#[derive(Debug)]
struct IoRequest {
    fd: c_int,
    started: Mutex<Option<StartedIo>>,
    /// Shows it in `pario status`.
    _shown: Option<ShownRequest>,
}

#[derive(Default)]
struct RequestTable {
    next: c_long,
    under_way: HashMap<c_long, Arc<IoRequest>>,
    /// Slots of requests that are being started.
    reserved: usize,
}

static TABLE: Mutex<Option<RequestTable>> = Mutex::new(None);

/// Reserves a slot for a request. Fails at the limit, before anything is started.
pub fn reserve() -> CallResult<RequestSlot> {
    process::check_fork()?;
    RequestSlot::new()
}

/// Starts a request in a reserved slot and returns its id, which `start` is called with.
pub fn start(
    reserved: RequestSlot,
    fd: c_int,
    start: impl FnOnce(c_long) -> CallResult<(StartedIo, Option<ShownRequest>)>,
) -> CallResult<c_long> {
    let id = reserved.id;
    let (started, shown) = start(id)?;
    let started = Mutex::new(Some(started));
    let mut table = TABLE.lock();
    let table = table.get_or_insert_default();
    table.under_way.insert(id, Arc::new(IoRequest { fd, started, _shown: shown }));
    reserved.used(table);
    Ok(id)
}

/// Fails at the limit of requests: a blocking call counts as one.
pub fn check_limit() -> CallResult<()> {
    let limit = limit()?;
    let used = TABLE.lock().as_ref().map_or(0, |table| table.under_way.len() + table.reserved);
    if used < limit { Ok(()) } else { Err(too_many(limit)) }
}

/// Returns whether a request is over. If it is, frees its id.
pub fn is_done(id: c_long) -> CallResult<bool> {
    let request = find(id)?;
    match request.result(false) {
        Some(result) => free(id, result).map(|()| true),
        None => Ok(false),
    }
}

/// Waits until a request is over and frees its id.
pub fn wait(id: c_long) -> CallResult<()> {
    let request = find(id)?;
    match request.result(true) {
        Some(result) => free(id, result),
        None => Err(unknown(id)),
    }
}

/// Waits until all requests of a file are over. Their ids stay until callers fetch them.
pub fn wait_for_file(fd: c_int) {
    let of_file: Vec<_> = match &*TABLE.lock() {
        Some(table) => table.under_way.values().filter(|one| one.fd == fd).cloned().collect(),
        None => return,
    };
    for request in of_file {
        request.result(true);
    }
}

impl IoRequest {
    /// Returns the result. If the request is not over, waits for it or returns none.
    fn result(&self, should_wait: bool) -> Option<CallResult<()>> {
        // A waiting thread holds the lock.
        let mut slot = if should_wait { self.started.lock() } else { self.started.try_lock()? };
        let is_over = match slot.as_mut()? {
            StartedIo::Read(read) => read.is_done(),
            StartedIo::Scatter(read, _) => read.is_done(),
            StartedIo::Write(write) => write.is_done(),
            StartedIo::Over(_) => true,
        };
        if !is_over && !should_wait {
            return None;
        }
        let result = match slot.take()? {
            StartedIo::Read(read) => read.wait().map(|_| ()).in_call(ErrnoContext::Wait),
            StartedIo::Scatter(read, mut to) => {
                read.wait().map(|bytes| to.scatter(&bytes)).in_call(ErrnoContext::Wait)
            }
            StartedIo::Write(write) => write.wait().in_call(ErrnoContext::Wait),
            StartedIo::Over(result) => result,
        };
        *slot = Some(StartedIo::Over(result.clone()));
        Some(result)
    }
}

fn find(id: c_long) -> CallResult<Arc<IoRequest>> {
    process::check_fork()?;
    let table = TABLE.lock();
    let found = table.as_ref().and_then(|table| table.under_way.get(&id).cloned());
    found.ok_or_else(|| unknown(id))
}

/// Frees an id. Only the first caller gets the result.
fn free(id: c_long, result: CallResult<()>) -> CallResult<()> {
    let removed = TABLE.lock().as_mut().and_then(|table| table.under_way.remove(&id));
    if removed.is_some() { result } else { Err(unknown(id)) }
}

fn unknown(id: c_long) -> ErrnoError {
    ErrnoError::new(EPFSLBADID, format!("no request with id {id} is under way"))
}

fn too_many(limit: usize) -> ErrnoError {
    let text = format!(
        "{limit} requests are under way: wait for some with iowait or iodone, or set \
         {LIMIT_VARIABLE} to a higher limit"
    );
    ErrnoError::new(EPFSLMREQUEST, text)
}

fn limit() -> CallResult<usize> {
    static LIMIT: OnceLock<CallResult<usize>> = OnceLock::new();
    let read = || match std::env::var(LIMIT_VARIABLE) {
        Err(_) => Ok(DEFAULT_LIMIT),
        Ok(text) => match text.trim().parse() {
            Ok(limit) if limit > 0 => Ok(limit),
            _ => Err(ErrnoError::invalid(format!(
                "{LIMIT_VARIABLE} is {text:?}: set it to a number of requests above 0"
            ))),
        },
    };
    LIMIT.get_or_init(read).clone()
}

/// A slot for a request that is being started.
#[derive(Debug)]
pub struct RequestSlot {
    id: c_long,
    is_used: bool,
}

impl RequestSlot {
    fn new() -> CallResult<Self> {
        let limit = limit()?;
        let mut table = TABLE.lock();
        let table = table.get_or_insert_default();
        if table.under_way.len() + table.reserved >= limit {
            return Err(too_many(limit));
        }
        table.reserved += 1;
        let id = table.next;
        table.next += 1;
        Ok(Self { id, is_used: false })
    }

    /// Passes the slot to a request that is in the table.
    fn used(mut self, table: &mut RequestTable) {
        table.reserved -= 1;
        self.is_used = true;
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        if !self.is_used
            && let Some(table) = TABLE.lock().as_mut()
        {
            table.reserved -= 1;
        }
    }
}
