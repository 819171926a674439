//! Collective calls, by their ARMCI names.

use std::ffi::CStr;

use libc::{c_char, c_double, c_float, c_int, c_long, c_void};
use pario::memory::{Number, Reduction};

use super::access::caller_bytes_mut;
use super::byte_count;
use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::team::{current, or_fail_round, team_result};

/// Returns the rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_me() -> c_int {
    return_errno(|| Ok(c_int::try_from(current()?.rank()).unwrap_or(c_int::MAX)))
}

/// Returns the number of processes.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_nproc() -> c_int {
    return_errno(|| Ok(c_int::try_from(current()?.size()).unwrap_or(c_int::MAX)))
}

/// Waits for all processes.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_barrier() {
    exit_on_error("armci_msg_barrier", || team_result(current()?.barrier()));
}

/// Copies a buffer of one process to all processes.
///
/// # Safety
/// `buffer` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_brdcst(buffer: *mut c_void, len: c_int, root: c_int) {
    exit_on_error("armci_msg_brdcst", || {
        let root = u32::try_from(root).map_err(|_| {
            ErrnoError::invalid(format!("process {root} does not exist: ranks start at 0"))
        });
        // SAFETY: the caller guarantees it.
        let bytes = byte_count(len).and_then(|len| unsafe { caller_bytes_mut(buffer, len) });
        let team = current()?;
        let (root, bytes) = or_fail_round(root.and_then(|root| Ok((root, bytes?))))?;
        team_result(team.broadcast(root, bytes))
    });
}

/// Reduces numbers over all processes, element by element.
///
/// # Safety
/// `x` points to `n` numbers, and `op` is a NUL-terminated string.
unsafe fn reduce<T: Number>(x: *mut T, n: c_int, op: *const c_char) -> CallResult<()> {
    let team = current()?;
    // SAFETY: the caller guarantees it.
    let (reduction, numbers) = or_fail_round(unsafe { reduction_of(x, n, op) })?;
    team_result(team.reduce(reduction, numbers))
}

/// # Safety
/// As for `reduce`.
unsafe fn reduction_of<'a, T: Number>(
    x: *mut T,
    n: c_int,
    op: *const c_char,
) -> CallResult<(Reduction, &'a mut [T])> {
    let count = byte_count(n)?;
    if op.is_null() || (count > 0 && (x.is_null() || !x.is_aligned())) {
        return Err(ErrnoError::invalid(
            "the numbers or the operation are NULL, or the numbers are not aligned",
        ));
    }
    // SAFETY: the caller guarantees a string.
    let op = unsafe { CStr::from_ptr(op) };
    let reduction = match op.to_bytes() {
        b"+" => Reduction::Sum,
        b"max" => Reduction::Largest,
        b"min" => Reduction::Smallest,
        _ => {
            let what = format!(
                "operation {:?} is unknown: use \"+\", \"max\" or \"min\"",
                op.to_string_lossy()
            );
            return Err(ErrnoError::invalid(what));
        }
    };
    let numbers: &mut [T] = match count {
        0 => &mut [],
        // SAFETY: the caller guarantees that many.
        _ => unsafe { std::slice::from_raw_parts_mut(x, count) },
    };
    Ok((reduction, numbers))
}

/// Replaces each number by the sum ("+"), maximum ("max") or minimum ("min") over all processes.
///
/// # Safety
/// `x` points to `n` numbers, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_igop(x: *mut c_int, n: c_int, op: *mut c_char) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_igop", || unsafe { reduce(x, n, op) });
}

/// Replaces each number by the sum ("+"), maximum ("max") or minimum ("min") over all processes.
///
/// # Safety
/// `x` points to `n` numbers, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_lgop(x: *mut c_long, n: c_int, op: *mut c_char) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_lgop", || unsafe { reduce(x, n, op) });
}

/// Replaces each number by the sum ("+"), maximum ("max") or minimum ("min") over all processes.
///
/// # Safety
/// `x` points to `n` numbers, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_fgop(x: *mut c_float, n: c_int, op: *mut c_char) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_fgop", || unsafe { reduce(x, n, op) });
}

/// Replaces each number by the sum ("+"), maximum ("max") or minimum ("min") over all processes.
///
/// # Safety
/// `x` points to `n` numbers, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_dgop(x: *mut c_double, n: c_int, op: *mut c_char) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_dgop", || unsafe { reduce(x, n, op) });
}
