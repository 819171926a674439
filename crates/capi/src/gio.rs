//! The calls of `gio.h`: record files. Each returns -1 and sets `errno` on failure.
#![allow(non_snake_case, reason = "the names are those of GIO")]

use std::sync::Arc;

use libc::{c_char, c_int, c_void};
use pario::memory::Number;
use pario::records::{RecordError, RecordFile, RecordId, RecordOptions};

use crate::errors::{CallResult, ErrnoError};
use crate::record_files::{self, file, gio_call, path, record, record_error, region, start};
use crate::team::{self, or_fail_round};

/// Numbers of type `int`.
pub const GIO_INT: c_int = 1;
/// Numbers of type `unsigned int`.
pub const GIO_UNSIGNED: c_int = 2;
/// Numbers of type `int64_t`.
pub const GIO_INT64: c_int = 3;
/// Numbers of type `uint64_t`.
pub const GIO_UNSIGNED64: c_int = 4;
/// Numbers of type `float`.
pub const GIO_FLOAT: c_int = 5;
/// Numbers of type `double`.
pub const GIO_DOUBLE: c_int = 6;

/// Returns the rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Rank() -> c_int {
    gio_call(|| int(u64::from(team::current()?.rank())))
}

/// Returns the number of processes.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Size() -> c_int {
    gio_call(|| int(u64::from(team::current()?.size())))
}

/// Waits for all processes.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Barrier() -> c_int {
    gio_call(|| {
        let met = team::current()?.barrier();
        met.map_err(|error| ErrnoError::new(team::errno_of(&error), error.to_string()))?;
        Ok(0)
    })
}

/// Returns the text of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Error() -> *const c_char {
    record_files::last_text()
}

/// Opens a record file, or creates it, collectively.
///
/// # Safety
/// `path_name` is null or a NUL-terminated string; `file_handle` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Open(path_name: *const c_char, file_handle: *mut c_int) -> c_int {
    gio_call(|| {
        let team = team::current()?;
        // SAFETY: the caller guarantees it.
        let path = or_fail_round(check_pointer(file_handle).and(unsafe { path(path_name) }))?;
        let file = RecordFile::open_or_create(&team, path).map_err(record_error)?;
        // SAFETY: as above, and it is not null.
        unsafe { file_handle.write_unaligned(record_files::add(file)) };
        Ok(0)
    })
}

/// Opens a record file, or creates it, with a cache for bytes of other machines, collectively.
///
/// # Safety
/// `path_name` is null or a NUL-terminated string; `file_handle` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Open_cached(
    path_name: *const c_char,
    file_handle: *mut c_int,
    cache_bytes: i64,
) -> c_int {
    gio_call(|| {
        check_pointer(file_handle)?;
        // SAFETY: the caller guarantees it.
        let path = unsafe { path(path_name)? };
        let options = RecordOptions::new().cache(narrow(size(cache_bytes)?)?);
        let file = options.open_or_create(&team::current()?, path).map_err(record_error)?;
        // SAFETY: as above, and it is not null.
        unsafe { file_handle.write_unaligned(record_files::add(file)) };
        Ok(0)
    })
}

/// Forgets the bytes of other machines that the cache of this process holds.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Invalidate(file_handle: c_int) -> c_int {
    gio_call(|| {
        file(file_handle)?.forget_cached();
        Ok(0)
    })
}

/// Makes everything durable and closes a record file, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Close(file_handle: c_int) -> c_int {
    gio_call(|| {
        let file = or_fail_round(record_files::remove(file_handle))?;
        file.finish().map_err(record_error).map(|()| 0)
    })
}

/// Makes everything durable, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Sync(file_handle: c_int) -> c_int {
    gio_call(|| or_fail_round(file(file_handle))?.sync().map_err(record_error).map(|()| 0))
}

/// Deletes a record file that no process has open, collectively.
///
/// # Safety
/// `path_name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Delete_file(path_name: *const c_char) -> c_int {
    gio_call(|| {
        let team = team::current()?;
        // SAFETY: the caller guarantees it.
        let path = or_fail_round(unsafe { path(path_name) })?;
        RecordFile::delete(&team, path).map_err(record_error).map(|()| 0)
    })
}

