//! Messages between two processes, notifications, and the clock.

use libc::{c_double, c_int, c_void};
use pario::memory::Message;

use super::access::{caller_bytes, caller_bytes_mut};
use super::message_layer::layer;
use super::{byte_count, current};
use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::team::team_result;

/// Tags of the program; those of notifications have other high bits.
fn program_tag(tag: c_int) -> u64 {
    u64::from(tag.cast_unsigned())
}

/// The tag of notifications.
const NOTIFICATION: u64 = 1 << 32;

/// Sends a message. Returns when the buffer can be used again.
///
/// # Safety
/// `buffer` is null or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_snd(tag: c_int, buffer: *mut c_void, len: c_int, to: c_int) {
    exit_on_error("armci_msg_snd", || {
        let layer = layer()?;
        let to = layer.rank(to)?;
        // SAFETY: the caller guarantees it.
        let bytes = unsafe { caller_bytes(buffer, byte_count(len)?)? };
        team_result(layer.messaging.send(bytes, to, program_tag(tag)))
    });
}

/// Receives a message of a process, or of any if there is none.
///
/// # Safety
/// `buffer` is null or has room for `room` bytes; `len` is null or points to a number.
unsafe fn receive(
    tag: c_int,
    buffer: *mut c_void,
    room: c_int,
    len: *mut c_int,
    from: Option<c_int>,
) -> CallResult<c_int> {
    let layer = layer()?;
    let from = from.map(|from| layer.rank(from)).transpose()?;
    // SAFETY: the caller guarantees it.
    let own = unsafe { caller_bytes_mut(buffer, byte_count(room)?)? };
    let Message { from, bytes, .. } = team_result(layer.messaging.receive(from, program_tag(tag)))?;
    let Some(place) = own.get_mut(..bytes.len()) else {
        return Err(ErrnoError::new(
            libc::EMSGSIZE,
            format!(
                "the message of process {from} with tag {tag} has {} bytes, and the buffer has \
                 room for {room}",
                bytes.len()
            ),
        ));
    };
    place.copy_from_slice(&bytes);
    if !len.is_null() {
        // SAFETY: the caller guarantees a number.
        unsafe { len.write_unaligned(c_int::try_from(bytes.len()).unwrap_or(c_int::MAX)) };
    }
    Ok(c_int::try_from(from).unwrap_or(c_int::MAX))
}

/// Receives a message of a process.
///
/// # Safety
/// `buffer` is null or has room for `buflen` bytes; `msglen` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_rcv(
    tag: c_int,
    buffer: *mut c_void,
    buflen: c_int,
    msglen: *mut c_int,
    from: c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_rcv", || unsafe { receive(tag, buffer, buflen, msglen, Some(from)) });
}

/// Receives a message of any process. Returns the process.
///
/// # Safety
/// `buffer` is null or has room for `buflen` bytes; `msglen` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_rcvany(
    tag: c_int,
    buffer: *mut c_void,
    buflen: c_int,
    msglen: *mut c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    exit_on_error("armci_msg_rcvany", || unsafe { receive(tag, buffer, buflen, msglen, None) })
}

/// Notifies a process, after all requests to it are complete. Returns the number of notifications
/// sent to it.
#[unsafe(no_mangle)]
pub extern "C" fn armci_notify(proc: c_int) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        armci.finish(|own| own == rank)?;
        let layer = layer()?;
        team_result(layer.messaging.send(&[], rank, NOTIFICATION))?;
        let mut notified = layer.notified.lock();
        let (sent, _) = notified.entry(rank).or_default();
        *sent += 1;
        Ok(*sent)
    })
}

/// Waits for the next notification of a process. Writes the number of waits for that process to
/// `pval`, and returns the number of notifications that have come from it.
///
/// # Safety
/// `pval` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_notify_wait(proc: c_int, pval: *mut c_int) -> c_int {
    return_errno(|| {
        let layer = layer()?;
        let rank = layer.rank(proc)?;
        let message = team_result(layer.messaging.receive(Some(rank), NOTIFICATION))?;
        let mut notified = layer.notified.lock();
        let (_, waited) = notified.entry(rank).or_default();
        *waited += 1;
        if !pval.is_null() {
            // SAFETY: the caller guarantees a number.
            unsafe { pval.write_unaligned(*waited) };
        }
        Ok(*waited + c_int::try_from(message.queued).unwrap_or(0))
    })
}

/// Returns seconds of a monotonic clock.
#[unsafe(no_mangle)]
pub extern "C" fn armci_timer() -> c_double {
    crate::nx::dclock()
}
