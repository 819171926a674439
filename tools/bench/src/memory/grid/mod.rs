//! The program of the report on DONIO: four processes write the element list of a grid to one file,
//! make it durable, open it again, and read it. Our cached files, against plain system calls and
//! MPI-IO, independent and collective.

mod contest;
pub mod grid_turn;
pub mod member;
pub mod pattern;
pub mod sides;
pub mod site;

use std::path::Path;

use anyhow::Result;

use crate::area::RunSettings;
use crate::report::Report;
use crate::scratch_directory::{self, ScratchDirectory};
use contest::{GridContest, GridFigure, GridGoals};
use grid_turn::MpiCalls;
use pattern::Points;
use sides::GridSide;
use site::{GlusterMount, GridSite};

/// The three grids of the report, and a larger one.
const GRIDS: [Points; 4] = [[41, 41, 31], [81, 81, 61], [121, 121, 91], LARGEST];
const LARGEST: Points = [241, 241, 181];
/// A tmpfs.
const TMPFS: &str = "/dev/shm";

/// Measures `grid-disk-…`.
pub fn run_on_disk(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("grid")?;
    run(setting, report, &dir, "grid-disk")
}

/// Measures `grid-tmpfs-…`.
pub fn run_on_tmpfs(setting: &RunSettings, report: &mut Report) -> Result<()> {
    if !scratch_directory::in_memory(Path::new(TMPFS)) {
        report.skipped("grid-tmpfs", format!("{TMPFS} is no tmpfs"));
        return Ok(());
    }
    let scratch = ScratchDirectory::make(Some(Path::new(TMPFS)))?;
    run(setting, report, scratch.path(), "grid-tmpfs")
}

fn run(setting: &RunSettings, report: &mut Report, dir: &Path, label: &str) -> Result<()> {
    let mut ours = GridSide::ours(&GridSite::Here, dir, dir)?;
    let mut bound = GridSide::bound(dir, dir)?;
    let mut others = GridSide::others(&GridSite::Here, dir, dir)?;
    for points in setting.choose(&GRIDS[..], &GRIDS[1..2]) {
        let goals = match *points == LARGEST {
            true => GridGoals { write: Some(2.0), read: Some(2.0), total: Some(1.3) },
            false => GridGoals { total: Some(1.0), ..GridGoals::default() },
        };
        let label = format!("{label}-{}", points[0]);
        let contest = GridContest {
            label,
            points: *points,
            hows: &MpiCalls::ALL,
            parts: &GridFigure::ALL,
            goals,
        };
        contest.run(setting, report, &mut ours, Some(&mut bound), &mut others)?;
    }
    Ok(())
}

/// Measures `grid-gluster-…`: ours on the disk of the bricks, and also on the mount. With the
/// largest grid some of the others would take minutes for a turn.
pub fn run_against_gluster(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("gluster")?;
    let mount = match GlusterMount::start(&dir)? {
        Ok(mount) => mount,
        Err(reason) => {
            report.skipped("grid-gluster", reason);
            return Ok(());
        }
    };
    let (files, site) = (mount.dir().to_owned(), mount.into_site());
    let mut others = GridSide::others(&site, &dir, &files)?;
    let here = setting.subdir("gluster-ours")?;
    let mut ours = GridSide::ours(&GridSite::Here, &here, &here)?;
    let goals = GridGoals { total: Some(15.0), ..GridGoals::default() };
    let contest = |label: &str, points: Points, hows, goals| {
        let label = format!("{label}-{}", points[0]);
        GridContest { label, points, hows, parts: &[GridFigure::Total], goals }
    };
    let best = contest("grid-gluster", setting.choose(GRIDS[2], GRIDS[0]), &MpiCalls::ALL, goals);
    best.run(setting, report, &mut ours, None, &mut others)?;
    if setting.quick {
        return Ok(());
    }
    // One call for each column, as the program of the report makes them.
    let calls = contest("grid-gluster-calls", GRIDS[1], &[MpiCalls::Independent], goals);
    calls.run(setting, report, &mut ours, None, &mut others)?;
    // Our side on the mount as well, where it waits for the same file system.
    let mut ours = GridSide::ours(&site, &dir, &files)?;
    let same = contest("grid-gluster-same", GRIDS[1], &MpiCalls::ALL, GridGoals::default());
    same.run(setting, report, &mut ours, None, &mut others)
}
