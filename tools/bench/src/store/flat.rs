//! `read_at` and `write_at` of flat subfiles on warm data, against `pread` and `pwrite`.
//!
//! Both files are in the page cache, and both sides visit them in the same random order. The
//! location of a file's pages makes a difference of a few per cent, so the files are created again
//! several times.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_store::{BufferPool, Disk, FlatFile, NewSubfile, SubfileId};

use super::{make_disk, plain_file};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::{Comparison, rotate};

const GOAL: f64 = 0.97;
const FILE_BYTES: u64 = 96 << 20;

/// Measures `flat-read-1m`.
pub fn run_read_1m(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "flat-read-1m", Direction::Read, 1 << 20)
}

/// Measures `flat-write-1m`.
pub fn run_write_1m(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "flat-write-1m", Direction::Write, 1 << 20)
}

/// Measures `flat-read-4k`.
pub fn run_read_4k(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "flat-read-4k", Direction::Read, 4 << 10)
}

/// Measures `flat-write-4k`.
pub fn run_write_4k(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, "flat-write-4k", Direction::Write, 4 << 10)
}

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

fn run(
    setting: &RunSettings,
    report: &mut Report,
    name: &str,
    direction: Direction,
    piece_bytes: usize,
) -> Result<()> {
    if let Some(reason) = setting.lacks_space(4 * FILE_BYTES)? {
        report.skipped(name, reason);
        return Ok(());
    }
    let (rounds, turns) = setting.choose((9, 61), (4, 31));
    // Some ten milliseconds per turn, so that a disturbance affects few turns.
    let pieces = if piece_bytes > 64 << 10 { 32 } else { 12_000 };
    // Both sides use the same memory, because its address matters.
    let memory = RefCell::new(BufferPool::new(0).get(piece_bytes));
    memory.borrow_mut().fill(7);
    let (mut ours_s, mut theirs_s) = (Vec::new(), Vec::new());
    let disk = make_disk(setting, &format!("{name}.disk"), 0)?;
    for round in 0..rounds {
        let pair = FilePair::make(setting, &disk, name, round)?;
        let (mut our_random, mut their_random) =
            (fastrand::Rng::with_seed(round.into()), fastrand::Rng::with_seed(round.into()));
        let mut ours = || {
            let places = RandomPlaces::new(pieces, piece_bytes, &mut our_random);
            pair.ours(direction, places, &mut memory.borrow_mut())
        };
        let mut theirs = || {
            let places = RandomPlaces::new(pieces, piece_bytes, &mut their_random);
            pair.theirs(direction, places, &mut memory.borrow_mut())
        };
        let mut seconds = rotate(turns, &mut [&mut ours, &mut theirs])?.into_iter();
        ours_s.extend(seconds.next().into_iter().flatten());
        theirs_s.extend(seconds.next().into_iter().flatten());
        pair.remove(&disk)?;
    }
    let comparison = Comparison::new(&ours_s, &theirs_s);
    let bytes = Quantity::Megabytes((pieces * piece_bytes) as f64);
    report.measured(name, comparison, bytes, GOAL);
    Ok(())
}

/// Random offsets in a file, as many as a turn has.
struct RandomPlaces<'a> {
    left: usize,
    piece_bytes: usize,
    random: &'a mut fastrand::Rng,
}

impl<'a> RandomPlaces<'a> {
    fn new(count: usize, piece_bytes: usize, random: &'a mut fastrand::Rng) -> Self {
        Self { left: count, piece_bytes, random }
    }
}

impl Iterator for RandomPlaces<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let piece_bytes = self.piece_bytes as u64;
        Some(self.random.u64(..FILE_BYTES / piece_bytes) * piece_bytes)
    }
}

/// A flat subfile and a plain file of the same size, both in the page cache.
struct FilePair {
    flat: FlatFile,
    plain: File,
    plain_path: std::path::PathBuf,
}

impl FilePair {
    fn make(setting: &RunSettings, disk: &Disk, name: &str, round: u32) -> Result<Self> {
        let flat = disk.create_flat(NewSubfile::new(SubfileId::data(1, round)))?;
        let plain_path = setting.dir.join(format!("{name}.plain"));
        let plain = plain_file::create(&plain_path)?;
        // The kernel uses large folios for large writes, if their offsets allow it. Pieces of 64
        // KiB lead to the same folios on both sides, although the bytes of a flat subfile start
        // behind its description.
        let piece = vec![5; 64 << 10];
        let fill_flat = || -> Result<()> {
            for position in (0..FILE_BYTES).step_by(piece.len()) {
                flat.write_at(&piece, position)?;
            }
            Ok(())
        };
        let fill_plain = || -> Result<()> {
            for position in (0..FILE_BYTES).step_by(piece.len()) {
                plain.write_all_at(&piece, position)?;
            }
            Ok(())
        };
        fill_flat()?;
        fill_plain()?;
        flat.sync()?;
        plain.sync_data()?;
        // Once more: now the blocks are allocated on the disk, and the pages are dirty, as they are
        // from the first turn to the last.
        fill_plain()?;
        fill_flat()?;
        Ok(Self { flat, plain, plain_path })
    }

    /// Our side.
    fn ours(
        &self,
        direction: Direction,
        places: RandomPlaces<'_>,
        memory: &mut [u8],
    ) -> Result<Duration> {
        let start = Instant::now();
        match direction {
            Direction::Read => {
                for place in places {
                    let read = self.flat.read_at(memory, place)?;
                    ensure!(read == memory.len(), "the subfile is too short");
                }
            }
            Direction::Write => {
                for place in places {
                    self.flat.write_at(memory, place)?;
                }
            }
        }
        Ok(start.elapsed())
    }

    /// The peer: the system calls themselves.
    fn theirs(
        &self,
        direction: Direction,
        places: RandomPlaces<'_>,
        memory: &mut [u8],
    ) -> Result<Duration> {
        let start = Instant::now();
        match direction {
            Direction::Read => {
                for place in places {
                    let read = self.plain.read_at(memory, place)?;
                    ensure!(read == memory.len(), "the plain file is too short");
                }
            }
            Direction::Write => {
                for place in places {
                    let written = self.plain.write_at(memory, place)?;
                    ensure!(written == memory.len(), "the plain file took less");
                }
            }
        }
        Ok(start.elapsed())
    }

    fn remove(self, disk: &Disk) -> Result<()> {
        disk.remove(self.flat.id())?;
        Ok(fs::remove_file(self.plain_path)?)
    }
}
