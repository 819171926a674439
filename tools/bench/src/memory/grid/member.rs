//! A process that writes and reads columns: in a cached file of ours, or in a plain file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pario::{CachedFile, CachedOptions, Job};

use super::grid_turn::{GridPhase, GridTurn};
use super::pattern::Grid;
use crate::memory::team_member::TeamMember;
use crate::partner::PartnerRole;

/// A process of either side.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-grid", run: serve };

/// The argument of a process of ours.
pub const OURS: &str = "ours";
/// The argument of a process that uses plain files.
pub const PLAIN: &str = "plain";

fn serve(words: &[String]) -> Result<()> {
    let (process, rest) = TeamMember::take(words)?;
    let [kind, dir] = rest else { bail!("needs a kind and a directory") };
    let job = process.meet()?;
    let mut member = GridMember {
        columns: Columns { grid: Grid::new([2, 2, 2]), size: job.size(), bytes: Vec::new() },
        dir: dir.into(),
        job,
        opened: OpenGridFile::Nothing,
    };
    let is_ours = kind == OURS;
    process.take_turns(|line, begin| {
        let order: GridTurn = line.parse()?;
        member.columns.lay_out(&order);
        begin.wait()?;
        if is_ours { member.take_turn(&order) } else { member.take_plain_turn(&order) }
    })
}

struct GridMember {
    job: Job,
    dir: PathBuf,
    columns: Columns,
    opened: OpenGridFile,
}

enum OpenGridFile {
    Nothing,
    Cached(Box<CachedFile>),
    Plain(File),
}

impl GridMember {
    fn take_turn(&mut self, order: &GridTurn) -> Result<()> {
        let path = self.dir.join(&order.name);
        match (order.phase, std::mem::replace(&mut self.opened, OpenGridFile::Nothing)) {
            (GridPhase::Create, _) => {
                let options = CachedOptions::new().write(true).create_new(true).prefault(true);
                let mut file = self.job.cache_with(&path, &options)?;
                file.reserve(self.columns.grid.file_bytes())?;
                self.opened = OpenGridFile::Cached(Box::new(file));
            }
            (GridPhase::Open, _) => {
                let options = CachedOptions::new().read(true).prefault(true);
                self.opened = OpenGridFile::Cached(Box::new(self.job.cache_with(&path, &options)?));
            }
            (GridPhase::Close | GridPhase::End, OpenGridFile::Cached(file)) => file.close()?,
            (GridPhase::Write, OpenGridFile::Cached(file)) => {
                let rank = self.job.rank();
                self.columns.write(rank, |bytes, place| Ok(file.write_at(bytes, place)?))?;
                self.opened = OpenGridFile::Cached(file);
            }
            (GridPhase::Read, OpenGridFile::Cached(file)) => {
                let next = (self.job.rank() + 1) % self.job.size();
                self.columns.read(next, |bytes, place| Ok(file.read_exact_at(bytes, place)?))?;
                self.opened = OpenGridFile::Cached(file);
            }
            (phase, _) => bail!("nothing is open in the phase {}", phase.name()),
        }
        Ok(())
    }

    fn take_plain_turn(&mut self, order: &GridTurn) -> Result<()> {
        let path = self.dir.join(&order.name);
        let context = || format!("opening {}", path.display());
        match (order.phase, std::mem::replace(&mut self.opened, OpenGridFile::Nothing)) {
            (GridPhase::Create, _) => {
                let options = &mut OpenOptions::new();
                let file = options.write(true).create(true).truncate(false).open(&path);
                self.opened = OpenGridFile::Plain(file.with_context(context)?);
            }
            (GridPhase::Open, _) => {
                self.opened = OpenGridFile::Plain(File::open(&path).with_context(context)?);
            }
            (GridPhase::Close, OpenGridFile::Plain(file)) => {
                // All have written before, so one of them is enough.
                if self.job.rank() == 0 {
                    make_durable(&file, &self.dir)?;
                }
            }
            (GridPhase::End, OpenGridFile::Plain(_)) => {}
            (GridPhase::Write, OpenGridFile::Plain(file)) => {
                let rank = self.job.rank();
                self.columns.write(rank, |bytes, place| Ok(file.write_all_at(bytes, place)?))?;
                self.opened = OpenGridFile::Plain(file);
            }
            (GridPhase::Read, OpenGridFile::Plain(file)) => {
                let next = (self.job.rank() + 1) % self.job.size();
                self.columns.read(next, |bytes, place| Ok(file.read_exact_at(bytes, place)?))?;
                self.opened = OpenGridFile::Plain(file);
            }
            (phase, _) => bail!("nothing is open in the phase {}", phase.name()),
        }
        Ok(())
    }
}

/// Makes the bytes and the name durable.
fn make_durable(file: &File, dir: &Path) -> Result<()> {
    file.sync_data()?;
    Ok(File::open(dir)?.sync_all()?)
}

/// The columns of a grid, and a buffer for one of them.
struct Columns {
    grid: Grid,
    size: u32,
    bytes: Vec<u8>,
}

impl Columns {
    fn lay_out(&mut self, order: &GridTurn) {
        if self.grid.points() != order.points {
            self.grid = Grid::new(order.points);
        }
        self.bytes.resize(self.grid.column_bytes(), 0);
    }

    fn write(&mut self, rank: u32, write: impl Fn(&[u8], u64) -> Result<()>) -> Result<()> {
        for column in self.grid.columns_of(rank, self.size) {
            self.grid.fill(column, &mut self.bytes);
            write(&self.bytes, self.grid.place(column))?;
        }
        Ok(())
    }

    fn read(&mut self, rank: u32, read: impl Fn(&mut [u8], u64) -> Result<()>) -> Result<()> {
        for column in self.grid.columns_of(rank, self.size) {
            read(&mut self.bytes, self.grid.place(column))?;
            self.grid.examine(column, &self.bytes)?;
        }
        Ok(())
    }
}
