//! Where a cached file ends: one number for all ranks.

use std::sync::atomic::{AtomicU64, Ordering};

use pario_team::{Mutexes, Segments, Team};

use crate::error::Error;

/// The end of the file: the highest byte that anybody has written, and one more. It is a number in
/// the memory of rank 0, which only grows; who raises it holds a lock, and who reads it does not.
pub struct End {
    number: Segments,
    lock: Mutexes,
    /// What it was when this rank last looked.
    known: AtomicU64,
}

impl End {
    /// Made by all together.
    pub fn new(team: &Team, len: u64) -> Result<Self, Error> {
        let is_first = team.rank() == 0;
        let number = team.segments(if is_first { 8 } else { 0 })?;
        let lock = team.mutexes(u32::from(is_first))?;
        if is_first {
            number.swap(len, 0, 0)?;
        }
        Ok(Self { number, lock, known: AtomicU64::new(len) })
    }

    /// Where it is now.
    pub fn now(&self) -> Result<u64, Error> {
        let now = self.number.fetch_add(0_u64, 0, 0)?;
        self.known.fetch_max(now, Ordering::Relaxed);
        Ok(now)
    }

    /// Where it is at least, if it need not be behind this byte; otherwise where it is now.
    pub fn enough(&self, byte: u64) -> Result<u64, Error> {
        let known = self.known.load(Ordering::Relaxed);
        if known >= byte { Ok(known) } else { self.now() }
    }

    /// From now on it is not before this byte.
    pub fn raise(&self, byte: u64) -> Result<(), Error> {
        if self.enough(byte)? >= byte {
            return Ok(());
        }
        let _held = self.lock.lock(0, 0)?;
        if self.now()? < byte {
            self.number.swap(byte, 0, 0)?;
            self.known.fetch_max(byte, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes bytes at the end, if they are within the room: where they begin.
    pub fn take(&self, len: u64, room: u64) -> Result<Result<u64, u64>, Error> {
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
