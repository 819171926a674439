//! Collective calls, by their ARMCI names: of all processes, of scopes, and of groups.

use std::ffi::CStr;

use libc::{c_char, c_double, c_float, c_int, c_long, c_longlong, c_void};
use pario::memory::{Number, Reduction};

use super::access::caller_bytes_mut;
use super::byte_count;
use super::groups::group_number;
use super::message_layer::{ArmciGroup, Participants, SCOPE_ALL, SCOPE_NODE, WORLD, layer};
use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::team::{current, team_result};

/// Numbers of type int.
pub const ARMCI_INT: c_int = -99;
/// Numbers of type long.
pub const ARMCI_LONG: c_int = -101;
/// Numbers of type long long.
pub const ARMCI_LONG_LONG: c_int = -102;
/// Numbers of type float.
pub const ARMCI_FLOAT: c_int = -306;
/// Numbers of type double.
pub const ARMCI_DOUBLE: c_int = -307;

/// Evaluates an expression with the Rust type of a number type.
macro_rules! with_type {
    ($type:expr, $own:ident => $do:expr) => {
        match $type {
            ARMCI_INT => {
                type $own = c_int;
                $do
            }
            ARMCI_LONG => {
                type $own = c_long;
                $do
            }
            ARMCI_LONG_LONG => {
                type $own = c_longlong;
                $do
            }
            ARMCI_FLOAT => {
                type $own = c_float;
                $do
            }
            ARMCI_DOUBLE => {
                type $own = c_double;
                $do
            }
            other => Err(ErrnoError::invalid(format!(
                "number type {other} is unknown: use ARMCI_INT, ARMCI_LONG, ARMCI_LONG_LONG, \
                 ARMCI_FLOAT or ARMCI_DOUBLE"
            ))),
        }
    };
}

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

/// Returns the processes that take part in a call of a scope; none if this process does not. All
/// processes need no message layer.
fn participants(scope: c_int) -> CallResult<Option<Participants>> {
    if scope == SCOPE_ALL {
        return Ok(Some(Participants::All(current()?)));
    }
    let layer = layer()?;
    let world = layer.group(WORLD)?;
    layer.participants(scope, &world)
}

/// Runs a call of the processes of a group that a scope selects.
///
/// # Safety
/// `group` is null or points to a group.
unsafe fn in_group(
    scope: c_int,
    group: *const c_int,
    call: impl FnOnce(&Participants, &ArmciGroup) -> CallResult<()>,
) -> CallResult<()> {
    let layer = layer()?;
    // SAFETY: the caller guarantees it.
    let group = layer.group(unsafe { group_number(group)? })?;
    let participants = layer.participants(scope, &group)?;
    participants.map_or(Ok(()), |participants| call(&participants, &group))
}

/// Copies a buffer of a process to those that take part.
///
/// # Safety
/// `buffer` is null or points to `len` bytes.
unsafe fn broadcast(scope: c_int, buffer: *mut c_void, len: c_int, root: c_int) -> CallResult<()> {
    let Some(participants) = participants(scope)? else { return Ok(()) };
    let root = u32::try_from(root).map_err(|_| {
        ErrnoError::invalid(format!("process {root} does not exist: ranks start at 0"))
    });
    // SAFETY: the caller guarantees it.
    let bytes = byte_count(len).and_then(|len| unsafe { caller_bytes_mut(buffer, len) });
    let (root, bytes) = participants.or_fail(root.and_then(|root| Ok((root, bytes?))))?;
    participants.broadcast(root, bytes)
}

/// Copies a buffer of one process to all processes.
///
/// # Safety
/// `buffer` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_brdcst(buffer: *mut c_void, len: c_int, root: c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_brdcst", || unsafe { broadcast(SCOPE_ALL, buffer, len, root) });
}

/// Does the same as `armci_msg_brdcst`.
///
/// # Safety
/// `buffer` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_bcast(buffer: *mut c_void, len: c_int, root: c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_bcast", || unsafe { broadcast(SCOPE_ALL, buffer, len, root) });
}

/// Copies a buffer of one process of a scope to all of the scope.
///
/// # Safety
/// `buffer` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_bcast_scope(
    scope: c_int,
    buffer: *mut c_void,
    len: c_int,
    root: c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_bcast_scope", || unsafe { broadcast(scope, buffer, len, root) });
}

