//! Transfers between a caller's memory and a part on another machine, as requests to the data server
//! of that machine. Bytes go directly to and from the caller's memory where it has no gaps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario_net::{Bulk, RecvBuffer, SendBuffer};
use pario_team::{Pending, TeamError};

use super::caller_memory::CallerMemory;
use super::collective::different_versions;
use super::error::RecordError;
use super::file::OpenRecordFile;
use super::part_owner::PartOwner;
use super::part_request::{AddTarget, PartAction, PartRequest};
use super::record::PartPiece;

/// Bytes of one request.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Requests of one transfer that are under way at once.
const TRANSFER_WINDOW: usize = 8;
/// Requests of one file up to which a started access sends its own at once. Beyond it a pool thread
/// sends them later, because the serving machine has to hold all bytes that it has received.
const STARTED_REQUESTS_LIMIT: usize = 64;
/// Below this many bytes a copy takes less time than lending the memory to the link.
const LEND_THRESHOLD_BYTES: usize = 16 << 10;

/// The transfer of one piece from or to a part on another machine. It cuts the piece into chunks and
/// keeps a window of chunk requests under way. Dropping it waits until the link no longer uses the
/// caller's memory.
pub struct RemoteTransfer {
    file: Arc<OpenRecordFile>,
    action: PartAction,
    memory: CallerMemory,
    piece: PartPiece,
    /// Bytes of the piece for which a request was sent.
    requested: usize,
    under_way: VecDeque<ChunkRequest>,
}

/// A request for one chunk, and the memory that is lent to it.
struct ChunkRequest {
    /// `None` as soon as a thread waits for it.
    pending: Option<Pending<Bulk>>,
    recv_buffer: Option<Arc<RecvBuffer>>,
    send_buffer: Option<Arc<SendBuffer>>,
    /// The offset of the chunk in the access.
    here: usize,
    len: usize,
}

impl RemoteTransfer {
    /// Describes the transfer of a piece; sends no request yet.
    ///
    /// # Safety
    /// The memory covers the piece, and no other thread uses it until the transfer is dropped.
    pub unsafe fn new(
        file: &Arc<OpenRecordFile>,
        action: PartAction,
        memory: CallerMemory,
        piece: PartPiece,
    ) -> Self {
        let under_way = VecDeque::new();
        Self { file: file.clone(), action, memory, piece, requested: 0, under_way }
    }

    /// Sends requests up to the window, unless the file has too many under way.
    pub fn begin_if_few(&mut self) -> Result<(), RecordError> {
        if self.file.remote_requests.load(Ordering::Relaxed) >= STARTED_REQUESTS_LIMIT {
            return Ok(());
        }
        self.begin()
    }

    /// Sends requests up to the window.
    pub fn begin(&mut self) -> Result<(), RecordError> {
        self.file.team.check_complete()?;
        while self.requested < self.piece.len && self.under_way.len() < TRANSFER_WINDOW {
            self.send_request()?;
        }
        Ok(())
    }

    /// Waits for the oldest request, and sends the next one.
    fn step(&mut self) -> Result<(), RecordError> {
        if let Some(request) = self.under_way.pop_front() {
            self.file.remote_requests.fetch_sub(1, Ordering::Relaxed);
            self.receive(request)?;
        }
        self.begin()
    }

    /// Waits until the whole piece is transferred.
    pub fn finish(mut self) -> Result<(), RecordError> {
        while !self.is_complete() {
            self.step()?;
        }
        Ok(())
    }

    /// Waits until several pieces are transferred, side by side.
    pub fn finish_all(mut transfers: Vec<Self>) -> Result<(), RecordError> {
        while !transfers.is_empty() {
            transfers.iter_mut().try_for_each(Self::step)?;
            transfers.retain(|transfer| !transfer.is_complete());
        }
        Ok(())
    }

    /// Whether all requests are sent, so that only replies are missing.
    pub fn has_requested_all(&self) -> bool {
        self.requested == self.piece.len
    }

    fn is_complete(&self) -> bool {
        self.has_requested_all() && self.under_way.is_empty()
    }

