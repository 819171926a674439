//! One or two figures: our side and others do the same in turns.
//!
//! Our file and a plain file have the same length, are filled in the same way, and are overwritten
//! or read again in each turn; nothing is made durable. All sides move the same number of bytes in
//! a turn: where MPICH has two processes, each of them makes twice as many calls. The files are
//! created again several times, because the location of their pages makes a difference of a few per
//! cent.
//!
//! Each MPI takes a few trial turns first. One that fails, that leaves wrong bytes in its file, or
//! that never comes within twice the time of the best takes no further turns; of the others the one
//! with the best median counts.

use std::mem;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::member::byte_of;
use super::mode_turn::{ModeAccess, ModeTurn};
use super::rivals::{Rival, RivalKind, Rivals, fastest};
use super::turn_processes::TurnProcesses;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, TurnRunner, rotate};

/// The number of processes of our side and of most others.
pub const PROCESSES: usize = 4;
/// A side that never comes within this factor of the best median is not measured further; the
/// second factor is for quick runs.
const FAR_BEHIND: (f64, f64) = (2.0, 1.0);
/// Trial turns, after one that does not count.
const TRIALS: usize = 3;

/// The paths of one file on all sides.
#[derive(Clone, Debug)]
pub struct ContestPaths {
    /// The path in the cluster.
    pub ours: String,
    /// The path in the directory of the others.
    pub plain: String,
}

/// The files of a contest.
pub trait ContestFiles {
    /// Creates a file of this many blocks on all sides.
    fn lay_out(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<ContestPaths>;
    /// Reads our file.
    fn read_ours(&mut self, paths: &ContestPaths) -> Result<Vec<u8>>;
    /// Reads the file of another side in a directory.
    fn read_theirs(&mut self, dir: &Path, paths: &ContestPaths) -> Result<Vec<u8>>;
}

/// A contest: the accesses that are measured.
#[derive(Debug)]
pub struct ModeContest {
    /// The beginning of the names of its figures.
    pub label: &'static str,
    /// The kind of access.
    pub access: ModeAccess,
    /// Bytes of a call.
    pub piece_bytes: usize,
    /// Calls of all our processes in a turn; a collective open counts once.
    pub calls: u64,
    /// Whether the file of the other side is on a mount, which drops its cache before each turn.
    pub is_mounted: bool,
    /// The figures: the rival of each, and the ratio to reach if it has a goal.
    pub goals: &'static [(RivalKind, Option<f64>)],
}

impl ModeContest {
    /// The number of blocks of the file; where all processes access the same blocks, each visits
    /// all of them.
    fn blocks(&self) -> u64 {
        match self.access {
            ModeAccess::Global | ModeAccess::Same => self.calls / PROCESSES as u64,
            ModeAccess::Open => 1,
            _ => self.calls,
        }
    }

    fn order(&self, kind: Option<RivalKind>, size: usize, paths: &ContestPaths) -> ModeTurn {
        let path = match kind {
            None | Some(RivalKind::Async) => &paths.ours,
            Some(RivalKind::Plain | RivalKind::Mpi) => &paths.plain,
        };
        ModeTurn {
            access: if kind == Some(RivalKind::Async) { ModeAccess::Async } else { self.access },
            piece_bytes: self.piece_bytes,
            calls: if self.access == ModeAccess::Open {
                self.calls
            } else {
                self.calls / size as u64
            },
            blocks: self.blocks(),
            is_mounted: self.is_mounted,
            path: path.clone(),
        }
    }

    fn quantity(&self) -> Quantity {
        let calls = self.calls as f64;
        if self.access == ModeAccess::Open || self.piece_bytes < 1024 {
            Quantity::Operations(calls)
        } else {
            Quantity::Megabytes(calls * self.piece_bytes as f64)
        }
    }

    fn figure(&self, kind: RivalKind) -> String {
        format!("{}-{}", self.label, kind.suffix(self.access))
    }

