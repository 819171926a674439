//! Requests that were started: their ids, and what came of them.
//!
//! An id is given once and is free when its request is over and somebody has been told. How many there
//! may be is limited; a request that is refused has not taken its place in the file.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use libc::{c_int, c_long};
use pario::{SharedRead, SharedReadInto, SharedWrite};
use parking_lot::Mutex;

use crate::buffers::CallerBuffers;
use crate::errors::{CallError, CallKind, CallResult, EPFSLBADID, EPFSLMREQUEST, IntoCallResult};
use crate::process;

/// How many requests may be under way, unless told otherwise.
const DEFAULT_LIMIT: usize = 20;
/// The variable that tells otherwise.
const LIMIT_VARIABLE: &str = "PARIO_REQUESTS";

/// What was started, and what came of it.
#[derive(Debug)]
pub enum StartedIo {
    /// A read to where its bytes belong.
    Read(SharedReadInto),
    /// A read, and the pieces of memory that get its bytes when it is over.
    Scatter(SharedRead, CallerBuffers),
    /// A write.
    Write(SharedWrite),
    /// It is over.
    Over(CallResult<()>),
}

#[derive(Debug)]
struct IoRequest {
    fd: c_int,
    started: Mutex<Option<StartedIo>>,
}

#[derive(Default)]
struct RequestTable {
    next: c_long,
    under_way: HashMap<c_long, Arc<IoRequest>>,
    /// Those that are just being started.
    reserved: usize,
}

static TABLE: Mutex<Option<RequestTable>> = Mutex::new(None);

/// Starts a request, if there may be one more, and gives its id.
pub fn start(fd: c_int, start: impl FnOnce() -> CallResult<StartedIo>) -> CallResult<c_long> {
    process::check_fork()?;
    let reserved = RequestSlot::new()?;
    let started = Mutex::new(Some(start()?));
    let mut table = TABLE.lock();
    let table = table.get_or_insert_default();
    let id = table.next;
    table.next += 1;
    table.under_way.insert(id, Arc::new(IoRequest { fd, started }));
    reserved.used(table);
    Ok(id)
}

/// Whether there may be one more request: calls that wait are requests, too.
pub fn check_limit() -> CallResult<()> {
    let limit = limit()?;
    let used = TABLE.lock().as_ref().map_or(0, |table| table.under_way.len() + table.reserved);
    if used < limit { Ok(()) } else { Err(too_many(limit)) }
}

/// Whether a request is over. If so, its id is free.
pub fn is_done(id: c_long) -> CallResult<bool> {
    let request = find(id)?;
    match request.result(false) {
        Some(result) => free(id, result).map(|()| true),
        None => Ok(false),
    }
}

/// Waits until a request is over. Its id is free then.
pub fn wait(id: c_long) -> CallResult<()> {
    let request = find(id)?;
    match request.result(true) {
        Some(result) => free(id, result),
        None => Err(unknown(id)),
    }
}

/// Waits until all requests to a file are over; their ids stay until somebody asks for them.
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
    /// What came of it; if it is not over, it is waited for, or there is no answer.
    fn result(&self, is_waiting: bool) -> Option<CallResult<()>> {
        // Who waits holds the lock.
        let mut place = if is_waiting { self.started.lock() } else { self.started.try_lock()? };
        let is_over = match place.as_mut()? {
            StartedIo::Read(read) => read.is_done(),
            StartedIo::Scatter(read, _) => read.is_done(),
            StartedIo::Write(write) => write.is_done(),
            StartedIo::Over(_) => true,
        };
        if !is_over && !is_waiting {
            return None;
        }
        let result = match place.take()? {
            StartedIo::Read(read) => read.wait().map(|_| ()).in_call(CallKind::Wait),
            StartedIo::Scatter(read, mut to) => {
                read.wait().map(|bytes| to.scatter(&bytes)).in_call(CallKind::Wait)
            }
            StartedIo::Write(write) => write.wait().in_call(CallKind::Wait),
            StartedIo::Over(result) => result,
        };
        *place = Some(StartedIo::Over(result.clone()));
        Some(result)
    }
}

fn find(id: c_long) -> CallResult<Arc<IoRequest>> {
    process::check_fork()?;
    let table = TABLE.lock();
    let found = table.as_ref().and_then(|table| table.under_way.get(&id).cloned());
    found.ok_or_else(|| unknown(id))
}

/// Frees an id; the first who comes gets the result.
fn free(id: c_long, result: CallResult<()>) -> CallResult<()> {
    let removed = TABLE.lock().as_mut().and_then(|table| table.under_way.remove(&id));
    if removed.is_some() { result } else { Err(unknown(id)) }
}

fn unknown(id: c_long) -> CallError {
    CallError::new(EPFSLBADID, format!("{id} is no request that is under way"))
}

fn too_many(limit: usize) -> CallError {
    let text = format!(
        "{limit} are under way: wait for some with iowait or iodone, or allow more with the \
         variable {LIMIT_VARIABLE}"
    );
    CallError::new(EPFSLMREQUEST, text)
}

fn limit() -> CallResult<usize> {
    static LIMIT: OnceLock<CallResult<usize>> = OnceLock::new();
    let read = || match std::env::var(LIMIT_VARIABLE) {
        Err(_) => Ok(DEFAULT_LIMIT),
        Ok(text) => match text.trim().parse() {
            Ok(limit) if limit > 0 => Ok(limit),
            _ => Err(CallError::invalid(format!(
                "{LIMIT_VARIABLE}: {text:?} is no number of requests"
            ))),
        },
    };
    LIMIT.get_or_init(read).clone()
}

/// A place for a request that is being started.
struct RequestSlot {
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
        Ok(Self { is_used: false })
    }

    /// The request has its place in the table.
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
