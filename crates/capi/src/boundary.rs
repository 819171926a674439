//! The boundary between C and Rust: no panic crosses it, and what went wrong is told in the way of the
//! two forms of each call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

use crate::errors::{CallError, CallResult, print_line, set_last_error};
use crate::process;

/// What a call returns when it has failed.
pub trait FailureValue {
    /// The value that says so.
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

impl FailureValue for () {
    const FAILED: Self = ();
}

/// A form that returns -1 and sets `errno`.
pub fn return_errno<T: FailureValue>(work: impl FnOnce() -> CallResult<T>) -> T {
    match caught(work) {
        Ok(value) => value,
        Err(failed) => {
            set_last_error(failed);
            T::FAILED
        }
    }
}

/// A form that says what is wrong, and ends the process.
pub fn exit_on_error<T>(name: &str, work: impl FnOnce() -> CallResult<T>) -> T {
    match caught(work) {
        Ok(value) => value,
        Err(failed) => {
            print_line(&format!("pario: {}: {name}: {}", process::describe(), failed.message()));
            set_last_error(failed);
            std::process::exit(1);
        }
    }
}

fn caught<T>(work: impl FnOnce() -> CallResult<T>) -> CallResult<T> {
    // What was being changed when it panicked is behind locks that let others in all the same.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(CallError::new(libc::ENOTRECOVERABLE, "the library failed inside; please report this"))
    })
}
