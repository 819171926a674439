//! Memory of a caller that the bytes of a reply are read into, without a buffer in between.
//!
//! *Ownership.* The caller lends its memory and takes it back with [`RecvBuffer::take_back`]. The
//! thread that reads the socket holds the lock of the buffer from before it uses the memory until
//! after the system has written to it; `take_back` takes the same lock. Reading never waits for the
//! peer, so neither does `take_back`. Bytes of a reply that come after the memory was taken back go
//! to memory that is then dropped.
//!
//! *Contents.* The one long segment of a reply that is as long as the buffer; it is empty when the
//! reply is received. Every other reply comes as if there were no buffer.

use std::collections::HashMap;
use std::fmt;
use std::io::IoSliceMut;
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// Below `IOV_MAX`, so that the link's own slab fits into the same `readv`.
const PARTS_LIMIT: usize = 512;

/// Memory lent for the bytes of one reply; see
/// [`RpcClient::start_into`](crate::RpcClient::start_into).
pub struct RecvBuffer {
    len: usize,
    borrowed: Mutex<RecvBufferState>,
}

/// The state under the lock of a buffer, the memory itself included.
pub(crate) struct RecvBufferState {
    parts: Vec<BorrowedPart>,
    /// A reply is being read into it; there is only one.
    is_claimed: bool,
    is_filled: bool,
    is_taken_back: bool,
}

/// Consecutive bytes.
struct BorrowedPart {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a part is used only under the lock of its buffer, and `RecvBuffer::new` demands memory that
// is bound to no thread.
unsafe impl Send for BorrowedPart {}

impl RecvBuffer {
    /// Lends memory: its parts are filled in order. None if it is too short to be worth it, or has
    /// too many parts.
    ///
    /// # Safety
    /// Each part must be writable from any thread. Until [`take_back`](Self::take_back) was called,
    /// no other code may read or write it and it must not move, also if the reply does not come.
    pub unsafe fn new(parts: impl IntoIterator<Item = (NonNull<u8>, usize)>) -> Option<Arc<Self>> {
        let part = |(start, len)| BorrowedPart { start, len };
        let parts: Vec<BorrowedPart> = parts.into_iter().map(part).collect();
        let len = parts.iter().map(|part| part.len).sum();
        if len < crate::wire::BULK_BYTES || parts.len() > PARTS_LIMIT {
            return None;
        }
        let borrowed =
            RecvBufferState { parts, is_claimed: false, is_filled: false, is_taken_back: false };
        Some(Arc::new(Self { len, borrowed: Mutex::new(borrowed) }))
    }

    /// Takes the memory back: nothing is written to it from then on. Returns whether all of it was
    /// filled.
    pub fn take_back(&self) -> bool {
        let mut borrowed = self.borrowed.lock();
        borrowed.is_taken_back = true;
        borrowed.is_filled
    }

    /// Claims the buffer for a reply. Returns false if another reply did, or the memory was taken
    /// back.
    fn claim(&self) -> bool {
        let mut borrowed = self.borrowed.lock();
        !borrowed.is_taken_back && !std::mem::replace(&mut borrowed.is_claimed, true)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RecvBufferState> {
        self.borrowed.lock()
    }
}

impl RecvBufferState {
    /// Whether the memory was taken back.
    pub fn is_taken_back(&self) -> bool {
        self.is_taken_back
    }

    /// The memory after its first `skip` bytes.
    ///
    /// # Panics
    /// If it was taken back.
    pub fn slices_from(&mut self, mut skip: usize) -> impl Iterator<Item = IoSliceMut<'_>> {
        assert!(!self.is_taken_back, "memory that was taken back is not borrowed");
        let slice = move |part: &mut BorrowedPart| {
            let from = skip.min(part.len);
            skip -= from;
            // SAFETY: within the part. The caller of `RecvBuffer::new` vouches for it until `take_back` was
            // called, which needs the lock that is held here; `&mut self` makes the access
            // exclusive.
            let rest = unsafe {
                std::slice::from_raw_parts_mut(part.start.add(from).as_ptr(), part.len - from)
            };
            IoSliceMut::new(rest)
        };
        self.parts.iter_mut().map(slice).filter(|rest| !rest.is_empty())
    }

    /// Marks the buffer as filled.
    pub fn mark_filled(&mut self) {
        self.is_filled = true;
    }
}

impl fmt::Debug for RecvBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecvBuffer({} bytes)", self.len)
    }
}

/// The receive buffers of a link, by reply channel and request number.
#[derive(Debug, Default)]
pub(crate) struct RecvBuffers(Mutex<HashMap<(u32, u64), Arc<RecvBuffer>>>);

impl RecvBuffers {
    /// Expects a reply until it comes or the returned value is dropped.
    pub fn expect(
        self: &Arc<Self>,
        channel: u32,
        number: u64,
        buffer: &Arc<RecvBuffer>,
    ) -> ExpectedReply {
        self.0.lock().insert((channel, number), buffer.clone());
        ExpectedReply { buffers: self.clone(), key: (channel, number) }
    }

    /// Takes the buffer for the long segment of a reply, once. The head of a reply begins with the
    /// number of its request.
    pub fn take(&self, channel: u32, head: &[u8], len: usize) -> Option<Arc<RecvBuffer>> {
        let mut buffers = self.0.lock();
        if buffers.is_empty() {
            return None;
        }
        let key = (channel, u64::from_le_bytes(*head.first_chunk()?));
        match buffers.get(&key) {
            Some(buffer) if buffer.len() == len && buffer.claim() => buffers.remove(&key),
            _ => None,
        }
    }
}

/// A reply that is expected to fill a buffer.
pub(crate) struct ExpectedReply {
    buffers: Arc<RecvBuffers>,
    key: (u32, u64),
}

impl Drop for ExpectedReply {
    fn drop(&mut self) {
        let _landing = self.buffers.0.lock().remove(&self.key);
    }
}
