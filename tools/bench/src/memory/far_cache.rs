//! Records on another machine that a process reads again and again, with a cache and without.
//!
//! Both ranks run on this machine and are configured to be on different ones, so that all bytes go
//! over TCP on loopback. The records fit into the cache.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use pario::Job;
use pario::records::{RecordFile, RecordId};

use super::remote_pair::{RemotePair, SecondRank};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::namespaces::text;
use crate::partner::PartnerRole;
use crate::report::Report;
use crate::turns::alternate;

/// The rank that has the parts.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-far-cache", run: serve };

const RECORDS: usize = 16;
const RECORD_BYTES: usize = 256 << 10;
const CACHE_BYTES: usize = 64 << 20;
/// What a figure reads with one call, and its name.
const READS: [(&str, usize); 2] = [("4k", 4 << 10), ("64k", 64 << 10)];

/// Measures `far-cache-read-4k` and `far-cache-read-64k`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("far-cache")?;
    let turns = setting.choose(41, 15);
    let mut other = RemotePair::start(ROLE.name, &[text(&dir)?])?;
    let job = other.meet()?;
    let (with, without) = (FarRecords::with_cache(&job, &dir)?, FarRecords::new(&job, &dir)?);
    for side in [&with, &without] {
        side.fill()?;
    }
    for (name, bytes) in READS {
        let mut memory = vec![0; bytes];
        let mut again = vec![0; bytes];
        let compared =
            alternate(turns, &mut || with.read(&mut memory), &mut || without.read(&mut again))?;
        let all = Quantity::Megabytes((RECORDS * RECORD_BYTES) as f64);
        report.measured(&format!("far-cache-read-{name}"), compared, all, None);
    }
    let statistics = with.file.cache_statistics();
    eprintln!("  far-cache: {statistics:?}");
    ensure!(statistics.hits > statistics.misses, "the cache was not used");
    drop((with, without));
    other.part()
}

/// Records that lie at the second rank.
struct FarRecords {
    file: RecordFile,
    records: Vec<RecordId>,
}

impl FarRecords {
    fn with_cache(job: &Job, dir: &Path) -> Result<Self> {
        Self::create(job.records().cache(CACHE_BYTES).create(dir.join("with"))?)
    }

    fn new(job: &Job, dir: &Path) -> Result<Self> {
        Self::create(job.records().create(dir.join("without"))?)
    }

    fn create(file: RecordFile) -> Result<Self> {
        let create = |_| file.create_record_irregular(&[0, RECORD_BYTES as u64]);
        let records = (0..RECORDS).map(create).collect::<Result<_, _>>()?;
        Ok(Self { file, records })
    }

    fn fill(&self) -> Result<()> {
        for record in &self.records {
            self.file.write(&vec![7; RECORD_BYTES], *record, 0..RECORD_BYTES as u64)?;
        }
        Ok(())
    }

    /// Reads all records, piece by piece.
    fn read(&self, memory: &mut [u8]) -> Result<Duration> {
        let piece = |number: usize| -> Range<u64> {
            let start = (number * memory.len()) as u64;
            start..start + memory.len() as u64
        };
        let pieces: Vec<Range<u64>> = (0..RECORD_BYTES / memory.len()).map(piece).collect();
        let start = Instant::now();
        for record in &self.records {
            for piece in &pieces {
                self.file.read(memory, *record, piece.clone())?;
            }
        }
        let taken = start.elapsed();
        ensure!(memory.iter().all(|byte| *byte == 7), "the turn has read wrong bytes");
        Ok(taken)
    }
}

fn serve(words: &[String]) -> Result<()> {
    let (second, rest) = SecondRank::take(words)?;
    let [dir] = rest else { bail!("needs a directory") };
    let dir = Path::new(dir);
    let _kept = (FarRecords::with_cache(second.job(), dir)?, FarRecords::new(second.job(), dir)?);
    second.stay()
}
