//! Contiguous put, get and accumulate, and atomic updates.

use libc::{c_int, c_long, c_void};
use pario::memory::{Number, Pending, Segments};

use super::{Armci, byte_count, current};
use crate::boundary::return_errno;
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// Swaps an int.
pub const ARMCI_SWAP: c_int = 10;
/// Swaps a long.
pub const ARMCI_SWAP_LONG: c_int = 11;
/// Adds to an int.
pub const ARMCI_FETCH_AND_ADD: c_int = 12;
/// Adds to a long.
pub const ARMCI_FETCH_AND_ADD_LONG: c_int = 13;

/// Numbers of type int.
pub const ARMCI_ACC_INT: c_int = 37;
/// Numbers of type double.
pub const ARMCI_ACC_DBL: c_int = 38;
/// Numbers of type float.
pub const ARMCI_ACC_FLT: c_int = 39;
/// Complex numbers of two floats.
pub const ARMCI_ACC_CPL: c_int = 40;
/// Complex numbers of two doubles.
pub const ARMCI_ACC_DCP: c_int = 41;
/// Numbers of type long.
pub const ARMCI_ACC_LNG: c_int = 42;

/// Returns memory of the caller for reading.
///
/// # Safety
/// `start` is null or points to `len` bytes, which do not change during the use.
pub unsafe fn caller_bytes<'a>(start: *const c_void, len: usize) -> CallResult<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(ErrnoError::invalid("the process' own memory is NULL"));
    }
    // SAFETY: the caller guarantees it.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// Returns memory of the caller for writing.
///
/// # Safety
/// `start` is null or points to `len` bytes, which nothing else uses during the use.
pub unsafe fn caller_bytes_mut<'a>(start: *mut c_void, len: usize) -> CallResult<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if start.is_null() {
        return Err(ErrnoError::invalid("the process' own memory is NULL"));
    }
    // SAFETY: the caller guarantees it.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
}

/// The number type and factor of an accumulation.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// Ints.
    Int(i32),
    /// Longs.
    Long(i64),
    /// Floats.
    Float(f32),
    /// Doubles.
    Double(f64),
    /// Complex numbers of floats.
    Complex([f32; 2]),
    /// Complex numbers of doubles.
    DoubleComplex([f64; 2]),
}

impl Scale {
    /// Reads the factor. Fails for an unknown type.
    ///
    /// # Safety
    /// `scale` is null or points to a number of the type.
    pub unsafe fn of(optype: c_int, scale: *const c_void) -> CallResult<Self> {
        if scale.is_null() {
            return Err(ErrnoError::invalid("the scale factor is NULL"));
        }
        // SAFETY: the caller guarantees a number of that type.
        unsafe {
            Ok(match optype {
                ARMCI_ACC_INT => Self::Int(scale.cast::<i32>().read_unaligned()),
                ARMCI_ACC_LNG => Self::Long(scale.cast::<i64>().read_unaligned()),
                ARMCI_ACC_FLT => Self::Float(scale.cast::<f32>().read_unaligned()),
                ARMCI_ACC_DBL => Self::Double(scale.cast::<f64>().read_unaligned()),
                ARMCI_ACC_CPL => Self::Complex(scale.cast::<[f32; 2]>().read_unaligned()),
                ARMCI_ACC_DCP => Self::DoubleComplex(scale.cast::<[f64; 2]>().read_unaligned()),
                _ => {
                    let what = format!(
                        "number type {optype} is unknown: use ARMCI_ACC_INT to ARMCI_ACC_LNG"
                    );
                    return Err(ErrnoError::invalid(what));
                }
            })
        }
    }

