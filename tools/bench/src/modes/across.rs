//! A group that spans machines: a node and a rank on each of four, against MPI with a rank on each
//! of four and its file on the GlusterFS mount of each.
//!
//! Mounts drop their caches before each turn, as with fio; the page cache of the bricks and of our
//! nodes stays. Nothing is made durable. A write of ours is at its node when it returns; of theirs
//! up to 1 MiB of each rank may still be on its way from the mount, which the processes wait for
//! after the turn, outside of its time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::contest::{ContestFiles, ContestPaths, ModeContest, PROCESSES};
use super::mode_turn::ModeAccess;
use super::mounted::MountedMachines;
use super::node_lab::NodeLab;
use super::rivals::RivalKind;
use crate::area::RunSettings;
use crate::report::Report;

/// Measures `across-log-64k-mpi`, `across-sync-64k-mpi`, `across-record-64k-mpi` and
/// `across-global-1m-mpi`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let pieces = |label, access| ModeContest {
        label,
        access,
        piece_bytes: 64 << 10,
        calls: setting.choose(256, 64),
        is_mounted: true,
        goals: &[(RivalKind::Mpi, Some(10.0))],
    };
    let contests = [
        pieces("across-log-64k", ModeAccess::Log),
        pieces("across-sync-64k", ModeAccess::Sync),
        // More bytes than mounts may hold back.
        ModeContest {
            calls: setting.choose(512, 256),
            ..pieces("across-record-64k", ModeAccess::Record)
        },
        ModeContest {
            label: "across-global-1m",
            access: ModeAccess::Global,
            piece_bytes: 1 << 20,
            calls: setting.choose(64, 32),
            is_mounted: true,
            goals: &[(RivalKind::Mpi, Some(5.0))],
        },
    ];
    let skip = |report: &mut Report, reason: &str| {
        contests.iter().for_each(|contest| contest.skip(report, reason));
    };
    let dir = setting.subdir("across")?;
    let mut mounted = match MountedMachines::start(&dir.join("theirs"))? {
        Ok(mounted) => mounted,
        Err(reason) => {
            skip(report, &reason);
            return Ok(());
        }
    };
    let mut rivals = mounted.start_mpi(PROCESSES)?;
    let (lab, mut ours) = match NodeLab::start(&dir.join("ours"))? {
        Ok(started) => started,
        Err(reason) => {
            skip(report, &reason);
            return Ok(());
        }
    };
    let mut machines = AcrossFiles { lab, mounted, copy: dir.join("copy") };
    for contest in &contests {
        contest.run(setting, report, &mut machines, &mut ours, &mut rivals)?;
    }
    Ok(())
}

/// The files of both sides.
struct AcrossFiles {
    lab: NodeLab,
    mounted: MountedMachines,
    copy: PathBuf,
}

impl ContestFiles for AcrossFiles {
    fn lay_out(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<ContestPaths> {
        self.lab.fill(name, piece_bytes, blocks)?;
        self.mounted.fill(name, piece_bytes, blocks)?;
        Ok(ContestPaths { ours: format!("/{name}"), plain: name.to_owned() })
    }

    fn read_ours(&mut self, paths: &ContestPaths) -> Result<Vec<u8>> {
        self.lab.copy(&paths.plain, &self.copy)?;
        Ok(fs::read(&self.copy)?)
    }

    fn read_theirs(&mut self, dir: &Path, paths: &ContestPaths) -> Result<Vec<u8>> {
        self.mounted.read(dir, &paths.plain)
    }
}