/// Writes the numbers of parts and records of a file. Either pointer may be null.
///
/// # Safety
/// Each pointer is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Inq_file(
    file_handle: c_int,
    num_parts: *mut c_int,
    num_records: *mut c_int,
) -> c_int {
    gio_call(|| {
        let file = file(file_handle)?;
        // SAFETY: the caller guarantees it.
        unsafe {
            write_out(num_parts, int(file.parts().into())?);
            write_out(num_records, int(file.records().len() as u64)?);
        }
        Ok(0)
    })
}

/// Writes the numbers of the records, as many as fit. Returns how many there are.
///
/// # Safety
/// `record_handles` is null or has room for `max_records` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_List_records(
    file_handle: c_int,
    record_handles: *mut c_int,
    max_records: c_int,
) -> c_int {
    gio_call(|| {
        let records = file(file_handle)?.records();
        let room = usize::try_from(max_records).map_err(|_| {
            ErrnoError::new(
                libc::EINVAL,
                format!("room for {max_records} records: the number must not be negative"),
            )
        })?;
        if room > 0 {
            check_pointer(record_handles)?;
        }
        for (index, record) in records.iter().take(room).enumerate() {
            let number = int(record.id.number())?;
            // SAFETY: it is not null, and the caller guarantees the room.
            unsafe { record_handles.add(index).write_unaligned(number) };
        }
        int(records.len() as u64)
    })
}

/// Destroys a record, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Delete_record(file_handle: c_int, record_handle: c_int) -> c_int {
    gio_call(|| {
        let found = file(file_handle).and_then(|file| Ok((file, record(record_handle)?)));
        let (file, record) = or_fail_round(found)?;
        file.destroy_record(record).map_err(record_error).map(|()| 0)
    })
}

/// Waits for a started access and frees its number.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Wait(request: c_int) -> c_int {
    gio_call(|| record_files::wait(request).map(|()| 0))
}

/// Returns 1 and frees the number if a started access is over, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Test(request: c_int) -> c_int {
    gio_call(|| record_files::is_done(request).map(c_int::from))
}

/// Waits for all accesses to a file that this process has started.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Wait_all(file_handle: c_int) -> c_int {
    gio_call(|| {
        file(file_handle)?;
        record_files::wait_for_all(file_handle).map(|()| 0)
    })
}

