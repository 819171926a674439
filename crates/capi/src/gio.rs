//! The calls of `gio.h`: record files. Each returns -1 and sets `errno` when it fails.
#![allow(non_snake_case, reason = "the names are those of GIO")]

use libc::{c_char, c_int, c_void};
use pario::records::{RecordFile, RecordId};
use pario::team::Number;

use crate::errors::{CallError, CallResult};
use crate::record_files::{self, file, gio_call, path, record, record_error, region, start};
use crate::team;

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

/// Which process this is.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Rank() -> c_int {
    gio_call(|| int(u64::from(team::current()?.rank())))
}

/// How many processes there are.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Size() -> c_int {
    gio_call(|| int(u64::from(team::current()?.size())))
}

/// Waits until all processes are here.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Barrier() -> c_int {
    gio_call(|| {
        let met = team::current()?.barrier();
        met.map_err(|error| CallError::new(team::errno_of(&error), error.to_string()))?;
        Ok(0)
    })
}

/// The text of the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Error() -> *const c_char {
    record_files::last_text()
}

/// Opens a record file together with all others, or makes it.
///
/// # Safety
/// The path is null or a text; the handle is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Open(path_name: *const c_char, file_handle: *mut c_int) -> c_int {
    gio_call(|| {
        check_pointer(file_handle)?;
        // SAFETY: the caller says so.
        let path = unsafe { path(path_name)? };
        let file = RecordFile::open_or_create(&team::current()?, path).map_err(record_error)?;
        // SAFETY: as above, and it is not null.
        unsafe { file_handle.write_unaligned(record_files::add(file)) };
        Ok(0)
    })
}

/// Closes a record file together with all others, when everything is durable.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Close(file_handle: c_int) -> c_int {
    gio_call(|| record_files::remove(file_handle)?.finish().map_err(record_error).map(|()| 0))
}

/// Makes everything durable, together with all others.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Sync(file_handle: c_int) -> c_int {
    gio_call(|| file(file_handle)?.sync().map_err(record_error).map(|()| 0))
}

/// Deletes a record file that nobody has open, together with all others.
///
/// # Safety
/// The path is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Delete_file(path_name: *const c_char) -> c_int {
    gio_call(|| {
        // SAFETY: the caller says so.
        let path = unsafe { path(path_name)? };
        RecordFile::delete(&team::current()?, path).map_err(record_error).map(|()| 0)
    })
}

/// What is known of a file: how many parts and records it has. What is not wanted may be null.
///
/// # Safety
/// Each pointer is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_Inq_file(
    file_handle: c_int,
    num_parts: *mut c_int,
    num_records: *mut c_int,
) -> c_int {
    gio_call(|| {
        let file = file(file_handle)?;
        // SAFETY: the caller says so.
        unsafe {
            write_out(num_parts, int(file.parts().into())?);
            write_out(num_records, int(file.records().len() as u64)?);
        }
        Ok(0)
    })
}

/// The numbers of the records, as many as there is room for. Returns how many there are.
///
/// # Safety
/// There is room for as many as it says, or the pointer is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GIO_List_records(
    file_handle: c_int,
    record_handles: *mut c_int,
    max_records: c_int,
) -> c_int {
    gio_call(|| {
        let records = file(file_handle)?.records();
        let room = usize::try_from(max_records)
            .map_err(|_| CallError::new(libc::EINVAL, format!("room for {max_records} records")))?;
        if room > 0 {
            check_pointer(record_handles)?;
        }
        for (place, record) in records.iter().take(room).enumerate() {
            let number = int(record.id.number())?;
            // SAFETY: the caller says that there is room, and it is not null.
            unsafe { record_handles.add(place).write_unaligned(number) };
        }
        int(records.len() as u64)
    })
}

/// Destroys a record, together with all others.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Delete_record(file_handle: c_int, record_handle: c_int) -> c_int {
    gio_call(|| {
        let (file, record) = (file(file_handle)?, record(record_handle)?);
        file.destroy_record(record).map_err(record_error).map(|()| 0)
    })
}

/// Waits for an access that was started. Its number is free then.
#[unsafe(no_mangle)]
pub extern "C" fn GIO_Wait(request: c_int) -> c_int {
    gio_call(|| record_files::wait(request).map(|()| 0))
}

/// Whether an access that was started is over: 1, and its number is free, or 0.
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

