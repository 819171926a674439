//! Puts and gets of single values, puts that set a flag, and copies of own memory.

use libc::{c_double, c_float, c_int, c_long, c_void};

use super::current;
use super::nonblocking::{armci_hdl_t, start_nonblocking};
use super::strided::ARMCI_PutS;
use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// Defines the calls for a type: put, started put, and get.
macro_rules! values {
    ($($type:ty: $put:ident, $start:ident, $get:ident;)*) => {$(
        /// Puts a value to the memory of a process.
        ///
        /// # Safety
        /// None: the pointer is only looked up.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $put(src: $type, dst: *mut c_void, proc: c_int) -> c_int {
            // SAFETY: there is no handle.
            unsafe { $start(src, dst, proc, &mut armci_hdl_t::default()) }
        }

        /// Starts a put of a value to the memory of a process.
        ///
        /// # Safety
        /// `handle` is null or points to a handle.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            src: $type,
            dst: *mut c_void,
            proc: c_int,
            handle: *mut armci_hdl_t,
        ) -> c_int {
            // SAFETY: the caller guarantees it; the value lives until it was taken.
            unsafe {
                start_nonblocking(handle, |armci| {
                    let len = c_int::try_from(size_of::<$type>()).unwrap_or(0);
                    armci.start_put((&raw const src).cast(), dst, len, proc)
                })
            }
        }

        /// Returns a value from the memory of a process.
        ///
        /// # Safety
        /// None: the pointer is only looked up.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(src: *mut c_void, proc: c_int) -> $type {
            exit_on_error(stringify!($get), || {
                let armci = current()?;
                let rank = armci.rank(proc)?;
                let mut bytes = [0; size_of::<$type>()];
                let (allocation, offset) = armci.find(rank, src, bytes.len())?;
                team_result(allocation.segments.get(&mut bytes, rank, offset))?;
                Ok(<$type>::from_ne_bytes(bytes))
            })
        }
    )*};
}

values! {
    c_int: ARMCI_PutValueInt, ARMCI_NbPutValueInt, ARMCI_GetValueInt;
    c_long: ARMCI_PutValueLong, ARMCI_NbPutValueLong, ARMCI_GetValueLong;
    c_float: ARMCI_PutValueFloat, ARMCI_NbPutValueFloat, ARMCI_GetValueFloat;
    c_double: ARMCI_PutValueDouble, ARMCI_NbPutValueDouble, ARMCI_GetValueDouble;
}

/// Sets an int of a process, after the puts that are complete.
fn set_flag(flag: *mut c_int, value: c_int, proc: c_int) -> CallResult<c_int> {
    let armci = current()?;
    let rank = armci.rank(proc)?;
    let (allocation, offset) = armci.find(rank, flag.cast(), size_of::<c_int>())?;
    team_result(allocation.segments.swap(value, rank, offset))?;
    Ok(0)
}

/// Copies own memory to a process, and then sets a flag there.
///
/// # Safety
/// `src` is null or points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Put_flag(
    src: *mut c_void,
    dst: *mut c_void,
    bytes: c_int,
    f: *mut c_int,
    v: c_int,
    proc: c_int,
) -> c_int {
    return_errno(|| {
        // SAFETY: the caller guarantees it.
        let (_, started) = unsafe { current()?.start_put(src, dst, bytes, proc)? };
        team_result(started.wait())?;
        set_flag(f, v, proc)
    })
}

/// Copies a region of own memory to a process, and then sets a flag there.
///
/// # Safety
/// `count` and the stride arrays have as many entries as `levels` asks for, and the caller's memory
/// is as large as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_PutS_flag(
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    flag: *mut c_int,
    val: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    match unsafe { ARMCI_PutS(src, src_strides, dst, dst_strides, count, levels, proc) } {
        0 => return_errno(|| set_flag(flag, val, proc)),
        failed => failed,
    }
}

/// Does the same as `ARMCI_PutS_flag`.
///
/// # Safety
/// As of `ARMCI_PutS_flag`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_PutS_flag_dir(
    src: *mut c_void,
    src_strides: *mut c_int,
    dst: *mut c_void,
    dst_strides: *mut c_int,
    count: *mut c_int,
    levels: c_int,
    flag: *mut c_int,
    val: c_int,
    proc: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { ARMCI_PutS_flag(src, src_strides, dst, dst_strides, count, levels, flag, val, proc) }
}

/// Copies memory of this process.
///
/// # Safety
/// `src` and `dst` point to `n` bytes each, which may overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Copy(src: *mut c_void, dst: *mut c_void, n: c_int) {
    exit_on_error("ARMCI_Copy", || {
        let n = super::byte_count(n)?;
        if n > 0 && (src.is_null() || dst.is_null()) {
            return Err(ErrnoError::invalid("the memory to copy is NULL"));
        }
        // SAFETY: the caller guarantees it.
        unsafe { std::ptr::copy(src.cast::<u8>(), dst.cast::<u8>(), n) };
        Ok(())
    });
}