/// Defines a call in two widths: with `int`, and with `int64_t`.
macro_rules! both_widths {
    ($(
        $(#[$doc:meta])*
        $narrow:ident, $wide:ident($($name:ident: $int:ty | $long:ty),*) { $work:expr }
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Each pointer is null or points to as much memory as the other arguments say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $narrow($($name: $int),*) -> c_int {
            gio_call(|| $work)
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// Each pointer is null or points to as much memory as the other arguments say.
        #[allow(clippy::useless_conversion, reason = "the other width needs it")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wide($($name: $long),*) -> c_int {
            gio_call(|| $work)
        }
    )*};
}

both_widths! {
    /// Creates a record in even parts, collectively.
    GIO_Create_record, GIO_Create_record64(
        file_handle: c_int | c_int, record_handle: *mut c_int | *mut c_int, length: c_int | i64
    ) {
        // SAFETY: the caller guarantees it.
        unsafe {
            let found = file(file_handle).and_then(|file| Ok((file, size(length)?)));
            create(record_handle, found, |file, len| file.create_record(len))
        }
    }

    /// Creates a record with one block for each part of the file, collectively.
    GIO_Create_record_irreg, GIO_Create_record_irreg64(
        file_handle: c_int | c_int, record_handle: *mut c_int | *mut c_int,
        segs: *const c_int | *const i64, num_segs: c_int | c_int
    ) {
        // SAFETY: the caller guarantees it.
        unsafe {
            let found = sizes(segs, num_segs).and_then(|sizes| Ok((file(file_handle)?, sizes)));
            create(record_handle, found, |file, sizes| file.create_record_irregular(&sizes))
        }
    }

    /// Writes the length of a record, its number of blocks, and whether these are irregular. Each
    /// pointer may be null.
    GIO_Inq_record, GIO_Inq_record64(
        file_handle: c_int | c_int, record_handle: c_int | c_int,
        length: *mut c_int | *mut i64, num_segs: *mut c_int | *mut c_int,
        is_irregular: *mut c_int | *mut c_int
    ) {{
        let file = file(file_handle)?;
        let info = file.record(record(record_handle)?).map_err(record_error)?;
        // SAFETY: the caller guarantees it.
        unsafe {
            if !length.is_null() {
                write_out(length, narrow(info.len)?);
            }
            write_out(num_segs, int(file.parts().into())?);
            write_out(is_irregular, (!info.is_regular).into());
        }
        Ok(0)
    }}

    /// Writes the first and last byte of a record that a part holds; the last is before the first
    /// if it holds none. Returns the rank that holds the part.
    GIO_Distribution, GIO_Distribution64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, seg: c_int | c_int,
        lo: *mut c_int | *mut i64, hi: *mut c_int | *mut i64
    ) {{
        let blocks = file(file_handle)?.distribution(record(record_handle)?).map_err(record_error)?;
        let block = usize::try_from(seg).ok().and_then(|seg| blocks.get(seg));
        let block = block.ok_or_else(|| {
            let text =
                format!("block {seg} does not exist: the record has {} blocks", blocks.len());
            ErrnoError::new(libc::EINVAL, text)
        })?;
        let last = narrow::<i64>(block.start + block.len)? - 1;
        let (first, last) = (narrow(block.start)?, narrow(last)?);
        // SAFETY: the caller guarantees it.
        unsafe {
            write_out(lo, first);
            write_out(hi, last);
        }
        int(block.rank.into())
    }}

    /// Returns the rank that holds a byte of a record.
    GIO_Locate, GIO_Locate64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, position: c_int | i64
    ) {{
        let (file, record) = (file(file_handle)?, record(record_handle)?);
        int(file.locate(record, size(position)?).map_err(record_error)?.rank.into())
    }}

    /// Reads bytes `lo` to `hi` of a record: byte `i` of them to `buf[stride * i]`.
    GIO_Read, GIO_Read64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *mut c_char | *mut c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let (file, record) = (file(file_handle)?, record(record_handle)?);
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller guarantees the memory.
        let read = unsafe { file.read_to(buf.cast(), stride, record, range) };
        read.map_err(record_error).map(|()| 0)
    }}

    /// Starts a read. Returns the number of the access.
    GIO_Read_asyn, GIO_Read_asyn64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *mut c_char | *mut c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let record = record(record_handle)?;
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller keeps the memory until the access is over.
        start(file_handle, |file| unsafe { file.start_read_to(buf.cast(), stride, record, range) })
    }}

    /// Writes bytes `lo` to `hi` of a record: byte `i` of them from `buf[stride * i]`.
    GIO_Write, GIO_Write64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_char | *const c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let (file, record) = (file(file_handle)?, record(record_handle)?);
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller guarantees the memory.
        let written = unsafe { file.write_from(buf.cast(), stride, record, range) };
        written.map_err(record_error).map(|()| 0)
    }}

    /// Starts a write. Returns the number of the access.
    GIO_Write_asyn, GIO_Write_asyn64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_char | *const c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let record = record(record_handle)?;
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller keeps the memory until the access is over.
        start(file_handle, |file| unsafe {
            file.start_write_from(buf.cast(), stride, record, range)
        })
    }}

    /// Adds numbers, each times a factor, to those in bytes `lo` to `hi` of a record: number `i` of
    /// them is `buf[stride * i]`.
    GIO_Acc, GIO_Acc64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_void | *const c_void, stride: c_int | i64, type_: c_int | c_int,
        factor: *const c_void | *const c_void
    ) {{
        let (lo, hi) = (lo.into(), hi.into());
        let range = RecordRange { file: file_handle, record: record_handle, lo, hi };
        // SAFETY: the caller guarantees the numbers and the factor.
        unsafe { accumulate(range, buf, stride.into(), type_, factor, false) }
    }}

    /// Starts to add numbers. Returns the number of the access.
    GIO_Acc_asyn, GIO_Acc_asyn64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_void | *const c_void, stride: c_int | i64, type_: c_int | c_int,
        factor: *const c_void | *const c_void
    ) {{
        let (lo, hi) = (lo.into(), hi.into());
        let range = RecordRange { file: file_handle, record: record_handle, lo, hi };
        // SAFETY: the caller guarantees the factor, and keeps the numbers until the access is over.
        unsafe { accumulate(range, buf, stride.into(), type_, factor, true) }
    }}
}

/// A byte range of a record.
#[derive(Clone, Copy)]
struct RecordRange {
    file: c_int,
    record: c_int,
    lo: i64,
    hi: i64,
}

