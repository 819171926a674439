//! A process that writes and reads columns: in a cached file of ours, or in a plain file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pario::{CachedFile, CachedOptions, Job};

use super::order::{Order, Phase};
use super::pattern::Grid;
use crate::memory::seat::Seat;
use crate::partner::Role;

/// A process of either.
pub const ROLE: Role = Role { name: "memory-grid", run: serve };

/// What a process of ours is told to be.
pub const OURS: &str = "ours";
/// What a process that uses plain files is told to be.
pub const PLAIN: &str = "plain";

fn serve(words: &[String]) -> Result<()> {
    let (seat, rest) = Seat::take(words)?;
    let [kind, dir] = rest else { bail!("needs a kind and a directory") };
    let job = seat.meet()?;
    let mut member = Member {
        columns: Columns { grid: Grid::new([2, 2, 2]), size: job.size(), bytes: Vec::new() },
        dir: dir.into(),
        job,
        opened: Opened::Nothing,
    };
    let is_ours = kind == OURS;
    seat.take_turns(|line, begin| {
        let order: Order = line.parse()?;
        member.columns.lay_out(&order);
        begin.wait()?;
        if is_ours { member.take_turn(&order) } else { member.take_plain_turn(&order) }
    })
}

struct Member {
    job: Job,
    dir: PathBuf,
    columns: Columns,
    opened: Opened,
}

enum Opened {
    Nothing,
    Cached(Box<CachedFile>),
    Plain(File),
}

impl Member {
    fn take_turn(&mut self, order: &Order) -> Result<()> {
        let path = self.dir.join(&order.name);
        match (order.phase, std::mem::replace(&mut self.opened, Opened::Nothing)) {
            (Phase::Create, _) => {
                let options = CachedOptions::new().write(true).create_new(true).prefault(true);
                let mut file = self.job.cache_with(&path, &options)?;
                file.reserve(self.columns.grid.file_bytes())?;
                self.opened = Opened::Cached(Box::new(file));
            }
            (Phase::Open, _) => {
                let options = CachedOptions::new().read(true).prefault(true);
                self.opened = Opened::Cached(Box::new(self.job.cache_with(&path, &options)?));
            }
            (Phase::Close | Phase::End, Opened::Cached(file)) => file.close()?,
            (Phase::Write, Opened::Cached(file)) => {
                let rank = self.job.rank();
                self.columns.write(rank, |bytes, place| Ok(file.write_at(bytes, place)?))?;
                self.opened = Opened::Cached(file);
            }
            (Phase::Read, Opened::Cached(file)) => {
                let next = (self.job.rank() + 1) % self.job.size();
                self.columns.read(next, |bytes, place| Ok(file.read_exact_at(bytes, place)?))?;
                self.opened = Opened::Cached(file);
            }
            (phase, _) => bail!("nothing is open in the phase {}", phase.name()),
        }
        Ok(())
    }

    fn take_plain_turn(&mut self, order: &Order) -> Result<()> {
        let path = self.dir.join(&order.name);
        let context = || format!("opening {}", path.display());
        match (order.phase, std::mem::replace(&mut self.opened, Opened::Nothing)) {
            (Phase::Create, _) => {
                let options = &mut OpenOptions::new();
                let file = options.write(true).create(true).truncate(false).open(&path);
                self.opened = Opened::Plain(file.with_context(context)?);
            }
            (Phase::Open, _) => {
                self.opened = Opened::Plain(File::open(&path).with_context(context)?);
            }
            (Phase::Close, Opened::Plain(file)) => {
                // All have written before: one of them is enough.
                if self.job.rank() == 0 {
                    make_durable(&file, &self.dir)?;
                }
            }
            (Phase::End, Opened::Plain(_)) => {}
            (Phase::Write, Opened::Plain(file)) => {
                let rank = self.job.rank();
                self.columns.write(rank, |bytes, place| Ok(file.write_all_at(bytes, place)?))?;
                self.opened = Opened::Plain(file);
            }
            (Phase::Read, Opened::Plain(file)) => {
                let next = (self.job.rank() + 1) % self.job.size();
                self.columns.read(next, |bytes, place| Ok(file.read_exact_at(bytes, place)?))?;
                self.opened = Opened::Plain(file);
            }
            (phase, _) => bail!("nothing is open in the phase {}", phase.name()),
        }
        Ok(())
    }
}

/// The bytes and the name.
fn make_durable(file: &File, dir: &Path) -> Result<()> {
    file.sync_data()?;
    Ok(File::open(dir)?.sync_all()?)
}

/// The columns of a grid, and memory for one of them.
struct Columns {
    grid: Grid,
    size: u32,
    bytes: Vec<u8>,
}

impl Columns {
    fn lay_out(&mut self, order: &Order) {
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