    /// Reports that its figures cannot be measured, with the reason.
    pub fn skip(&self, report: &mut Report, reason: &str) {
        self.goals.iter().for_each(|(kind, _)| report.skipped(&self.figure(*kind), reason));
    }

    /// Measures the figures and reports them. Rivals that fail are removed.
    pub fn run(
        &self,
        setting: &RunSettings,
        report: &mut Report,
        files: &mut impl ContestFiles,
        ours: &mut TurnProcesses,
        rivals: &mut Rivals,
    ) -> Result<()> {
        let (rounds, turns) = setting.choose((4, 19), (1, 15));
        // A file on each side, new ones after wrong rivals, and space for their metadata.
        let file_count = 4 * (rounds + rivals.all.len() as u64);
        let needed_bytes = file_count * self.blocks() * self.piece_bytes as u64;
        if let Some(reason) = setting.lacks_space(needed_bytes)? {
            self.skip(report, &reason);
            return Ok(());
        }
        let mut ours_s = Vec::new();
        let mut theirs_s: Vec<Vec<f64>> = Vec::new();
        let mut chosen = Vec::new();
        for round in 0..rounds {
            let name = format!("{}-{round}", self.label);
            let mut paths = files.lay_out(&name, self.piece_bytes, self.blocks())?;
            if round == 0 {
                let far_behind = setting.choose(FAR_BEHIND.0, FAR_BEHIND.1);
                chosen = self.choose(files, rivals, &mut paths, far_behind)?;
                if chosen.is_empty() {
                    self.skip(report, &rivals.missing.join(", "));
                    return Ok(());
                }
                theirs_s = vec![Vec::new(); chosen.len()];
            }
            let order = self.order(None, ours.size(), &paths);
            let mut our_turn = || ours.turn(&order);
            let mut turns_of = Vec::new();
            for (_, rival) in rivals.all.iter_mut().enumerate().filter(|(n, _)| chosen.contains(n))
            {
                let order = self.order(Some(rival.kind), rival.team.size(), &paths);
                turns_of.push(move || rival.team.turn(&order));
            }
            let mut sides: Vec<TurnRunner<'_>> = vec![&mut our_turn];
            sides.extend(turns_of.iter_mut().map(|turn| turn as TurnRunner<'_>));
            let mut seconds = rotate(turns, &mut sides)?.into_iter();
            ours_s.extend(seconds.next().into_iter().flatten());
            for (all, more) in theirs_s.iter_mut().zip(seconds) {
                all.extend(more);
            }
            if round == 0 {
                let checked = self.check_all(files, ours, &mut rivals.all, &chosen, &paths)?;
                if let Err(reason) = checked {
                    self.skip(report, &reason);
                    return Ok(());
                }
            }
        }
        for (kind, goal) in self.goals {
            let figure = self.figure(*kind);
            let of_kind = chosen.iter().enumerate().filter(|(_, n)| rivals.all[**n].kind == *kind);
            let sides: Vec<_> =
                of_kind.map(|(side, _)| (side, theirs_s[side].as_slice())).collect();
            let Some(best) = fastest(sides.iter().copied()) else {
                report.skipped(&figure, rivals.missing.join(", "));
                continue;
            };
            if *kind == RivalKind::Mpi {
                let name_of = |side: usize| &rivals.all[chosen[side]].name;
                let named = |(side, seconds): &(usize, &[f64])| {
                    format!("{} {:.2} ms", name_of(*side), median(seconds) * 1e3)
                };
                let all: Vec<_> = sides.iter().map(named).collect();
                let (all, best) = (all.join(", "), name_of(best));
                eprintln!("  {figure}: a turn took {all}: compared with {best}");
            }
            let comparison = Comparison::new(&ours_s, &theirs_s[best]);
            report.measured(&figure, comparison, self.quantity(), *goal);
        }
        Ok(())
    }

    /// Chooses the rivals that take turns: all that work, of the MPIs the better ones. After a
    /// wrong rival it creates a new file.
    fn choose(
        &self,
        files: &mut impl ContestFiles,
        rivals: &mut Rivals,
        paths: &mut ContestPaths,
        far_behind: f64,
    ) -> Result<Vec<usize>> {
        let wants = |kind| self.goals.iter().any(|(wanted, _)| *wanted == kind);
        let mut tried: Vec<(String, Vec<f64>)> = Vec::new();
        for mut rival in mem::take(&mut rivals.all) {
            if rival.kind == RivalKind::Mpi && wants(RivalKind::Mpi) {
                let seconds = match self.try_out(&mut rival, paths) {
                    Ok(seconds) => seconds,
                    Err(error) => {
                        let reason = format!("{}: {error:#}", rival.name);
                        eprintln!("  {}: {reason}", self.label);
                        rivals.missing.push(reason);
                        continue;
                    }
                };
                match self.check_one(files, &rival, paths) {
                    Ok(()) => tried.push((rival.name.clone(), seconds)),
                    Err(error) => {
                        let reason = format!("{}: wrong, takes no turns: {error:#}", self.label);
                        eprintln!("  {reason}");
                        rivals.missing.push(reason);
                        let name = format!("{}-after-{}", self.label, rival.name);
                        *paths = files.lay_out(&name, self.piece_bytes, self.blocks())?;
                    }
                }
            }
            rivals.all.push(rival);
        }
        // The median counts later, so the trial compares medians as well.
        let best = tried.iter().map(|(_, s)| median(s)).fold(f64::INFINITY, f64::min);
        let is_near = |(_, seconds): &&(String, Vec<f64>)| {
            seconds.iter().any(|seconds| *seconds <= best * far_behind)
        };
        let (near, far): (Vec<_>, Vec<_>) = tried.iter().partition(is_near);
        for (name, seconds) in far {
            let (label, ms, best_ms) = (self.label, median(seconds) * 1e3, best * 1e3);
            eprintln!("  {label}: {name} took {ms:.1} ms on trial, the best {best_ms:.1} ms");
        }
        let is_chosen = |rival: &Rival| match rival.kind {
            RivalKind::Mpi => near.iter().any(|(name, _)| *name == rival.name),
            kind => wants(kind),
        };
        let chosen = rivals.all.iter().enumerate().filter(|(_, rival)| is_chosen(rival));
        Ok(chosen.map(|(number, _)| number).collect())
    }

    /// The seconds of each trial turn.
    fn try_out(&self, rival: &mut Rival, paths: &ContestPaths) -> Result<Vec<f64>> {
        let order = self.order(Some(rival.kind), rival.team.size(), paths);
        rival.team.turn(&order)?;
        (0..TRIALS).map(|_| Ok(rival.team.turn(&order)?.as_secs_f64())).collect()
    }

    /// Checks what each side has written, after one more turn of it; returns what is wrong with
    /// another side.
    fn check_all(
        &self,
        files: &mut impl ContestFiles,
        ours: &mut TurnProcesses,
        rivals: &mut [Rival],
        chosen: &[usize],
        paths: &ContestPaths,
    ) -> Result<Result<(), String>> {
        if self.leaves_nothing() {
            return Ok(Ok(()));
        }
        ours.turn(&self.order(None, ours.size(), paths))?;
        self.check(ours.size(), &files.read_ours(paths)?).context("ours")?;
        for number in chosen {
            let rival = &mut rivals[*number];
            rival.team.turn(&self.order(Some(rival.kind), rival.team.size(), paths))?;
            if let Err(error) = self.check_one(files, rival, paths) {
                return Ok(Err(format!("wrong after its turns: {error:#}")));
            }
        }
        Ok(Ok(()))
    }

    fn check_one(
        &self,
        files: &mut impl ContestFiles,
        rival: &Rival,
        paths: &ContestPaths,
    ) -> Result<()> {
        if self.leaves_nothing() {
            return Ok(());
        }
        let bytes = match rival.kind {
            RivalKind::Async => files.read_ours(paths)?,
            RivalKind::Mpi | RivalKind::Plain => files.read_theirs(&rival.dir, paths)?,
        };
        self.check(rival.team.size(), &bytes).with_context(|| rival.name.clone())
    }

    /// Whether the access leaves nothing in the file to compare.
    fn leaves_nothing(&self) -> bool {
        matches!(self.access, ModeAccess::Global | ModeAccess::Open)
    }

    /// Checks that each block is of one rank: of the rank whose block it is; in a log, equally many
    /// of each rank; where all write the same blocks, of any rank.
    fn check(&self, size: usize, bytes: &[u8]) -> Result<()> {
        let blocks = self.blocks();
        let expected = blocks * self.piece_bytes as u64;
        ensure!(bytes.len() as u64 == expected, "{} bytes instead of {expected}", bytes.len());
        let mut blocks_of = vec![0; size];
        let size = u32::try_from(size)?;
        for (block, piece) in (0u64..).zip(bytes.chunks(self.piece_bytes)) {
            let byte = piece[0];
            ensure!(piece.iter().all(|other| *other == byte), "block {block} is mixed");
            let rank = (0..size).find(|rank| byte_of(*rank) == byte);
            let rank = rank.with_context(|| format!("block {block} is of no rank"))?;
            let is_anybody = matches!(self.access, ModeAccess::Log | ModeAccess::Same);
            let is_right = is_anybody || u64::from(rank) == block % u64::from(size);
            ensure!(is_right, "block {block} is of rank {rank}");
            blocks_of[rank as usize] += 1;
        }
        let each = blocks / u64::from(size);
        let is_even =
            self.access == ModeAccess::Same || blocks_of.iter().all(|blocks| *blocks == each);
        ensure!(is_even, "blocks of ranks: {blocks_of:?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(access: ModeAccess) -> ModeContest {
        ModeContest { label: "x", access, piece_bytes: 2, calls: 8, is_mounted: false, goals: &[] }
    }

    #[test]
    fn blocks_must_be_where_they_belong() {
        let records = contest(ModeAccess::Record);
        records.check(4, b"aabbccddaabbccdd").unwrap();
        records.check(2, b"aabbaabbaabbaabb").unwrap();
        assert!(records.check(4, b"aabbccddaabbddcc").is_err());
        assert!(records.check(4, b"aabbccdd").is_err());
        assert!(records.check(4, b"aabbccddaabbccdz").is_err());
        assert!(records.check(4, b"aabbccddaabbcczz").is_err());
    }

    #[test]
    fn a_log_has_as_many_blocks_of_each_in_any_order() {
        let log = contest(ModeAccess::Log);
        log.check(4, b"ddaabbccddccbbaa").unwrap();
        assert!(log.check(4, b"ddaabbccddccbbbb").is_err());
    }

    #[test]
    fn all_sides_move_the_same_bytes() {
        let paths = ContestPaths { ours: "/o".into(), plain: "p".into() };
        let record = contest(ModeAccess::Record);
        let (four, two) =
            (record.order(None, 4, &paths), record.order(Some(RivalKind::Mpi), 2, &paths));
        assert_eq!((four.calls * 4, four.blocks), (two.calls * 2, two.blocks));
        let global = contest(ModeAccess::Global);
        let (four, two) =
            (global.order(None, 4, &paths), global.order(Some(RivalKind::Mpi), 2, &paths));
        assert_eq!((four.calls, four.blocks), (2, 2));
        assert_eq!((two.calls, two.blocks), (4, 2));
        assert_eq!(contest(ModeAccess::Open).order(None, 64, &paths).calls, 8);
    }
}
