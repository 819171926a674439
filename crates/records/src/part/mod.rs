//! A part of a record file: one local file that stores which record file it belongs to, which records
//! exist, and where their blocks are. docs/record-format.md draws it byte by byte.
//!
//! The map is a log of frames. A change is one frame, written and synced; after a crash the frame is
//! whole or absent. When the log is full, the part writes the whole map to a new log elsewhere in the
//! file, and then points the superblocks to it. No byte that the superblocks or the log on the disk
//! refer to is overwritten before its replacement is durable.

mod frame;
mod free_space;
mod map;
mod medium;
mod superblock;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

pub use frame::{MapEntry, PATH_LIMIT, RecordBlock};
pub use map::{LAST_RECORD, PartMap, map_of_part};
pub use medium::PartMedium;
pub use superblock::PartIdentity;

use frame::{LogFrameKind, encode};
use free_space::FreeSpace;
use map::{ReplayedLog, replay};
use medium::is_end;
use superblock::{
    FIRST_SPACE, PAGE, PartSuperblock, SUPERBLOCK_BYTES, SUPERBLOCKS, SuperblockError,
};

/// The smallest length of a log.
const LOG_BYTES_MIN: u64 = if cfg!(test) { 4 << 10 } else { 64 << 10 };
/// The length of a new log, as a multiple of its content.
const LOG_ROOM_FACTOR: u64 = 4;
/// The smallest number of bytes by which a part grows, so that it rarely has to grow.
const GROWTH_BYTES_MIN: u64 = if cfg!(test) { 8 << 10 } else { 1 << 20 };

