//! A figure or two: ours and others do the same in turns.
//!
//! A file of ours and a plain one have as many bytes, are filled in the same way and are written over
//! or read again in each turn; nothing is made durable. All sides move the same number of bytes in a
//! turn: where MPICH has two processes, each of them makes twice as many calls. Files are made anew
//! several times, because where the kernel puts their pages makes a difference of a few per cent.
//!
//! Each MPI takes a few turns on trial first. One that fails, that leaves something wrong in its file,
//! or that never comes within twice the time of the best, takes no further turns; of the others the
//! one with the best median counts.

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

/// How many processes ours and most others have.
pub const PROCESSES: usize = 4;
/// One that never comes within so many times the median of the best is not measured further; in a
/// quick run nobody is who does not once come up to it.
const FAR_BEHIND: (f64, f64) = (2.0, 1.0);
/// Turns on trial, after one that does not count.
const TRIALS: usize = 3;

/// How one file is called on all sides.
#[derive(Clone, Debug)]
pub struct ContestPaths {
    /// In the cluster.
    pub ours: String,
    /// From the directory of the others.
    pub plain: String,
}

/// Where the files are.
pub trait ContestFiles {
    /// Makes a file of so many blocks on all sides.
    fn lay_out(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<ContestPaths>;
    /// What the file of ours has now.
    fn read_ours(&mut self, paths: &ContestPaths) -> Result<Vec<u8>>;
    /// What the file that others have in a directory has now.
    fn read_theirs(&mut self, dir: &Path, paths: &ContestPaths) -> Result<Vec<u8>>;
}

/// What is measured.
#[derive(Debug)]
pub struct ModeContest {
    /// How the names of its figures begin.
    pub label: &'static str,
    /// What is done.
    pub what: ModeAccess,
    /// Bytes of a call.
    pub piece_bytes: usize,
    /// Calls of all processes of ours in a turn; opens together count once.
    pub calls: u64,
    /// Whether the other side's file is on a mount, which forgets before each turn what it has
    /// cached.
    pub is_mounted: bool,
    /// The figures: against whom, and what ratio is to be reached, if there is one.
    pub goals: &'static [(RivalKind, Option<f64>)],
}

impl ModeContest {
    /// How many blocks the file has: each process visits all of them where all do the same.
    fn blocks(&self) -> u64 {
        match self.what {
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
            what: if kind == Some(RivalKind::Async) { ModeAccess::Async } else { self.what },
            piece_bytes: self.piece_bytes,
            calls: if self.what == ModeAccess::Open {
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
        if self.what == ModeAccess::Open || self.piece_bytes < 1024 {
            Quantity::Operations(calls)
        } else {
            Quantity::Megabytes(calls * self.piece_bytes as f64)
        }
    }

    fn figure(&self, kind: RivalKind) -> String {
        format!("{}-{}", self.label, kind.suffix(self.what))
    }

    /// Says why its figures cannot be measured.
    pub fn skip(&self, report: &mut Report, reason: &str) {
        self.goals.iter().for_each(|(kind, _)| report.skipped(&self.figure(*kind), reason));
    }

    /// Measures and reports. Rivals that fail are gone afterwards.
    pub fn run(
        &self,
        setting: &RunSettings,
        report: &mut Report,
        ground: &mut impl ContestFiles,
        ours: &mut TurnProcesses,
        rivals: &mut Rivals,
    ) -> Result<()> {
        let (rounds, turns) = setting.choose((4, 19), (1, 15));
        // A file on each side, others after those who were wrong, and room for what they are kept in.
        let files = 4 * (rounds + rivals.all.len() as u64);
        let needed_bytes = files * self.blocks() * self.piece_bytes as u64;
        if let Some(reason) = setting.lacks_space(needed_bytes)? {
            self.skip(report, &reason);
            return Ok(());
        }
        let mut ours_s = Vec::new();
        let mut theirs_s: Vec<Vec<f64>> = Vec::new();
        let mut chosen = Vec::new();
        for round in 0..rounds {
            let name = format!("{}-{round}", self.label);
            let mut paths = ground.lay_out(&name, self.piece_bytes, self.blocks())?;
            if round == 0 {
                let far_behind = setting.choose(FAR_BEHIND.0, FAR_BEHIND.1);
                chosen = self.choose(ground, rivals, &mut paths, far_behind)?;
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
                let checked = self.check_all(ground, ours, &mut rivals.all, &chosen, &paths)?;
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

    /// Who takes turns: all that are compared to and work, of MPI the better ones. After one that
    /// was wrong there is a new file.
    fn choose(
        &self,
        ground: &mut impl ContestFiles,
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
                match self.check_one(ground, &rival, paths) {
                    Ok(()) => tried.push((rival.name.clone(), seconds)),
                    Err(error) => {
                        let reason = format!("{}: wrong, takes no turns: {error:#}", self.label);
                        eprintln!("  {reason}");
                        rivals.missing.push(reason);
                        let name = format!("{}-after-{}", self.label, rival.name);
                        *paths = ground.lay_out(&name, self.piece_bytes, self.blocks())?;
                    }
                }
            }
            rivals.all.push(rival);
        }
        // The median counts later, so nobody is judged by the best turn of another.
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

    /// The seconds of each turn on trial.
    fn try_out(&self, rival: &mut Rival, paths: &ContestPaths) -> Result<Vec<f64>> {
        let order = self.order(Some(rival.kind), rival.team.size(), paths);
        rival.team.turn(&order)?;
        (0..TRIALS).map(|_| Ok(rival.team.turn(&order)?.as_secs_f64())).collect()
    }

    /// That each side has written what it should have, after one more turn of it; or what is wrong
    /// with another one.
    fn check_all(
        &self,
        ground: &mut impl ContestFiles,
        ours: &mut TurnProcesses,
        rivals: &mut [Rival],
        chosen: &[usize],
        paths: &ContestPaths,
    ) -> Result<Result<(), String>> {
        if self.leaves_nothing() {
            return Ok(Ok(()));
        }
        ours.turn(&self.order(None, ours.size(), paths))?;
        self.check(ours.size(), &ground.read_ours(paths)?).context("ours")?;
        for number in chosen {
            let rival = &mut rivals[*number];
            rival.team.turn(&self.order(Some(rival.kind), rival.team.size(), paths))?;
            if let Err(error) = self.check_one(ground, rival, paths) {
                return Ok(Err(format!("wrong after its turns: {error:#}")));
            }
        }
        Ok(Ok(()))
    }

    fn check_one(
        &self,
        ground: &mut impl ContestFiles,
        rival: &Rival,
        paths: &ContestPaths,
    ) -> Result<()> {
        if self.leaves_nothing() {
            return Ok(());
        }
        let bytes = match rival.kind {
            RivalKind::Async => ground.read_ours(paths)?,
            RivalKind::Mpi | RivalKind::Plain => ground.read_theirs(&rival.dir, paths)?,
        };
        self.check(rival.team.size(), &bytes).with_context(|| rival.name.clone())
    }

    /// Whether there is nothing in the file that could be compared.
    fn leaves_nothing(&self) -> bool {
        matches!(self.what, ModeAccess::Global | ModeAccess::Open)
    }

    /// Every block is of one rank: of the one whose place it is; in a log, as many of each; where
    /// all write the same blocks, of anybody.
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
            let rank = rank.with_context(|| format!("block {block} is nobody's"))?;
            let is_anybody = matches!(self.what, ModeAccess::Log | ModeAccess::Same);
            let is_right = is_anybody || u64::from(rank) == block % u64::from(size);
            ensure!(is_right, "block {block} is of rank {rank}");
            blocks_of[rank as usize] += 1;
        }
        let each = blocks / u64::from(size);
        let is_even =
            self.what == ModeAccess::Same || blocks_of.iter().all(|blocks| *blocks == each);
        ensure!(is_even, "blocks of ranks: {blocks_of:?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(what: ModeAccess) -> ModeContest {
        ModeContest { label: "x", what, piece_bytes: 2, calls: 8, is_mounted: false, goals: &[] }
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
