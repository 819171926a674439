//! The third part of the demo: a node is killed during a copy and started again.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use anyhow::{bail, ensure};
use pario::{Cluster, ClusterOptions, File, Pending};

use super::content::DemoContent;
use super::embedded::first_difference;
use super::node::NodeProcess;
use super::report::{DemoPhase, Phases, RecoveryReport};
use crate::commands::cp::progress::Progress;
use crate::interrupt::Interrupt;

/// Pieces under way at a time.
const PIECES_UNDER_WAY: usize = 8;

const PATH: &str = "/demo";

/// Copies until the node is killed, checks the acknowledged pieces after the restart, and copies
/// the rest.
pub fn run(
    directory: &Path,
    content: &DemoContent,
    phases: &mut Phases,
) -> anyhow::Result<RecoveryReport> {
    let data = directory.join("node");
    let outcome = run_until_killed(&data, content, phases)?;
    let began = Instant::now();
    let node = NodeProcess::start(&data)?;
    let recovery = run_after_restart(&data, content, phases, &outcome, began)?;
    node.wait()?;
    Ok(recovery)
}

/// Runs the node until it is killed.
fn run_until_killed(
    data: &Path,
    content: &DemoContent,
    phases: &mut Phases,
) -> anyhow::Result<PieceStates> {
    let mut node = Some(NodeProcess::start(data)?);
    let cluster = connect(data)?;
    let file = cluster.options().read(true).write(true).create_new(true).open(PATH)?;
    let mut outcome = PieceStates::default();
    phases.run(DemoPhase::CopyUntilKilled, content.size_bytes() / 2, |progress, interrupt| {
        outcome = copy_until_killed(&file, content, &mut node, progress, interrupt)?;
        Ok(outcome.bytes(content))
    })?;
    Ok(outcome)
}

/// Runs the restarted node until it is stopped.
fn run_after_restart(
    data: &Path,
    content: &DemoContent,
    phases: &mut Phases,
    outcome: &PieceStates,
    began: Instant,
) -> anyhow::Result<RecoveryReport> {
    let cluster = connect(data)?;
    let file = cluster.options().read(true).write(true).open(PATH)?;
    let recovery = RecoveryReport {
        acknowledged_bytes: outcome.bytes(content),
        unacknowledged_bytes: outcome.lost.iter().map(|piece| len(content, *piece)).sum(),
        noticed_seconds: outcome.noticed_seconds,
        recovery_seconds: began.elapsed().as_secs_f64(),
    };
    phases.run(DemoPhase::ReadRecovered, recovery.acknowledged_bytes, |progress, interrupt| {
        check(&file, content, &outcome.acknowledged, progress, interrupt)?;
        Ok(recovery.acknowledged_bytes)
    })?;
    let rest: Vec<u64> =
        (0..content.pieces()).filter(|piece| !outcome.acknowledged.contains(piece)).collect();
    let rest_bytes = rest.iter().map(|piece| len(content, *piece)).sum();
    phases.run(DemoPhase::CopyTheRest, rest_bytes, |progress, interrupt| {
        for piece in rest {
            interrupt.check()?;
            file.write_at(content.piece(piece), content.range(piece).start)?;
            progress.advance(len(content, piece));
        }
        file.sync()?;
        Ok(rest_bytes)
    })?;
    phases.run(DemoPhase::ReadAll, content.size_bytes(), |progress, interrupt| {
        let len = file.len()?;
        ensure!(
            len == content.size_bytes(),
            "{PATH}: it has {len} bytes after the copy; this is a bug"
        );
        let all: Vec<u64> = (0..content.pieces()).collect();
        check(&file, content, &all, progress, interrupt)?;
        Ok(content.size_bytes())
    })?;
    file.close()?;
    cluster.stop(None)?;
    Ok(recovery)
}

/// The fate of the pieces.
#[derive(Debug, Default)]
struct PieceStates {
    /// Acknowledged pieces, in order.
    acknowledged: Vec<u64>,
    /// Pieces that were under way when the node was killed.
    lost: Vec<u64>,
    /// Time until the first error.
    noticed_seconds: f64,
}

impl PieceStates {
    fn bytes(&self, content: &DemoContent) -> u64 {
        self.acknowledged.iter().map(|piece| len(content, *piece)).sum()
    }
}

/// Keeps pieces under way, and kills the node when half of them are acknowledged.
fn copy_until_killed(
    file: &File,
    content: &DemoContent,
    node: &mut Option<NodeProcess>,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<PieceStates> {
    let half = content.pieces().div_ceil(2);
    let mut outcome = PieceStates::default();
    let mut under_way: VecDeque<(u64, Pending<()>)> = VecDeque::new();
    let mut waiting = 0..content.pieces();
    let mut killed_at: Option<Instant> = None;
    loop {
        interrupt.check()?;
        while killed_at.is_none() && under_way.len() < PIECES_UNDER_WAY {
            let Some(piece) = waiting.next() else { break };
            let bytes = content.piece(piece).to_vec();
            under_way.push_back((piece, file.start_write_at(bytes, content.range(piece).start)?));
        }
        if outcome.acknowledged.len() as u64 >= half
            && let Some(node) = node.take()
        {
            killed_at = Some(Instant::now());
            node.kill()?;
        }
        let Some((piece, request)) = under_way.pop_front() else { break };
        match (request.wait(), killed_at) {
            (Ok(()), _) => {
                outcome.acknowledged.push(piece);
                progress.advance(len(content, piece));
            }
            (Err(_), Some(killed_at)) => {
                if outcome.lost.is_empty() {
                    outcome.noticed_seconds = killed_at.elapsed().as_secs_f64();
                }
                outcome.lost.push(piece);
            }
            (Err(error), None) => return Err(error.into()),
        }
    }
    Ok(outcome)
}

/// Compares pieces with the expected content.
fn check(
    file: &File,
    content: &DemoContent,
    pieces: &[u64],
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for &number in pieces {
        interrupt.check()?;
        let (piece, range) = (content.piece(number), content.range(number));
        found.resize(piece.len(), 0);
        file.read_exact_at(&mut found, range.start)?;
        if let Some(byte) = first_difference(&found, piece) {
            bail!(
                "{PATH}: byte {} differs from what was written; this is a bug",
                range.start + byte
            );
        }
        progress.advance(piece.len() as u64);
    }
    Ok(())
}

fn len(content: &DemoContent, piece: u64) -> u64 {
    let range = content.range(piece);
    range.end - range.start
}

/// Connects without the short cut: writes through the short cut would not notice the end of the
/// node.
fn connect(data: &Path) -> anyhow::Result<Cluster> {
    let options = ClusterOptions {
        short_cut: Some(false),
        client: Some("pario demo".to_owned()),
        ..ClusterOptions::default()
    };
    let Some(address) = data.to_str() else {
        bail!("{}: the demo needs a directory whose name is UTF-8; use --dir", data.display());
    };
    Ok(Cluster::connect_with(address, options)?)
}
