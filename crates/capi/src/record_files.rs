//! Open record files and started accesses of C programs, by their numbers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Once};

use libc::{c_char, c_int};
use pario::records::{Pending, RecordError, RecordFile, RecordId, start_workers};
use parking_lot::Mutex;

use crate::boundary::{FailureValue, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::process::{self, with_signals_blocked};
use crate::team;

/// Limit of started accesses that were not waited for.
const REQUEST_LIMIT: usize = 1 << 16;

/// Objects by number; numbers are given in turn.
struct HandleTable<T> {
    next: c_int,
    all: BTreeMap<c_int, T>,
}

struct RecordTables {
    files: HandleTable<Arc<RecordFile>>,
    requests: HandleTable<(c_int, Pending<()>)>,
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

/// Adds an open file. Returns its number.
pub fn add(file: RecordFile) -> c_int {
    TABLES.lock().files.add(Arc::new(file))
}

/// Returns the file with a number.
pub fn file(number: c_int) -> CallResult<Arc<RecordFile>> {
    process::check_fork()?;
    TABLES.lock().files.all.get(&number).cloned().ok_or_else(|| no_file(number))
}

/// Removes and returns the file with a number.
pub fn remove(number: c_int) -> CallResult<Arc<RecordFile>> {
    process::check_fork()?;
    TABLES.lock().files.all.remove(&number).ok_or_else(|| no_file(number))
}

fn no_file(number: c_int) -> ErrnoError {
    ErrnoError::new(libc::EBADF, format!("no open record file has number {number}"))
}

/// Drops all files; called when the process ends.
pub fn forget() {
    let files = TABLES.try_lock().map(|mut table| std::mem::take(&mut table.files.all));
    drop(files);
}

/// Starts an access. Returns its number. Fails at the limit.
pub fn start(
    number: c_int,
    start: impl FnOnce(&RecordFile) -> Result<Pending<()>, RecordError>,
) -> CallResult<c_int> {
    static WORKERS: Once = Once::new();
    let file = file(number)?;
    WORKERS.call_once(|| with_signals_blocked(start_workers));
    if TABLES.lock().requests.all.len() >= REQUEST_LIMIT {
        let text = format!("{REQUEST_LIMIT} accesses are under way: wait for some with GIO_Wait");
        return Err(ErrnoError::new(libc::EAGAIN, text));
    }
    let request = start(&file).map_err(record_error)?;
    Ok(TABLES.lock().requests.add((number, request)))
}

/// Waits for an access and frees its number.
pub fn wait(number: c_int) -> CallResult<()> {
    process::check_fork()?;
    let request = TABLES.lock().requests.all.remove(&number);
    let (_, request) = request.ok_or_else(|| no_request(number))?;
    request.wait().map_err(record_error)
}

/// Returns whether an access is over. If it is, frees its number.
pub fn is_done(number: c_int) -> CallResult<bool> {
    process::check_fork()?;
    let is_over = match TABLES.lock().requests.all.get(&number) {
        Some((_, request)) => request.is_done(),
        None => return Err(no_request(number)),
    };
    if is_over { wait(number).map(|()| true) } else { Ok(false) }
}

/// Waits for all started accesses of a file. Returns the first error.
pub fn wait_for_all(file: c_int) -> CallResult<()> {
    process::check_fork()?;
    let taken = {
        let requests = &mut TABLES.lock().requests.all;
        let (of_file, others) =
            std::mem::take(requests).into_iter().partition(|(_, (of, _))| *of == file);
        *requests = others;
        let of_file: BTreeMap<c_int, (c_int, Pending<()>)> = of_file;
        of_file
    };
    let results = taken.into_values().map(|(_, request)| request.wait());
    // Every access is waited for, even after a failure.
    let results: Vec<_> = results.collect();
    results.into_iter().try_for_each(|result| result.map_err(record_error))
}

fn no_request(number: c_int) -> ErrnoError {
    ErrnoError::new(libc::EINVAL, format!("no access with number {number} is under way"))
}

/// Converts an error of a record file.
pub fn record_error(error: RecordError) -> ErrnoError {
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
    ErrnoError::new(number, error.to_string())
}

thread_local! {
    /// The text of this thread's last error.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Runs a call that returns -1, sets `errno` and stores the text for `GIO_Error` on failure.
pub fn gio_call<T: FailureValue>(work: impl FnOnce() -> CallResult<T>) -> T {
    return_errno(|| {
        work().inspect_err(|failed| {
            let text = if failed.text.is_empty() { failed.message() } else { failed.text.clone() };
            let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
            // A thread that is ending has no thread-local storage.
            let _ = TEXT.try_with(|last| *last.borrow_mut() = text);
        })
    })
}

/// Returns the text of this thread's last error, valid until the next one.
pub fn last_text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Converts a path from C. Fails if it is null.
///
/// # Safety
/// `text` is null or a NUL-terminated string that outlives the result.
pub unsafe fn path<'a>(text: *const c_char) -> CallResult<&'a Path> {
    if text.is_null() {
        return Err(ErrnoError::new(libc::EFAULT, "the path is NULL"));
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Converts the number of a record.
pub fn record(number: c_int) -> CallResult<RecordId> {
    let number = u64::try_from(number)
        .map_err(|_| ErrnoError::new(libc::ENOENT, format!("record {number} does not exist")))?;
    Ok(RecordId::of_number(number))
}

/// Checks the byte range of a record and the stride in memory. `hi == lo - 1` is an empty range.
pub fn region(lo: i64, hi: i64, stride: i64) -> CallResult<(Range<u64>, usize)> {
    let wrong = || {
        ErrnoError::new(
            libc::EINVAL,
            format!(
                "bytes {lo} to {hi} with stride {stride}: bytes start at 0, the last byte is not \
                 before the first, and the stride is at least 1"
            ),
        )
    };
    let stride = usize::try_from(stride).ok().filter(|stride| *stride > 0).ok_or_else(wrong)?;
    let start = u64::try_from(lo).map_err(|_| wrong())?;
    if hi.checked_add(1) == Some(lo) {
        return Ok((0..0, stride));
    }
    let last = u64::try_from(hi).ok().filter(|last| *last >= start).ok_or_else(wrong)?;
    let extent = (last - start).checked_mul(stride as u64).and_then(|len| len.checked_mul(8));
    extent.filter(|len| i64::try_from(*len).is_ok()).ok_or_else(wrong)?;
    // No overflow: the last byte is below 2^63.
    Ok((start..last + 1, stride))
}
