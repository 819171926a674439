//! The results of a demo, printed as JSON in this form, or as tables.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::body::BodyReport;
use crate::amounts::{per_second, rate, size};
use crate::commands::cp::progress::Progress;
use crate::interrupt::Interrupt;
use crate::table::{ColumnAlignment, TextTable};

/// A phase of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DemoPhase {
    /// Generates a synthetic body on the embedded cluster, and syncs it.
    MakeBody,
    /// Takes slices; counts the bytes of the extents read.
    TakeSlices,
    /// Filters an image where its tiles are stored.
    Filter,
    /// Copies the file into the embedded cluster, and syncs it.
    CopyIn,
    /// Copies it out again.
    CopyOut,
    /// Compares the copy with the file.
    Compare,
    /// Writes extents, and syncs them.
    WriteExtents,
    /// Reads them in random order and compares them.
    ReadExtents,
    /// Copies the file to a node process, which is killed half way.
    CopyUntilKilled,
    /// Reads the acknowledged pieces from the restarted node, and compares them.
    ReadRecovered,
    /// Copies the rest, and syncs it.
    CopyTheRest,
    /// Reads and compares everything.
    ReadAll,
}

impl DemoPhase {
    /// Number of phases.
    pub const COUNT: usize = Self::ReadAll as usize + 1;
}

impl fmt::Display for DemoPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MakeBody => "make a body, sync",
            Self::TakeSlices => "take 100 slices",
            Self::Filter => "filter an image",
            Self::CopyIn => "copy in, sync",
            Self::CopyOut => "copy out, sync",
            Self::Compare => "compare",
            Self::WriteExtents => "write extents, sync",
            Self::ReadExtents => "read extents",
            Self::CopyUntilKilled => "copy until killed",
            Self::ReadRecovered => "read recovered",
            Self::CopyTheRest => "copy the rest, sync",
            Self::ReadAll => "read all",
        })
    }
}

/// The result of a phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: DemoPhase,
    /// Bytes it moved.
    pub bytes: u64,
    /// Duration.
    pub seconds: f64,
    /// Rate.
    pub bytes_per_second: u64,
}

/// The phases so far.
#[derive(Debug)]
pub struct Phases {
    is_quiet: bool,
    interrupt: Interrupt,
    reports: Vec<PhaseReport>,
}

impl Phases {
    /// Creates an empty list.
    pub fn new(is_quiet: bool, interrupt: Interrupt) -> Self {
        Self { is_quiet, interrupt, reports: Vec::new() }
    }

    /// Returns the flag that the user's request to stop sets.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Runs and measures a phase of about `bytes` bytes; the phase returns the actual number.
    pub fn run(
        &mut self,
        phase: DemoPhase,
        bytes: u64,
        work: impl FnOnce(&Progress, &Interrupt) -> anyhow::Result<u64>,
    ) -> anyhow::Result<()> {
        self.interrupt.check()?;
        let name = format!("{}/{} {phase:<19}", phase as usize + 1, DemoPhase::COUNT);
        let progress = Progress::begin(&name, Some(bytes), self.is_quiet);
        let began = Instant::now();
        let bytes = work(&progress, &self.interrupt)?;
        let took = began.elapsed();
        self.reports.push(PhaseReport {
            phase,
            bytes,
            seconds: took.as_secs_f64(),
            bytes_per_second: per_second(bytes, took),
        });
        Ok(())
    }

    /// Returns the results.
    pub fn into_reports(self) -> Vec<PhaseReport> {
        self.reports
    }
}

/// The bytes of the file on one disk.
#[derive(Clone, Debug, Serialize)]
pub struct DiskReport {
    /// Its name.
    pub disk: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Space that they take on the disk.
    pub disk_bytes: u64,
}

/// The copy to the node that was killed.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryReport {
    /// Bytes acknowledged before the kill; all of them were there after the restart.
    pub acknowledged_bytes: u64,
    /// Bytes under way, without an acknowledgement.
    pub unacknowledged_bytes: u64,
    /// Time until the first error after the kill.
    pub noticed_seconds: f64,
    /// Time from the start of the new process until the file could be read.
    pub recovery_seconds: f64,
}

/// The results of a whole demo.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// The version of this program.
    pub version: &'static str,
    /// The size of the file.
    pub size_bytes: u64,
    /// Seed of the contents.
    pub seed: u64,
    /// The body, slices and filter.
    pub body: BodyReport,
    /// The phases in their order.
    pub phases: Vec<PhaseReport>,
    /// The disks of the embedded cluster.
    pub disks: Vec<DiskReport>,
    /// The copy to the node that was killed.
    pub recovery: RecoveryReport,
    /// Directory of the disks, if they were kept.
    pub kept: Option<PathBuf>,
}

