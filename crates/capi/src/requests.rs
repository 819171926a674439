//! Requests that were started: their ids, and what came of them.
//!
//! An id is given once and is free when its request is over and somebody has been told. How many there
//! may be is limited; a request that is refused has not taken its place in the file.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use libc::{c_int, c_long};
use pario::{SharedRead, SharedReadInto, SharedWrite};
use parking_lot::Mutex;

use crate::errors::{Doing, Done, EPFSLBADID, EPFSLMREQUEST, Failed, While};
use crate::memory::Pieces;
use crate::process;

/// How many requests may be under way, unless told otherwise.
const USUAL_LIMIT: usize = 20;
/// The variable that tells otherwise.
const LIMIT_VARIABLE: &str = "PARIO_REQUESTS";

/// What was started, and what came of it.
#[derive(Debug)]
pub enum Started {
    /// A read to where its bytes belong.
    Read(SharedReadInto),
    /// A read, and the pieces of memory that get its bytes when it is over.
    Scatter(SharedRead, Pieces),
    /// A write.
    Write(SharedWrite),
    /// It is over.
    Over(Done<()>),
}

#[derive(Debug)]
struct Request {
    fd: c_int,
    started: Mutex<Option<Started>>,
}

#[derive(Default)]
struct Table {
    next: c_long,
    under_way: HashMap<c_long, Arc<Request>>,
    /// Those that are just being started.
    reserved: usize,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Starts a request, if there may be one more, and gives its id.
pub fn start(fd: c_int, start: impl FnOnce() -> Done<Started>) -> Done<c_long> {
    process::check_fork()?;
    let reserved = Reserved::new()?;
    let started = Mutex::new(Some(start()?));
    let mut table = TABLE.lock();
    let table = table.get_or_insert_default();
    let id = table.next;
    table.next += 1;
    table.under_way.insert(id, Arc::new(Request { fd, started }));
    reserved.used(table);
    Ok(id)
}

/// Whether there may be one more request: calls that wait are requests, too.
pub fn check_limit() -> Done<()> {
    let limit = limit()?;
    let used = TABLE.lock().as_ref().map_or(0, |table| table.under_way.len() + table.reserved);
    if used < limit { Ok(()) } else { Err(too_many(limit)) }
}

/// Whether a request is over. If so, its id is free.
pub fn is_done(id: c_long) -> Done<bool> {
    let request = find(id)?;
    match request.result(false) {
        Some(result) => free(id, result).map(|()| true),
        None => Ok(false),
    }
}

/// Waits until a request is over. Its id is free then.
pub fn wait(id: c_long) -> Done<()> {
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

impl Request {
    /// What came of it; if it is not over, it is waited for, or there is no answer.
    fn result(&self, is_waiting: bool) -> Option<Done<()>> {
        // Who waits holds the lock.
        let mut place = if is_waiting { self.started.lock() } else { self.started.try_lock()? };
        let is_over = match place.as_mut()? {
            Started::Read(read) => read.is_done(),
            Started::Scatter(read, _) => read.is_done(),
            Started::Write(write) => write.is_done(),
            Started::Over(_) => true,
        };
        if !is_over && !is_waiting {
            return None;
        }
        let result = match place.take()? {
            Started::Read(read) => read.wait().map(|_| ()).while_doing(Doing::Waiting),
            Started::Scatter(read, mut to) => {
                read.wait().map(|bytes| to.scatter(&bytes)).while_doing(Doing::Waiting)
            }
            Started::Write(write) => write.wait().while_doing(Doing::Waiting),
            Started::Over(result) => result,
        };
        *place = Some(Started::Over(result.clone()));
        Some(result)
    }
}

fn find(id: c_long) -> Done<Arc<Request>> {
    process::check_fork()?;
    let table = TABLE.lock();
    let found = table.as_ref().and_then(|table| table.under_way.get(&id).cloned());
    found.ok_or_else(|| unknown(id))
}

/// Frees an id; the first who comes gets the result.
fn free(id: c_long, result: Done<()>) -> Done<()> {
    let removed = TABLE.lock().as_mut().and_then(|table| table.under_way.remove(&id));
    if removed.is_some() { result } else { Err(unknown(id)) }
}

fn unknown(id: c_long) -> Failed {
    Failed::new(EPFSLBADID, format!("{id} is no request that is under way"))
}

fn too_many(limit: usize) -> Failed {
    let text = format!(
        "{limit} are under way: wait for some with iowait or iodone, or allow more with the \
         variable {LIMIT_VARIABLE}"
    );
    Failed::new(EPFSLMREQUEST, text)
}

fn limit() -> Done<usize> {
    static LIMIT: OnceLock<Done<usize>> = OnceLock::new();
    let read = || match std::env::var(LIMIT_VARIABLE) {
        Err(_) => Ok(USUAL_LIMIT),
        Ok(text) => match text.trim().parse() {
            Ok(limit) if limit > 0 => Ok(limit),
            _ => {
                Err(Failed::invalid(format!("{LIMIT_VARIABLE}: {text:?} is no number of requests")))
            }
        },
    };
    LIMIT.get_or_init(read).clone()
}

/// A place for a request that is being started.
struct Reserved {
    is_used: bool,
}

impl Reserved {
    fn new() -> Done<Self> {
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
    fn used(mut self, table: &mut Table) {
        table.reserved -= 1;
        self.is_used = true;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_used
            && let Some(table) = TABLE.lock().as_mut()
        {
            table.reserved -= 1;
        }
    }
}
