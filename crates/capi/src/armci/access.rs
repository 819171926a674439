//! Putting, getting, accumulating and changing, in one piece.

use libc::{c_int, c_long, c_void};
use pario::team::{Number, PendingAccess, Segments};

use super::{Armci, current, length};
use crate::border::returning;
use crate::errors::{Done, Failed};
use crate::team::done;

/// Swapping an int.
pub const ARMCI_SWAP: c_int = 10;
/// Swapping a long.
pub const ARMCI_SWAP_LONG: c_int = 11;
/// Adding to an int.
pub const ARMCI_FETCH_AND_ADD: c_int = 12;
/// Adding to a long.
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

/// Memory of the caller to be read.
///
/// # Safety
/// So many bytes must be there, and stay as they are meanwhile.
pub unsafe fn own<'a>(start: *const c_void, len: usize) -> Done<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Failed::invalid("a null pointer for own memory"));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// Memory of the caller to be written.
///
/// # Safety
/// So many bytes must be there, and belong to nobody else meanwhile.
pub unsafe fn own_mut<'a>(start: *mut c_void, len: usize) -> Done<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if start.is_null() {
        return Err(Failed::invalid("a null pointer for own memory"));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
}

/// Numbers to be added, each times a factor, as a program means them.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// Of ints.
    Int(i32),
    /// Of longs.
    Long(i64),
    /// Of floats.
    Float(f32),
    /// Of doubles.
    Double(f64),
    /// Of complex numbers.
    Complex([f32; 2]),
    /// Of complex numbers of doubles.
    DoubleComplex([f64; 2]),
}

impl Scale {
    /// The factor of a type of numbers.
    ///
    /// # Safety
    /// There must be a number of the type, or null.
    pub unsafe fn of(optype: c_int, scale: *const c_void) -> Done<Self> {
        if scale.is_null() {
            return Err(Failed::invalid("a null pointer for the scale of an accumulation"));
        }
        // SAFETY: the caller says that there is a number of the type.
        unsafe {
            Ok(match optype {
                ARMCI_ACC_INT => Self::Int(scale.cast::<i32>().read_unaligned()),
                ARMCI_ACC_LNG => Self::Long(scale.cast::<i64>().read_unaligned()),
                ARMCI_ACC_FLT => Self::Float(scale.cast::<f32>().read_unaligned()),
                ARMCI_ACC_DBL => Self::Double(scale.cast::<f64>().read_unaligned()),
                ARMCI_ACC_CPL => Self::Complex(scale.cast::<[f32; 2]>().read_unaligned()),
                ARMCI_ACC_DCP => Self::DoubleComplex(scale.cast::<[f64; 2]>().read_unaligned()),
                _ => {
                    let what = format!("{optype} is no type of numbers that are accumulated");
                    return Err(Failed::invalid(what));
                }
            })
        }
    }

    /// Begins to add numbers.
    pub fn start(
        self,
        segments: &Segments,
        rank: u32,
        offset: usize,
        bytes: &[u8],
    ) -> Done<PendingAccess<'static>> {
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

/// Complex numbers, each times another.
fn pairs<T: Number>(bytes: &[u8], times: impl Fn([T; 2]) -> [T; 2]) -> Done<Vec<T>> {
    let numbers = numbers::<T>(bytes)?;
    if numbers.len() % 2 != 0 {
        return Err(Failed::invalid("half a complex number cannot be accumulated"));
    }
    Ok(numbers.chunks(2).flat_map(|pair| times([pair[0], pair[1]])).collect())
}

fn numbers<T: Number>(bytes: &[u8]) -> Done<Vec<T>> {
    let each = size_of::<T>();
    if !bytes.len().is_multiple_of(each) {
        let what = format!("{} bytes are no numbers of {each} bytes each", bytes.len());
        return Err(Failed::invalid(what));
    }
    let mut numbers = vec![T::default(); bytes.len() / each];
    // SAFETY: there is room for as many bytes, and every pattern of bits is a number.
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
) -> Done<PendingAccess<'static>> {
    let is_aligned = bytes.as_ptr().cast::<T>().is_aligned();
    if is_aligned && bytes.len().is_multiple_of(size_of::<T>()) {
        let count = bytes.len() / size_of::<T>();
        // SAFETY: it is aligned, there are so many, and every pattern of bits is a number.
        let numbers = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), count) };
        return done(segments.start_accumulate(rank, offset, factor, numbers));
    }
    done(segments.start_accumulate(rank, offset, factor, &numbers::<T>(bytes)?))
}