    /// Starts to add numbers to a segment.
    pub fn start(
        self,
        segments: &Segments,
        rank: u32,
        offset: usize,
        bytes: &[u8],
    ) -> CallResult<Pending<()>> {
        let to = (segments, rank, offset);
        match self {
            Self::Int(factor) => add(to, factor, bytes),
            Self::Long(factor) => add(to, factor, bytes),
            Self::Float(factor) => add(to, factor, bytes),
            Self::Double(factor) => add(to, factor, bytes),
            Self::Complex([re, im]) => {
                let times = |[x, y]: [f32; 2]| [re * x - im * y, re * y + im * x];
                add(to, 1.0_f32, as_bytes(&pairs(bytes, times)?))
            }
            Self::DoubleComplex([re, im]) => {
                let times = |[x, y]: [f64; 2]| [re * x - im * y, re * y + im * x];
                add(to, 1.0_f64, as_bytes(&pairs(bytes, times)?))
            }
        }
    }
}

/// Multiplies complex numbers, given as pairs.
fn pairs<T: Number>(bytes: &[u8], times: impl Fn([T; 2]) -> [T; 2]) -> CallResult<Vec<T>> {
    let numbers = numbers::<T>(bytes)?;
    if numbers.len() % 2 != 0 {
        return Err(ErrnoError::invalid(
            "the byte count is not a multiple of the size of a complex number",
        ));
    }
    Ok(numbers.chunks(2).flat_map(|pair| times([pair[0], pair[1]])).collect())
}

fn numbers<T: Number>(bytes: &[u8]) -> CallResult<Vec<T>> {
    let each = size_of::<T>();
    if !bytes.len().is_multiple_of(each) {
        let what =
            format!("{} bytes are not a multiple of the {each} bytes of a number", bytes.len());
        return Err(ErrnoError::invalid(what));
    }
    let mut numbers = vec![T::default(); bytes.len() / each];
    // SAFETY: there is room for the bytes, and every bit pattern is a number.
    unsafe {
        let to = numbers.as_mut_ptr().cast();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
    Ok(numbers)
}

fn as_bytes<T: Number>(numbers: &[T]) -> &[u8] {
    // SAFETY: numbers have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

fn add<T: Number>(
    (segments, rank, offset): (&Segments, u32, usize),
    factor: T,
    bytes: &[u8],
) -> CallResult<Pending<()>> {
    let is_aligned = bytes.as_ptr().cast::<T>().is_aligned();
    if is_aligned && bytes.len().is_multiple_of(size_of::<T>()) {
        let count = bytes.len() / size_of::<T>();
        // SAFETY: it is aligned, there are `count` numbers, and every bit pattern is a number.
        let numbers = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), count) };
        return team_result(segments.start_accumulate(numbers, factor, rank, offset));
    }
    team_result(segments.start_accumulate(&numbers::<T>(bytes)?, factor, rank, offset))
}

impl Armci {
    /// Starts a put of the caller's memory.
    ///
    /// # Safety
    /// `src` is null or points to `bytes` bytes.
    pub unsafe fn start_put(
        &self,
        src: *const c_void,
        dst: *const c_void,
        bytes: c_int,
        proc: c_int,
    ) -> CallResult<(u32, Pending<()>)> {
        let (rank, len) = (self.rank(proc)?, byte_count(bytes)?);
        let (allocation, offset) = self.find(rank, dst, len)?;
        // SAFETY: the caller guarantees it.
        let own = unsafe { caller_bytes(src, len)? };
        Ok((rank, team_result(allocation.segments.start_put(own, rank, offset))?))
    }

    /// Starts a get to the caller's memory.
    ///
    /// # Safety
    /// `dst` is null or points to `bytes` bytes, which nothing else uses until the request is over.
    pub unsafe fn start_get(
        &self,
        src: *const c_void,
        dst: *mut c_void,
        bytes: c_int,
        proc: c_int,
    ) -> CallResult<(u32, Pending<()>)> {
        let (rank, len) = (self.rank(proc)?, byte_count(bytes)?);
        let (allocation, offset) = self.find(rank, src, len)?;
        // SAFETY: the caller guarantees it.
        let started = unsafe {
            let own = caller_bytes_mut(dst, len)?;
            allocation.segments.start_get_into(own.as_mut_ptr(), len, rank, offset)
        };
        Ok((rank, team_result(started)?))
    }

