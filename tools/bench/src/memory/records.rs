//! Record files: pieces of 1 MiB of a part on this machine, against a plain file.
//!
//! On both sides the bytes are in the page cache, were all written before, and are not made
//! durable. The files are created again several times, because the location of their pages makes a
//! difference of a few per cent.

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pario::Job;
use pario::records::{RecordFile, RecordId};

use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::{Comparison, rotate};

const GOAL: f64 = 0.97;
/// Bytes of an access.
pub const PIECE_BYTES: usize = 1 << 20;

/// Measures `records-read` and `records-write`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let (rounds, turns) = setting.choose((10, 31), (4, 15));
    let pieces = 64;
    let job = Job::new(&format!("records {}", std::process::id()), 1, 0)?;
    let mut seconds: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        let dir = setting.subdir(&format!("records-{round}"))?;
        let ours = RecordSide::create(&job, &dir, pieces)?;
        let theirs = PlainSide::create(&dir, pieces)?;
        // Both sides use the same memory, because its address matters.
        let memory = RefCell::new(vec![7; PIECE_BYTES]);
        // Both files have their blocks on the disk and nothing to write back when the turns begin.
        // The first one may get better pages.
        if round % 2 == 0 {
            theirs.write(&mut memory.borrow_mut())?;
        }
        ours.write(&mut memory.borrow_mut())?;
        if round % 2 != 0 {
            theirs.write(&mut memory.borrow_mut())?;
        }
        ours.file.sync()?;
        theirs.file.sync_data()?;
        let writes = rotate(
            turns,
            &mut [&mut || ours.write(&mut memory.borrow_mut()), &mut || {
                theirs.write(&mut memory.borrow_mut())
            }],
        )?;
        let reads = rotate(
            turns,
            &mut [&mut || ours.read(&mut memory.borrow_mut()), &mut || {
                theirs.read(&mut memory.borrow_mut())
            }],
        )?;
        for (all, more) in seconds.iter_mut().zip(writes.into_iter().chain(reads)) {
            all.extend(more);
        }
        ours.file.close()?;
        std::fs::remove_dir_all(&dir)?;
    }
    let [ours_write, theirs_write, ours_read, theirs_read] = seconds;
    let quantity = Quantity::Megabytes(pieces as f64 * PIECE_BYTES as f64);
    let read = Comparison::new(&ours_read, &theirs_read);
    report.measured("records-read-1m", read, quantity, GOAL);
    let write = Comparison::new(&ours_write, &theirs_write);
    report.measured("records-write-1m", write, quantity, GOAL);
    Ok(())
}

/// The bytes of a piece.
pub fn range(piece: u64) -> Range<u64> {
    let start = piece * PIECE_BYTES as u64;
    start..start + PIECE_BYTES as u64
}

/// The first byte of a piece.
fn mark(piece: u64) -> u8 {
    u8::try_from(piece % 251).unwrap_or(0)
}

struct RecordSide {
    file: RecordFile,
    record: RecordId,
    pieces: u64,
}

impl RecordSide {
    fn create(job: &Job, dir: &Path, pieces: u64) -> Result<Self> {
        let file = job.records().create(dir.join("records"))?;
        let record = file.create_record(pieces * PIECE_BYTES as u64)?;
        Ok(Self { file, record, pieces })
    }

    fn write(&self, memory: &mut [u8]) -> Result<Duration> {
        let start = Instant::now();
        for piece in 0..self.pieces {
            memory[0] = mark(piece);
            self.file.write(memory, self.record, range(piece))?;
        }
        Ok(start.elapsed())
    }

    fn read(&self, memory: &mut [u8]) -> Result<Duration> {
        let start = Instant::now();
        for piece in 0..self.pieces {
            self.file.read(memory, self.record, range(piece))?;
            ensure!(memory[0] == mark(piece), "piece {piece} has wrong bytes");
        }
        Ok(start.elapsed())
    }
}

struct PlainSide {
    file: File,
    pieces: u64,
}

impl PlainSide {
    fn create(dir: &Path, pieces: u64) -> Result<Self> {
        let path = dir.join("plain");
        let options = &mut File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        Ok(Self { file: file.with_context(|| format!("creating {}", path.display()))?, pieces })
    }

    fn write(&self, memory: &mut [u8]) -> Result<Duration> {
        let start = Instant::now();
        for piece in 0..self.pieces {
            memory[0] = mark(piece);
            self.file.write_all_at(memory, piece * PIECE_BYTES as u64)?;
        }
        Ok(start.elapsed())
    }

    fn read(&self, memory: &mut [u8]) -> Result<Duration> {
        let start = Instant::now();
        for piece in 0..self.pieces {
            self.file.read_exact_at(memory, piece * PIECE_BYTES as u64)?;
            ensure!(memory[0] == mark(piece), "piece {piece} has wrong bytes");
        }
        Ok(start.elapsed())
    }
}