/// Adds numbers of the type `kind`.
///
/// # Safety
/// `buf` is null or points to the numbers, and `factor` is null or points to a number of the type.
unsafe fn accumulate(
    target: RecordRange,
    buf: *const c_void,
    stride: i64,
    kind: c_int,
    factor: *const c_void,
    is_started: bool,
) -> CallResult<c_int> {
    let add = match kind {
        GIO_INT => add::<i32>,
        GIO_UNSIGNED => add::<u32>,
        GIO_INT64 => add::<i64>,
        GIO_UNSIGNED64 => add::<u64>,
        GIO_FLOAT => add::<f32>,
        GIO_DOUBLE => add::<f64>,
        _ => {
            let text = format!("number type {kind} is unknown: use GIO_INT to GIO_DOUBLE");
            return Err(ErrnoError::new(libc::EINVAL, text));
        }
    };
    // SAFETY: the caller guarantees it.
    unsafe { add(target, buf, stride, factor, is_started) }
}

/// # Safety
/// As for `accumulate`.
unsafe fn add<T: Number>(
    target: RecordRange,
    buf: *const c_void,
    stride: i64,
    factor: *const c_void,
    is_started: bool,
) -> CallResult<c_int> {
    let (range, stride) = region(target.lo, target.hi, stride)?;
    let record = record(target.record)?;
    check_memory(buf, range.is_empty())?;
    check_pointer(factor.cast_mut())?;
    // SAFETY: it is not null, and the caller guarantees a number.
    let factor = unsafe { factor.cast::<T>().read_unaligned() };
    let numbers = buf.cast::<T>();
    if is_started {
        // SAFETY: the caller guarantees the numbers.
        return start(target.file, |file| unsafe {
            file.start_accumulate_from(numbers, stride, factor, record, range)
        });
    }
    let file = file(target.file)?;
    // SAFETY: as above.
    let added = unsafe { file.accumulate_from(numbers, stride, factor, record, range) };
    added.map_err(record_error).map(|()| 0)
}

/// Creates a record and writes its number.
///
/// # Safety
/// `to` is null or writable.
unsafe fn create<A>(
    to: *mut c_int,
    prepared: CallResult<(Arc<RecordFile>, A)>,
    make: impl FnOnce(&RecordFile, A) -> Result<RecordId, RecordError>,
) -> CallResult<c_int> {
    let (file, arguments) = or_fail_round(check_pointer(to).and(prepared))?;
    let made = make(&file, arguments).map_err(record_error)?;
    // SAFETY: it is not null, and the caller guarantees that it is writable.
    unsafe { write_out(to, int(made.number())?) };
    Ok(0)
}

/// Reads the sizes of blocks.
///
/// # Safety
/// `segs` is null or points to `count` numbers.
unsafe fn sizes<T: Copy + Into<i64>>(segs: *const T, count: c_int) -> CallResult<Vec<u64>> {
    let number = usize::try_from(count).map_err(|_| {
        ErrnoError::new(libc::EINVAL, format!("{count} blocks: the number must not be negative"))
    })?;
    check_memory(segs, number == 0)?;
    // SAFETY: it is not null, and the caller guarantees that many.
    (0..number).map(|seg| size(unsafe { segs.add(seg).read_unaligned() })).collect()
}

/// Converts a size or position. Fails if it is negative.
fn size(number: impl Into<i64>) -> CallResult<u64> {
    let number = number.into();
    u64::try_from(number).map_err(|_| {
        ErrnoError::new(
            libc::EINVAL,
            format!("{number} is negative: sizes and positions start at 0"),
        )
    })
}

/// Converts to `int`. Fails if the number does not fit.
fn int(number: u64) -> CallResult<c_int> {
    narrow(number)
}

/// Converts a number to a narrower type. Fails if it does not fit.
fn narrow<T>(number: impl TryInto<T> + Copy + std::fmt::Display) -> CallResult<T> {
    number.try_into().map_err(|_| {
        ErrnoError::new(
            libc::EOVERFLOW,
            format!("{number} does not fit into an int: use the call that ends with 64"),
        )
    })
}

/// Writes a value, unless the pointer is null.
///
/// # Safety
/// `to` is null or writable.
unsafe fn write_out<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller guarantees it.
        unsafe { to.write_unaligned(value) };
    }
}

/// Fails if the pointer is null.
fn check_pointer<T>(pointer: *mut T) -> CallResult<()> {
    check_memory(pointer, false)
}

fn check_memory<T>(pointer: *const T, is_nothing: bool) -> CallResult<()> {
    if pointer.is_null() && !is_nothing {
        return Err(ErrnoError::new(libc::EFAULT, "a required pointer is NULL"));
    }
    Ok(())
}
