//! Callbacks: functions of the program that run on the machine of any process.

use std::collections::HashMap;

use libc::{c_int, c_void};
use pario::memory::{Bulk, Callback, Pending};
use parking_lot::Mutex;

use super::access::caller_bytes;
use super::{Armci, byte_count, current};
use crate::boundary::return_errno;
use crate::errors::{CallResult, ErrnoError};
use crate::team::{check_all_ranks, team_result};

/// A callback: calling rank, target rank, header, data, and memory for the result.
pub type RucT = unsafe extern "C" fn(
    c_int,
    c_int,
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    *mut c_void,
    c_int,
    *mut c_int,
) -> c_int;

/// Registered callbacks, and calls under way.
#[derive(Default)]
pub struct CallbackTable {
    functions: Mutex<Vec<Callback>>,
    calls: Mutex<(c_int, HashMap<c_int, PendingArmciCall>)>,
}

/// A call under way, and the memory for its result.
struct PendingArmciCall {
    pending: Pending<Bulk>,
    result: *mut c_void,
    room: usize,
    len: *mut c_int,
}

// SAFETY: the program has lent the memory until it waits for the call.
unsafe impl Send for PendingArmciCall {}

/// Length of the field before the header: the room for the result.
const ROOM_BYTES: usize = 4;

/// Calls a function of the program in the data server.
fn run(function: RucT, call: &pario::memory::CallbackCall<'_>) -> Result<Vec<u8>, String> {
    let Some((room, header)) = call.header.split_first_chunk::<ROOM_BYTES>() else {
        return Err("the request has no header".to_owned());
    };
    let room = usize::try_from(i32::from_le_bytes(*room)).unwrap_or(0);
    let number = |len: usize| c_int::try_from(len).unwrap_or(c_int::MAX);
    let rank = |rank: u32| c_int::try_from(rank).unwrap_or(c_int::MAX);
    let mut result = vec![0_u8; room];
    let mut len = 0;
    // SAFETY: the function belongs to the program, and each length that it gets is that of the
    // memory.
    let returned = unsafe {
        function(
            rank(call.from),
            rank(call.target),
            header.as_ptr().cast(),
            number(header.len()),
            call.data.as_ptr().cast(),
            number(call.data.len()),
            result.as_mut_ptr().cast(),
            number(room),
            &raw mut len,
        )
    };
    if returned != 0 {
        return Err(format!("the callback returned {returned}"));
    }
    match usize::try_from(len) {
        Ok(len) if len <= room => result.truncate(len),
        _ => {
            return Err(format!(
                "the callback claims a result of {len} bytes, but has room for {room}"
            ));
        }
    }
    Ok(result)
}

/// Registers a callback, collectively. Returns its handle.
///
/// # Safety
/// `func` is null or behaves as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Callback_register(func: Option<RucT>) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let func = func.ok_or_else(|| ErrnoError::invalid("the callback function is NULL"));
        let func = check_all_ranks(&armci.team, func)?;
        let callback = team_result(armci.team.callback(move |call| run(func, call)))?;
        let mut functions = armci.callbacks.functions.lock();
        functions.push(callback);
        Ok(c_int::try_from(functions.len() - 1).unwrap_or(c_int::MAX))
    })
}

/// Starts a call of a callback on the machine of a process. Returns the request's number.
///
/// # Safety
/// Header, data and the room for the result are as long as their sizes say, and stay until the
/// program waits for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Callback_send(
    h: c_int,
    proc: c_int,
    header: *mut c_void,
    header_size: c_int,
    data: *mut c_void,
    data_size: c_int,
    result: *mut c_void,
    exp_res_size: c_int,
    res_size: *mut c_int,
) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        let callback = function(&armci, h)?;
        let room = byte_count(exp_res_size)?;
        if room > 0 && result.is_null() {
            return Err(ErrnoError::invalid("the memory for the callback's result is NULL"));
        }
        // SAFETY: the caller guarantees it.
        let (header, data) = unsafe {
            (
                caller_bytes(header, byte_count(header_size)?)?,
                caller_bytes(data, byte_count(data_size)?)?,
            )
        };
        let header = [&exp_res_size.to_le_bytes()[..], header].concat();
        let pending = team_result(callback.start(&header, data, rank))?;
        let (last, calls) = &mut *armci.callbacks.calls.lock();
        *last = last.checked_add(1).unwrap_or(1);
        calls.insert(*last, PendingArmciCall { pending, result, room, len: res_size });
        Ok(*last)
    })
}

fn function(armci: &Armci, handle: c_int) -> CallResult<Callback> {
    let functions = armci.callbacks.functions.lock();
    let found = usize::try_from(handle).ok().and_then(|number| functions.get(number).cloned());
    found.ok_or_else(|| ErrnoError::invalid(format!("callback {handle} is not registered")))
}

/// Waits for a call of a callback.
///
/// # Safety
/// The memory that was passed to `ARMCI_Callback_send` is still valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Callback_wait(rqid: c_int) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let call = armci.callbacks.calls.lock().1.remove(&rqid);
        let call = call.ok_or_else(|| {
            ErrnoError::invalid(format!("no callback request with number {rqid} is under way"))
        })?;
        let bytes = team_result(call.pending.wait())?;
        let len = bytes.len().min(call.room);
        // SAFETY: the caller of `ARMCI_Callback_send` guaranteed the room.
        unsafe {
            if len > 0 {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), call.result.cast(), len);
            }
            if !call.len.is_null() {
                call.len.write_unaligned(c_int::try_from(len).unwrap_or(c_int::MAX));
            }
        }
        Ok(0)
    })
}
