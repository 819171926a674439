//! The end of a cached file: one number for all ranks.

use std::sync::atomic::{AtomicU64, Ordering};

use pario_team::{Mutexes, Segments, Team};

use crate::error::Error;

/// The end of the file: one more than the highest byte that any rank has written. It is a number in
/// the memory of rank 0 that only grows. A rank that raises it holds a lock; a rank that reads it does
/// not.
pub struct FileEnd {
    number: Segments,
    lock: Mutexes,
    /// The largest value that this rank has seen.
    known: AtomicU64,
}

impl FileEnd {
    /// Creates it. Collective.
    pub fn new(team: &Team, len: u64) -> Result<Self, Error> {
        let (number, lock) = Self::memory(team)?;
        Self::in_memory(number, lock, len)
    }

    /// Allocates the number and its lock. Collective.
    pub fn memory(team: &Team) -> Result<(Segments, Mutexes), Error> {
        let is_first = team.rank() == 0;
        let number = team.segments(if is_first { 8 } else { 0 })?;
        Ok((number, team.mutexes(u32::from(is_first))?))
    }

    /// Sets the number to this length. The other ranks see it after the next round.
    pub fn in_memory(number: Segments, lock: Mutexes, len: u64) -> Result<Self, Error> {
        if number.team().rank() == 0 {
            number.swap(len, 0, 0)?;
        }
        Ok(Self { number, lock, known: AtomicU64::new(len) })
    }

    /// Returns the current end.
    pub fn now(&self) -> Result<u64, Error> {
        let now = self.number.fetch_add(0_u64, 0, 0)?;
        self.known.fetch_max(now, Ordering::Relaxed);
        Ok(now)
    }

    /// Returns a known end that is not before this byte; otherwise the current end.
    pub fn at_least(&self, byte: u64) -> Result<u64, Error> {
        let known = self.known.load(Ordering::Relaxed);
        if known >= byte { Ok(known) } else { self.now() }
    }

    /// Raises the end to this byte, if it is before.
    pub fn raise(&self, byte: u64) -> Result<(), Error> {
        if self.at_least(byte)? >= byte {
            return Ok(());
        }
        let _held = self.lock.lock(0, 0)?;
        if self.now()? < byte {
            self.number.swap(byte, 0, 0)?;
            self.known.fetch_max(byte, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reserves bytes at the end, within the room, and returns their offset; if they do not fit, the
    /// inner error is the current end.
    pub fn append(&self, len: u64, room: u64) -> Result<Result<u64, u64>, Error> {
        let _held = self.lock.lock(0, 0)?;
        let start = self.now()?;
        match start.checked_add(len).filter(|end| *end <= room) {
            Some(end) => {
                self.number.swap(end, 0, 0)?;
                self.known.fetch_max(end, Ordering::Relaxed);
                Ok(Ok(start))
            }
            None => Ok(Err(start)),
        }
    }
}
