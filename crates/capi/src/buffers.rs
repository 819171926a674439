//! Buffers of callers: checked as far as possible, gathered and scattered.

use std::borrow::Cow;

use libc::{c_int, c_void, iovec};

use crate::errors::{CallResult, EPFSLIOLEN, ErrnoError};

/// Most bytes per call: the largest `int`, so that negative sizes are detected.
pub const MAX_CALL_BYTES: usize = 0x7fff_ffff;

/// Most buffers per call, the system's IOV_MAX.
pub const MAX_BUFFERS: c_int = 1024;

/// Buffers of a caller, which keeps them and leaves them alone until the call, or the request that
/// it starts, is over.
#[derive(Debug)]
pub struct CallerBuffers(Vec<(*mut u8, usize)>);

// SAFETY: the caller has lent the memory for the duration of the call or the request.
unsafe impl Send for CallerBuffers {}
// SAFETY: see above; a shared reference only reads it.
unsafe impl Sync for CallerBuffers {}

impl CallerBuffers {
    /// Wraps one buffer. Fails if it is null or too long.
    ///
    /// # Safety
    /// `start` is null or points to `len` bytes, which are left alone until the call or the request
    /// is over.
    pub unsafe fn single(start: *mut c_void, len: usize) -> CallResult<Self> {
        check_len(len)?;
        check_start(start, len)?;
        Ok(Self(vec![(start.cast(), len)]))
    }

    /// Wraps several buffers. Fails if there are too many, or if one is null or all are too long.
    ///
    /// # Safety
    /// `list` is null or points to `count` entries. Each is null or as long as it says. The buffers
    /// are left alone until the call or the request is over.
    pub unsafe fn vectored(list: *const iovec, count: c_int) -> CallResult<Self> {
        let number = usize::try_from(count).ok().filter(|_| count <= MAX_BUFFERS);
        let Some(number) = number else {
            return Err(ErrnoError::invalid(format!(
                "{count} buffers in one call: pass 0 to {MAX_BUFFERS}"
            )));
        };
        if number == 0 {
            return Ok(Self(Vec::new()));
        }
        if list.is_null() {
            return Err(ErrnoError::null_pointer("the array of buffers"));
        }
        // SAFETY: the list is not null, and the caller guarantees its length.
        let list = unsafe { std::slice::from_raw_parts(list, number) };
        let mut all: usize = 0;
        for buffer in list {
            all = all.saturating_add(buffer.iov_len);
            check_len(all)?;
            check_start(buffer.iov_base, buffer.iov_len)?;
        }
        Ok(Self(list.iter().map(|buffer| (buffer.iov_base.cast(), buffer.iov_len)).collect()))
    }

    /// Returns the total number of bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(_, len)| len).sum()
    }

    /// Returns the buffer if it is the only one.
    pub fn as_single(&self) -> Option<(*mut u8, usize)> {
        if let [one] = self.0[..] { Some(one) } else { None }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes as one slice; copies several buffers.
    pub fn gather(&self) -> Cow<'_, [u8]> {
        match &self.0[..] {
            [] => Cow::Borrowed(&[]),
            [one] => Cow::Borrowed(bytes(one)),
            several => Cow::Owned(several.iter().flat_map(bytes).copied().collect()),
        }
    }

    /// Lets a function fill one slice, and scatters the bytes to the buffers. Returns the
    /// function's count.
    pub fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if let [one] = &mut self.0[..] {
            return fill(bytes_mut(one));
        }
        let mut whole = vec![0; self.len()];
        let count = fill(&mut whole)?;
        self.scatter(&whole[..count.min(whole.len())]);
        Ok(count)
    }

    /// Copies bytes to the buffers, as many as fit.
    pub fn scatter(&mut self, mut from: &[u8]) {
        for buffer in &mut self.0 {
            let (now, later) = from.split_at(from.len().min(buffer.1));
            bytes_mut(buffer)[..now.len()].copy_from_slice(now);
            from = later;
        }
    }
}

impl AsRef<[u8]> for CallerBuffers {
    /// Returns the bytes of the only buffer.
    fn as_ref(&self) -> &[u8] {
        self.0.first().map(bytes).unwrap_or_default()
    }
}

impl From<CallerBuffers> for bytes::Bytes {
    /// Converts to bytes for a write: the caller's own memory if it is one buffer, otherwise a
    /// copy.
    fn from(buffers: CallerBuffers) -> Self {
        match buffers.0.len() {
            1 => Self::from_owner(buffers),
            _ => Self::from(buffers.gather().into_owned()),
        }
    }
}

fn check_len(len: usize) -> CallResult<()> {
    if len > MAX_CALL_BYTES {
        return Err(ErrnoError::new(
            EPFSLIOLEN,
            format!("{len} bytes in one call: the limit is {MAX_CALL_BYTES}"),
        ));
    }
    Ok(())
}

fn check_start(start: *mut c_void, len: usize) -> CallResult<()> {
    if start.is_null() && len > 0 {
        return Err(ErrnoError::null_pointer("the buffer"));
    }
    Ok(())
}

fn bytes(buffer: &(*mut u8, usize)) -> &[u8] {
    if buffer.1 == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees the bytes and leaves them alone.
    unsafe { std::slice::from_raw_parts(buffer.0, buffer.1) }
}

fn bytes_mut(buffer: &mut (*mut u8, usize)) -> &mut [u8] {
    if buffer.1 == 0 {
        return &mut [];
    }
    // SAFETY: as above, and the caller wants them to be written.
    unsafe { std::slice::from_raw_parts_mut(buffer.0, buffer.1) }
}
