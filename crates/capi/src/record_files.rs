//! Record files that C programs have open, and accesses that they have started: what their numbers
//! mean.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Once};

use libc::{c_char, c_int};
use pario::records::{RecordError, RecordFile, RecordId, Request, start_workers};
use parking_lot::Mutex;

use crate::boundary::{FailureValue, return_errno};
use crate::errors::{CallError, CallResult};
use crate::process::{self, with_signals_blocked};
use crate::team;

/// How many accesses may be started and not waited for.
const REQUEST_LIMIT: usize = 1 << 16;

/// Numbers that stand for something, given one after the other.
struct HandleTable<T> {
    next: c_int,
    all: BTreeMap<c_int, T>,
}

struct RecordTables {
    files: HandleTable<Arc<RecordFile>>,
    requests: HandleTable<(c_int, Request<()>)>,
}

static TABLES: Mutex<RecordTables> = Mutex::new(RecordTables {
    files: HandleTable { next: 0, all: BTreeMap::new() },
    requests: HandleTable { next: 0, all: BTreeMap::new() },
});

impl<T> HandleTable<T> {
    fn add(&mut self, one: T) -> c_int {
        while self.all.contains_key(&self.next) {
            self.next = self.next.checked_add(1).unwrap_or(0);
        }
        let number = self.next;
        self.next = number.checked_add(1).unwrap_or(0);
        self.all.insert(number, one);
        number
    }
}

/// Keeps an open file, and gives its number.
pub fn add(file: RecordFile) -> c_int {
    TABLES.lock().files.add(Arc::new(file))
}

/// The file with a number.
pub fn file(number: c_int) -> CallResult<Arc<RecordFile>> {
    process::check_fork()?;
    TABLES.lock().files.all.get(&number).cloned().ok_or_else(|| no_file(number))
}

/// The same, and the number is free.
pub fn remove(number: c_int) -> CallResult<Arc<RecordFile>> {
    process::check_fork()?;
    TABLES.lock().files.all.remove(&number).ok_or_else(|| no_file(number))
}

fn no_file(number: c_int) -> CallError {
    CallError::new(libc::EBADF, format!("{number} is no record file that is open"))
}

/// Forgets all files: the process ends.
pub fn forget() {
    let files = TABLES.try_lock().map(|mut table| std::mem::take(&mut table.files.all));
    drop(files);
}

/// Starts an access, and gives its number.
pub fn start(
    number: c_int,
    start: impl FnOnce(&RecordFile) -> Result<Request<()>, RecordError>,
) -> CallResult<c_int> {
    static WORKERS: Once = Once::new();
    let file = file(number)?;
    WORKERS.call_once(|| with_signals_blocked(start_workers));
    if TABLES.lock().requests.all.len() >= REQUEST_LIMIT {
        let text = format!("{REQUEST_LIMIT} accesses are started: wait for some with GIO_Wait");
        return Err(CallError::new(libc::EAGAIN, text));
    }
    let request = start(&file).map_err(record_error)?;
    Ok(TABLES.lock().requests.add((number, request)))
}

/// Waits for an access; its number is free then.
pub fn wait(number: c_int) -> CallResult<()> {
    process::check_fork()?;
    let request = TABLES.lock().requests.all.remove(&number);
    let (_, request) = request.ok_or_else(|| no_request(number))?;
    request.wait().map_err(record_error)
}

/// Whether an access is over; its number is free if it is.
pub fn is_done(number: c_int) -> CallResult<bool> {
    process::check_fork()?;
    let is_over = match TABLES.lock().requests.all.get(&number) {
        Some((_, request)) => request.is_done(),
        None => return Err(no_request(number)),
    };
    if is_over { wait(number).map(|()| true) } else { Ok(false) }
}

/// Waits for all that were started on a file; what went wrong first.
pub fn wait_for_all(file: c_int) -> CallResult<()> {
    process::check_fork()?;
    let taken = {
        let requests = &mut TABLES.lock().requests.all;
        let (of_file, others) =
            std::mem::take(requests).into_iter().partition(|(_, (of, _))| *of == file);
        *requests = others;
        let of_file: BTreeMap<c_int, (c_int, Request<()>)> = of_file;
        of_file
    };
    let results = taken.into_values().map(|(_, request)| request.wait());
    // All are waited for, also when one has failed.
    let results: Vec<_> = results.collect();
    results.into_iter().try_for_each(|result| result.map_err(record_error))
}

fn no_request(number: c_int) -> CallError {
    CallError::new(libc::EINVAL, format!("{number} is no access that was started"))
}

/// An error of a record file, as C programs know it.
pub fn record_error(error: RecordError) -> CallError {
    let number = match &error {
        RecordError::Invalid(_) => libc::EINVAL,
        RecordError::NotFound(_) => libc::ENOENT,
        RecordError::Exists(_) => libc::EEXIST,
        RecordError::InUse(_) => libc::EBUSY,
        RecordError::Damaged(_) => libc::EUCLEAN,
        RecordError::System { number, .. } => *number,
        RecordError::Team(error) => team::errno_of(error),
        _ => libc::EIO,
    };
    CallError::new(number, error.to_string())
}

thread_local! {
    /// What went wrong last in this thread.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// A call that returns -1, sets `errno` and remembers the text.
pub fn gio_call<T: FailureValue>(work: impl FnOnce() -> CallResult<T>) -> T {
    return_errno(|| {
        work().inspect_err(|failed| {
            let text = if failed.text.is_empty() { failed.message() } else { failed.text.clone() };
            let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
            // A thread that is exit_on_error has nothing to remember.
            let _ = TEXT.try_with(|last| *last.borrow_mut() = text);
        })
    })
}

/// The text of the last error of this thread. It stays until the next one.
pub fn last_text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A path that a program gives.
///
/// # Safety
/// It is null, or a text that ends with a zero.
pub unsafe fn path<'a>(text: *const c_char) -> CallResult<&'a Path> {
    if text.is_null() {
        return Err(CallError::new(libc::EFAULT, "the path is NULL"));
    }
    // SAFETY: the caller says so.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// The record with a number.
pub fn record(number: c_int) -> CallResult<RecordId> {
    let number = u64::try_from(number)
        .map_err(|_| CallError::new(libc::ENOENT, format!("there is no record {number}")))?;
    Ok(RecordId::of_number(number))
}

/// Bytes of a record, and how far apart they are in memory.
pub fn region(lo: i64, hi: i64, stride: i64) -> CallResult<(RangeInclusive<u64>, usize)> {
    let wrong = || {
        CallError::new(
            libc::EINVAL,
            format!(
                "bytes {lo} to {hi} with a stride of {stride}: bytes begin at 0, the last one is not \
                 before the first, and strides begin at 1"
            ),
        )
    };
    let stride = usize::try_from(stride).ok().filter(|stride| *stride > 0).ok_or_else(wrong)?;
    let start = u64::try_from(lo).map_err(|_| wrong())?;
    if hi.checked_add(1) == Some(lo) {
        return Ok((RangeInclusive::new(1, 0), stride));
    }
    let end = u64::try_from(hi).ok().filter(|end| *end >= start).ok_or_else(wrong)?;
    let extent = (end - start).checked_mul(stride as u64).and_then(|len| len.checked_mul(8));
    extent.filter(|len| i64::try_from(*len).is_ok()).ok_or_else(wrong)?;
    Ok((RangeInclusive::new(start, end), stride))
}
