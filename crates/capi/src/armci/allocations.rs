//! Memory of all processes, and what pointers to it mean.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use libc::{c_int, c_long, c_void};
use pario::team::Segments;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::{Armci, current};
use crate::boundary::{FailureValue, return_errno};
use crate::errors::{CallError, CallResult};
use crate::team::{check_all_ranks, team_result};

/// Memory that all processes have allocated together.
pub struct Allocation {
    /// The memory itself.
    pub segments: Segments,
    /// Where the memory of each process begins for this one, and how long it is.
    bases: Vec<(usize, usize)>,
    /// Those that only stand for memory of other machines.
    _reservations: Vec<AddressReservation>,
}

/// Addresses that nobody can touch.
struct AddressReservation {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: there is nothing behind the address.
unsafe impl Send for AddressReservation {}
// SAFETY: as above.
unsafe impl Sync for AddressReservation {}

impl AddressReservation {
    fn new(len: usize) -> CallResult<Self> {
        let len = len.max(1);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags) };
        let start = start.ok().and_then(NonNull::new);
        let start = start.ok_or_else(|| CallError::new(libc::ENOMEM, "no addresses are left"))?;
        Ok(Self { start, len })
    }
}

impl Drop for AddressReservation {
    fn drop(&mut self) {
        // SAFETY: it was mapped when this was made, and nobody uses it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}

impl Allocation {
    fn new(segments: Segments) -> CallResult<Self> {
        let (mut bases, mut reservations) = (Vec::new(), Vec::new());
        for rank in 0..segments.team().size() {
            let len = team_result(segments.len_of(rank))?;
            let place = match team_result(segments.place(rank, 0, 0))? {
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

    /// Where an address is in the memory of a process, if so many bytes from there on are.
    pub fn offset(&self, rank: u32, address: usize, len: usize) -> Option<usize> {
        let (start, all) = self.bases[rank as usize];
        let offset = address.checked_sub(start).filter(|_| start != 0)?;
        (offset.checked_add(len)? <= all).then_some(offset)
    }
}

impl Armci {
    /// What an address of a process means: the memory, and where it is there.
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
            CallError::invalid(format!(
                "{len} bytes at {address:p} are not in memory that process {rank} has got from \
                 ARMCI_Malloc"
            ))
        })
    }
}

/// Allocates memory, together with all others: so many bytes of this process. Where the memory of
/// each process is goes to the array.
///
/// # Safety
/// The array must have a place for each process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Malloc(ptr_arr: *mut *mut c_void, bytes: c_long) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let wanted = match usize::try_from(bytes) {
            Ok(wanted) if !ptr_arr.is_null() => Ok(wanted),
            Ok(_) => Err(CallError::invalid("ARMCI_Malloc needs a place for pointers")),
            Err(_) => Err(CallError::invalid(format!("{bytes} bytes cannot be"))),
        };
        let wanted = check_all_ranks(&armci.team, wanted)?;
        let segments = team_result(armci.team.segments(wanted))?;
        let allocation = check_all_ranks(&armci.team, Allocation::new(segments))?;
        for (number, (place, _)) in allocation.bases.iter().enumerate() {
            // SAFETY: the caller says that there is a place for each process.
            unsafe { *ptr_arr.add(number) = std::ptr::with_exposed_provenance_mut(*place) };
        }
        armci.allocations.write().push(Arc::new(allocation));
        Ok(0)
    })
}

/// Frees memory, together with all others: each gives the pointer to its own.
///
/// # Safety
/// Nothing is done with the pointer but to look for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Free(ptr: *mut c_void) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let rank = armci.team.rank() as usize;
        let known = {
            let allocations = armci.allocations.read();
            allocations.iter().position(|allocation| allocation.bases[rank].0 == ptr.addr())
        };
        let known = known.ok_or_else(|| {
            CallError::invalid(format!("{ptr:p} is no memory of this process from ARMCI_Malloc"))
        });
        let number = check_all_ranks(&armci.team, known)?;
        // Nobody uses it any more when all are here.
        let allocation = armci.allocations.write().remove(number);
        drop(allocation);
        Ok(0)
    })
}

/// Memory of this process alone.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Malloc_local(bytes: c_long) -> *mut c_void {
    match usize::try_from(bytes) {
        // SAFETY: any number of bytes may be asked for.
        Ok(bytes) => unsafe { libc::malloc(bytes) },
        Err(_) => null_mut(),
    }
}

/// Frees it.
///
/// # Safety
/// The pointer must be from `ARMCI_Malloc_local`, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Free_local(ptr: *mut c_void) -> c_int {
    // SAFETY: the caller says that it was allocated.
    unsafe { libc::free(ptr) };
    0
}

impl FailureValue for *mut c_void {
    const FAILED: Self = null_mut();
}
