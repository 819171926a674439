//! Transfers of lists of memory blocks.

use std::collections::BTreeMap;

use libc::{c_int, c_void};
use pario::memory::{Pending, SegmentPiece};

use super::access::{Scale, caller_bytes, caller_bytes_mut};
use super::nonblocking::{armci_hdl_t, start_nonblocking};
use super::strided::TransferKind;
use super::{Armci, byte_count};
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// Memory blocks of equal length, here and at another process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct armci_giov_t {
    /// Source addresses.
    pub src_ptr_array: *mut *mut c_void,
    /// Destination addresses.
    pub dst_ptr_array: *mut *mut c_void,
    /// Number of blocks.
    pub ptr_array_len: c_int,
    /// Bytes per block.
    pub bytes: c_int,
}

/// Source, destination and length of a block.
type MemoryPair = (*mut c_void, *mut c_void, usize);

/// Reads the blocks of a list, in order.
///
/// # Safety
/// `list` and the pointer arrays in it are as long as they say.
unsafe fn pairs(list: *const armci_giov_t, len: c_int) -> CallResult<Vec<MemoryPair>> {
    let len = byte_count(len)?;
    if len > 0 && list.is_null() {
        return Err(ErrnoError::invalid("the list of blocks is NULL"));
    }
    let mut pairs = Vec::new();
    for number in 0..len {
        // SAFETY: the caller guarantees that many.
        let one = unsafe { list.add(number).read_unaligned() };
        let (count, bytes) = (byte_count(one.ptr_array_len)?, byte_count(one.bytes)?);
        if count > 0 && (one.src_ptr_array.is_null() || one.dst_ptr_array.is_null()) {
            return Err(ErrnoError::invalid("an array of pointers in the list of blocks is NULL"));
        }
        for place in 0..count {
            // SAFETY: as above.
            let (from, to) =
                unsafe { (*one.src_ptr_array.add(place), *one.dst_ptr_array.add(place)) };
            pairs.push((from, to, bytes));
        }
    }
    Ok(pairs)
}

impl Armci {
    /// Transfers the blocks of a list. The transfer is complete when this returns.
    ///
    /// # Safety
    /// The lists are as long as they say, and the caller's memory is as large as they say.
    unsafe fn transfer_list(
        &self,
        kind: TransferKind,
        list: *const armci_giov_t,
        len: c_int,
        proc: c_int,
    ) -> CallResult<(u32, Pending<()>)> {
        let rank = self.rank(proc)?;
        // SAFETY: the caller guarantees it.
        let pairs = unsafe { pairs(list, len)? };
        // All addresses are checked before the first transfer.
        let mut by_memory = BTreeMap::new();
        for (from, to, bytes) in pairs {
            let (own, there) =
                if matches!(kind, TransferKind::Get) { (to, from) } else { (from, to) };
            let (allocation, offset) = self.find(rank, there, bytes)?;
            let key = std::sync::Arc::as_ptr(&allocation).addr();
            let known = by_memory.entry(key).or_insert_with(|| (allocation, Vec::new()));
            known.1.push((own, SegmentPiece { offset, len: bytes }));
        }
        for (allocation, pieces) in by_memory.into_values() {
            let segments = &allocation.segments;
            let places: Vec<SegmentPiece> = pieces.iter().map(|(_, piece)| *piece).collect();
            let total = places.iter().map(|piece| piece.len).sum();
            match kind {
                TransferKind::Put => {
                    let mut packed = Vec::with_capacity(total);
                    for (start, piece) in &pieces {
                        // SAFETY: the caller guarantees it.
                        packed.extend_from_slice(unsafe { caller_bytes(*start, piece.len)? });
                    }
                    team_result(segments.put_list(&packed, rank, &places))?;
                }
                TransferKind::Get => {
                    let mut packed = vec![0; total];
                    team_result(segments.get_list(&mut packed, rank, &places))?;
                    let mut rest = &packed[..];
                    for (start, piece) in &pieces {
                        let (now, later) = rest.split_at(piece.len);
                        // SAFETY: the caller guarantees it.
                        unsafe { caller_bytes_mut(*start, piece.len)? }.copy_from_slice(now);
                        rest = later;
                    }
                }
                TransferKind::Accumulate(optype, scale) => {
                    // SAFETY: the caller guarantees it.
                    let scale = unsafe { Scale::of(optype, scale)? };
                    for (start, piece) in &pieces {
                        // SAFETY: the caller guarantees it.
                        let own = unsafe { caller_bytes(*start, piece.len)? };
                        team_result(scale.start(segments, rank, piece.offset, own)?.wait())?;
                    }
                }
            }
        }
        Ok((rank, Pending::ready(Ok(()))))
    }
}

/// Copies blocks of own memory to a process.
///
/// # Safety
/// The lists are as long as they say, and the caller's memory is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_PutV(pieces: *mut armci_giov_t, len: c_int, proc: c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { ARMCI_NbPutV(pieces, len, proc, &mut armci_hdl_t::default()) }
}

/// Copies blocks of own memory to a process. The transfer is complete when the call returns, and
/// the handle says so.
///
/// # Safety
/// The lists are as long as they say, the caller's memory is as large as they say, and `handle` is
/// null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbPutV(
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        start_nonblocking(handle, |armci| armci.transfer_list(TransferKind::Put, pieces, len, proc))
    }
}

/// Copies blocks of a process' memory to own memory.
///
/// # Safety
/// The lists are as long as they say, and the caller's memory is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_GetV(pieces: *mut armci_giov_t, len: c_int, proc: c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { ARMCI_NbGetV(pieces, len, proc, &mut armci_hdl_t::default()) }
}

/// Copies blocks of a process' memory to own memory. The transfer is complete when the call
/// returns, and the handle says so.
///
/// # Safety
/// The lists are as long as they say, the caller's memory is as large as they say, and `handle` is
/// null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbGetV(
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        start_nonblocking(handle, |armci| armci.transfer_list(TransferKind::Get, pieces, len, proc))
    }
}

/// Adds blocks of own numbers to those of a process.
///
/// # Safety
/// The lists are as long as they say, and the caller's memory is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_AccV(
    optype: c_int,
    scale: *mut c_void,
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { ARMCI_NbAccV(optype, scale, pieces, len, proc, &mut armci_hdl_t::default()) }
}

/// Adds blocks of own numbers to those of a process. The transfer is complete when the call
/// returns, and the handle says so.
///
/// # Safety
/// The lists are as long as they say, the caller's memory is as large as they say, and `handle` is
/// null or points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbAccV(
    optype: c_int,
    scale: *mut c_void,
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        start_nonblocking(handle, |armci| {
            armci.transfer_list(TransferKind::Accumulate(optype, scale), pieces, len, proc)
        })
    }
}