/// Copies a buffer of the first process of this machine to all of the machine.
///
/// # Safety
/// `buffer` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_clus_brdcst(buffer: *mut c_void, len: c_int) {
    exit_on_error("armci_msg_clus_brdcst", || {
        let layer = layer()?;
        let is_near = |rank: &u32| layer.team.is_near(*rank);
        let first = (0..layer.team.size()).find(is_near).unwrap_or(0);
        let root = c_int::try_from(first).unwrap_or(c_int::MAX);
        // SAFETY: the caller guarantees it.
        unsafe { broadcast(SCOPE_NODE, buffer, len, root) }
    });
}

/// Copies a buffer of one process of a group, given by its rank there, to those of the group that
/// a scope selects.
///
/// # Safety
/// `buffer` points to `len` bytes; `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_group_bcast_scope(
    scope: c_int,
    buffer: *mut c_void,
    len: c_int,
    root: c_int,
    group: *mut c_int,
) {
    exit_on_error("armci_msg_group_bcast_scope", || {
        // SAFETY: the caller guarantees it.
        unsafe {
            in_group(scope, group, |participants, group| {
                let bytes = byte_count(len).and_then(|len| caller_bytes_mut(buffer, len));
                let prepared = group.member(root).and_then(|root| Ok((root, bytes?)));
                let (root, bytes) = participants.or_fail(prepared)?;
                participants.broadcast(root, bytes)
            })
        }
    });
}

/// Reads the name of an operation.
///
/// # Safety
/// `op` is null or a NUL-terminated string.
unsafe fn reduction(op: *const c_char) -> CallResult<Reduction> {
    if op.is_null() {
        return Err(ErrnoError::invalid("the operation is NULL"));
    }
    // SAFETY: the caller guarantees a string.
    let op = unsafe { CStr::from_ptr(op) };
    Ok(match op.to_bytes() {
        b"+" => Reduction::Sum,
        b"*" => Reduction::Product,
        b"max" => Reduction::Largest,
        b"min" => Reduction::Smallest,
        b"absmax" => Reduction::LargestMagnitude,
        b"absmin" => Reduction::SmallestMagnitude,
        b"or" => Reduction::BitOr,
        _ => {
            return Err(ErrnoError::invalid(format!(
                "operation {:?} is unknown: use \"+\", \"*\", \"max\", \"min\", \"absmax\", \
                 \"absmin\" or \"or\"",
                op.to_string_lossy()
            )));
        }
    })
}

/// Returns the caller's numbers.
///
/// # Safety
/// `x` is null or points to `n` numbers, which nothing else uses during the use.
unsafe fn caller_numbers<'a, T: Number>(x: *mut T, n: c_int) -> CallResult<&'a mut [T]> {
    let count = byte_count(n)?;
    if count == 0 {
        return Ok(&mut []);
    }
    if x.is_null() || !x.is_aligned() {
        return Err(ErrnoError::invalid("the numbers are NULL or not aligned"));
    }
    // SAFETY: the caller guarantees that many.
    Ok(unsafe { std::slice::from_raw_parts_mut(x, count) })
}

/// Prepares a reduction of the caller's numbers.
///
/// # Safety
/// `x` is null or points to `n` numbers, which nothing else uses during the use; `op` is null or a
/// NUL-terminated string.
unsafe fn prepare<'a, T: Number>(
    x: *mut T,
    n: c_int,
    op: *const c_char,
) -> CallResult<(Reduction, &'a mut [T])> {
    // SAFETY: the caller guarantees it.
    unsafe { Ok((reduction(op)?, caller_numbers(x, n)?)) }
}

/// Reduces the caller's numbers over the processes of a scope, element by element.
///
/// # Safety
/// `x` points to `n` numbers, and `op` is a NUL-terminated string.
unsafe fn reduce<T: Number>(
    scope: c_int,
    x: *mut T,
    n: c_int,
    op: *const c_char,
) -> CallResult<()> {
    let Some(participants) = participants(scope)? else { return Ok(()) };
    // SAFETY: the caller guarantees it.
    let (reduction, numbers) = participants.or_fail(unsafe { prepare(x, n, op) })?;
    participants.reduce(reduction, numbers)
}

