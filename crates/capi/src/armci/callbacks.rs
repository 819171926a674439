//! Functions of the program that run at the machine of any process.

use std::collections::HashMap;

use libc::{c_int, c_void};
use pario::team::{Callback, PendingCallback};
use parking_lot::Mutex;

use super::access::own;
use super::{Armci, current, length};
use crate::border::returning;
use crate::errors::{Done, Failed};
use crate::team::{all_fine, done};

/// A function of the program: who calls, for which process, with what, and where its result goes.
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

/// Functions that were registered, and calls under way.
#[derive(Default)]
pub struct Callbacks {
    functions: Mutex<Vec<Callback>>,
    calls: Mutex<(c_int, HashMap<c_int, Call>)>,
}

/// A call under way, and where its result goes.
struct Call {
    pending: PendingCallback,
    result: *mut c_void,
    room: usize,
    len: *mut c_int,
}

// SAFETY: the program has lent the memory until the call is waited for.
unsafe impl Send for Call {}

/// Bytes in front of the header that say how long a result may be.
const ROOM_BYTES: usize = 4;

/// Has the data server call a function of the program.
fn run(function: RucT, call: &pario::team::CallbackCall<'_>) -> Result<Vec<u8>, String> {
    let Some((room, header)) = call.header.split_first_chunk::<ROOM_BYTES>() else {
        return Err("a call without a head".to_owned());
    };
    let room = usize::try_from(i32::from_le_bytes(*room)).unwrap_or(0);
    let number = |len: usize| c_int::try_from(len).unwrap_or(c_int::MAX);
    let rank = |rank: u32| c_int::try_from(rank).unwrap_or(c_int::MAX);
    let mut result = vec![0_u8; room];
    let mut len = 0;
    // SAFETY: the function is one of the program, and gets memory of the lengths that it is told.
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
        return Err(format!("it returned {returned}"));
    }
    match usize::try_from(len) {
        Ok(len) if len <= room => result.truncate(len),
        _ => return Err(format!("it says that {len} bytes are its result, of {room} at most")),
    }
    Ok(result)
}

/// Registers a function, together with all others; what it is called from now on.
///
/// # Safety
/// The function must do as the header says, or be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Callback_register(func: Option<RucT>) -> c_int {
    returning(|| {
        let armci = current()?;
        let func = func.ok_or_else(|| Failed::invalid("a null pointer for a callback"));
        let func = all_fine(&armci.team, func)?;
        let callback = done(armci.team.callback(move |call| run(func, call)))?;
        let mut functions = armci.callbacks.functions.lock();
        functions.push(callback);
        Ok(c_int::try_from(functions.len() - 1).unwrap_or(c_int::MAX))
    })
}

/// Begins to call a function at the machine of a process; the number to wait for.
///
/// # Safety
/// Header, data and room for the result must be as long as is said, and stay until it was waited for.
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
    returning(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        let callback = function(&armci, h)?;
        let room = length(exp_res_size)?;
        if room > 0 && result.is_null() {
            return Err(Failed::invalid("a null pointer for the result of a callback"));
        }
        // SAFETY: the caller says so.
        let (header, data) =
            unsafe { (own(header, length(header_size)?)?, own(data, length(data_size)?)?) };
        let header = [&exp_res_size.to_le_bytes()[..], header].concat();
        let pending = done(callback.start(rank, &header, data))?;
        let (last, calls) = &mut *armci.callbacks.calls.lock();
        *last = last.checked_add(1).unwrap_or(1);
        calls.insert(*last, Call { pending, result, room, len: res_size });
        Ok(*last)
    })
}

fn function(armci: &Armci, handle: c_int) -> Done<Callback> {
    let functions = armci.callbacks.functions.lock();
    let found = usize::try_from(handle).ok().and_then(|number| functions.get(number).cloned());
    found.ok_or_else(|| Failed::invalid(format!("there is no callback {handle}")))
}

/// Waits for a call of a function.
///
/// # Safety
/// What was given to `ARMCI_Callback_send` must still be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Callback_wait(rqid: c_int) -> c_int {
    returning(|| {
        let armci = current()?;
        let call = armci.callbacks.calls.lock().1.remove(&rqid);
        let call = call.ok_or_else(|| Failed::invalid(format!("no call {rqid} is under way")))?;
        let bytes = done(call.pending.wait())?;
        let len = bytes.len().min(call.room);
        // SAFETY: there is room for so many bytes, as was said when it was sent.
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
