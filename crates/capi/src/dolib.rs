//! The calls of `dolib.h`: arrays over the memory of all processes of a job.

use std::collections::HashMap;

use libc::{c_int, c_void};
use pario::memory::{Number, RawArray, TeamError};
use parking_lot::Mutex;

use crate::boundary::return_errno;
use crate::errors::{CallResult, EPFSLBADF, ErrnoError};
use crate::{process, team};

/// The number types of `do_accumulate`, as in the header.
pub const TYPES: [(&str, c_int); 6] = [
    ("DO_INT32", 1),
    ("DO_UINT32", 2),
    ("DO_INT64", 3),
    ("DO_UINT64", 4),
    ("DO_FLOAT", 5),
    ("DO_DOUBLE", 6),
];

struct ArrayTable {
    next: c_int,
    known: HashMap<c_int, RawArray>,
}

static ARRAYS: Mutex<Option<ArrayTable>> = Mutex::new(None);

/// Creates an array, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_create(elements: i64, element_bytes: i64) -> c_int {
    return_errno(|| {
        let team = team::current()?;
        let wanted = match (u64::try_from(elements), usize::try_from(element_bytes)) {
            (Ok(len), Ok(element)) => Ok((len, element)),
            _ => Err(ErrnoError::invalid(format!(
                "an array of {elements} elements of {element_bytes} bytes: neither number may be \
                 negative"
            ))),
        };
        let (len, element) = team::check_all_ranks(&team, wanted)?;
        let array = team::team_result(team.raw_array(len, element))?;
        let mut arrays = ARRAYS.lock();
        let arrays = arrays.get_or_insert_with(|| ArrayTable { next: 0, known: HashMap::new() });
        let number = arrays.next;
        arrays.next = number.checked_add(1).ok_or_else(|| {
            ErrnoError::new(
                libc::EMFILE,
                "this process has created 2147483647 arrays, and no number is left",
            )
        })?;
        arrays.known.insert(number, array);
        Ok(number)
    })
}

/// Destroys an array, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_destroy(array: c_int) -> c_int {
    return_errno(|| {
        team::or_fail_round(find(array))?;
        team::team_result(team::current()?.barrier())?;
        let known = ARRAYS.lock().as_mut().and_then(|arrays| arrays.known.remove(&array));
        drop(known);
        Ok(0)
    })
}

/// Returns the number of elements of an array.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_length(array: c_int) -> i64 {
    return_errno(|| Ok(i64::try_from(find(array)?.len()).unwrap_or(i64::MAX)))
}

/// Returns the rank that holds an element.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_owner(array: c_int, index: i64) -> c_int {
    return_errno(|| {
        let owner = team::team_result(find(array)?.owner(index_of(index)?))?;
        Ok(c_int::try_from(owner).unwrap_or(c_int::MAX))
    })
}

/// Copies consecutive elements from an array.
///
/// # Safety
/// `values` is null or has room for `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_get(
    array: c_int,
    first: i64,
    count: i64,
    values: *mut c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { memory_mut(values, count, array.element_bytes()) }?;
        team::team_result(array.get(bytes, index_of(first)?)).map(|()| 0)
    })
}

/// Copies consecutive elements to an array.
///
/// # Safety
/// `values` is null or points to `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_put(
    array: c_int,
    first: i64,
    count: i64,
    values: *const c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { memory(values, count, array.element_bytes()) }?;
        team::team_result(array.put(bytes, index_of(first)?)).map(|()| 0)
    })
}

/// Copies the elements at some indices.
///
/// # Safety
/// Each pointer is null or points to `count` indices or elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_gather(
    array: c_int,
    count: i64,
    indices: *const i64,
    values: *mut c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: the caller guarantees it.
        let indices = unsafe { indices_of(indices, count) }?;
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { memory_mut(values, count, array.element_bytes()) }?;
        team::team_result(array.gather(bytes, &indices)).map(|()| 0)
    })
}

