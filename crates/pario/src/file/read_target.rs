//! The memory that a read fills: by the thread that reads the socket, or from a reply.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use pario_net::{BulkBuffer, RecvBuffer};

use super::batches::{Batch, MemoryPiece, ReadPiece};

/// Borrowed memory that a read fills. Batches use pieces of it that do not overlap.
pub struct ReadTarget<'b> {
    /// The file offset of each part, its start in memory, and its length.
    parts: Vec<(u64, NonNull<u8>, usize)>,
    borrowed: PhantomData<&'b mut [u8]>,
}

// SAFETY: it represents a mutable borrow of bytes, which is bound to no thread.
unsafe impl Send for ReadTarget<'_> {}
// SAFETY: shared access reads only addresses and lengths.
unsafe impl Sync for ReadTarget<'_> {}

/// Pieces of a batch that were lent to its reply. Dropping this takes them back. The memory must
/// live longer.
pub struct BorrowedPieces(Arc<RecvBuffer>);

impl<'b> ReadTarget<'b> {
    /// Borrows the parts of a read.
    pub fn new(pieces: &'b mut [ReadPiece<'_>]) -> Self {
        let raw = |(offset, piece): &mut ReadPiece<'_>| {
            (*offset, NonNull::from(&mut **piece).cast(), piece.len())
        };
        Self { parts: pieces.iter_mut().map(raw).collect(), borrowed: PhantomData }
    }

    /// Borrows a buffer without a lifetime.
    ///
    /// # Safety
    /// No other code uses the buffer, and it is not dropped, until this was used for the last time.
    /// It may be moved: its bytes stay where they are.
    pub unsafe fn of_buffer(buffer: &mut BulkBuffer) -> Self {
        let (start, len) = (NonNull::from(&mut **buffer).cast(), buffer.len());
        Self { parts: vec![(0, start, len)], borrowed: PhantomData }
    }

    /// The offset and length of each part in the file.
    pub fn shape(&self) -> impl Iterator<Item = (u64, usize)> {
        self.parts.iter().map(|(offset, _, len)| (*offset, *len))
    }

    /// Lends the pieces of a batch, which no other batch has; none where that does not pay.
    ///
    /// # Safety
    /// The result must be dropped before any other code uses the memory, including
    /// [`at`](Self::at).
    pub unsafe fn lend(&mut self, batch: &Batch) -> Option<BorrowedPieces> {
        let parts = batch.memory.iter().map(|piece| (self.start(*piece), piece.len));
        // SAFETY: `start` has checked that the pieces are within the parts, which are borrowed for
        // longer than `BorrowedPieces` lives; the caller keeps other code from using them.
        unsafe { RecvBuffer::new(parts) }.map(BorrowedPieces)
    }

    /// The bytes of a piece.
    ///
    /// # Safety
    /// The piece must not be lent.
    pub unsafe fn at(&mut self, piece: MemoryPiece) -> &mut [u8] {
        // SAFETY: checked to be within a part, which is borrowed; the caller guarantees that no
        // other code uses it.
        unsafe { std::slice::from_raw_parts_mut(self.start(piece).as_ptr(), piece.len) }
    }

    fn start(&self, piece: MemoryPiece) -> NonNull<u8> {
        let (_, start, len) = self.parts[piece.part];
        assert!(piece.start <= len && piece.len <= len - piece.start, "a piece is in its part");
        // SAFETY: within the part, as just checked.
        unsafe { start.add(piece.start) }
    }
}

impl BorrowedPieces {
    /// The buffer for the reply.
    pub fn recv_buffer(&self) -> &Arc<RecvBuffer> {
        &self.0
    }

    /// Takes the pieces back. Returns whether the reply has filled them.
    pub fn take_back(self) -> bool {
        self.0.take_back()
    }
}

impl Drop for BorrowedPieces {
    fn drop(&mut self) {
        self.0.take_back();
    }
}
