//! Memory that all processes allocate, and the meaning of pointers to it.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use libc::{c_int, c_long, c_void};
use pario::memory::{Group, Segments};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::message_layer::{ArmciGroup, MessageLayer, WORLD, layer};
use super::{Armci, current};
use crate::boundary::{FailureValue, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::team::{check_all_ranks, check_reports, team_result};

/// Memory that all processes have allocated collectively.
pub struct Allocation {
    /// The memory itself.
    pub segments: Segments,
    /// For each rank: the address of its memory in this process, and its length.
    bases: Vec<(usize, usize)>,
    /// Reserved addresses for memory of other machines.
    _reservations: Vec<AddressReservation>,
}

/// A range of reserved addresses that cannot be accessed.
struct AddressReservation {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the addresses are never accessed.
unsafe impl Send for AddressReservation {}
// SAFETY: as above.
unsafe impl Sync for AddressReservation {}

impl AddressReservation {
    fn new(len: usize) -> CallResult<Self> {
        let len = len.max(1);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags) };
        let start = start.ok().and_then(NonNull::new);
        let start = start.ok_or_else(|| {
            ErrnoError::new(
                libc::ENOMEM,
                format!("no address range of {len} bytes is left for memory of another machine"),
            )
        })?;
        Ok(Self { start, len })
    }
}

impl Drop for AddressReservation {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the range, and nothing refers to it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}

impl Allocation {
    fn new(segments: Segments) -> CallResult<Self> {
        let (mut bases, mut reservations) = (Vec::new(), Vec::new());
        for rank in 0..segments.team().size() {
            let len = team_result(segments.len_of(rank))?;
            let place = match team_result(segments.place(rank, 0..0))? {
                _ if len == 0 => 0,
                Some(place) => place.addr(),
                None => {
                    let reservation = AddressReservation::new(len)?;
                    let place = reservation.start.addr().get();
                    reservations.push(reservation);
                    place
                }
            };
            bases.push((place, len));
        }
        Ok(Self { segments, bases, _reservations: reservations })
    }

    /// Returns the offset of an address in the memory of a rank; none unless `len` bytes from it on
    /// are inside.
    pub fn offset(&self, rank: u32, address: usize, len: usize) -> Option<usize> {
        let (start, all) = self.bases[rank as usize];
        let offset = address.checked_sub(start).filter(|_| start != 0)?;
        (offset.checked_add(len)? <= all).then_some(offset)
    }
}

impl Armci {
    /// Returns the allocation that holds `len` bytes at an address of a rank, and the offset there.
    pub fn find(
        &self,
        rank: u32,
        address: *const c_void,
        len: usize,
    ) -> CallResult<(Arc<Allocation>, usize)> {
        let allocations = self.allocations.read();
        let found = allocations.iter().rev().find_map(|allocation| {
            let offset = allocation.offset(rank, address.addr(), len)?;
            Some((allocation.clone(), offset))
        });
        found.ok_or_else(|| {
            ErrnoError::invalid(format!(
                "{len} bytes at {address:p} are not in ARMCI_Malloc memory of process {rank}"
            ))
        })
    }
}

/// Exchanges argument errors before a collective call of a group, as [`check_all_ranks`] does for
/// all processes.
fn check_all_members<T>(group: &Group, prepared: CallResult<T>) -> CallResult<T> {
    check_reports(prepared, group.members(), |report| group.gather(report))
}

/// Allocates memory of this process together with the processes of a group.
///
/// # Safety
/// `ptr_arr` is null or has room for one pointer per process of the group.
pub unsafe fn allocate(
    armci: &Armci,
    layer: &MessageLayer,
    group: &ArmciGroup,
    ptr_arr: *mut *mut c_void,
    bytes: c_long,
) -> CallResult<c_int> {
    let wanted = match usize::try_from(bytes) {
        Ok(wanted) if !ptr_arr.is_null() => Ok(wanted),
        Ok(_) => Err(ErrnoError::invalid("the array of pointers is NULL")),
        Err(_) => {
            Err(ErrnoError::invalid(format!("{bytes} bytes: the number must not be negative")))
        }
    };
    let allocation = match group.joined(layer)? {
        None => {
            let wanted = check_all_ranks(&armci.team, wanted)?;
            let segments = team_result(armci.team.segments(wanted))?;
            check_all_ranks(&armci.team, Allocation::new(segments))?
        }
        Some(group) => {
            let wanted = check_all_members(group, wanted)?;
            let segments = team_result(group.segments(wanted))?;
            check_all_members(group, Allocation::new(segments))?
        }
    };
    for (number, rank) in group.members.iter().enumerate() {
        let (place, _) = allocation.bases[*rank as usize];
        // SAFETY: the caller guarantees room for one pointer per process.
        unsafe { *ptr_arr.add(number) = std::ptr::with_exposed_provenance_mut(place) };
    }
    armci.allocations.write().push(Arc::new(allocation));
    Ok(0)
}

/// Frees memory together with the processes of a group.
pub fn free(
    armci: &Armci,
    layer: &MessageLayer,
    group: &ArmciGroup,
    ptr: *mut c_void,
) -> CallResult<c_int> {
    let rank = armci.team.rank() as usize;
    let known = {
        let allocations = armci.allocations.read();
        allocations.iter().position(|allocation| allocation.bases[rank].0 == ptr.addr())
    };
    let known = known.ok_or_else(|| {
        ErrnoError::invalid(format!("{ptr:p} is not this process' pointer from ARMCI_Malloc"))
    });
    let number = match group.joined(layer)? {
        None => check_all_ranks(&armci.team, known)?,
        Some(group) => check_all_members(group, known)?,
    };
    // All processes have arrived, so none uses it any more.
    let allocation = armci.allocations.write().remove(number);
    drop(allocation);
    Ok(0)
}

/// Allocates `bytes` bytes at this process, collectively. Writes the address of each process'
/// memory to `ptr_arr`.
///
/// # Safety
/// `ptr_arr` is null or has room for one pointer per process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Malloc(ptr_arr: *mut *mut c_void, bytes: c_long) -> c_int {
    return_errno(|| {
        let (armci, layer) = (current()?, layer()?);
        // SAFETY: the caller guarantees it.
        unsafe { allocate(&armci, &layer, &*layer.group(WORLD)?, ptr_arr, bytes) }
    })
}

/// Frees memory, collectively: each process passes the pointer to its own part.
///
/// # Safety
/// None: the pointer is only looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Free(ptr: *mut c_void) -> c_int {
    return_errno(|| {
        let (armci, layer) = (current()?, layer()?);
        free(&armci, &layer, &*layer.group(WORLD)?, ptr)
    })
}

/// Allocates memory of this process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Malloc_local(bytes: c_long) -> *mut c_void {
    match usize::try_from(bytes) {
        // SAFETY: `malloc` accepts any size.
        Ok(bytes) => unsafe { libc::malloc(bytes) },
        Err(_) => null_mut(),
    }
}

/// Frees memory of this process.
///
/// # Safety
/// `ptr` is null or from `ARMCI_Malloc_local`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Free_local(ptr: *mut c_void) -> c_int {
    // SAFETY: the caller guarantees an allocated pointer.
    unsafe { libc::free(ptr) };
    0
}

impl FailureValue for *mut c_void {
    const FAILED: Self = null_mut();
}
