//! Parts on other machines: their bytes are asked for, and come straight to where they are wanted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario_net::{Bulk, RecvBuffer, SendBuffer};
use pario_team::{Pending, TeamError};

use super::error::RecordError;
use super::file::Shared;
use super::memory::Memory;
use super::order::{Order, Target, Work};
use super::owner::Owner;
use super::record::Piece;

/// Bytes of one question.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Questions of one lane that are under way.
const UNDER_WAY: usize = 8;
/// If so many questions of a file are under way, what is started asks when a thread has time for it:
/// who serves has to keep what it was sent.
const STARTED_AT_ONCE: usize = 64;
/// Fewer bytes are copied, which takes less time than lending them.
const WORTH_LENDING: usize = 16 << 10;

/// The way of a piece from or to a part on another machine: it is cut, and of the questions a few are
/// under way. Whoever drops it waits until nobody uses the memory any more.
pub struct Lane {
    shared: Arc<Shared>,
    work: Work,
    memory: Memory,
    piece: Piece,
    /// How many bytes were asked for.
    begun: usize,
    asked: VecDeque<Asked>,
}

/// A question, and the memory that is lent to it.
struct Asked {
    /// There until it is waited for.
    pending: Option<Pending<Bulk>>,
    landing: Option<Arc<RecvBuffer>>,
    loan: Option<Arc<SendBuffer>>,
    /// Where its bytes are in the access, and how many.
    here: usize,
    len: usize,
}

impl Lane {
    /// The lane of a piece; nothing is asked yet.
    ///
    /// # Safety
    /// The memory is there for the piece, and nobody else uses it until this is dropped.
    pub unsafe fn new(shared: &Arc<Shared>, work: Work, memory: Memory, piece: Piece) -> Self {
        let asked = VecDeque::new();
        Self { shared: shared.clone(), work, memory, piece, begun: 0, asked }
    }

    /// Asks as much as may be under way, unless much is already.
    pub fn begin_if_few(&mut self) -> Result<(), RecordError> {
        if self.shared.asked.load(Ordering::Relaxed) >= STARTED_AT_ONCE {
            return Ok(());
        }
        self.begin()
    }

    /// Asks as much as may be under way.
    pub fn begin(&mut self) -> Result<(), RecordError> {
        self.shared.team.check_complete()?;
        while self.begun < self.piece.len && self.asked.len() < UNDER_WAY {
            self.ask()?;
        }
        Ok(())
    }

    /// Waits for the oldest question, and asks one more.
    fn step(&mut self) -> Result<(), RecordError> {
        if let Some(asked) = self.asked.pop_front() {
            self.shared.asked.fetch_sub(1, Ordering::Relaxed);
            self.take(asked)?;
        }
        self.begin()
    }

    /// Waits until everything is done.
    pub fn finish(mut self) -> Result<(), RecordError> {
        while !self.is_over() {
            self.step()?;
        }
        Ok(())
    }

    /// Waits until several are done, which go on side by side.
    pub fn finish_all(mut lanes: Vec<Self>) -> Result<(), RecordError> {
        while !lanes.is_empty() {
            lanes.iter_mut().try_for_each(Self::step)?;
            lanes.retain(|lane| !lane.is_over());
        }
        Ok(())
    }

    /// Whether nothing is left but to wait.
    pub fn has_asked_all(&self) -> bool {
        self.begun == self.piece.len
    }

    fn is_over(&self) -> bool {
        self.has_asked_all() && self.asked.is_empty()
    }

    /// Asks for the next bytes.
    fn ask(&mut self) -> Result<(), RecordError> {
        let Piece { part, at, here, len } = self.piece;
        let most = CHUNK_BYTES / self.memory.each * self.memory.each;
        let now = (len - self.begun).min(most);
        let (here, passed) = (here + self.begun, self.begun as u64);
        let work = match self.work {
            Work::Add(addend, Target { record, in_block }) => {
                Work::Add(addend, Target { record, in_block: in_block + passed })
            }
            work => work,
        };
        let number = u32::try_from(part).unwrap_or(u32::MAX);
        let order = Order { part: number, at: at + passed, len: now, work };
        let mut asked = Asked { pending: None, landing: None, loan: None, here, len: now };
        let data =
            if work == Work::Read { asked.land(self.memory) } else { asked.lend(self.memory) };
        let callback = self.shared.callback()?;
        let rank = self.shared.owners[part].rank;
        let pending = callback.start_into(&order.to_bytes(), data, rank, asked.landing.as_ref());
        asked.pending = Some(pending.map_err(|error| self.error(error))?);
        self.asked.push_back(asked);
        self.shared.asked.fetch_add(1, Ordering::Relaxed);
        self.begun += now;
        Ok(())
    }

    /// Waits for an answer, and brings its bytes to where they are wanted.
    fn take(&self, mut asked: Asked) -> Result<(), RecordError> {
        let Some(pending) = asked.pending.take() else { return Ok(()) };
        let bytes = pending.wait().map_err(|error| self.error(error))?;
        let has_landed = asked.landing.take().is_some_and(|landing| landing.take_back());
        if self.work != Work::Read || has_landed {
            return Ok(());
        }
        if bytes.len() != asked.len {
            return Err(super::search::different_versions());
        }
        // SAFETY: there is room, as whoever made the lane says.
        unsafe { self.memory.scatter(asked.here, &bytes) };
        Ok(())
    }

    /// What the other machine says.
    fn error(&self, error: TeamError) -> RecordError {
        let TeamError::Callback { why, .. } = error else { return RecordError::Team(error) };
        if let Some(error) = RecordError::of_sentence(&why) {
            return error;
        }
        // Who has heard of a loss earlier may have ended because of it.
        if let Err(lost) = self.shared.team.check_complete_soon() {
            return RecordError::Team(lost);
        }
        let Owner { rank, path, .. } = &self.shared.owners[self.piece.part];
        RecordError::Invalid(format!(
            "{}: the machine of rank {rank} serves this part no more, since the record file was \
             closed or dropped there ({why}); all ranks close it together",
            path.display()
        ))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.asked.fetch_sub(self.asked.len(), Ordering::Relaxed);
    }
}

impl Asked {
    /// Lends memory for the bytes of the answer.
    fn land(&mut self, memory: Memory) -> Bulk {
        if memory.is_dense() {
            // SAFETY: there is room, and it is not used before `end` was called, which dropping does
            // at the latest.
            self.landing = unsafe {
                let start = std::ptr::NonNull::new(memory.at(self.here));
                start.and_then(|start| RecvBuffer::new([(start, self.len)]))
            };
        }
        Bulk::new()
    }

    /// Lends the bytes that are sent, or copies them.
    fn lend(&mut self, memory: Memory) -> Bulk {
        if memory.is_dense() && self.len >= WORTH_LENDING {
            let loan = self.loan.insert(SendBuffer::new());
            // SAFETY: the bytes are there and do not change before this is dropped, which waits
            // until they were given back.
            return unsafe {
                loan.lend(std::slice::from_raw_parts(memory.at(self.here), self.len))
            };
        }
        let mut bytes = vec![0; self.len];
        // SAFETY: as above.
        unsafe { memory.gather(self.here, &mut bytes) };
        bytes.into()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // The drop waits for the reply.
        drop(self.pending.take());
        if let Some(landing) = &self.landing {
            landing.take_back();
        }
        if let Some(loan) = &self.loan {
            loan.wait();
        }
    }
}
