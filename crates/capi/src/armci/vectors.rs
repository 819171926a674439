//! Lists of pieces.

use std::collections::BTreeMap;

use libc::{c_int, c_void};
use pario::team::{PendingAccess, SegmentPiece};

use super::access::{Scale, own, own_mut};
use super::started::{armci_hdl_t, begin};
use super::strided::Deed;
use super::{Armci, length};
use crate::errors::{Done, Failed};
use crate::team::done;

/// Pieces of memory, here and there, as a program describes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct armci_giov_t {
    /// Where they are from.
    pub src_ptr_array: *mut *mut c_void,
    /// Where they go.
    pub dst_ptr_array: *mut *mut c_void,
    /// How many there are.
    pub ptr_array_len: c_int,
    /// How long each is.
    pub bytes: c_int,
}

/// A piece here and there, and its length.
type Pair = (*mut c_void, *mut c_void, usize);

/// Pieces here and there, in the order of the list: from where, to where, how long.
///
/// # Safety
/// The list, and the arrays of pointers in it, must be as long as they say.
unsafe fn pairs(list: *const armci_giov_t, len: c_int) -> Done<Vec<Pair>> {
    let len = length(len)?;
    if len > 0 && list.is_null() {
        return Err(Failed::invalid("a null pointer for a list of pieces"));
    }
    let mut pairs = Vec::new();
    for number in 0..len {
        // SAFETY: the caller says that there are so many.
        let one = unsafe { list.add(number).read_unaligned() };
        let (count, bytes) = (length(one.ptr_array_len)?, length(one.bytes)?);
        if count > 0 && (one.src_ptr_array.is_null() || one.dst_ptr_array.is_null()) {
            return Err(Failed::invalid("a null pointer for the pointers of a list of pieces"));
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
    /// Does something with a list of pieces. It is done when this returns.
    ///
    /// # Safety
    /// Lists and own memory must be as they say.
    unsafe fn listed(
        &self,
        deed: Deed,
        list: *const armci_giov_t,
        len: c_int,
        proc: c_int,
    ) -> Done<(u32, PendingAccess<'static>)> {
        let rank = self.rank(proc)?;
        // SAFETY: the caller says so.
        let pairs = unsafe { pairs(list, len)? };
        // Everything is looked for before anything is done.
        let mut by_memory = BTreeMap::new();
        for (from, to, bytes) in pairs {
            let (own, there) = if matches!(deed, Deed::Get) { (to, from) } else { (from, to) };
            let (allocation, offset) = self.find(rank, there, bytes)?;
            let key = std::sync::Arc::as_ptr(&allocation).addr();
            let known = by_memory.entry(key).or_insert_with(|| (allocation, Vec::new()));
            known.1.push((own, SegmentPiece { offset, len: bytes }));
        }
        for (allocation, pieces) in by_memory.into_values() {
            let segments = &allocation.segments;
            let places: Vec<SegmentPiece> = pieces.iter().map(|(_, piece)| *piece).collect();
            let total = places.iter().map(|piece| piece.len).sum();
            match deed {
                Deed::Put => {
                    let mut packed = Vec::with_capacity(total);
                    for (start, piece) in &pieces {
                        // SAFETY: the caller says so.
                        packed.extend_from_slice(unsafe { own(*start, piece.len)? });
                    }
                    done(segments.put_list(rank, &places, &packed))?;
                }
                Deed::Get => {
                    let mut packed = vec![0; total];
                    done(segments.get_list(rank, &places, &mut packed))?;
                    let mut rest = &packed[..];
                    for (start, piece) in &pieces {
                        let (now, later) = rest.split_at(piece.len);
                        // SAFETY: the caller says so.
                        unsafe { own_mut(*start, piece.len)? }.copy_from_slice(now);
                        rest = later;
                    }
                }
                Deed::Add(optype, scale) => {
                    // SAFETY: the caller says so.
                    let scale = unsafe { Scale::of(optype, scale)? };
                    for (start, piece) in &pieces {
                        // SAFETY: the caller says so.
                        let own = unsafe { own(*start, piece.len)? };
                        done(scale.start(segments, rank, piece.offset, own)?.wait())?;
                    }
                }
            }
        }
        Ok((rank, PendingAccess::done()))
    }
}

/// Copies pieces of own memory to that of a process.
///
/// # Safety
/// Lists and own memory must be as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_PutV(pieces: *mut armci_giov_t, len: c_int, proc: c_int) -> c_int {
    // SAFETY: the caller says so.
    unsafe { ARMCI_NbPutV(pieces, len, proc, &mut armci_hdl_t::default()) }
}

/// Copies pieces of own memory to that of a process. It is done when it returns, and the handle says so.
///
/// # Safety
/// Lists and own memory must be as they say; the handle is null, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbPutV(
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.listed(Deed::Put, pieces, len, proc)) }
}

/// Copies pieces of the memory of a process to own memory.
///
/// # Safety
/// Lists and own memory must be as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_GetV(pieces: *mut armci_giov_t, len: c_int, proc: c_int) -> c_int {
    // SAFETY: the caller says so.
    unsafe { ARMCI_NbGetV(pieces, len, proc, &mut armci_hdl_t::default()) }
}

/// Copies pieces of the memory of a process to own memory. It is done when it returns, and the handle says so.
///
/// # Safety
/// Lists and own memory must be as they say; the handle is null, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbGetV(
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.listed(Deed::Get, pieces, len, proc)) }
}

/// Adds pieces of own numbers to those of a process.
///
/// # Safety
/// Lists and own memory must be as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_AccV(
    optype: c_int,
    scale: *mut c_void,
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { ARMCI_NbAccV(optype, scale, pieces, len, proc, &mut armci_hdl_t::default()) }
}

/// Adds pieces of own numbers to those of a process. It is done when it returns, and the handle says so.
///
/// # Safety
/// Lists and own memory must be as they say; the handle is null, or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_NbAccV(
    optype: c_int,
    scale: *mut c_void,
    pieces: *mut armci_giov_t,
    len: c_int,
    proc: c_int,
    handle: *mut armci_hdl_t,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.listed(Deed::Add(optype, scale), pieces, len, proc)) }
}