    /// Starts an accumulation of the caller's numbers.
    ///
    /// # Safety
    /// `src` is null or points to `bytes` bytes, and `scale` is null or points to a number of the
    /// type.
    pub unsafe fn start_acc(
        &self,
        (optype, scale): (c_int, *const c_void),
        src: *const c_void,
        dst: *const c_void,
        bytes: c_int,
        proc: c_int,
    ) -> CallResult<(u32, Pending<()>)> {
        let (rank, len) = (self.rank(proc)?, byte_count(bytes)?);
        let (allocation, offset) = self.find(rank, dst, len)?;
        // SAFETY: the caller guarantees it.
        let (scale, own) = unsafe { (Scale::of(optype, scale)?, caller_bytes(src, len)?) };
        Ok((rank, scale.start(&allocation.segments, rank, offset, own)?))
    }
}

fn wait((_, started): (u32, Pending<()>)) -> CallResult<c_int> {
    team_result(started.wait()).map(|()| 0)
}

/// Copies own memory to a process.
///
/// # Safety
/// `src` is null or points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Put(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| wait(unsafe { current()?.start_put(src, dst, bytes, proc)? }))
}

/// Copies memory of a process to own memory.
///
/// # Safety
/// `dst` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Get(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| wait(unsafe { current()?.start_get(src, dst, bytes, proc)? }))
}

/// Adds own numbers, each times a factor, to those of a process.
///
/// # Safety
/// `src` is null or points to `bytes` bytes, and `scale` is null or points to a number of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Acc(
    optype: c_int,
    scale: *mut c_void,
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| wait(unsafe { current()?.start_acc((optype, scale), src, dst, bytes, proc)? }))
}

/// Changes an integer of a process atomically, and returns its former value in `ploc`.
///
/// # Safety
/// `ploc` is null or points to an integer of the operation's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Rmw(
    op: c_int,
    ploc: *mut c_void,
    prem: *mut c_void,
    extra: c_int,
    proc: c_int,
) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        let is_long = matches!(op, ARMCI_SWAP_LONG | ARMCI_FETCH_AND_ADD_LONG);
        let is_short = matches!(op, ARMCI_SWAP | ARMCI_FETCH_AND_ADD);
        if !is_long && !is_short || ploc.is_null() {
            return Err(ErrnoError::invalid(format!(
                "operation {op} with a value at {ploc:p}: use ARMCI_SWAP to \
                 ARMCI_FETCH_AND_ADD_LONG, and an address that is not NULL"
            )));
        }
        let size = if is_long { size_of::<c_long>() } else { size_of::<c_int>() };
        let (allocation, offset) = armci.find(rank, prem, size)?;
        let segments = &allocation.segments;
        // SAFETY: the caller guarantees a number of that type.
        unsafe {
            match op {
                ARMCI_SWAP => {
                    let place = ploc.cast::<c_int>();
                    place.write_unaligned(team_result(segments.swap(
                        place.read_unaligned(),
                        rank,
                        offset,
                    ))?);
                }
                ARMCI_SWAP_LONG => {
                    let place = ploc.cast::<c_long>();
                    place.write_unaligned(team_result(segments.swap(
                        place.read_unaligned(),
                        rank,
                        offset,
                    ))?);
                }
                ARMCI_FETCH_AND_ADD => {
                    let was: c_int = team_result(segments.fetch_add(extra, rank, offset))?;
                    ploc.cast::<c_int>().write_unaligned(was);
                }
                _ => {
                    let was: c_long =
                        team_result(segments.fetch_add(c_long::from(extra), rank, offset))?;
                    ploc.cast::<c_long>().write_unaligned(was);
                }
            }
        }
        Ok(0)
    })
}
