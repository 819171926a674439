//! The calls of `dolib.h`: arrays over the memory of all processes.

use std::collections::HashMap;

use libc::{c_int, c_void};
use pario::team::{Number, RawArray, TeamError};
use parking_lot::Mutex;

use crate::boundary::return_errno;
use crate::errors::{CallError, CallResult, EPFSLBADF};
use crate::{process, team};

/// The types of numbers that can be added, as in the header.
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

/// Makes an array of so many elements of so many bytes, together with all.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_create(elements: i64, element_bytes: i64) -> c_int {
    return_errno(|| {
        let team = team::current()?;
        let wanted = match (u64::try_from(elements), usize::try_from(element_bytes)) {
            (Ok(len), Ok(element)) => Ok((len, element)),
            _ => Err(CallError::invalid(format!("{elements} elements of {element_bytes} bytes"))),
        };
        let (len, element) = team::check_all_ranks(&team, wanted)?;
        let array = team::team_result(team.raw_array(len, element))?;
        let mut arrays = ARRAYS.lock();
        let arrays = arrays.get_or_insert_with(|| ArrayTable { next: 0, known: HashMap::new() });
        let number = arrays.next;
        arrays.next = number.checked_add(1).ok_or_else(|| {
            CallError::new(libc::EMFILE, "this process has used up the numbers of arrays")
        })?;
        arrays.known.insert(number, array);
        Ok(number)
    })
}

/// Gives an array up, together with all.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_destroy(array: c_int) -> c_int {
    return_errno(|| {
        find(array)?;
        team::team_result(team::current()?.barrier())?;
        let known = ARRAYS.lock().as_mut().and_then(|arrays| arrays.known.remove(&array));
        drop(known);
        Ok(0)
    })
}

/// How many elements an array has.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_length(array: c_int) -> i64 {
    return_errno(|| Ok(i64::try_from(find(array)?.len()).unwrap_or(i64::MAX)))
}

/// Which process has an element.
#[unsafe(no_mangle)]
pub extern "C" fn do_array_owner(array: c_int, index: i64) -> c_int {
    return_errno(|| {
        let owner = team::team_result(find(array)?.owner(index_of(index)?))?;
        Ok(c_int::try_from(owner).unwrap_or(c_int::MAX))
    })
}

/// Copies elements from an array, from one on.
///
/// # Safety
/// The pointer is null, or has room for so many elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_get(
    array: c_int,
    first: i64,
    count: i64,
    values: *mut c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: as the caller says.
        let bytes = unsafe { memory_mut(values, count, array.element_bytes()) }?;
        team::team_result(array.get(index_of(first)?, bytes)).map(|()| 0)
    })
}

/// Copies elements to an array, from one on.
///
/// # Safety
/// The pointer is null, or has so many elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_put(
    array: c_int,
    first: i64,
    count: i64,
    values: *const c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: as the caller says.
        let bytes = unsafe { memory(values, count, array.element_bytes()) }?;
        team::team_result(array.put(index_of(first)?, bytes)).map(|()| 0)
    })
}

/// Copies the elements with these indices.
///
/// # Safety
/// Each pointer is null, or leads to so many indices or elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_gather(
    array: c_int,
    count: i64,
    indices: *const i64,
    values: *mut c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: as the caller says.
        let indices = unsafe { indices_of(indices, count) }?;
        // SAFETY: as the caller says.
        let bytes = unsafe { memory_mut(values, count, array.element_bytes()) }?;
        team::team_result(array.gather(&indices, bytes)).map(|()| 0)
    })
}

/// Copies elements to these indices.
///
/// # Safety
/// Each pointer is null, or leads to so many indices or elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_scatter(
    array: c_int,
    count: i64,
    indices: *const i64,
    values: *const c_void,
) -> c_int {
    return_errno(|| {
        let array = find(array)?;
        // SAFETY: as the caller says.
        let indices = unsafe { indices_of(indices, count) }?;
        // SAFETY: as the caller says.
        let bytes = unsafe { memory(values, count, array.element_bytes()) }?;
        team::team_result(array.scatter(&indices, bytes)).map(|()| 0)
    })
}

/// Adds numbers of a type to the elements with these indices.
///
/// # Safety
/// Each pointer is null, or leads to so many indices or numbers.
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
        // SAFETY: as the caller says.
        let indices = unsafe { indices_of(indices, count) }?;
        // SAFETY: as the caller says.
        let added = unsafe {
            match type_ {
                1 => add::<i32>(&array, &indices, values),
                2 => add::<u32>(&array, &indices, values),
                3 => add::<i64>(&array, &indices, values),
                4 => add::<u64>(&array, &indices, values),
                5 => add::<f32>(&array, &indices, values),
                6 => add::<f64>(&array, &indices, values),
                _ => return Err(CallError::invalid(format!("{type_} is no type of numbers"))),
            }
        }?;
        team::team_result(added).map(|()| 0)
    })
}

/// Waits until all processes are here; what each has put before is seen by all afterwards.
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
    // SAFETY: as the caller says.
    let bytes = unsafe { memory(values, count, size_of::<T>()) }?;
    // SAFETY: every pattern of bits is a number, and the bytes need not be aligned.
    let number = |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
    let numbers: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(number).collect();
    Ok(array.accumulate_at(indices, &numbers))
}

fn find(array: c_int) -> CallResult<RawArray> {
    process::check_fork()?;
    let found = ARRAYS.lock().as_ref().and_then(|arrays| arrays.known.get(&array).cloned());
    found.ok_or_else(|| CallError::new(EPFSLBADF, format!("there is no array {array}")))
}

fn index_of(index: i64) -> CallResult<u64> {
    u64::try_from(index).map_err(|_| CallError::invalid(format!("there is no element {index}")))
}

fn len_of(is_null: bool, count: i64, each: usize) -> CallResult<usize> {
    let largest = isize::MAX.cast_unsigned();
    let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(each));
    let len = len.filter(|len| *len <= largest);
    let len = len.ok_or_else(|| CallError::invalid(format!("{count} elements of {each} bytes")))?;
    if is_null && len > 0 {
        return Err(CallError::null_pointer("the memory"));
    }
    Ok(len)
}

unsafe fn memory<'a>(start: *const c_void, count: i64, each: usize) -> CallResult<&'a [u8]> {
    Ok(match len_of(start.is_null(), count, each)? {
        0 => &[],
        // SAFETY: it is not null, and the caller says that so many bytes are there.
        len => unsafe { std::slice::from_raw_parts(start.cast(), len) },
    })
}

unsafe fn memory_mut<'a>(start: *mut c_void, count: i64, each: usize) -> CallResult<&'a mut [u8]> {
    Ok(match len_of(start.is_null(), count, each)? {
        0 => &mut [],
        // SAFETY: it is not null, and the caller says that there is room for so many bytes.
        len => unsafe { std::slice::from_raw_parts_mut(start.cast(), len) },
    })
}

unsafe fn indices_of(start: *const i64, count: i64) -> CallResult<Vec<u64>> {
    // SAFETY: as the caller says.
    let bytes = unsafe { memory(start.cast(), count, size_of::<i64>()) }?;
    let index = |bytes: &[u8]| {
        let mut one = [0; 8];
        one.copy_from_slice(bytes);
        index_of(i64::from_ne_bytes(one))
    };
    bytes.chunks_exact(8).map(index).collect()
}
