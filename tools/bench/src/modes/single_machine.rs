//! One machine: a node, processes of ours that coordinate in shared memory, and the others on plain
//! files of the same file system.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use pario::Cluster;

use super::contest::{ContestFiles, ContestPaths, ModeContest, PROCESSES};
use super::member::{self, MemberWords};
use super::mpi::Mpi;
use super::rivals::{Rival, RivalKind, Rivals};
use super::turn_processes::{TurnListener, TurnProcesses};
use crate::area::RunSettings;
use crate::cluster::content::Content;
use crate::cluster::measured_file::MeasuredFile;
use crate::cluster::node::NodeProcess;
use crate::namespaces::text;
use crate::partner::PartnerProcess;
use crate::report::Report;

/// The node, and the files of all sides.
pub struct SingleMachine {
    dir: PathBuf,
    cluster: Cluster,
    node: NodeProcess,
}

impl SingleMachine {
    /// Starts the node.
    pub fn start(setting: &RunSettings, name: &str) -> Result<Self> {
        let dir = setting.subdir(name)?;
        let node = NodeProcess::start(&dir.join("node"))?;
        Ok(Self { cluster: node.connect()?, node, dir })
    }

    /// Starts processes of a job of ours.
    pub fn start_ours(&self, job: &str, size: usize) -> Result<TurnProcesses> {
        let listener = TurnListener::open(&self.dir, job)?;
        let address = self.node.unix_address()?;
        let member = |rank| {
            let key = "none";
            let member =
                MemberWords { listener: listener.path()?, address: &address, key, job, size, rank };
            PartnerProcess::start(member::ROLE.name, &member.words())
        };
        let keepers = (0..size).map(member).collect::<Result<_>>()?;
        listener.gather(size, keepers)
    }

    /// Starts our processes once more, for M_ASYNC.
    pub fn start_async(&self, job: &str, size: usize) -> Result<Rival> {
        let team = self.start_ours(job, size)?;
        let name = "M_ASYNC".to_owned();
        Ok(Rival { kind: RivalKind::Async, name, dir: PathBuf::new(), team })
    }

    /// Starts processes that use plain files.
    pub fn start_plain(&self, size: usize) -> Result<Rival> {
        let listener = TurnListener::open(&self.dir, "plain")?;
        let dir = text(&self.dir)?;
        let member = |rank| {
            let words = member::plain_words(listener.path()?, size, rank, dir);
            PartnerProcess::start(member::ROLE.name, &words)
        };
        let keepers = (0..size).map(member).collect::<Result<_>>()?;
        let (name, dir) = ("plain".to_owned(), self.dir.clone());
        Ok(Rival { kind: RivalKind::Plain, name, dir, team: listener.gather(size, keepers)? })
    }

    /// The directory of the others' files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl ContestFiles for SingleMachine {
    fn lay_out(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<ContestPaths> {
        let content = Content::new(piece_bytes);
        let bytes = blocks * piece_bytes as u64;
        let ours = format!("/{name}");
        let file = MeasuredFile::create_ours(&self.cluster, &ours)?;
        file.ensure_short_cut(true)?;
        file.fill(&content, bytes)?;
        MeasuredFile::create_plain(&self.dir.join(name))?.fill(&content, bytes)?;
        Ok(ContestPaths { ours, plain: name.to_owned() })
    }

    fn read_ours(&mut self, paths: &ContestPaths) -> Result<Vec<u8>> {
        let file = self.cluster.open(&paths.ours)?;
        let mut bytes = vec![0; usize::try_from(file.len()?)?];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn read_theirs(&mut self, dir: &Path, paths: &ContestPaths) -> Result<Vec<u8>> {
        Ok(fs::read(dir.join(&paths.plain))?)
    }
}

/// Measures contests of our side against MPI and plain files, all with the same processes.
pub fn run(
    setting: &RunSettings,
    report: &mut Report,
    name: &str,
    contests: &[ModeContest],
) -> Result<()> {
    let mut site = SingleMachine::start(setting, name)?;
    let mut ours = site.start_ours("ours", PROCESSES)?;
    let mut rivals = Rivals { all: vec![site.start_plain(PROCESSES)?], ..Rivals::default() };
    rivals.start_mpi(&Mpi::ALL, site.dir(), PROCESSES)?;
    for contest in contests {
        contest.run(setting, report, &mut site, &mut ours, &mut rivals)?;
    }
    Ok(())
}
