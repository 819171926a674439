//! Memory of a caller that a request sends from where it is.

use std::sync::Arc;
use std::time::Instant;

use super::{Protocol, RpcClient};
use crate::bulk::Bulk;
use crate::pool::BulkBuffer;
use crate::send_buffer::SendBuffer;

/// The memory that a request borrows. When this is dropped, the memory is the caller's again: if
/// the link has not sent it by then, the link is closed.
pub struct BorrowedParts<P: Protocol> {
    buffer: Arc<SendBuffer>,
    link: RpcClient<P>,
}

impl<P: Protocol> BorrowedParts<P> {
    /// The parts as bulk of a request over this link. A link that would keep them until the server
    /// drops them gets a copy.
    ///
    /// # Safety
    /// The parts must neither change nor move until the returned value is dropped.
    pub(super) unsafe fn lend(link: &RpcClient<P>, parts: &[&[u8]]) -> (Vec<Bulk>, Option<Self>) {
        if !link.releases_when_sent() {
            let mut copy = BulkBuffer::new(parts.iter().map(|part| part.len()).sum());
            let mut filled = 0;
            for part in parts {
                copy[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
            }
            return (vec![copy.freeze()], None);
        }
        let buffer = SendBuffer::new();
        // SAFETY: dropping the returned value waits for the buffer; until then the caller keeps the
        // parts as they are.
        let bulk = parts.iter().map(|part| unsafe { buffer.lend(part) }).collect();
        (bulk, Some(Self { buffer, link: link.clone() }))
    }

    /// Waits until the link has sent the parts, or the deadline.
    pub fn wait_until(&self, deadline: Instant) {
        self.buffer.wait_until(deadline);
    }
}

impl<P: Protocol> Drop for BorrowedParts<P> {
    fn drop(&mut self) {
        if !self.buffer.wait_until(Instant::now()) {
            self.link.close_link("it does not take what is written in time");
            self.buffer.wait();
        }
    }
}