impl Armci {
    /// Begins to put own memory.
    ///
    /// # Safety
    /// So many bytes must be there.
    pub unsafe fn start_put(
        &self,
        src: *const c_void,
        dst: *const c_void,
        bytes: c_int,
        proc: c_int,
    ) -> Done<(u32, PendingAccess<'static>)> {
        let (rank, len) = (self.rank(proc)?, length(bytes)?);
        let (allocation, offset) = self.find(rank, dst, len)?;
        // SAFETY: the caller says so.
        let own = unsafe { own(src, len)? };
        Ok((rank, done(allocation.segments.start_put(rank, offset, own))?))
    }

    /// Begins to get to own memory.
    ///
    /// # Safety
    /// So many bytes must be there, and belong to nobody else until it is waited for.
    pub unsafe fn start_get(
        &self,
        src: *const c_void,
        dst: *mut c_void,
        bytes: c_int,
        proc: c_int,
    ) -> Done<(u32, PendingAccess<'static>)> {
        let (rank, len) = (self.rank(proc)?, length(bytes)?);
        let (allocation, offset) = self.find(rank, src, len)?;
        // SAFETY: the caller says so.
        let own: &'static mut [u8] = unsafe { own_mut(dst, len)? };
        Ok((rank, done(allocation.segments.start_get(rank, offset, own))?))
    }

    /// Begins to add own numbers.
    ///
    /// # Safety
    /// So many bytes must be there, and a scale.
    pub unsafe fn start_acc(
        &self,
        (optype, scale): (c_int, *const c_void),
        src: *const c_void,
        dst: *const c_void,
        bytes: c_int,
        proc: c_int,
    ) -> Done<(u32, PendingAccess<'static>)> {
        let (rank, len) = (self.rank(proc)?, length(bytes)?);
        let (allocation, offset) = self.find(rank, dst, len)?;
        // SAFETY: the caller says so.
        let (scale, own) = unsafe { (Scale::of(optype, scale)?, own(src, len)?) };
        Ok((rank, scale.start(&allocation.segments, rank, offset, own)?))
    }
}

fn wait((_, started): (u32, PendingAccess<'static>)) -> Done<c_int> {
    done(started.wait()).map(|()| 0)
}

/// Copies own memory to that of a process.
///
/// # Safety
/// So many bytes must be at the source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Put(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller says so.
    returning(|| wait(unsafe { current()?.start_put(src, dst, bytes, proc)? }))
}

/// Copies memory of a process to own memory.
///
/// # Safety
/// There must be room for so many bytes at the destination.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Get(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller says so.
    returning(|| wait(unsafe { current()?.start_get(src, dst, bytes, proc)? }))
}

/// Adds own numbers, each times a factor, to those of a process.
///
/// # Safety
/// So many bytes must be at the source, and a number at the scale.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Acc(
    optype: c_int,
    scale: *mut c_void,
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller says so.
    returning(|| wait(unsafe { current()?.start_acc((optype, scale), src, dst, bytes, proc)? }))
}

/// Changes a whole number of a process by one instruction.
///
/// # Safety
/// There must be a number of the type where the result goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Rmw(
    op: c_int,
    ploc: *mut c_void,
    prem: *mut c_void,
    extra: c_int,
    proc: c_int,
) -> c_int {
    returning(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        let is_long = matches!(op, ARMCI_SWAP_LONG | ARMCI_FETCH_AND_ADD_LONG);
        let is_short = matches!(op, ARMCI_SWAP | ARMCI_FETCH_AND_ADD);
        if !is_long && !is_short || ploc.is_null() {
            return Err(Failed::invalid(format!("operation {op} on a number at {ploc:p}")));
        }
        let size = if is_long { size_of::<c_long>() } else { size_of::<c_int>() };
        let (allocation, offset) = armci.find(rank, prem, size)?;
        let segments = &allocation.segments;
        // SAFETY: the caller says that there is a number of the type.
        unsafe {
            match op {
                ARMCI_SWAP => {
                    let place = ploc.cast::<c_int>();
                    place.write_unaligned(done(segments.swap(
                        rank,
                        offset,
                        place.read_unaligned(),
                    ))?);
                }
                ARMCI_SWAP_LONG => {
                    let place = ploc.cast::<c_long>();
                    place.write_unaligned(done(segments.swap(
                        rank,
                        offset,
                        place.read_unaligned(),
                    ))?);
                }
                ARMCI_FETCH_AND_ADD => {
                    let was: c_int = done(segments.fetch_add(rank, offset, extra))?;
                    ploc.cast::<c_int>().write_unaligned(was);
                }
                _ => {
                    let was: c_long = done(segments.fetch_add(rank, offset, c_long::from(extra)))?;
                    ploc.cast::<c_long>().write_unaligned(was);
                }
            }
        }
        Ok(0)
    })
}
