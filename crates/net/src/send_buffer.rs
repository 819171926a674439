//! Memory of a caller that is sent from where it is.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::Bulk;

/// Memory that a caller has lent for sending. It is in use as long as any [`Bulk`] of it exists.
///
/// A socket link releases it when the bytes are in the socket, or when the link is lost
/// ([`RpcClient::close_link`](crate::RpcClient::close_link)). Over other links the receiver holds
/// it.
#[derive(Default)]
pub struct SendBuffer {
    /// The number of borrowed parts.
    parts: Mutex<usize>,
    all_returned: Condvar,
}

/// A borrowed part.
struct BorrowedBytes {
    start: NonNull<u8>,
    len: usize,
    buffer: Arc<SendBuffer>,
}

// SAFETY: it is only read, and `SendBuffer::lend` demands memory that may be read by any thread.
unsafe impl Send for BorrowedBytes {}
// SAFETY: as above.
unsafe impl Sync for BorrowedBytes {}

impl SendBuffer {
    /// Creates a buffer without borrowed parts.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Borrows bytes.
    ///
    /// # Safety
    /// The bytes must neither change nor move until [`wait`](Self::wait) has returned, or
    /// [`wait_until`](Self::wait_until) has returned true.
    pub unsafe fn lend(self: &Arc<Self>, bytes: &[u8]) -> Bulk {
        *self.parts.lock() += 1;
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        Bulk::from(Bytes::from_owner(BorrowedBytes { start, len, buffer: self.clone() }))
    }

    /// Waits until all parts are released.
    pub fn wait(&self) {
        let mut parts = self.parts.lock();
        while *parts > 0 {
            self.all_returned.wait(&mut parts);
        }
    }

    /// Waits until all parts are released, or the deadline. Returns whether they are.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        let mut parts = self.parts.lock();
        while *parts > 0 {
            if self.all_returned.wait_until(&mut parts, deadline).timed_out() {
                return *parts == 0;
            }
        }
        true
    }
}

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the lender waits until this is dropped before the memory changes or goes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for BorrowedBytes {
    fn drop(&mut self) {
        let mut parts = self.buffer.parts.lock();
        *parts -= 1;
        if *parts == 0 {
            self.buffer.all_returned.notify_all();
        }
    }
}

impl fmt::Debug for SendBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendBuffer({} parts)", *self.parts.lock())
    }
}
