//! A part of a record file: one local file, which knows what it is a part of, which records there are
//! and where their blocks are. docs/record-format.md draws it byte by byte.
//!
//! The map is a log of frames. A change is one frame, written and synced; a crash leaves it out or
//! in. When the log is full, the whole map is written to a new one elsewhere in the file, and then
//! the superblocks point there. Nothing that the superblocks or the log on the disk point to is
//! overwritten before something newer is durable.

mod frame;
mod map;
mod medium;
mod space;
mod superblock;
#[cfg(test)]
mod tests;

use std::io;

pub use frame::{Block, Entry, PATH_LIMIT};
pub use map::{LAST_RECORD, PartMap, map_of_part};
pub use medium::Medium;
pub use superblock::Identity;

use frame::{FrameKind, encode};
use map::{Replayed, replay};
use medium::is_end;
use space::Space;
use superblock::{FIRST_SPACE, NoSuperblock, PAGE, SUPERBLOCK_BYTES, SUPERBLOCKS, Superblock};

/// The length of the first log, and of none that comes later less.
const LOG_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 64 << 10 };
/// A new log is so many times as long as what is in it.
const LOG_ROOM: u64 = 4;
/// A part becomes longer by at least so much, so that this happens rarely.
const GROWTH: u64 = if cfg!(test) { 8 << 10 } else { 1 << 20 };

/// Why a part cannot be used.
#[derive(Debug)]
pub enum PartError {
    /// The system refuses.
    System(io::Error),
    /// The bytes are not those of a part, or not whole.
    Damaged(String),
    /// There is no place for so much.
    Full(String),
    /// A write or a sync has failed before.
    Broken,
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A part that can be changed.
#[derive(Debug)]
pub struct Part<M> {
    medium: M,
    superblock: Superblock,
    map: PartMap,
    /// Where the last change begins in the log.
    last: Option<u64>,
    /// Where the next frame goes in the log.
    end: u64,
    space: Space,
    /// Something was made zero that may be there again after a power failure.
    is_clear_unsynced: bool,
    /// A write or a sync of the map has failed: nobody knows what is on the disk, and nothing more
    /// is written.
    is_broken: bool,
}

/// A change that has its place in the part, and is not in the log yet.
#[derive(Debug)]
#[must_use]
pub struct Prepared {
    entries: Vec<Entry>,
    frame: Vec<u8>,
}

impl<M: Medium> Part<M> {
    /// Makes a part where nothing is. It is durable when this returns.
    pub fn create(medium: M, identity: Identity, places: Vec<Vec<u8>>) -> Result<Self, PartError> {
        let places: std::collections::BTreeMap<u32, Vec<u8>> = (0..).zip(places).collect();
        let map = PartMap { change: 0, next: 1, places, ..PartMap::default() };
        let frame = encode(&identity, 1, 0, FrameKind::Whole, &map.entries()).ok_or_else(full)?;
        let end = frame.len() as u64;
        let log_len = (end * LOG_ROOM).max(LOG_BYTES).next_multiple_of(PAGE);
        let superblock = Superblock {
            identity,
            generation: 1,
            log_start: FIRST_SPACE,
            log_len,
            log_number: 1,
            mark: 0,
        };
        medium.reserve(FIRST_SPACE, log_len)?;
        medium.write_at(&frame, FIRST_SPACE)?;
        for at in SUPERBLOCKS {
            medium.write_at(&superblock.to_bytes(), at)?;
        }
        medium.sync()?;
        let space = Space::of(&superblock, &map);
        Ok(Self {
            medium,
            superblock,
            map,
            last: None,
            end,
            space,
            is_clear_unsynced: false,
            is_broken: false,
        })
    }

    /// Reads a part, and checks all that can be checked.
    pub fn open(medium: M) -> Result<Self, PartError> {
        let superblock = superblock_of(&medium)?;
        let too_short = |error: io::Error| match is_end(&error) {
            true => PartError::Damaged("it ends before its map does".to_owned()),
            false => PartError::System(error),
        };
        let len = medium.len()?;
        if superblock.log_start + superblock.log_len > len {
            return Err(PartError::Damaged("it ends before its map does".to_owned()));
        }
        let log_len = usize::try_from(superblock.log_len).map_err(|_| full())?;
        let mut log = vec![0; log_len];
        medium.read_at(&mut log, superblock.log_start).map_err(too_short)?;
        let Replayed { map, last, end } = replay(&superblock, &log).map_err(PartError::Damaged)?;
        let space = Space::of(&superblock, &map);
        let needed = map.records.values().map(|block| block.offset + block.len).max();
        if needed.is_some_and(|needed| needed > len) {
            let text = format!("it has {len} bytes, and its records need {}", needed.unwrap_or(0));
            return Err(PartError::Damaged(text));
        }
        // Nobody knows what was synced before.
        let is_clear_unsynced = true;
        let is_broken = false;
        Ok(Self { medium, superblock, map, last, end, space, is_clear_unsynced, is_broken })
    }