/// Makes a call in two widths: with `int`, and with 64 bits.
macro_rules! both_widths {
    ($(
        $(#[$doc:meta])*
        $narrow:ident, $wide:ident($($name:ident: $int:ty | $long:ty),*) { $work:expr }
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Each pointer is null, or leads to as much memory as the other arguments say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $narrow($($name: $int),*) -> c_int {
            gio_call(|| $work)
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// Each pointer is null, or leads to as much memory as the other arguments say.
        #[allow(clippy::useless_conversion, reason = "the other width needs it")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $wide($($name: $long),*) -> c_int {
            gio_call(|| $work)
        }
    )*};
}

both_widths! {
    /// Makes a record that is cut evenly, together with all others.
    GIO_Create_record, GIO_Create_record64(
        file_handle: c_int | c_int, record_handle: *mut c_int | *mut c_int, length: c_int | i64
    ) {
        // SAFETY: the caller says so.
        unsafe {
            create(record_handle, || {
                let record = file(file_handle)?.create_record(size(length)?);
                record.map_err(record_error)
            })
        }
    }

    /// Makes a record with one block for each part of the file, together with all others.
    GIO_Create_record_irreg, GIO_Create_record_irreg64(
        file_handle: c_int | c_int, record_handle: *mut c_int | *mut c_int,
        segs: *const c_int | *const i64, num_segs: c_int | c_int
    ) {
        // SAFETY: the caller says so.
        unsafe {
            create(record_handle, || {
                let sizes = sizes(segs, num_segs)?;
                file(file_handle)?.create_record_irregular(&sizes).map_err(record_error)
            })
        }
    }

    /// How long a record is, how many blocks it has and whether these are irregular. What is not
    /// wanted may be null.
    GIO_Inq_record, GIO_Inq_record64(
        file_handle: c_int | c_int, record_handle: c_int | c_int,
        length: *mut c_int | *mut i64, num_segs: *mut c_int | *mut c_int,
        is_irregular: *mut c_int | *mut c_int
    ) {{
        let file = file(file_handle)?;
        let info = file.record(record(record_handle)?).map_err(record_error)?;
        // SAFETY: the caller says so.
        unsafe {
            if !length.is_null() {
                write_out(length, narrow(info.len)?);
            }
            write_out(num_segs, int(file.parts().into())?);
            write_out(is_irregular, (!info.is_regular).into());
        }
        Ok(0)
    }}

    /// The first and the last byte of a record that a part holds; if it holds none, the last is
    /// before the first. Returns the process that has the part.
    GIO_Distribution, GIO_Distribution64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, seg: c_int | c_int,
        lo: *mut c_int | *mut i64, hi: *mut c_int | *mut i64
    ) {{
        let blocks = file(file_handle)?.distribution(record(record_handle)?).map_err(record_error)?;
        let block = usize::try_from(seg).ok().and_then(|seg| blocks.get(seg));
        let block = block.ok_or_else(|| {
            let text = format!("there are {} blocks, and so no block {seg}", blocks.len());
            CallError::new(libc::EINVAL, text)
        })?;
        let last = narrow::<i64>(block.start + block.len)? - 1;
        let (first, last) = (narrow(block.start)?, narrow(last)?);
        // SAFETY: the caller says so.
        unsafe {
            write_out(lo, first);
            write_out(hi, last);
        }
        int(block.rank.into())
    }}

    /// The process that has a byte of a record.
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
        // SAFETY: the caller says that the memory is there.
        unsafe { file.read_to(record, range, buf.cast(), stride) }.map_err(record_error).map(|()| 0)
    }}

    /// Starts to read. Returns the number of the access.
    GIO_Read_asyn, GIO_Read_asyn64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *mut c_char | *mut c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let record = record(record_handle)?;
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller says that the memory is there until the access is over.
        start(file_handle, |file| unsafe { file.start_read_to(record, range, buf.cast(), stride) })
    }}

    /// Writes bytes `lo` to `hi` of a record: byte `i` of them from `buf[stride * i]`.
    GIO_Write, GIO_Write64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_char | *const c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let (file, record) = (file(file_handle)?, record(record_handle)?);
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller says that the memory is there.
        unsafe { file.write_from(record, range, buf.cast(), stride) }.map_err(record_error).map(|()| 0)
    }}

    /// Starts to write. Returns the number of the access.
    GIO_Write_asyn, GIO_Write_asyn64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_char | *const c_char, stride: c_int | i64
    ) {{
        let (range, stride) = region(lo.into(), hi.into(), stride.into())?;
        let record = record(record_handle)?;
        check_memory(buf, range.is_empty())?;
        // SAFETY: the caller says that the memory is there until the access is over.
        start(file_handle, |file| unsafe {
            file.start_write_from(record, range, buf.cast(), stride)
        })
    }}

    /// Adds numbers of a type, each times a factor, to those in bytes `lo` to `hi` of a record:
    /// number `i` of them is `buf[stride * i]`.
    GIO_Acc, GIO_Acc64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_void | *const c_void, stride: c_int | i64, type_: c_int | c_int,
        factor: *const c_void | *const c_void
    ) {{
        let place = RecordRange { file: file_handle, record: record_handle, lo: lo.into(), hi: hi.into() };
        // SAFETY: the caller says that the numbers and the factor are there.
        unsafe { accumulate(place, buf, stride.into(), type_, factor, false) }
    }}

    /// Starts to add numbers. Returns the number of the access.
    GIO_Acc_asyn, GIO_Acc_asyn64(
        file_handle: c_int | c_int, record_handle: c_int | c_int, lo: c_int | i64, hi: c_int | i64,
        buf: *const c_void | *const c_void, stride: c_int | i64, type_: c_int | c_int,
        factor: *const c_void | *const c_void
    ) {{
        let place = RecordRange { file: file_handle, record: record_handle, lo: lo.into(), hi: hi.into() };
        // SAFETY: the caller says that the numbers are there until the access is over.
        unsafe { accumulate(place, buf, stride.into(), type_, factor, true) }
    }}
}

