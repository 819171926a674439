//! Groups of processes, and memory of groups.

use libc::{c_int, c_long, c_void};

use super::allocations::{allocate, free};
use super::current;
use super::message_layer::{ArmciGroup, MessageLayer, SCOPE_ALL, WORLD, layer};
use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};

/// Reads the number of a group.
///
/// # Safety
/// `group` is null or points to a group.
pub unsafe fn group_number(group: *const c_int) -> CallResult<c_int> {
    if group.is_null() {
        return Err(ErrnoError::invalid("the group is NULL"));
    }
    // SAFETY: the caller guarantees a group.
    Ok(unsafe { group.read_unaligned() })
}

/// # Safety
/// `place` is null or points to a number.
unsafe fn write_number(place: *mut c_int, number: c_int) -> CallResult<()> {
    if place.is_null() {
        return Err(ErrnoError::invalid("the address of the result is NULL"));
    }
    // SAFETY: the caller guarantees a number.
    unsafe { place.write_unaligned(number) };
    Ok(())
}

/// Creates a group of processes of another group, together with them.
///
/// # Safety
/// `list` is null or points to `n` numbers.
unsafe fn create(
    layer: &MessageLayer,
    n: c_int,
    list: *const c_int,
    parent: &ArmciGroup,
) -> CallResult<c_int> {
    let count = usize::try_from(n).ok().filter(|count| *count > 0 && !list.is_null());
    let count = count.ok_or_else(|| {
        ErrnoError::invalid(format!(
            "a group of {n} processes, listed at {list:p}, is not possible"
        ))
    })?;
    // SAFETY: the caller guarantees that many.
    let member = |place: usize| parent.member(unsafe { list.add(place).read_unaligned() });
    layer.add_group((0..count).map(member).collect::<CallResult<_>>()?)
}

/// Creates a group of processes of the default group. The processes of the list call this.
///
/// # Safety
/// `pid_list` is null or points to `n` numbers; `group_out` is null or has room for a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_create(n: c_int, pid_list: *mut c_int, group_out: *mut c_int) {
    exit_on_error("ARMCI_Group_create", || {
        let layer = layer()?;
        let parent = layer.group(layer.default_group())?;
        // SAFETY: the caller guarantees it.
        unsafe { write_number(group_out, create(&layer, n, pid_list, &parent)?) }
    });
}

/// Creates a group of processes of a given group. The processes of the list call this.
///
/// # Safety
/// `pid_list` is null or points to `n` numbers; `group_out` is null or has room for a group;
/// `group_parent` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_create_child(
    n: c_int,
    pid_list: *mut c_int,
    group_out: *mut c_int,
    group_parent: *mut c_int,
) {
    exit_on_error("ARMCI_Group_create_child", || {
        let layer = layer()?;
        // SAFETY: the caller guarantees it.
        unsafe {
            let parent = layer.group(group_number(group_parent)?)?;
            write_number(group_out, create(&layer, n, pid_list, &parent)?)
        }
    });
}

/// Frees a group at this process.
///
/// # Safety
/// `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_free(group: *mut c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("ARMCI_Group_free", || layer()?.remove_group(unsafe { group_number(group)? }));
}

/// Writes the rank of this process in a group, or -1 if it is not in the group.
///
/// # Safety
/// `group` is null or points to a group; `rank` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_rank(group: *mut c_int, rank: *mut c_int) -> c_int {
    return_errno(|| {
        let layer = layer()?;
        // SAFETY: the caller guarantees it.
        unsafe {
            let group = layer.group(group_number(group)?)?;
            write_number(rank, group.rank_of(layer.team.rank()).unwrap_or(-1))?;
        }
        Ok(0)
    })
}

/// Writes the number of processes of a group.
///
/// # Safety
/// `group` is null or points to a group; `size` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_size(group: *mut c_int, size: *mut c_int) {
    exit_on_error("ARMCI_Group_size", || {
        // SAFETY: the caller guarantees it.
        unsafe {
            let group = layer()?.group(group_number(group)?)?;
            write_number(size, c_int::try_from(group.members.len()).unwrap_or(c_int::MAX))
        }
    });
}

/// Sets the group whose processes `ARMCI_Group_create` counts.
///
/// # Safety
/// `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_set_default(group: *mut c_int) {
    exit_on_error("ARMCI_Group_set_default", || {
        // SAFETY: the caller guarantees it.
        layer()?.set_default_group(unsafe { group_number(group)? })
    });
}

/// Writes the default group.
///
/// # Safety
/// `group_out` is null or has room for a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_get_default(group_out: *mut c_int) {
    exit_on_error("ARMCI_Group_get_default", || {
        // SAFETY: the caller guarantees it.
        unsafe { write_number(group_out, layer()?.default_group()) }
    });
}

/// Writes the group of all processes.
///
/// # Safety
/// `group_out` is null or has room for a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Group_get_world(group_out: *mut c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("ARMCI_Group_get_world", || unsafe { write_number(group_out, WORLD) });
}

/// Returns the process of the job that has a rank in a group.
///
/// # Safety
/// `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Absolute_id(group: *mut c_int, group_rank: c_int) -> c_int {
    return_errno(|| {
        // SAFETY: the caller guarantees it.
        let group = layer()?.group(unsafe { group_number(group)? })?;
        group.member(group_rank).map(|rank| c_int::try_from(rank).unwrap_or(c_int::MAX))
    })
}

/// Waits until the requests to the processes of a group are complete.
///
/// # Safety
/// `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_GroupFence(group: *mut c_int) {
    exit_on_error("ARMCI_GroupFence", || {
        // SAFETY: the caller guarantees it.
        let group = layer()?.group(unsafe { group_number(group)? })?;
        current()?.finish(|rank| group.members.contains(&rank))
    });
}

/// Allocates `bytes` bytes at this process, together with the processes of a group. Writes the
/// address of each process' memory to `ptr_arr`, in the order of the group.
///
/// # Safety
/// `ptr_arr` is null or has room for one pointer per process of the group; `group` is null or
/// points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Malloc_group(
    ptr_arr: *mut *mut c_void,
    bytes: c_long,
    group: *mut c_int,
) -> c_int {
    return_errno(|| {
        let (armci, layer) = (current()?, layer()?);
        // SAFETY: the caller guarantees it.
        unsafe {
            let group = layer.group(group_number(group)?)?;
            allocate(&armci, &layer, &group, ptr_arr, bytes)
        }
    })
}

/// Frees memory of a group, together with its processes: each passes the pointer to its own part.
///
/// # Safety
/// `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Free_group(ptr: *mut c_void, group: *mut c_int) -> c_int {
    return_errno(|| {
        let (armci, layer) = (current()?, layer()?);
        // SAFETY: the caller guarantees it.
        let group = layer.group(unsafe { group_number(group)? })?;
        free(&armci, &layer, &group, ptr)
    })
}

/// Waits for all processes of a group.
///
/// # Safety
/// `group` is null or points to a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_group_barrier(group: *mut c_int) {
    exit_on_error("armci_msg_group_barrier", || {
        let layer = layer()?;
        // SAFETY: the caller guarantees it.
        let group = layer.group(unsafe { group_number(group)? })?;
        layer.participants(SCOPE_ALL, &group)?.map_or(Ok(()), |all| all.barrier())
    });
}
