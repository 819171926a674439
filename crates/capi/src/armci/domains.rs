//! Which processes share a machine: a domain is a machine, numbered from 0.

use libc::{c_int, c_ulong};

use super::message_layer::layer;
use crate::boundary::return_errno;
use crate::errors::{CallResult, ErrnoError};

/// The domain of the processes of a machine.
pub const ARMCI_DOMAIN_SMP: c_int = 0;

fn int(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

fn check(domain: c_int) -> CallResult<()> {
    if domain == ARMCI_DOMAIN_SMP {
        return Ok(());
    }
    Err(ErrnoError::invalid(format!("domain {domain} is unknown: use ARMCI_DOMAIN_SMP")))
}

/// The processes of a machine, by its number.
fn processes(id: c_int) -> CallResult<Vec<u32>> {
    let layer = layer()?;
    let masters = layer.machine_masters();
    let master = usize::try_from(id).ok().and_then(|id| masters.get(id));
    let master = master.ok_or_else(|| {
        let count = masters.len();
        ErrnoError::invalid(format!("machine {id} does not exist: the job has {count} machines"))
    })?;
    let machine = layer.team.machine_of(*master);
    Ok((0..layer.team.size()).filter(|rank| layer.team.machine_of(*rank) == machine).collect())
}

/// The number of the machine of a process.
fn machine_of(proc: c_int) -> CallResult<c_int> {
    let layer = layer()?;
    let machine = layer.team.machine_of(layer.rank(proc)?);
    let masters = layer.machine_masters();
    let found = masters.iter().position(|master| layer.team.machine_of(*master) == machine);
    Ok(int(found.unwrap_or(0)))
}

/// Returns the number of processes of a machine; `id` -1 is that of this process.
#[unsafe(no_mangle)]
pub extern "C" fn armci_domain_nprocs(domain: c_int, id: c_int) -> c_int {
    return_errno(|| {
        check(domain)?;
        let id = if id < 0 { own_machine()? } else { id };
        Ok(int(processes(id)?.len()))
    })
}

/// Returns the number of the machine of a process.
#[unsafe(no_mangle)]
pub extern "C" fn armci_domain_id(domain: c_int, glob_proc_id: c_int) -> c_int {
    return_errno(|| check(domain).and_then(|()| machine_of(glob_proc_id)))
}

/// Returns the process with a number on a machine.
#[unsafe(no_mangle)]
pub extern "C" fn armci_domain_glob_proc_id(domain: c_int, id: c_int, loc_proc_id: c_int) -> c_int {
    return_errno(|| {
        check(domain)?;
        let processes = processes(id)?;
        let found = usize::try_from(loc_proc_id).ok().and_then(|local| processes.get(local));
        let found = found.ok_or_else(|| {
            let count = processes.len();
            ErrnoError::invalid(format!(
                "process {loc_proc_id} of machine {id} does not exist: it has {count} processes"
            ))
        })?;
        Ok(c_int::try_from(*found).unwrap_or(c_int::MAX))
    })
}

fn own_machine() -> CallResult<c_int> {
    let rank = layer()?.team.rank();
    machine_of(c_int::try_from(rank).unwrap_or(c_int::MAX))
}

/// Returns the number of the machine of this process.
#[unsafe(no_mangle)]
pub extern "C" fn armci_domain_my_id(domain: c_int) -> c_int {
    return_errno(|| check(domain).and_then(|()| own_machine()))
}

/// Returns the number of machines.
#[unsafe(no_mangle)]
pub extern "C" fn armci_domain_count(domain: c_int) -> c_int {
    return_errno(|| {
        check(domain)?;
        Ok(int(layer()?.machine_masters().len()))
    })
}

/// Returns 1 if a process is on the machine of this process, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn armci_domain_same_id(domain: c_int, proc: c_int) -> c_int {
    return_errno(|| check(domain).and_then(|()| is_same(proc)))
}

fn is_same(proc: c_int) -> CallResult<c_int> {
    let layer = layer()?;
    Ok(c_int::from(layer.team.is_near(layer.rank(proc)?)))
}

/// Returns 1 if a process is on the machine of this process, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Same_node(proc: c_int) -> c_int {
    return_errno(|| is_same(proc))
}

/// Returns 1: processes of a machine share memory.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Uses_shm() -> c_int {
    1
}

/// Returns 1: processes of a group on one machine share memory.
///
/// # Safety
/// None: the pointer is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Uses_shm_grp(_group: *mut c_int) -> c_int {
    1
}

/// Does nothing: the memory of the machine is the limit.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Set_shm_limit(_limit: c_ulong) {}
