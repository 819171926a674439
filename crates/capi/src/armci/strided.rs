//! Regions with gaps.
//!
//! `count[0]` bytes lie together; the others say how many of them there are in each dimension, and the
//! strides how far apart they are.

use libc::{c_int, c_void};
use pario::team::{PendingAccess, Strided};

use super::Armci;
use super::access::{Scale, own, own_mut};
use super::started::{armci_hdl_t, begin};
use crate::errors::{Done, Failed};
use crate::team::done;

/// A region as a program describes it.
#[derive(Clone, Copy)]
pub struct Region {
    /// Own memory.
    pub own: *mut c_void,
    /// How far apart its rows are.
    pub own_strides: *const c_int,
    /// Memory of the process.
    pub there: *mut c_void,
    /// How far apart its rows are.
    pub there_strides: *const c_int,
    /// Bytes of a row, and how many rows there are in each dimension.
    pub count: *const c_int,
    /// How many dimensions there are beyond the row.
    pub levels: c_int,
    /// The process.
    pub proc: c_int,
}

/// What is done with a region.
#[derive(Clone, Copy)]
pub enum Deed {
    /// Copied there.
    Put,
    /// Copied here.
    Get,
    /// Added there: the type, and a factor.
    Add(c_int, *const c_void),
}

/// Lengths that a program has given.
///
/// # Safety
/// There must be so many.
unsafe fn lengths(start: *const c_int, count: usize) -> Done<Vec<usize>> {
    if count > 0 && start.is_null() {
        return Err(Failed::invalid("a null pointer for counts or strides"));
    }
    let length = |number| {
        // SAFETY: the caller says that there are so many.
        let length = unsafe { start.add(number).read_unaligned() };
        let wrong = |_| Failed::invalid(format!("a count or stride of {length} cannot be"));
        usize::try_from(length).map_err(wrong)
    };
    (0..count).map(length).collect()
}

impl Armci {
    /// Does something with a region. It is done when this returns.
    ///
    /// # Safety
    /// Counts and strides must be there, and own memory as they say.
    unsafe fn strided(&self, deed: Deed, region: Region) -> Done<(u32, PendingAccess<'static>)> {
        let Region { own: start, own_strides, there, there_strides, count, levels, proc } = region;
        let rank = self.rank(proc)?;
        let levels = usize::try_from(levels).ok().filter(|levels| *levels <= 8);
        let levels = levels.ok_or_else(|| Failed::invalid("at most 8 levels of strides can be"))?;
        // SAFETY: the caller says so.
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
        let len = done(strided.extent_here())?;
        let (allocation, offset) = self.find(rank, there, done(strided.extent_there())?)?;
        let segments = &allocation.segments;
        match deed {
            Deed::Put => {
                // SAFETY: the caller says so.
                let own = unsafe { own(start, len)? };
                done(segments.put_strided(rank, offset, &strided, own))?;
            }
            Deed::Get => {
                // SAFETY: the caller says so.
                let own = unsafe { own_mut(start, len)? };
                done(segments.get_strided(rank, offset, &strided, own))?;
            }
            Deed::Add(optype, scale) => {
                // SAFETY: the caller says so.
                let (scale, own) = unsafe { (Scale::of(optype, scale)?, own(start, len)?) };
                let mut begun = Vec::new();
                for (here, there) in strided.rows() {
                    let row = &own[here..here + strided.row];
                    begun.push(scale.start(segments, rank, offset + there, row)?);
                }
                begun.into_iter().try_for_each(|one| done(one.wait()))?;
            }
        }
        Ok((rank, PendingAccess::done()))
    }
}

/// Copies a region of own memory to that of a process.
///
/// # Safety
/// Counts and strides must be there, and own memory as they say.
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
    // SAFETY: the caller says so.
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

/// Copies a region of own memory to that of a process. It is done when it returns, and the handle says so.
///
/// # Safety
/// Counts and strides must be there, and own memory as they say; the handle is null, or a place for
/// one.
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
    let region = Region {
        own: src,
        own_strides: src_strides,
        there: dst,
        there_strides: dst_strides,
        count,
        levels,
        proc,
    };
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.strided(Deed::Put, region)) }
}

/// Copies a region of the memory of a process to own memory.
///
/// # Safety
/// Counts and strides must be there, and own memory as they say.
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
    // SAFETY: the caller says so.
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

/// Copies a region of the memory of a process to own memory. It is done when it returns, and the handle says so.
///
/// # Safety
/// Counts and strides must be there, and own memory as they say; the handle is null, or a place for
/// one.
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
    let region = Region {
        own: dst,
        own_strides: dst_strides,
        there: src,
        there_strides: src_strides,
        count,
        levels,
        proc,
    };
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.strided(Deed::Get, region)) }
}

/// Adds a region of own numbers to those of a process.
///
/// # Safety
/// Counts and strides must be there, and own memory as they say.
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
    // SAFETY: the caller says so.
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

/// Adds a region of own numbers to those of a process. It is done when it returns, and the handle says so.
///
/// # Safety
/// Counts and strides must be there, and own memory as they say; the handle is null, or a place for
/// one.
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
    let region = Region {
        own: src,
        own_strides: src_strides,
        there: dst,
        there_strides: dst_strides,
        count,
        levels,
        proc,
    };
    // SAFETY: the caller says so.
    unsafe { begin(handle, |armci| armci.strided(Deed::Add(optype, scale), region)) }
}