/// Defines the calls of a number type: over all processes, over this machine, over a group.
macro_rules! operations {
    ($($type:ty: $all:ident, $machine:ident, $group:ident;)*) => {$(
        /// Replaces each number by the result of an operation over all processes: "+", "*", "max",
        /// "min", "absmax", "absmin", and "or" of whole numbers.
        ///
        /// # Safety
        /// `x` points to `n` numbers, and `op` is a NUL-terminated string.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $all(x: *mut $type, n: c_int, op: *mut c_char) {
            // SAFETY: the caller guarantees it.
            exit_on_error(stringify!($all), || unsafe { reduce(SCOPE_ALL, x, n, op) });
        }

        /// Does the same over the processes of this machine.
        ///
        /// # Safety
        /// `x` points to `n` numbers, and `op` is a NUL-terminated string.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $machine(x: *mut $type, n: c_int, op: *mut c_char) {
            // SAFETY: the caller guarantees it.
            exit_on_error(stringify!($machine), || unsafe { reduce(SCOPE_NODE, x, n, op) });
        }

        /// Does the same over the processes of a group.
        ///
        /// # Safety
        /// `x` points to `n` numbers, `op` is a NUL-terminated string, and `group` is null or
        /// points to a group.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $group(
            x: *mut $type,
            n: c_int,
            op: *mut c_char,
            group: *mut c_int,
        ) {
            // SAFETY: the caller guarantees it.
            exit_on_error(stringify!($group), || unsafe {
                in_group(SCOPE_ALL, group, |participants, _| {
                    let (reduction, numbers) = participants.or_fail(prepare(x, n, op))?;
                    participants.reduce(reduction, numbers)
                })
            });
        }
    )*};
}

operations! {
    c_int: armci_msg_igop, armci_msg_clus_igop, armci_msg_group_igop;
    c_long: armci_msg_lgop, armci_msg_clus_lgop, armci_msg_group_lgop;
    c_longlong: armci_msg_llgop, armci_msg_clus_llgop, armci_msg_group_llgop;
    c_float: armci_msg_fgop, armci_msg_clus_fgop, armci_msg_group_fgop;
    c_double: armci_msg_dgop, armci_msg_clus_dgop, armci_msg_group_dgop;
}

/// Replaces each number of a type by the result of an operation over the processes of a scope.
///
/// # Safety
/// `x` points to `n` numbers of the type, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_gop_scope(
    scope: c_int,
    x: *mut c_void,
    n: c_int,
    op: *mut c_char,
    r#type: c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_gop_scope", || unsafe {
        with_type!(r#type, T => reduce(scope, x.cast::<T>(), n, op))
    });
}

/// Replaces each number of a type by the result of an operation over the processes of a group that
/// a scope selects.
///
/// # Safety
/// `x` points to `n` numbers of the type, `op` is a NUL-terminated string, and `group` is null or
/// points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_group_gop_scope(
    scope: c_int,
    x: *mut c_void,
    n: c_int,
    op: *mut c_char,
    r#type: c_int,
    group: *mut c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_group_gop_scope", || unsafe {
        in_group(scope, group, |participants, _| {
            with_type!(r#type, T => {
                let (reduction, numbers) = participants.or_fail(prepare(x.cast::<T>(), n, op))?;
                participants.reduce(reduction, numbers)
            })
        })
    });
}

/// Reduces numbers over the processes of a scope; only the first of them gets the result.
///
/// # Safety
/// `x` points to `n` numbers of the type, and `op` is a NUL-terminated string.
unsafe fn reduce_to_first(
    scope: c_int,
    x: *mut c_void,
    n: c_int,
    op: *const c_char,
    number_type: c_int,
) -> CallResult<()> {
    let Some(participants) = participants(scope)? else { return Ok(()) };
    with_type!(number_type, T => {
        // SAFETY: the caller guarantees it.
        let (reduction, own) = participants.or_fail(unsafe { prepare(x.cast::<T>(), n, op) })?;
        let mut numbers = own.to_vec();
        participants.reduce(reduction, &mut numbers)?;
        if participants.is_first() {
            own.copy_from_slice(&numbers);
        }
        Ok(())
    })
}

/// Reduces numbers over all processes; process 0 gets the result, the others keep theirs.
///
/// # Safety
/// `x` points to `n` numbers of the type, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_reduce(
    x: *mut c_void,
    n: c_int,
    op: *mut c_char,
    r#type: c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_reduce", || unsafe { reduce_to_first(SCOPE_ALL, x, n, op, r#type) });
}

/// Reduces numbers over the processes of a scope; the first of them gets the result, the others
/// keep theirs.
///
/// # Safety
/// `x` points to `n` numbers of the type, and `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_reduce_scope(
    scope: c_int,
    x: *mut c_void,
    n: c_int,
    op: *mut c_char,
    r#type: c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_reduce_scope", || unsafe { reduce_to_first(scope, x, n, op, r#type) });
}