/// Bytes of a record of a file.
#[derive(Clone, Copy)]
struct RecordRange {
    file: c_int,
    record: c_int,
    lo: i64,
    hi: i64,
}

/// Adds numbers of the type that is wanted.
///
/// # Safety
/// The numbers are there, if it is not null, and so is the factor.
unsafe fn accumulate(
    place: RecordRange,
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
            let text = format!("{kind} is no type of numbers: use GIO_INT to GIO_DOUBLE");
            return Err(CallError::new(libc::EINVAL, text));
        }
    };
    // SAFETY: the caller says so.
    unsafe { add(place, buf, stride, factor, is_started) }
}

/// # Safety
/// As of `accumulate`.
unsafe fn add<T: Number>(
    place: RecordRange,
    buf: *const c_void,
    stride: i64,
    factor: *const c_void,
    is_started: bool,
) -> CallResult<c_int> {
    let (range, stride) = region(place.lo, place.hi, stride)?;
    let record = record(place.record)?;
    check_memory(buf, range.is_empty())?;
    check_pointer(factor.cast_mut())?;
    // SAFETY: it is not null, and the caller says that it is there.
    let factor = unsafe { factor.cast::<T>().read_unaligned() };
    let numbers = buf.cast::<T>();
    if is_started {
        // SAFETY: the caller says that the numbers are there.
        return start(place.file, |file| unsafe {
            file.start_accumulate_from(record, range, factor, numbers, stride)
        });
    }
    let file = file(place.file)?;
    // SAFETY: as above.
    let added = unsafe { file.accumulate_from(record, range, factor, numbers, stride) };
    added.map_err(record_error).map(|()| 0)
}

/// Makes a record, and tells its number.
///
/// # Safety
/// The place is null, or can be written.
unsafe fn create(
    place: *mut c_int,
    make: impl FnOnce() -> CallResult<RecordId>,
) -> CallResult<c_int> {
    check_pointer(place)?;
    let made = make()?;
    // SAFETY: it is not null, and the caller says that it can be written.
    unsafe { write_out(place, int(made.number())?) };
    Ok(0)
}

/// The sizes of blocks.
///
/// # Safety
/// The list is null, or has so many numbers.
unsafe fn sizes<T: Copy + Into<i64>>(segs: *const T, count: c_int) -> CallResult<Vec<u64>> {
    let number = usize::try_from(count)
        .map_err(|_| CallError::new(libc::EINVAL, format!("{count} is no number of blocks")))?;
    check_memory(segs, number == 0)?;
    // SAFETY: the caller says that there are so many, and it is not null.
    (0..number).map(|seg| size(unsafe { segs.add(seg).read_unaligned() })).collect()
}

/// A size or a place, which is not negative.
fn size(number: impl Into<i64>) -> CallResult<u64> {
    let number = number.into();
    u64::try_from(number).map_err(|_| {
        CallError::new(libc::EINVAL, format!("{number} is no size and no place: it is negative"))
    })
}

/// A number that an `int` holds.
fn int(number: u64) -> CallResult<c_int> {
    narrow(number)
}

/// A number that fits where it is wanted.
fn narrow<T>(number: impl TryInto<T> + Copy + std::fmt::Display) -> CallResult<T> {
    number.try_into().map_err(|_| {
        CallError::new(
            libc::EOVERFLOW,
            format!("{number} is too large: use the call that ends with 64"),
        )
    })
}

/// Tells something, if it is wanted.
///
/// # Safety
/// The place is null, or can be written.
unsafe fn write_out<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller says so.
        unsafe { place.write_unaligned(value) };
    }
}

/// A pointer that is needed.
fn check_pointer<T>(pointer: *mut T) -> CallResult<()> {
    check_memory(pointer, false)
}

fn check_memory<T>(pointer: *const T, is_nothing: bool) -> CallResult<()> {
    if pointer.is_null() && !is_nothing {
        return Err(CallError::new(libc::EFAULT, "a pointer is NULL"));
    }
    Ok(())
}
