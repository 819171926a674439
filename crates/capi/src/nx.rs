//! The calls of `nx.h` beyond `pfslib.h`: rank and size, barrier, global sums, and the clock.
//!
//! Programs may define these themselves. They are weak symbols in the static library, and a
//! program's symbols take precedence over those of the shared library.

use libc::{c_double, c_long};
use pario::memory::{Number, Reduction};

use crate::boundary::exit_on_error;
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{misdirected_calls, process, team};

/// Returns the rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn mynode() -> c_long {
    exit_on_error("mynode", || process::size_and_rank().map(|(_, rank)| rank.into()))
}

/// Returns the number of processes of the job.
#[unsafe(no_mangle)]
pub extern "C" fn numnodes() -> c_long {
    exit_on_error("numnodes", || process::size_and_rank().map(|(size, _)| size.into()))
}

/// Waits for all processes of the job: in the memory of the team if this process has joined it,
/// otherwise at the interface node.
#[unsafe(no_mangle)]
pub extern "C" fn gsync() {
    exit_on_error("gsync", || match team::joined() {
        Some(team) => team::team_result(team.barrier()),
        None => {
            let files = process::current()?.files.clone();
            misdirected_calls::while_waiting(|| files.barrier()).in_call(ErrnoContext::Other)
        }
    });
}

/// Replaces each number by its sum over all processes. `_work` is unused.
///
/// # Safety
/// `numbers` is null or points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gisum(numbers: *mut c_long, count: c_long, _work: *mut c_long) {
    // SAFETY: the caller guarantees it.
    exit_on_error("gisum", || unsafe { sum(numbers, count) });
}

/// Replaces each number by its sum over all processes. `_work` is unused.
///
/// # Safety
/// `numbers` is null or points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdsum(numbers: *mut c_double, count: c_long, _work: *mut c_double) {
    // SAFETY: the caller guarantees it.
    exit_on_error("gdsum", || unsafe { sum(numbers, count) });
}

/// # Safety
/// `numbers` is null or points to `count` numbers.
pub unsafe fn sum<T: Number>(numbers: *mut T, count: c_long) -> CallResult<()> {
    let wrong = || {
        ErrnoError::invalid(format!(
            "{count} numbers at {numbers:?}: the count must not be negative, and the address not \
             null and aligned"
        ))
    };
    let is_there = |count: &usize| *count == 0 || (!numbers.is_null() && numbers.is_aligned());
    let count = usize::try_from(count).ok().filter(is_there).ok_or_else(wrong);
    let team = team::current()?;
    let count = team::or_fail_round(count)?;
    let mut own = Vec::new();
    if count > 0 {
        // SAFETY: it is not null, and the caller guarantees `count` numbers.
        own.extend_from_slice(unsafe { std::slice::from_raw_parts(numbers, count) });
    }
    team::team_result(team.reduce(Reduction::Sum, &mut own))?;
    // SAFETY: as many numbers were read from there.
    unsafe { std::ptr::copy_nonoverlapping(own.as_ptr(), numbers, own.len()) };
    Ok(())
}

/// Returns seconds of a monotonic clock.
#[unsafe(no_mangle)]
pub extern "C" fn dclock() -> c_double {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 seconds")]
    let seconds = now.tv_sec as f64;
    #[expect(clippy::cast_precision_loss, reason = "it is below 10^9")]
    let rest = now.tv_nsec as f64;
    seconds + rest / 1e9
}
