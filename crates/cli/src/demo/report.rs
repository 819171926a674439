//! The facts that a demo finds. They are printed as JSON as they stand here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

/// A part of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All extents are written and made durable.
    Fill,
    /// All are read in a random order, without the cache.
    ReadUncached,
    /// All are read in a random order, and the cache keeps them.
    ReadCold,
    /// All are read in a random order, and the cache has them.
    ReadWarm,
    /// A third gets other content and other sizes.
    Rewrite,
    /// A tenth is deleted.
    Delete,
    /// The extents move together.
    Compact,
    /// All that is left is read in a random order, without the cache.
    ReadAgain,
}

impl Phase {
    /// How many there are.
    pub const COUNT: usize = Self::ReadAgain as usize + 1;
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fill => "fill, sync",
            Self::ReadUncached => "read, no cache",
            Self::ReadCold => "read, cold cache",
            Self::ReadWarm => "read, warm cache",
            Self::Rewrite => "rewrite 1/3, sync",
            Self::Delete => "delete 1/10, sync",
            Self::Compact => "compact",
            Self::ReadAgain => "read all again",
        })
    }
}

/// What a phase did.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which phase.
    pub phase: Phase,
    /// Extents it was about.
    pub extents: u64,
    /// Their headers and bodies.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// How fast it moved the bytes, for a phase that moves all of them.
    pub bytes_per_second: Option<u64>,
    /// Reads that the cache answered, for a phase that uses it.
    pub cache_hits: Option<u64>,
}

impl PhaseReport {
    /// The report of a phase that took a time.
    pub fn new(phase: Phase, extents: u64, bytes: u64, took: Duration) -> Self {
        let moves_all = !matches!(phase, Phase::Delete | Phase::Compact);
        let bytes_per_second = u128::from(bytes) * 1_000_000_000 / took.as_nanos().max(1);
        Self {
            phase,
            extents,
            bytes,
            seconds: took.as_secs_f64(),
            bytes_per_second: moves_all
                .then(|| u64::try_from(bytes_per_second).unwrap_or(u64::MAX)),
            cache_hits: None,
        }
    }
}

/// What a disk holds and takes.
#[derive(Clone, Debug, Serialize)]
pub struct DiskSpace {
    /// Its name.
    pub disk: String,
    /// Number of extents.
    pub extents: u64,
    /// Their headers and bodies.
    pub live_bytes: u64,
    /// What it takes of the file system.
    pub disk_bytes: u64,
}

/// The space of a disk in the end.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceReport {
    /// In the end.
    #[serde(flatten)]
    pub space: DiskSpace,
    /// What it took before the compaction.
    #[serde(rename = "disk_bytes_before_compaction")]
    pub before_bytes: u64,
    /// Bytes on the disk for each byte that lives.
    pub ratio: f64,
}

impl SpaceReport {
    /// Compares a disk with what it was before the compaction.
    pub fn new(before: &DiskSpace, space: DiskSpace) -> Self {
        Self {
            before_bytes: before.disk_bytes,
            ratio: ratio(space.disk_bytes, space.live_bytes),
            space,
        }
    }

    /// All disks together.
    pub fn total(disks: &[Self]) -> Self {
        let sum = |each: fn(&Self) -> u64| disks.iter().map(each).sum::<u64>();
        let space = DiskSpace {
            disk: "total".into(),
            extents: sum(|disk| disk.space.extents),
            live_bytes: sum(|disk| disk.space.live_bytes),
            disk_bytes: sum(|disk| disk.space.disk_bytes),
        };
        Self {
            before_bytes: sum(|disk| disk.before_bytes),
            ratio: ratio(space.disk_bytes, space.live_bytes),
            space,
        }
    }
}

/// What a whole demo found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this program.
    pub version: &'static str,
    /// What was asked for.
    pub size_bytes: u64,
    /// What contents, sizes and orders were drawn from.
    pub seed: u64,
    /// What carried the requests: `io_uring` or `threads`.
    pub engine: &'static str,
    /// Requests under way on each disk at once.
    pub depth_per_disk: usize,
    /// How much the cache may hold.
    pub cache_limit_bytes: u64,
    /// The phases in their order.
    pub phases: Vec<PhaseReport>,
    /// The disks in the end.
    pub disks: Vec<SpaceReport>,
    /// All disks together.
    pub total: SpaceReport,
    /// Where the disks are, if they were kept.
    pub kept: Option<PathBuf>,
}

fn ratio(disk_bytes: u64, live_bytes: u64) -> f64 {
    disk_bytes as f64 / live_bytes.max(1) as f64
}