    /// What it is a part of.
    pub fn identity(&self) -> &Identity {
        &self.superblock.identity
    }

    /// Its map.
    pub fn map(&self) -> &PartMap {
        &self.map
    }

    /// Where its bytes are.
    #[cfg(test)]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Finds places for the blocks of new records, and gives them. They read as zeros.
    pub fn prepare_records(
        &mut self,
        new: &[(u64, Block)],
    ) -> Result<(Prepared, Vec<u64>), PartError> {
        self.check()?;
        let mut blocks: Vec<(u64, Block)> = Vec::with_capacity(new.len());
        for (record, block) in new {
            let Some(offset) = self.space.take(block.len) else {
                self.give_back(blocks.iter().map(|(_, block)| *block));
                return Err(full());
            };
            blocks.push((*record, Block { offset, ..*block }));
        }
        let entries = blocks.iter().map(|(record, block)| Entry::Record(*record, *block));
        let prepared = self.clear(&blocks).and_then(|()| self.prepare(entries.collect()));
        match prepared {
            Ok(prepared) => Ok((prepared, blocks.iter().map(|(_, block)| block.offset).collect())),
            Err(error) => {
                self.give_back(blocks.iter().map(|(_, block)| *block));
                Err(error)
            }
        }
    }

    /// Makes sure that blocks are there, and are zeros also after a power failure.
    fn clear(&mut self, blocks: &[(u64, Block)]) -> Result<(), PartError> {
        let len = self.medium.len()?;
        for (_, block) in blocks.iter().filter(|(_, block)| block.len > 0) {
            if block.offset < len && self.medium.has_data(block.offset, block.len) {
                self.medium.clear(block.offset, block.len)?;
                self.is_clear_unsynced = true;
            }
        }
        if self.space.end() > len {
            let longer = self.space.end().max(len.saturating_add(GROWTH.max(len / 8)));
            self.medium.set_len(longer)?;
            self.is_clear_unsynced = true;
        }
        if self.is_clear_unsynced {
            self.sync()?;
        }
        Ok(())
    }

    /// Gets a change ready that is not about places: after this it cannot fail for want of space.
    pub fn prepare(&mut self, entries: Vec<Entry>) -> Result<Prepared, PartError> {
        self.check()?;
        let frame = |part: &Self| {
            let Superblock { identity, log_number, .. } = &part.superblock;
            let change = part.map.change + 1;
            encode(identity, *log_number, change, FrameKind::Change, &entries).ok_or_else(full)
        };
        let mut bytes = frame(self)?;
        if self.end + bytes.len() as u64 > self.superblock.log_len {
            self.renew_log(bytes.len() as u64)?;
            bytes = frame(self)?;
        }
        Ok(Prepared { entries, frame: bytes })
    }

    /// Writes the whole map to a new log, with room for more.
    fn renew_log(&mut self, more: u64) -> Result<(), PartError> {
        let number = self.superblock.log_number + 1;
        let identity = self.superblock.identity;
        let whole =
            encode(&identity, number, self.map.change, FrameKind::Whole, &self.map.entries());
        let whole = whole.ok_or_else(full)?;
        let len = (whole.len() as u64 + more).saturating_mul(LOG_ROOM).max(LOG_BYTES);
        let len = len.next_multiple_of(PAGE);
        let start = self.space.take(len).ok_or_else(full)?;
        let reserved = self.medium.reserve(start, len);
        if let Err(error) = reserved.and_then(|()| self.medium.write_at(&whole, start)) {
            self.space.give_back(start, len);
            return Err(error.into());
        }
        self.sync()?;
        let old = self.superblock;
        let new = Superblock { log_start: start, log_len: len, log_number: number, ..old };
        self.write_superblocks(new)?;
        self.space.give_back(old.log_start, old.log_len);
        self.end = whole.len() as u64;
        self.last = None;
        Ok(())
    }