/// Selects the bytes of the process whose first number is the smallest or largest. Equal ones: the
/// first.
fn select<T: Number>(reports: &[Vec<u8>], reduction: Reduction) -> CallResult<Option<&[u8]>> {
    let mut selected: Option<(T, &[u8])> = None;
    for bytes in reports.iter().filter(|report| !report.is_empty()).map(|report| &report[1..]) {
        let Some(first) = bytes.get(..size_of::<T>()) else {
            let each = size_of::<T>();
            return Err(ErrnoError::invalid(format!(
                "{} bytes hold no number of {each} bytes to compare",
                bytes.len()
            )));
        };
        // SAFETY: there are as many bytes, and every bit pattern is a number.
        let number = unsafe { first.as_ptr().cast::<T>().read_unaligned() };
        let is_better = selected.is_none_or(|(best, _)| match reduction {
            Reduction::Smallest => number < best,
            _ => number > best,
        });
        if is_better {
            selected = Some((number, bytes));
        }
    }
    Ok(selected.map(|(_, bytes)| bytes))
}

/// Copies the bytes of the process of a scope whose first number is the smallest ("min") or the
/// largest ("max") to all of the scope. Processes that do not contribute only get the result.
///
/// # Safety
/// `x` points to `n` bytes, which begin with a number of the type; `op` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_sel_scope(
    scope: c_int,
    x: *mut c_void,
    n: c_int,
    op: *mut c_char,
    r#type: c_int,
    contribute: c_int,
) {
    exit_on_error("armci_msg_sel_scope", || {
        let Some(participants) = participants(scope)? else { return Ok(()) };
        // SAFETY: the caller guarantees it.
        let (reduction, own) = unsafe { (reduction(op)?, caller_bytes_mut(x, byte_count(n)?)?) };
        if !matches!(reduction, Reduction::Smallest | Reduction::Largest) {
            return Err(ErrnoError::invalid("a selection needs the operation \"min\" or \"max\""));
        }
        let report = if contribute == 0 { Vec::new() } else { [&[1][..], own].concat() };
        let reports = participants.gather(&report)?;
        let selected = with_type!(r#type, T => select::<T>(&reports, reduction))?;
        match selected {
            Some(bytes) if bytes.len() == own.len() => own.copy_from_slice(bytes),
            Some(bytes) => {
                return Err(ErrnoError::invalid(format!(
                    "a process selects among {} bytes, and this one among {}",
                    bytes.len(),
                    own.len()
                )));
            }
            None => {}
        }
        Ok(())
    });
}

/// Does the same as `armci_msg_sel_scope` with all processes.
///
/// # Safety
/// As of `armci_msg_sel_scope`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_sel(
    x: *mut c_void,
    n: c_int,
    op: *mut c_char,
    r#type: c_int,
    contribute: c_int,
) {
    // SAFETY: the caller guarantees it.
    unsafe { armci_msg_sel_scope(SCOPE_ALL, x, n, op, r#type, contribute) };
}

/// Writes the place of this process in a binary tree of the processes of a scope: the root, the
/// parent and both children, or -1 where there is none.
///
/// # Safety
/// Each address is null or that of a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_bintree(
    scope: c_int,
    root: *mut c_int,
    up: *mut c_int,
    left: *mut c_int,
    right: *mut c_int,
) {
    exit_on_error("armci_msg_bintree", || {
        let layer = layer()?;
        let members = layer.scope_members(scope, &layer.group(WORLD)?.members)?;
        let members = members.unwrap_or_default();
        let own = members.iter().position(|member| *member == layer.team.rank());
        let at = |place: Option<usize>| {
            let member = place.and_then(|place| members.get(place));
            member.map_or(-1, |member| c_int::try_from(*member).unwrap_or(-1))
        };
        let places = [
            (root, at(Some(0))),
            (up, at(own.and_then(|own| Some(own.checked_sub(1)? / 2)))),
            (left, at(own.map(|own| 2 * own + 1))),
            (right, at(own.map(|own| 2 * own + 2))),
        ];
        for (address, number) in places.into_iter().filter(|(address, _)| !address.is_null()) {
            // SAFETY: the caller guarantees a number.
            unsafe { address.write_unaligned(number) };
        }
        Ok(())
    });
}
