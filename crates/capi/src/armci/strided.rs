//! Strided transfers: regions with gaps.
//!
//! `count[0]` is the number of contiguous bytes, a row. `count[i]` is the number of repetitions in
//! dimension `i`, and the strides are the distances between them in bytes.

use libc::{c_int, c_void};
use pario::memory::{Pending, Strided};

use super::Armci;
use super::access::{Scale, caller_bytes, caller_bytes_mut};
use super::nonblocking::{armci_hdl_t, start_nonblocking};
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// A strided region, as the caller describes it.
#[derive(Clone, Copy)]
pub struct StridedRegion {
    /// Memory of the caller.
    pub own: *mut c_void,
    /// Its strides.
    pub own_strides: *const c_int,
    /// Memory of the other process.
    pub there: *mut c_void,
    /// Its strides.
    pub there_strides: *const c_int,
    /// Bytes of a row, and repetitions in each dimension.
    pub count: *const c_int,
    /// Number of dimensions beyond the row.
    pub levels: c_int,
    /// The other process.
    pub proc: c_int,
}

/// The direction of a transfer, or an accumulation.
#[derive(Clone, Copy)]
pub enum TransferKind {
    /// From the caller to the other process.
    Put,
    /// From the other process to the caller.
    Get,
    /// The caller's numbers are added to the other process': number type and factor.
    Accumulate(c_int, *const c_void),
}

/// Reads counts or strides. Fails if one is negative.
///
/// # Safety
/// `start` is null or points to `count` numbers.
unsafe fn lengths(start: *const c_int, count: usize) -> CallResult<Vec<usize>> {
    if count > 0 && start.is_null() {
        return Err(ErrnoError::invalid("the counts or strides are NULL"));
    }
    let length = |number| {
        // SAFETY: the caller guarantees that many.
        let length = unsafe { start.add(number).read_unaligned() };
        let wrong = |_| {
            ErrnoError::invalid(format!("a count or stride of {length}: it must not be negative"))
        };
        usize::try_from(length).map_err(wrong)
    };
    (0..count).map(length).collect()
}

impl Armci {
    /// Transfers a region. The transfer is complete when this returns.
    ///
    /// # Safety
    /// `count` and the stride arrays have as many entries as `levels` asks for, and the caller's
    /// memory is
    /// as large as they say.
    unsafe fn transfer_strided(
        &self,
        kind: TransferKind,
        region: StridedRegion,
    ) -> CallResult<(u32, Pending<()>)> {
        let StridedRegion { own: start, own_strides, there, there_strides, count, levels, proc } =
            region;
        let rank = self.rank(proc)?;
        let levels = usize::try_from(levels).ok().filter(|levels| *levels <= 8);
        let levels = levels.ok_or_else(|| {
            ErrnoError::invalid("the number of stride levels must be from 0 to 8")
        })?;
        // SAFETY: the caller guarantees it.
        let (counts, own_strides, there_strides) = unsafe {
            (
                lengths(count, levels + 1)?,
                lengths(own_strides, levels)?,
                lengths(there_strides, levels)?,
            )
        };
        let strided = Strided {
            row: counts[0],
            counts: &counts[1..],
            here: &own_strides,
            there: &there_strides,
        };
        let len = team_result(strided.extent_here())?;
        let (allocation, offset) = self.find(rank, there, team_result(strided.extent_there())?)?;
        let segments = &allocation.segments;
        match kind {
            TransferKind::Put => {
                // SAFETY: the caller guarantees it.
                let own = unsafe { caller_bytes(start, len)? };
                team_result(segments.put_strided(own, rank, offset, &strided))?;
            }
            TransferKind::Get => {
                // SAFETY: the caller guarantees it.
                let own = unsafe { caller_bytes_mut(start, len)? };
                team_result(segments.get_strided(own, rank, offset, &strided))?;
            }
            TransferKind::Accumulate(optype, scale) => {
                // SAFETY: the caller guarantees it.
                let (scale, own) =
                    unsafe { (Scale::of(optype, scale)?, caller_bytes(start, len)?) };
                let mut begun = Vec::new();
                for (here, there) in strided.rows() {
                    let row = &own[here..here + strided.row];
                    begun.push(scale.start(segments, rank, offset + there, row)?);
                }
                begun.into_iter().try_for_each(|one| team_result(one.wait()))?;
            }
        }
        Ok((rank, Pending::ready(Ok(()))))
    }
}

/// Copies a region of own memory to a process.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, and the caller's memory
/// is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_PutS(
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        ARMCI_NbPutS(
            src,
            src_strides,
            dst,
            dst_strides,
            count,
            levels,
            proc,
            &mut armci_hdl_t::default(),
        )
    }
}

/// Copies a region of own memory to a process. The transfer is complete when the call returns, and
/// the handle says so.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, the caller's memory is
/// as large as they say, and `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbPutS(
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    let region = StridedRegion {
        own: src,
        own_strides: src_strides,
        there: dst,
        there_strides: dst_strides,
        count,
        levels,
        proc,
    };
    // SAFETY: the caller guarantees it.
    unsafe { start_nonblocking(handle, |armci| armci.transfer_strided(TransferKind::Put, region)) }
}

/// Copies a region of a process' memory to own memory.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, and the caller's memory
/// is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_GetS(
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        ARMCI_NbGetS(
            src,
            src_strides,
            dst,
            dst_strides,
            count,
            levels,
            proc,
            &mut armci_hdl_t::default(),
        )
    }
}

/// Copies a region of a process' memory to own memory. The transfer is complete when the call
/// returns, and the handle says so.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, the caller's memory is
/// as large as they say, and `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbGetS(
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    let region = StridedRegion {
        own: dst,
        own_strides: dst_strides,
        there: src,
        there_strides: src_strides,
        count,
        levels,
        proc,
    };
    // SAFETY: the caller guarantees it.
    unsafe { start_nonblocking(handle, |armci| armci.transfer_strided(TransferKind::Get, region)) }
}

/// Adds a region of own numbers to those of a process.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, and the caller's memory
/// is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_AccS(
    optype: c_int,
    scale: *mut c_void,
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        ARMCI_NbAccS(
            optype,
            scale,
            src,
            src_strides,
            dst,
            dst_strides,
            count,
            levels,
            proc,
            &mut armci_hdl_t::default(),
        )
    }
}

/// Adds a region of own numbers to those of a process. The transfer is complete when the call
/// returns, and the handle says so.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, the caller's memory is
/// as large as they say, and `handle` is null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbAccS(
    optype: c_int,
    scale: *mut c_void,
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    let region = StridedRegion {
        own: src,
        own_strides: src_strides,
        there: dst,
        there_strides: dst_strides,
        count,
        levels,
        proc,
    };
    // SAFETY: the caller guarantees it.
    unsafe {
        start_nonblocking(handle, |armci| {
            armci.transfer_strided(TransferKind::Accumulate(optype, scale), region)
        })
    }
}
