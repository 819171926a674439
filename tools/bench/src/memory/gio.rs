//! Figure 2 of the article on GIO: the bandwidth of accesses to 1 MB, to a part on this machine and on
//! another one, with and without the bytes in the page cache, against a plain file.
//!
//! *Cold* means that the bytes are on the disk and not in the page cache before each access; the
//! article clears the cache with another, large file. *Far* is a rank on this machine that is
//! configured to be on another one: the bytes go over TCP on loopback. A write ends when the page
//! cache has the bytes, on all sides.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::Job;
use pario::records::{RecordFile, RecordId};
use rustix::fs::{Advice, fadvise};

use super::remote_pair::{RemotePair, SecondRank};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::namespaces::text;
use crate::partner::PartnerRole;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, rotate};

/// The rank that has the far part.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-gio", run: serve };

/// The bytes of the article's file.
const BYTES: usize = 1_000_000;
/// Accesses of a turn.
const ACCESSES: u32 = 4;

/// A column of the figure.
#[derive(Clone, Copy)]
struct AccessKind {
    name: &'static str,
    is_write: bool,
    is_cold: bool,
}

const KINDS: [AccessKind; 4] = [
    AccessKind { name: "write-cold", is_write: true, is_cold: true },
    AccessKind { name: "write-warm", is_write: true, is_cold: false },
    AccessKind { name: "read-cold", is_write: false, is_cold: true },
    AccessKind { name: "read-warm", is_write: false, is_cold: false },
];

/// Measures `gio-near-…` and `gio-far-…`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("gio")?;
    let turns = setting.choose(31, 15);
    let mut other = RemotePair::start(ROLE.name, &[text(&dir)?])?;
    let job = other.meet()?;
    let (file, [near, far]) = create(&job, &dir)?;
    let plain = dir.join("plain");
    let plain_file = File::options().read(true).write(true).create_new(true).open(&plain);
    let plain_file = plain_file.with_context(|| format!("creating {}", plain.display()))?;
    let part =
        |number| file.part_path(number).map(Path::to_owned).context("the file has two parts");
    let sides = [
        FigureSide { path: plain, access: SideAccess::Plain(plain_file) },
        FigureSide { path: part(0)?, access: SideAccess::Record(&file, near) },
        FigureSide { path: part(1)?, access: SideAccess::Record(&file, far) },
    ];
    let bytes = f64::from(ACCESSES) * BYTES as f64;
    let mut rows = [String::new(), String::new(), String::new()];
    for kind in KINDS {
        let mut memory = vec![7; BYTES];
        let mut seconds = Vec::new();
        {
            let memory = std::cell::RefCell::new(&mut memory);
            let turn = |number: usize| sides[number].turn(kind, &mut memory.borrow_mut());
            seconds
                .extend(rotate(turns, &mut [&mut || turn(0), &mut || turn(1), &mut || turn(2)])?);
        }
        let [plain, near, far] = &seconds[..] else { bail!("three sides") };
        for (name, ours) in [("near", near), ("far", far)] {
            let quantity = Quantity::Megabytes(bytes);
            let name = format!("gio-{name}-{}", kind.name);
            report.measured(&name, Comparison::new(ours, plain), quantity, None);
        }
        for (row, seconds) in rows.iter_mut().zip(&seconds) {
            row.push_str(&format!("{:>12.0}", bytes / 1e6 / median(seconds)));
        }
    }
    let [plain, near, far] = rows;
    let heads: String = KINDS.iter().map(|kind| format!("{:>12}", kind.name)).collect();
    report.table(format!(
        "Figure 2: bandwidths of accesses to 1 MB of data, in MB/s.\n\n{:<14}{heads}\n\
         {:<14}{plain}\n{:<14}{near}\n{:<14}{far}",
        "", "file system", "GIO, near", "GIO, far (TCP)"
    ));
    file.sync().ok();
    drop(sides);
    drop(file);
    other.part()
}

/// Creates the record file, by both ranks together: a record in the part of each.
fn create(job: &Job, dir: &Path) -> Result<(RecordFile, [RecordId; 2])> {
    let file = job.records().create(dir.join("records"))?;
    let near = file.create_record_irregular(&[BYTES as u64])?;
    let far = file.create_record_irregular(&[0, BYTES as u64])?;
    Ok((file, [near, far]))
}

/// A row of the figure.
struct FigureSide<'a> {
    /// The file that has the bytes.
    path: PathBuf,
    access: SideAccess<'a>,
}

enum SideAccess<'a> {
    Plain(File),
    Record(&'a RecordFile, RecordId),
}

impl FigureSide<'_> {
    fn turn(&self, kind: AccessKind, memory: &mut [u8]) -> Result<Duration> {
        let mut taken = Duration::ZERO;
        for _ in 0..ACCESSES {
            // The bytes exist, and are in the page cache or not.
            match kind.is_cold {
                true => self.make_cold(memory)?,
                false => self.access(true, memory)?,
            }
            let start = Instant::now();
            self.access(kind.is_write, memory)?;
            taken += start.elapsed();
            ensure!(memory[BYTES - 1] == 7, "the access has read wrong bytes");
        }
        Ok(taken)
    }

    fn access(&self, is_write: bool, memory: &mut [u8]) -> Result<()> {
        match (&self.access, is_write) {
            (SideAccess::Plain(file), true) => file.write_all_at(memory, 0)?,
            (SideAccess::Plain(file), false) => file.read_exact_at(memory, 0)?,
            (SideAccess::Record(file, record), true) => {
                file.write(memory, *record, 0..BYTES as u64)?;
            }
            (SideAccess::Record(file, record), false) => {
                file.read(memory, *record, 0..BYTES as u64)?;
            }
        }
        Ok(())
    }

    /// Writes the bytes to the disk and removes them from the page cache.
    fn make_cold(&self, memory: &mut [u8]) -> Result<()> {
        self.access(true, memory)?;
        let file = File::open(&self.path)?;
        file.sync_data()?;
        fadvise(&file, 0, None, Advice::DontNeed).context("emptying the page cache")
    }
}

fn serve(words: &[String]) -> Result<()> {
    let (second, rest) = SecondRank::take(words)?;
    let [dir] = rest else { bail!("needs a directory") };
    let (file, _) = create(second.job(), Path::new(dir))?;
    // With the last call of the first rank.
    file.sync()?;
    second.stay()
}
