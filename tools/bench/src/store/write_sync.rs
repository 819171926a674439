//! Writes of extents and one sync, against `pwrite` and one `fdatasync`.
//!
//! On both sides the bytes are in memory before the time counts: in aligned buffers on ours, at any
//! address on theirs. Creating and removing files does not count, and the file system finishes that
//! work before the other side begins.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use pario_store::{Caching, Disk, ExtentFile, NewSubfile, Queue, Request, SubfileId};

use super::stream::{start_queue, stream};
use super::{
    EXTENT_BYTES, UNDER_WAY, fill_pool, make_disk, plain_file, random_sources, stamped_extent,
};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 0.85;

/// Measures `write-sync`: a new subfile and a new file in each turn.
pub fn run_new(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let Some(WriteSides { mut ours, theirs }) = WriteSides::make(setting, report, "write-sync")?
    else {
        return Ok(());
    };
    let turns = setting.choose(41, 15);
    let comparison = alternate(
        turns,
        &mut || {
            let file = ours.create()?;
            setting.flush_file_system()?;
            let elapsed = ours.write(&file)?;
            ours.disk.remove(file.id())?;
            drop(file);
            setting.flush_file_system()?;
            Ok(elapsed)
        },
        &mut || {
            let file = theirs.create()?;
            setting.flush_file_system()?;
            let elapsed = theirs.write(&file)?;
            drop(file);
            fs::remove_file(&theirs.path)?;
            setting.flush_file_system()?;
            Ok(elapsed)
        },
    )?;
    report.measured("write-sync", comparison, ours.quantity(), GOAL);
    Ok(())
}

/// Measures `rewrite-sync`: the same extents and the same bytes of a file in each turn.
pub fn run_again(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let Some(mut both) = WriteSides::make(setting, report, "rewrite-sync")? else {
        return Ok(());
    };
    let turns = setting.choose(41, 15);
    let subfile = both.ours.create()?;
    let plain = both.theirs.create()?;
    both.ours.write(&subfile)?;
    both.theirs.write(&plain)?;
    let comparison = alternate(
        turns,
        &mut || {
            setting.flush_file_system()?;
            both.ours.write(&subfile)
        },
        &mut || {
            setting.flush_file_system()?;
            both.theirs.write(&plain)
        },
    )?;
    report.measured("rewrite-sync", comparison, both.ours.quantity(), GOAL);
    both.ours.disk.remove(subfile.id())?;
    fs::remove_file(&both.theirs.path)?;
    Ok(())
}

/// The two sides.
struct WriteSides {
    ours: ExtentSide,
    theirs: PlainSide,
}

impl WriteSides {
    /// Prepares both sides, if there is space.
    fn make(setting: &RunSettings, report: &mut Report, name: &str) -> Result<Option<Self>> {
        let count = setting.choose(4_096, 1_024);
        if let Some(reason) = setting.lacks_space(6 * count * EXTENT_BYTES as u64)? {
            report.skipped(name, reason);
            return Ok(None);
        }
        let disk = make_disk(setting, &format!("{name}.disk"), 0)?;
        fill_pool(&disk, EXTENT_BYTES, 2 * UNDER_WAY)?;
        let ours = ExtentSide { disk, queue: start_queue(UNDER_WAY)?, count, subfiles: 0 };
        let theirs = PlainSide {
            path: setting.dir.join(format!("{name}.plain")),
            sources: random_sources(2 * UNDER_WAY),
            count,
        };
        Ok(Some(Self { ours, theirs }))
    }
}

/// A disk and a queue.
struct ExtentSide {
    disk: Disk,
    queue: Queue,
    count: u64,
    subfiles: u32,
}

impl ExtentSide {
    fn create(&mut self) -> Result<ExtentFile> {
        self.subfiles += 1;
        let id = SubfileId::data(1, self.subfiles);
        Ok(self.disk.create_extents(NewSubfile::new(id))?)
    }

    fn write(&mut self, file: &ExtentFile) -> Result<Duration> {
        let request = |index| {
            Ok(Request::WriteExtent {
                file: file.clone(),
                index,
                extent: stamped_extent(file, index)?,
                caching: Caching::Bypass,
            })
        };
        let start = Instant::now();
        stream(&mut self.queue, UNDER_WAY, self.count, request, |_, _| {})?;
        file.sync()?;
        Ok(start.elapsed())
    }

    fn quantity(&self) -> Quantity {
        Quantity::Megabytes((self.count * EXTENT_BYTES as u64) as f64)
    }
}

/// A plain file.
struct PlainSide {
    path: PathBuf,
    sources: Vec<Vec<u8>>,
    count: u64,
}

impl PlainSide {
    fn create(&self) -> Result<File> {
        plain_file::create(&self.path)
    }

    fn write(&self, file: &File) -> Result<Duration> {
        let start = Instant::now();
        plain_file::write_and_sync(file, &self.sources, self.count)?;
        Ok(start.elapsed())
    }
}
