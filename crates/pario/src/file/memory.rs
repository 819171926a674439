//! The memory of somebody who reads: filled by whoever reads the socket, or out of an answer.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use pario_net::{BulkBuffer, RecvBuffer};

use super::ranges::{Batch, MemoryPiece, ReadPiece};

/// Pieces of memory that were borrowed to be read into. They are used by places: parts of them that
/// belong to different batches and do not overlap.
pub struct ReadTarget<'b> {
    /// Which byte of the file each stands for, where it begins, and its length.
    pieces: Vec<(u64, NonNull<u8>, usize)>,
    borrowed: PhantomData<&'b mut [u8]>,
}

// SAFETY: it stands for a mutable borrow of bytes, which is bound to no thread.
unsafe impl Send for ReadTarget<'_> {}
// SAFETY: without `&mut` nothing but addresses and lengths is looked at.
unsafe impl Sync for ReadTarget<'_> {}

/// Places of a batch that were lent to its answer; taken back when this is dropped. The memory must
/// live longer than this.
pub struct BorrowedPieces(Arc<RecvBuffer>);

impl<'b> ReadTarget<'b> {
    /// ReadTarget that can be used as long as the pieces are not.
    pub fn new(pieces: &'b mut [ReadPiece<'_>]) -> Self {
        let raw = |(offset, piece): &mut ReadPiece<'_>| {
            (*offset, NonNull::from(&mut **piece).cast(), piece.len())
        };
        Self { pieces: pieces.iter_mut().map(raw).collect(), borrowed: PhantomData }
    }

    /// The memory of a buffer, whose owner must not use it before this.
    ///
    /// # Safety
    /// Nobody uses the buffer, and it is not dropped, until this was used for the last time. It may
    /// be moved: its bytes stay where they are.
    pub unsafe fn of_buffer(buffer: &mut BulkBuffer) -> Self {
        let (start, len) = (NonNull::from(&mut **buffer).cast(), buffer.len());
        Self { pieces: vec![(0, start, len)], borrowed: PhantomData }
    }

    /// Which bytes of the file the pieces stand for.
    pub fn shape(&self) -> impl Iterator<Item = (u64, usize)> {
        self.pieces.iter().map(|(offset, _, len)| (*offset, *len))
    }

    /// Lends the places of a batch, which no other batch has; none where that does not pay.
    ///
    /// # Safety
    /// What is given must be dropped before the memory is used by anybody else, also by
    /// [`at`](Self::at).
    pub unsafe fn lend(&mut self, batch: &Batch) -> Option<BorrowedPieces> {
        let parts = batch.places.iter().map(|place| (self.start(*place), place.len));
        // SAFETY: `start` has checked that the places are within the pieces, which are borrowed for
        // longer than `BorrowedPieces` lives; the caller sees to it that nobody uses them meanwhile.
        unsafe { RecvBuffer::new(parts) }.map(BorrowedPieces)
    }

    /// The bytes of a place.
    ///
    /// # Safety
    /// The place must not be lent.
    pub unsafe fn at(&mut self, place: MemoryPiece) -> &mut [u8] {
        // SAFETY: checked to be within a piece, which is borrowed; nobody else uses it, says the
        // caller.
        unsafe { std::slice::from_raw_parts_mut(self.start(place).as_ptr(), place.len) }
    }

    fn start(&self, place: MemoryPiece) -> NonNull<u8> {
        let (_, start, len) = self.pieces[place.piece];
        assert!(place.start <= len && place.len <= len - place.start, "a place is in its piece");
        // SAFETY: within the piece, as just checked.
        unsafe { start.add(place.start) }
    }
}

impl BorrowedPieces {
    /// For the answer.
    pub fn landing(&self) -> &Arc<RecvBuffer> {
        &self.0
    }

    /// Takes the places back; whether the answer has filled them.
    pub fn take_back(self) -> bool {
        self.0.take_back()
    }
}

impl Drop for BorrowedPieces {
    fn drop(&mut self) {
        self.0.take_back();
    }
}