    /// Sends the request for the next chunk.
    fn send_request(&mut self) -> Result<(), RecordError> {
        let PartPiece { part, at, here, len } = self.piece;
        let most = CHUNK_BYTES / self.memory.each * self.memory.each;
        let now = (len - self.requested).min(most);
        let (here, passed) = (here + self.requested, self.requested as u64);
        let action = match self.action {
            PartAction::Add(addend, AddTarget { record, in_block }) => {
                PartAction::Add(addend, AddTarget { record, in_block: in_block + passed })
            }
            action => action,
        };
        let number = u32::try_from(part).unwrap_or(u32::MAX);
        let head = PartRequest { part: number, at: at + passed, len: now, action };
        let mut request =
            ChunkRequest { pending: None, recv_buffer: None, send_buffer: None, here, len: now };
        let data = match action {
            PartAction::Read => request.lend_recv_buffer(self.memory),
            _ => request.lend_or_copy(self.memory),
        };
        let callback = self.file.callback()?;
        let rank = self.file.owners[part].rank;
        let pending =
            callback.start_into(&head.to_bytes(), data, rank, request.recv_buffer.as_ref());
        request.pending = Some(pending.map_err(|error| self.error(error))?);
        self.under_way.push_back(request);
        self.file.remote_requests.fetch_add(1, Ordering::Relaxed);
        self.requested += now;
        Ok(())
    }

    /// Waits for the reply to a request, and copies its bytes to the caller's memory unless the link
    /// has received them there.
    fn receive(&self, mut request: ChunkRequest) -> Result<(), RecordError> {
        let Some(pending) = request.pending.take() else { return Ok(()) };
        let bytes = pending.wait().map_err(|error| self.error(error))?;
        let is_in_place = request.recv_buffer.take().is_some_and(|buffer| buffer.take_back());
        if self.action != PartAction::Read || is_in_place {
            return Ok(());
        }
        if bytes.len() != request.len {
            return Err(different_versions());
        }
        // SAFETY: the memory covers the piece, as the creator of the transfer guarantees.
        unsafe { self.memory.scatter(request.here, &bytes) };
        Ok(())
    }

    /// The error that the other machine has replied with.
    fn error(&self, error: TeamError) -> RecordError {
        let TeamError::Callback { why, .. } = error else { return RecordError::Team(error) };
        if let Some(error) = RecordError::of_line(&why) {
            return error;
        }
        // That machine may have ended because it learned of a loss earlier than this rank.
        if let Err(lost) = self.file.team.check_complete_soon() {
            return RecordError::Team(lost);
        }
        let PartOwner { rank, path, .. } = &self.file.owners[self.piece.part];
        RecordError::Invalid(format!(
            "{}: the machine of rank {rank} no longer serves this part, because the record file was \
             closed or dropped there ({why}); let all ranks close it together",
            path.display()
        ))
    }
}

impl Drop for RemoteTransfer {
    fn drop(&mut self) {
        self.file.remote_requests.fetch_sub(self.under_way.len(), Ordering::Relaxed);
    }
}

impl ChunkRequest {
    /// Lends dense memory for the bytes of the reply.
    fn lend_recv_buffer(&mut self, memory: CallerMemory) -> Bulk {
        if memory.is_dense() {
            // SAFETY: the memory covers the chunk, and no other thread uses it before `take_back` has
            // ended the loan, which dropping the request does at the latest.
            self.recv_buffer = unsafe {
                let start = std::ptr::NonNull::new(memory.at(self.here));
                start.and_then(|start| RecvBuffer::new([(start, self.len)]))
            };
        }
        Bulk::new()
    }

    /// Lends the bytes to send, or copies them if they are few or have gaps.
    fn lend_or_copy(&mut self, memory: CallerMemory) -> Bulk {
        if memory.is_dense() && self.len >= LEND_THRESHOLD_BYTES {
            let buffer = self.send_buffer.insert(SendBuffer::new());
            // SAFETY: the memory covers the chunk and does not change before this request is dropped,
            // which waits until the link has given the memory back.
            return unsafe {
                buffer.lend(std::slice::from_raw_parts(memory.at(self.here), self.len))
            };
        }
        let mut bytes = vec![0; self.len];
        // SAFETY: as above.
        unsafe { memory.gather(self.here, &mut bytes) };
        bytes.into()
    }
}

impl Drop for ChunkRequest {
    fn drop(&mut self) {
        // The drop waits for the reply, before the memory is taken back.
        drop(self.pending.take());
        if let Some(buffer) = &self.recv_buffer {
            buffer.take_back();
        }
        if let Some(buffer) = &self.send_buffer {
            buffer.wait();
        }
    }
}
