//! The border between C and Rust: no panic crosses it, and what went wrong is told in the way of the
//! two forms of each call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

use crate::errors::{Done, Failed, raise, say};
use crate::process;

/// What a call returns when it has failed.
pub trait Returned {
    /// The value that says so.
    const FAILED: Self;
}

impl Returned for c_int {
    const FAILED: Self = -1;
}

impl Returned for libc::c_long {
    const FAILED: Self = -1;
}

impl Returned for isize {
    const FAILED: Self = -1;
}

impl Returned for () {
    const FAILED: Self = ();
}

/// A form that returns -1 and sets `errno`.
pub fn returning<T: Returned>(work: impl FnOnce() -> Done<T>) -> T {
    match caught(work) {
        Ok(value) => value,
        Err(failed) => {
            raise(failed);
            T::FAILED
        }
    }
}

/// A form that says what is wrong, and ends the process.
pub fn ending<T>(name: &str, work: impl FnOnce() -> Done<T>) -> T {
    match caught(work) {
        Ok(value) => value,
        Err(failed) => {
            say(&format!("pario: {}: {name}: {}", process::who(), failed.message()));
            raise(failed);
            std::process::exit(1);
        }
    }
}

fn caught<T>(work: impl FnOnce() -> Done<T>) -> Done<T> {
    // What was being changed when it panicked is behind locks that let others in all the same.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failed::new(libc::ENOTRECOVERABLE, "the library failed inside; please report this"))
    })
}
