//! The boundary between C and Rust: no panic crosses it, and an error is reported as the form of
//! the call asks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::errors::{CallResult, ErrnoError, print_line, set_last_error};
use crate::process;

/// A return type of C calls that can report a failure.
pub trait FailureValue {
    /// The value that reports a failure.
    const FAILED: Self;
}

impl FailureValue for c_int {
    const FAILED: Self = -1;
}

impl FailureValue for libc::c_long {
    const FAILED: Self = -1;
}

impl FailureValue for isize {
    const FAILED: Self = -1;
}

impl FailureValue for *mut libc::DIR {
    const FAILED: Self = std::ptr::null_mut();
}

impl FailureValue for *mut libc::c_char {
    const FAILED: Self = std::ptr::null_mut();
}

impl FailureValue for *mut libc::dirent {
    const FAILED: Self = std::ptr::null_mut();
}

impl FailureValue for () {
    const FAILED: Self = ();
}

/// Runs a call whose form returns -1 and sets `errno` on failure.
pub fn return_errno<T: FailureValue>(body: impl FnOnce() -> CallResult<T>) -> T {
    match catch_panic(body) {
        Ok(value) => value,
        Err(failed) => {
            set_last_error(failed);
            T::FAILED
        }
    }
}

/// Runs a call whose form prints the error and ends the process on failure.
pub fn exit_on_error<T>(name: &str, body: impl FnOnce() -> CallResult<T>) -> T {
    match catch_panic(body) {
        Ok(value) => value,
        Err(failed) => {
            print_line(&format!("pario: {}: {name}: {}", process::describe(), failed.message()));
            set_last_error(failed);
            exit_failed(1);
        }
    }
}

/// Whether the process ends because of an error.
static IS_FAILING: AtomicBool = AtomicBool::new(false);

/// Ends the process because of an error: it does not wait for other processes to leave.
pub fn exit_failed(code: c_int) -> ! {
    IS_FAILING.store(true, Ordering::Release);
    std::process::exit(code);
}

/// Whether the process ends because of an error.
pub fn is_failing() -> bool {
    IS_FAILING.load(Ordering::Acquire)
}

fn catch_panic<T>(body: impl FnOnce() -> CallResult<T>) -> CallResult<T> {
    // Unwind safe: all state is behind locks without poisoning.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(ErrnoError::new(
            libc::ENOTRECOVERABLE,
            "libpario panicked: this is a bug, please report it with the lines that it printed \
             above",
        ))
    })
}
