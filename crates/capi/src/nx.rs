//! What `nx.h` declares beyond `pfslib.h`: who is here, waiting for all, sums of all, and the time.
//!
//! Programs define some of these themselves; in the static library they are weak, and those of a
//! program come before those of a shared library anyway.

use libc::{c_double, c_long};
use pario::team::{Number, Reduction};

use crate::boundary::exit_on_error;
use crate::errors::{CallError, CallKind, CallResult, IntoCallResult};
use crate::{process, team};

/// Which process this is.
#[unsafe(no_mangle)]
pub extern "C" fn mynode() -> c_long {
    exit_on_error("mynode", || process::size_and_rank().map(|(_, rank)| rank.into()))
}

/// How many processes there are.
#[unsafe(no_mangle)]
pub extern "C" fn numnodes() -> c_long {
    exit_on_error("numnodes", || process::size_and_rank().map(|(size, _)| size.into()))
}

/// Waits until all processes are here: those who have met for their memory meet there, and others at
/// the node.
#[unsafe(no_mangle)]
pub extern "C" fn gsync() {
    exit_on_error("gsync", || match team::joined() {
        Some(team) => team::team_result(team.barrier()),
        None => process::current()?.group.barrier().in_call(CallKind::Other),
    });
}

/// The sums of whole numbers of all processes, for each place. The last argument is not used.
///
/// # Safety
/// The first pointer is null, or leads to so many numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gisum(numbers: *mut c_long, count: c_long, _work: *mut c_long) {
    // SAFETY: as the caller says.
    exit_on_error("gisum", || unsafe { sum(numbers, count) });
}

/// The sums of numbers of all processes, for each place. The last argument is not used.
///
/// # Safety
/// The first pointer is null, or leads to so many numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdsum(numbers: *mut c_double, count: c_long, _work: *mut c_double) {
    // SAFETY: as the caller says.
    exit_on_error("gdsum", || unsafe { sum(numbers, count) });
}

/// # Safety
/// The pointer is null, or leads to so many numbers.
pub unsafe fn sum<T: Number>(numbers: *mut T, count: c_long) -> CallResult<()> {
    let wrong = || CallError::invalid(format!("{count} numbers at {numbers:?} cannot be added"));
    let count = usize::try_from(count).map_err(|_| wrong())?;
    if count > 0 && (numbers.is_null() || !numbers.is_aligned()) {
        return Err(wrong());
    }
    let mut own = Vec::new();
    if count > 0 {
        // SAFETY: it is not null, and the caller says that so many numbers are there.
        own.extend_from_slice(unsafe { std::slice::from_raw_parts(numbers, count) });
    }
    team::team_result(team::current()?.reduce(Reduction::Sum, &mut own))?;
    // SAFETY: there is room for as many as were there.
    unsafe { std::ptr::copy_nonoverlapping(own.as_ptr(), numbers, own.len()) };
    Ok(())
}

/// Seconds since some moment in the past.
#[unsafe(no_mangle)]
pub extern "C" fn dclock() -> c_double {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    #[expect(clippy::cast_precision_loss, reason = "a machine does not run for millions of years")]
    let seconds = now.tv_sec as f64;
    #[expect(clippy::cast_precision_loss, reason = "it is below a thousand million")]
    let rest = now.tv_nsec as f64;
    seconds + rest / 1e9
}