    /// Replaces one copy, then the other. The new superblock is durable when this returns.
    fn write_superblocks(&mut self, new: Superblock) -> Result<(), PartError> {
        let new = Superblock { generation: self.superblock.generation + 1, ..new };
        for at in SUPERBLOCKS {
            self.write(&new.to_bytes(), at)?;
            self.sync()?;
        }
        self.superblock = new;
        Ok(())
    }

    /// Gives places back that were prepared for a change that will not be.
    pub fn abandon(&mut self, prepared: &Prepared) {
        let blocks = prepared.entries.iter().filter_map(|entry| match entry {
            Entry::Record(_, block) => Some(*block),
            _ => None,
        });
        self.give_back(blocks);
    }

    fn give_back(&mut self, blocks: impl Iterator<Item = Block>) {
        blocks.for_each(|block| self.space.give_back(block.offset, block.len));
    }

    /// Writes a change. It is durable in this part when this returns. If it fails, nobody knows
    /// whether the change is in the log: the part must be opened again.
    pub fn commit(&mut self, prepared: &Prepared) -> Result<(), PartError> {
        self.check()?;
        self.write(&prepared.frame, self.superblock.log_start + self.end)?;
        self.sync()?;
        self.last = Some(self.end);
        self.end += prepared.frame.len() as u64;
        self.map.change += 1;
        for entry in &prepared.entries {
            if let Entry::Gone(record) = entry {
                // Its space is used again when all parts know that it is gone.
                let gone = self.map.records.remove(record);
                debug_assert!(gone.is_some(), "who prepares has looked");
            } else {
                self.map.apply(entry).map_err(PartError::Damaged)?;
            }
        }
        Ok(())
    }

    /// Space of records that are gone, in all parts, may be used again.
    pub fn release(&mut self, blocks: &[Block]) {
        for block in blocks.iter().filter(|block| block.len > 0) {
            // Whoever gets it clears it, whether this works or not.
            if self.medium.clear(block.offset, block.len).is_ok() {
                self.is_clear_unsynced = true;
            }
            self.space.give_back(block.offset, block.len);
        }
    }

    /// Takes the last change out of the log again: not all parts have it.
    pub fn undo(mut self) -> Result<Self, PartError> {
        let Some(last) = self.last else {
            let text = "its last change is not in the other parts, and cannot be undone";
            return Err(PartError::Damaged(text.to_owned()));
        };
        let len = usize::try_from(self.end - last).map_err(|_| full())?;
        self.write(&vec![0; len], self.superblock.log_start + last)?;
        self.sync()?;
        Self::open(self.medium)
    }

    /// Everything that was written survives a power failure when this returns.
    pub fn sync(&mut self) -> Result<(), PartError> {
        self.check()?;
        let synced = self.medium.sync();
        self.is_broken = synced.is_err();
        self.is_clear_unsynced &= self.is_broken;
        Ok(synced?)
    }

    /// Writes something of the map.
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), PartError> {
        let written = self.medium.write_at(bytes, at);
        self.is_broken |= written.is_err();
        Ok(written?)
    }

    fn check(&self) -> Result<(), PartError> {
        if self.is_broken { Err(PartError::Broken) } else { Ok(()) }
    }

    /// Notes that all parts have all changes up to the last one.
    pub fn mark(&mut self) -> Result<(), PartError> {
        self.check()?;
        if self.superblock.mark == self.map.change {
            return Ok(());
        }
        self.write_superblocks(Superblock { mark: self.map.change, ..self.superblock })
    }
}

/// What a file is a part of, without reading more than its first pages.
pub fn identity_of(medium: &impl Medium) -> Result<Identity, PartError> {
    superblock_of(medium).map(|superblock| superblock.identity)
}

fn superblock_of(medium: &impl Medium) -> Result<Superblock, PartError> {
    let read = |at: u64| {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        match medium.read_at(&mut bytes, at) {
            Ok(()) => Ok(Superblock::of_bytes(&bytes)),
            Err(error) if is_end(&error) => Ok(Err(NoSuperblock::Foreign)),
            Err(error) => Err(error),
        }
    };
    let newest = Superblock::newest(read(SUPERBLOCKS[0])?, read(SUPERBLOCKS[1])?);
    newest.map_err(|why| PartError::Damaged(why.to_string()))
}

fn full() -> PartError {
    PartError::Full("a part cannot become so long".to_owned())
}

/// The one checksum of record files: CRC-64/NVME.
fn checksum(pieces: &[&[u8]]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize()
}