/// Copies elements to some indices.
///
/// # Safety
/// Each pointer is null or points to `count` indices or elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_scatter(
    array: c_int,
    count: i64,
    indices: *const i64,
    values: *const c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: the caller guarantees it.
        let indices = unsafe { indices_of(indices, count) }?;
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { memory(values, count, array.element_bytes()) }?;
        team::team_result(array.scatter(bytes, &indices)).map(|()| 0)
    })
}

/// Adds numbers to the elements at some indices.
///
/// # Safety
/// Each pointer is null or points to `count` indices or numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_accumulate(
    array: c_int,
    type_: c_int,
    count: i64,
    indices: *const i64,
    values: *const c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: the caller guarantees it.
        let indices = unsafe { indices_of(indices, count) }?;
        // SAFETY: the caller guarantees it.
        let added = unsafe {
            match type_ {
                1 => add::<i32>(&array, &indices, values),
                2 => add::<u32>(&array, &indices, values),
                3 => add::<i64>(&array, &indices, values),
                4 => add::<u64>(&array, &indices, values),
                5 => add::<f32>(&array, &indices, values),
                6 => add::<f64>(&array, &indices, values),
                _ => {
                    return Err(ErrnoError::invalid(format!(
                        "number type {type_} is unknown: use DO_INT32 to DO_DOUBLE"
                    )));
                }
            }
        }?;
        team::team_result(added).map(|()| 0)
    })
}

/// Waits for all processes. Afterwards every process sees what each put before.
#[unsafe(no_mangle)]
pub extern "C" fn do_barrier() -> c_int {
    return_errno(|| team::team_result(team::current()?.barrier()).map(|()| 0))
}

unsafe fn add<T: Number>(
    array: &RawArray,
    indices: &[u64],
    values: *const c_void,
) -> CallResult<Result<(), TeamError>> {
    let count = i64::try_from(indices.len()).unwrap_or(i64::MAX);
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { memory(values, count, size_of::<T>()) }?;
    // SAFETY: every bit pattern is a number, and the read may be unaligned.
    let number = |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
    let numbers: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(number).collect();
    Ok(array.accumulate_at(&numbers, indices))
}

fn find(array: c_int) -> CallResult<RawArray> {
    process::check_fork()?;
    let found = ARRAYS.lock().as_ref().and_then(|arrays| arrays.known.get(&array).cloned());
    found.ok_or_else(|| ErrnoError::new(EPFSLBADF, format!("array {array} does not exist")))
}

fn index_of(index: i64) -> CallResult<u64> {
    u64::try_from(index).map_err(|_| {
        ErrnoError::invalid(format!("element {index} does not exist: indices start at 0"))
    })
}

fn len_of(is_null: bool, count: i64, each: usize) -> CallResult<usize> {
    let largest = isize::MAX.cast_unsigned();
    let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(each));
    let len = len.filter(|len| *len <= largest);
    let len = len.ok_or_else(|| {
        ErrnoError::invalid(format!("{count} elements of {each} bytes are not possible in memory"))
    })?;
    if is_null && len > 0 {
        return Err(ErrnoError::null_pointer("the array of values or indices"));
    }
    Ok(len)
}

unsafe fn memory<'a>(start: *const c_void, count: i64, each: usize) -> CallResult<&'a [u8]> {
    Ok(match len_of(start.is_null(), count, each)? {
        0 => &[],
        // SAFETY: it is not null, and the caller guarantees `len` bytes.
        len => unsafe { std::slice::from_raw_parts(start.cast(), len) },
    })
}

unsafe fn memory_mut<'a>(start: *mut c_void, count: i64, each: usize) -> CallResult<&'a mut [u8]> {
    Ok(match len_of(start.is_null(), count, each)? {
        0 => &mut [],
        // SAFETY: it is not null, and the caller guarantees room for `len` bytes.
        len => unsafe { std::slice::from_raw_parts_mut(start.cast(), len) },
    })
}

unsafe fn indices_of(start: *const i64, count: i64) -> CallResult<Vec<u64>> {
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { memory(start.cast(), count, size_of::<i64>()) }?;
    let index = |bytes: &[u8]| {
        let mut one = [0; 8];
        one.copy_from_slice(bytes);
        index_of(i64::from_ne_bytes(one))
    };
    bytes.chunks_exact(8).map(index).collect()
}