impl DemoReport {
    /// Prints it as text.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (left, right) = (ColumnAlignment::Left, ColumnAlignment::Right);
        let mut phases =
            TextTable::new([("phase", left), ("bytes", right), ("time", right), ("speed", right)]);
        for phase in &self.phases {
            phases.push([
                phase.phase.to_string(),
                size(phase.bytes),
                format!("{:.3} s", phase.seconds),
                rate(phase.bytes_per_second),
            ]);
        }
        phases.print(out)?;
        let body = &self.body;
        let [x, y, z] = body.voxels;
        let [width, height] = body.filtered;
        writeln!(
            out,
            "\nThe nodes generated a body of {x} x {y} x {z} voxels.\n\
             {} oblique slices of 512 x 512 pixels were taken at {:.1} per second:\n\
             the nodes read {} of extents ({:.1} % from memory)\n\
             and sent {} to the caller. A filter over {width} x {height} pixels\n\
             wrote {} where they are stored.\n\
             Pictures and a trace (which thread was busy when) are in\n{}\n",
            body.slices,
            body.slices_per_second,
            size(body.seen_bytes),
            share(body.cache_hits, body.extents),
            size(body.sent_bytes),
            size(body.filter_written_bytes),
            body.pictures.display(),
        )?;
        let mut disks = TextTable::new([("disk", left), ("bytes", right), ("on disk", right)]);
        for disk in &self.disks {
            disks.push([disk.disk.clone(), size(disk.bytes), size(disk.disk_bytes)]);
        }
        disks.print(out)?;
        let recovery = &self.recovery;
        let noticed = Duration::from_secs_f64(recovery.noticed_seconds.max(0.0));
        let recovered = Duration::from_secs_f64(recovery.recovery_seconds.max(0.0));
        writeln!(
            out,
            "\nThe node was killed after it had acknowledged {}; {} were under way.\n\
             The client noticed this after {:.3} s. The restarted node served the file\n\
             after {:.3} s, with all acknowledged data. Every byte was compared.",
            size(recovery.acknowledged_bytes),
            size(recovery.unacknowledged_bytes),
            noticed.as_secs_f64(),
            recovered.as_secs_f64(),
        )?;
        match &self.kept {
            Some(path) => writeln!(out, "The disks were kept in {}.", path.display()),
            None => Ok(()),
        }
    }
}

/// Returns a share in percent.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_two_tables_and_a_story() {
        let phase = PhaseReport {
            phase: DemoPhase::CopyIn,
            bytes: 512 << 20,
            seconds: 0.25,
            bytes_per_second: 2 << 30,
        };
        let disk = |number| DiskReport {
            disk: format!("local/disk{number}"),
            bytes: 128 << 20,
            disk_bytes: 128 << 20,
        };
        let report = DemoReport {
            version: "0",
            size_bytes: 512 << 20,
            seed: 1,
            body: BodyReport {
                voxels: [560, 320, 960],
                slices: 100,
                slices_per_second: 123.4,
                extents: 1000,
                cache_hits: 900,
                seen_bytes: 1 << 30,
                sent_bytes: 64 << 20,
                filtered: [2240, 3840],
                filter_written_bytes: 24 << 20,
                pictures: "pictures".into(),
            },
            phases: vec![phase],
            disks: (0..2).map(disk).collect(),
            recovery: RecoveryReport {
                acknowledged_bytes: 256 << 20,
                unacknowledged_bytes: 8 << 20,
                noticed_seconds: 0.001,
                recovery_seconds: 0.0214,
            },
            kept: None,
        };
        let mut out = Vec::new();
        report.print(&mut out).unwrap();
        let expected = "\
phase            bytes     time    speed
copy in, sync  512 MiB  0.250 s  2 GiB/s

The nodes generated a body of 560 x 320 x 960 voxels.
100 oblique slices of 512 x 512 pixels were taken at 123.4 per second:
the nodes read 1 GiB of extents (90.0 % from memory)
and sent 64 MiB to the caller. A filter over 2240 x 3840 pixels
wrote 24 MiB where they are stored.
Pictures and a trace (which thread was busy when) are in
pictures

disk           bytes  on disk
local/disk0  128 MiB  128 MiB
local/disk1  128 MiB  128 MiB

The node was killed after it had acknowledged 256 MiB; 8 MiB were under way.
The client noticed this after 0.001 s. The restarted node served the file
after 0.021 s, with all acknowledged data. Every byte was compared.
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_phase_measures_itself() {
        let mut phases = Phases::new(true, Interrupt::default());
        phases.run(DemoPhase::Compare, 10, |_, _| Ok(7)).unwrap();
        assert!(phases.run(DemoPhase::ReadAll, 1, |_, _| anyhow::bail!("no")).is_err());
        let reports = phases.into_reports();
        assert_eq!((reports.len(), reports[0].bytes), (1, 7));
    }
}