/// The reason why a call on a part failed.
#[derive(Debug)]
pub enum PartError {
    /// A system call failed.
    System(io::Error),
    /// The file is not a part, or a damaged one.
    Damaged(String),
    /// The part cannot grow as much as the call needs.
    Full(String),
    /// An earlier write or sync has failed.
    Broken,
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// An open part.
#[derive(Debug)]
pub struct Part<M> {
    medium: M,
    superblock: PartSuperblock,
    map: PartMap,
    /// The offset in the log at which the frame of the last change begins.
    last: Option<u64>,
    /// The offset in the log at which the next frame goes.
    end: u64,
    space: FreeSpace,
    /// Whether bytes were cleared that a power failure could restore.
    is_clear_unsynced: bool,
    /// Whether a write or a sync of the map has failed. The content of the disk is then unknown, and
    /// the part writes nothing more.
    is_broken: bool,
}

/// A change that has its space in the part and is not in the log yet.
#[derive(Debug)]
#[must_use]
pub struct PreparedChange {
    entries: Vec<MapEntry>,
    frame: Vec<u8>,
}

impl<M: PartMedium> Part<M> {
    /// Creates a part on an empty medium, with the paths of all parts. The part is durable when this
    /// returns.
    pub fn create(
        medium: M,
        identity: PartIdentity,
        last_paths: Vec<Vec<u8>>,
    ) -> Result<Self, PartError> {
        let last_paths: BTreeMap<u32, Vec<u8>> = (0..).zip(last_paths).collect();
        let map = PartMap { change: 0, next: 1, last_paths, ..PartMap::default() };
        let frame =
            encode(&identity, 1, 0, LogFrameKind::Whole, &map.entries()).ok_or_else(full)?;
        let end = frame.len() as u64;
        let log_len = (end * LOG_ROOM_FACTOR).max(LOG_BYTES_MIN).next_multiple_of(PAGE);
        let superblock = PartSuperblock {
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
        let space = FreeSpace::of(&superblock, &map);
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

    /// Opens a part, and checks its superblocks, its log and its length.
    pub fn open(medium: M) -> Result<Self, PartError> {
        let superblock = superblock_of(&medium)?;
        let too_short = |error: io::Error| match is_end(&error) {
            true => PartError::Damaged("the part ends before its log does".to_owned()),
            false => PartError::System(error),
        };
        let len = medium.len()?;
        if superblock.log_start + superblock.log_len > len {
            return Err(PartError::Damaged("the part ends before its log does".to_owned()));
        }
        let log_len = usize::try_from(superblock.log_len).map_err(|_| full())?;
        let mut log = vec![0; log_len];
        medium.read_at(&mut log, superblock.log_start).map_err(too_short)?;
        let ReplayedLog { map, last, end } =
            replay(&superblock, &log).map_err(PartError::Damaged)?;
        let space = FreeSpace::of(&superblock, &map);
        let needed = map.records.values().map(|block| block.offset + block.len).max();
        if needed.is_some_and(|needed| needed > len) {
            let needed = needed.unwrap_or(0);
            let text = format!("the part has {len} bytes, and its records need {needed}");
            return Err(PartError::Damaged(text));
        }
        // The process that had the part open may not have synced what it cleared.
        let is_clear_unsynced = true;
        let is_broken = false;
        Ok(Self { medium, superblock, map, last, end, space, is_clear_unsynced, is_broken })
    }

    /// The record file and the number of the part.
    pub fn identity(&self) -> &PartIdentity {
        &self.superblock.identity
    }

    /// The map as of the last change.
    pub fn map(&self) -> &PartMap {
        &self.map
    }

    /// The medium that stores the part.
    #[cfg(test)]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Reserves space for the blocks of new records, and returns their offsets. The blocks read as
    /// zeros.
    pub fn prepare_records(
        &mut self,
        new: &[(u64, RecordBlock)],
    ) -> Result<(PreparedChange, Vec<u64>), PartError> {
        self.check()?;
        let mut blocks: Vec<(u64, RecordBlock)> = Vec::with_capacity(new.len());
        for (record, block) in new {
            let Some(offset) = self.space.take(block.len) else {
                self.give_back(blocks.iter().map(|(_, block)| *block));
                return Err(full());
            };
            blocks.push((*record, RecordBlock { offset, ..*block }));
        }
        let entries = blocks.iter().map(|(record, block)| MapEntry::Record(*record, *block));
        let prepared = self.clear(&blocks).and_then(|()| self.prepare(entries.collect()));
        match prepared {
            Ok(prepared) => Ok((prepared, blocks.iter().map(|(_, block)| block.offset).collect())),
            Err(error) => {
                self.give_back(blocks.iter().map(|(_, block)| *block));
                Err(error)
            }
        }
    }

    /// Makes sure that the part covers the blocks, and that they are zero even after a power failure.
    fn clear(&mut self, blocks: &[(u64, RecordBlock)]) -> Result<(), PartError> {
        let len = self.medium.len()?;
        for (_, block) in blocks.iter().filter(|(_, block)| block.len > 0) {
            if block.offset < len && self.medium.has_data(block.offset, block.len) {
                self.medium.clear(block.offset, block.len)?;
                self.is_clear_unsynced = true;
            }
        }
        if self.space.end() > len {
            let growth = GROWTH_BYTES_MIN.max(len / 8);
            let longer = self.space.end().max(len.saturating_add(growth));
            self.medium.set_len(longer)?;
            self.is_clear_unsynced = true;
        }
        if self.is_clear_unsynced {
            self.sync()?;
        }
        Ok(())
    }

    /// Prepares a change that needs no blocks. Its commit cannot fail for lack of space.
    pub fn prepare(&mut self, entries: Vec<MapEntry>) -> Result<PreparedChange, PartError> {
        self.check()?;
        let frame = |part: &Self| {
            let PartSuperblock { identity, log_number, .. } = &part.superblock;
            let change = part.map.change + 1;
            encode(identity, *log_number, change, LogFrameKind::Change, &entries).ok_or_else(full)
        };
        let mut bytes = frame(self)?;
        if self.end + bytes.len() as u64 > self.superblock.log_len {
            self.renew_log(bytes.len() as u64)?;
            bytes = frame(self)?;
        }
        Ok(PreparedChange { entries, frame: bytes })
    }

    /// Writes the whole map to a new log, with room for `more` bytes and for later frames.
    fn renew_log(&mut self, more: u64) -> Result<(), PartError> {
        let number = self.superblock.log_number + 1;
        let identity = self.superblock.identity;
        let whole =
            encode(&identity, number, self.map.change, LogFrameKind::Whole, &self.map.entries());
        let whole = whole.ok_or_else(full)?;
        let len = (whole.len() as u64 + more).saturating_mul(LOG_ROOM_FACTOR).max(LOG_BYTES_MIN);
        let len = len.next_multiple_of(PAGE);
        let start = self.space.take(len).ok_or_else(full)?;
        let reserved = self.medium.reserve(start, len);
        if let Err(error) = reserved.and_then(|()| self.medium.write_at(&whole, start)) {
            self.space.give_back(start, len);
            return Err(error.into());
        }
        self.sync()?;
        let old = self.superblock;
        let new = PartSuperblock { log_start: start, log_len: len, log_number: number, ..old };
        self.write_superblocks(new)?;
        self.space.give_back(old.log_start, old.log_len);
        self.end = whole.len() as u64;
        self.last = None;
        Ok(())
    }

    /// Replaces one copy of the superblock, then the other. The new one is durable when this returns.
    fn write_superblocks(&mut self, new: PartSuperblock) -> Result<(), PartError> {
        let new = PartSuperblock { generation: self.superblock.generation + 1, ..new };
        for at in SUPERBLOCKS {
            self.write(&new.to_bytes(), at)?;
            self.sync()?;
        }
        self.superblock = new;
        Ok(())
    }

    /// Frees the space of a prepared change that will not be committed.
    pub fn abandon(&mut self, prepared: &PreparedChange) {
        let blocks = prepared.entries.iter().filter_map(|entry| match entry {
            MapEntry::Record(_, block) => Some(*block),
            _ => None,
        });
        self.give_back(blocks);
    }

    fn give_back(&mut self, blocks: impl Iterator<Item = RecordBlock>) {
        blocks.for_each(|block| self.space.give_back(block.offset, block.len));
    }

    /// Writes a change. The change is durable in this part when this returns. If this fails, the
    /// change may or may not be in the log: the part must be opened again.
    pub fn commit(&mut self, prepared: &PreparedChange) -> Result<(), PartError> {
        self.check()?;
        self.write(&prepared.frame, self.superblock.log_start + self.end)?;
        self.sync()?;
        self.last = Some(self.end);
        self.end += prepared.frame.len() as u64;
        self.map.change += 1;
        for entry in &prepared.entries {
            if let MapEntry::Removed(record) = entry {
                // `release` frees its space when all parts have removed the record.
                let removed = self.map.records.remove(record);
                debug_assert!(removed.is_some(), "the caller prepares only records that exist");
            } else {
                self.map.apply(entry).map_err(PartError::Damaged)?;
            }
        }
        Ok(())
    }

    /// Frees the blocks of records that all parts have removed.
    pub fn release(&mut self, blocks: &[RecordBlock]) {
        for block in blocks.iter().filter(|block| block.len > 0) {
            // An error does not matter: `clear` makes the block zero before a record gets it.
            if self.medium.clear(block.offset, block.len).is_ok() {
                self.is_clear_unsynced = true;
            }
            self.space.give_back(block.offset, block.len);
        }
    }

    /// Removes the last change from the log, because not all parts have it.
    pub fn undo(mut self) -> Result<Self, PartError> {
        let Some(last) = self.last else {
            let text = "the other parts do not have the last change of this one, and its log cannot \
                        undo it";
            return Err(PartError::Damaged(text.to_owned()));
        };
        let len = usize::try_from(self.end - last).map_err(|_| full())?;
        self.write(&vec![0; len], self.superblock.log_start + last)?;
        self.sync()?;
        Self::open(self.medium)
    }

    /// Makes everything durable that was written before.
    pub fn sync(&mut self) -> Result<(), PartError> {
        self.check()?;
        let synced = self.medium.sync();
        self.is_broken = synced.is_err();
        self.is_clear_unsynced &= self.is_broken;
        Ok(synced?)
    }

    /// Writes bytes of the map or of a superblock.
    fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), PartError> {
        let written = self.medium.write_at(bytes, at);
        self.is_broken |= written.is_err();
        Ok(written?)
    }

    fn check(&self) -> Result<(), PartError> {
        if self.is_broken { Err(PartError::Broken) } else { Ok(()) }
    }

    /// Stores in the superblocks that all parts have all changes up to the last one.
    pub fn mark(&mut self) -> Result<(), PartError> {
        self.check()?;
        if self.superblock.mark == self.map.change {
            return Ok(());
        }
        self.write_superblocks(PartSuperblock { mark: self.map.change, ..self.superblock })
    }
}

/// Reads the identity of a part from its first pages.
pub fn identity_of(medium: &impl PartMedium) -> Result<PartIdentity, PartError> {
    superblock_of(medium).map(|superblock| superblock.identity)
}

fn superblock_of(medium: &impl PartMedium) -> Result<PartSuperblock, PartError> {
    let read = |at: u64| {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        match medium.read_at(&mut bytes, at) {
            Ok(()) => Ok(PartSuperblock::of_bytes(&bytes)),
            Err(error) if is_end(&error) => Ok(Err(SuperblockError::Foreign)),
            Err(error) => Err(error),
        }
    };
    let newest = PartSuperblock::newest(read(SUPERBLOCKS[0])?, read(SUPERBLOCKS[1])?);
    newest.map_err(|why| PartError::Damaged(why.to_string()))
}

fn full() -> PartError {
    let text = "the part would become longer than its format allows (2^62 bytes); create smaller \
                records";
    PartError::Full(text.to_owned())
}

/// Computes the checksum of record files, CRC-64/NVME.
fn checksum(pieces: &[&[u8]]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize()
}
