//! Memory of callers: checked as far as it can be, and gathered from pieces.

use std::borrow::Cow;

use libc::{c_int, c_void, iovec};

use crate::errors::{CallError, CallResult, EPFSLIOLEN};

/// The most bytes that one call moves: what a signed `int` holds, so that negative sizes are found
/// out.
pub const MAX_CALL_BYTES: usize = 0x7fff_ffff;

/// The most pieces that one call takes, as the system has it.
pub const MAX_BUFFERS: c_int = 1024;

/// CallerBuffers of a caller's memory, which the caller keeps and leaves alone until the call is over, or
/// what it has started.
#[derive(Debug)]
pub struct CallerBuffers(Vec<(*mut u8, usize)>);

// SAFETY: the caller has handed the memory over for as long as the call or the request lasts.
unsafe impl Send for CallerBuffers {}
// SAFETY: see above; through a shared reference it is only read.
unsafe impl Sync for CallerBuffers {}

impl CallerBuffers {
    /// One piece.
    ///
    /// # Safety
    /// It is null, or has so many bytes, which are left alone until the call or the request is over.
    pub unsafe fn single(start: *mut c_void, len: usize) -> CallResult<Self> {
        check_len(len)?;
        check_start(start, len)?;
        Ok(Self(vec![(start.cast(), len)]))
    }

    /// Several pieces.
    ///
    /// # Safety
    /// The list is null, or that of so many pieces, each of which is null or has as many bytes as it
    /// says; they are left alone until the call or the request is over.
    pub unsafe fn vectored(list: *const iovec, count: c_int) -> CallResult<Self> {
        let number = usize::try_from(count).ok().filter(|_| count <= MAX_BUFFERS);
        let Some(number) = number else {
            return Err(CallError::invalid(format!("{count} pieces: give 0 to {MAX_BUFFERS}")));
        };
        if number == 0 {
            return Ok(Self(Vec::new()));
        }
        if list.is_null() {
            return Err(CallError::null_pointer("the list of pieces"));
        }
        // SAFETY: the list is not null, and the caller says how long it is.
        let list = unsafe { std::slice::from_raw_parts(list, number) };
        let mut all: usize = 0;
        for piece in list {
            all = all.saturating_add(piece.iov_len);
            check_len(all)?;
            check_start(piece.iov_base, piece.iov_len)?;
        }
        Ok(Self(list.iter().map(|piece| (piece.iov_base.cast(), piece.iov_len)).collect()))
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(_, len)| len).sum()
    }

    /// The only piece, if there is one.
    pub fn as_single(&self) -> Option<(*mut u8, usize)> {
        if let [one] = self.0[..] { Some(one) } else { None }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, in one.
    pub fn gather(&self) -> Cow<'_, [u8]> {
        match &self.0[..] {
            [] => Cow::Borrowed(&[]),
            [one] => Cow::Borrowed(bytes(one)),
            several => Cow::Owned(several.iter().flat_map(bytes).copied().collect()),
        }
    }

    /// Fills the memory by a function that wants it in one, and says how much it has filled.
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

    /// Puts bytes there, as many as there is room for.
    pub fn scatter(&mut self, mut from: &[u8]) {
        for piece in &mut self.0 {
            let (now, later) = from.split_at(from.len().min(piece.1));
            bytes_mut(piece)[..now.len()].copy_from_slice(now);
            from = later;
        }
    }
}

impl AsRef<[u8]> for CallerBuffers {
    /// The bytes of the only piece.
    fn as_ref(&self) -> &[u8] {
        self.0.first().map(bytes).unwrap_or_default()
    }
}

impl From<CallerBuffers> for bytes::Bytes {
    /// Bytes to be written: the caller's own memory if it is in one piece.
    fn from(pieces: CallerBuffers) -> Self {
        match pieces.0.len() {
            1 => Self::from_owner(pieces),
            _ => Self::from(pieces.gather().into_owned()),
        }
    }
}

fn check_len(len: usize) -> CallResult<()> {
    if len > MAX_CALL_BYTES {
        return Err(CallError::new(
            EPFSLIOLEN,
            format!("{len} bytes in one call: at most {MAX_CALL_BYTES} are possible"),
        ));
    }
    Ok(())
}

fn check_start(start: *mut c_void, len: usize) -> CallResult<()> {
    if start.is_null() && len > 0 {
        return Err(CallError::null_pointer("the buffer"));
    }
    Ok(())
}

fn bytes(piece: &(*mut u8, usize)) -> &[u8] {
    if piece.1 == 0 {
        return &[];
    }
    // SAFETY: the caller says that so many bytes are there, and leaves them alone meanwhile.
    unsafe { std::slice::from_raw_parts(piece.0, piece.1) }
}

fn bytes_mut(piece: &mut (*mut u8, usize)) -> &mut [u8] {
    if piece.1 == 0 {
        return &mut [];
    }
    // SAFETY: as above, and the caller wants them to be written.
    unsafe { std::slice::from_raw_parts_mut(piece.0, piece.1) }
}
