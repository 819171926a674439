//! Memory of somebody else that is sent from where it is.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::Bulk;

/// Memory that was lent to be sent: as long as any [`Bulk`] of it exists, it is not given back.
///
/// What is sent over a socket is given back when the socket has taken it, or when the link is lost
/// ([`RpcClient::close_link`](crate::RpcClient::close_link)). Over other links the receiver has it.
#[derive(Default)]
pub struct Loan {
    /// How many parts are lent.
    parts: Mutex<usize>,
    all_back: Condvar,
}

/// A part of lent memory.
struct LentPart {
    start: NonNull<u8>,
    len: usize,
    loan: Arc<Loan>,
}

// SAFETY: it is only read, and `Loan::lend` demands memory that may be read by any thread.
unsafe impl Send for LentPart {}
// SAFETY: as above.
unsafe impl Sync for LentPart {}

impl Loan {
    /// A loan of nothing yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lends bytes.
    ///
    /// # Safety
    /// The bytes must stay as they are and where they are until [`wait`](Self::wait) has returned, or
    /// [`wait_until`](Self::wait_until) true.
    pub unsafe fn lend(self: &Arc<Self>, bytes: &[u8]) -> Bulk {
        *self.parts.lock() += 1;
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        Bulk::from(Bytes::from_owner(LentPart { start, len, loan: self.clone() }))
    }

    /// Waits until everything was given back.
    pub fn wait(&self) {
        let mut parts = self.parts.lock();
        while *parts > 0 {
            self.all_back.wait(&mut parts);
        }
    }

    /// Waits until everything was given back, but not longer than until the deadline; whether it
    /// was.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        let mut parts = self.parts.lock();
        while *parts > 0 {
            if self.all_back.wait_until(&mut parts, deadline).timed_out() {
                return *parts == 0;
            }
        }
        true
    }
}

impl AsRef<[u8]> for LentPart {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the lender waits until this is dropped before the memory changes or goes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for LentPart {
    fn drop(&mut self) {
        let mut parts = self.loan.parts.lock();
        *parts -= 1;
        if *parts == 0 {
            self.loan.all_back.notify_all();
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} parts)", *self.parts.lock())
    }
}
