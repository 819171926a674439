//! A process that writes and reads columns: in a cached file of ours, plain or of a cluster, in a plain
//! file, or by the calls of NX.

use std::fs::{File, OpenOptions};
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use pario::cached::CachedFileSource;
use pario::{CachedFile, CachedOptions, Cluster, Job, Mode, SharedFile};

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
/// The argument of a process that writes and reads a consecutive part of a plain file with large
/// calls, and computes nothing: the upper bound.
pub const BOUND: &str = "bound";
/// The argument of a process that caches a file of a cluster, whose address is the directory.
pub const CACHED: &str = "cached";
/// The argument of a process that seeks, reads and writes a shared file of a cluster in M_ASYNC.
pub const NX: &str = "nx";

/// Bytes of a large call.
const PIECE_BYTES: usize = 4 << 20;

fn serve(words: &[String]) -> Result<()> {
    let (process, rest) = TeamMember::take(words)?;
    let [kind, dir] = rest else { bail!("needs a kind and a directory") };
    let job = process.meet()?;
    let cluster = match kind.as_str() {
        CACHED | NX => Some(Cluster::connect(dir)?),
        _ => None,
    };
    let mut member = GridMember {
        columns: Columns { grid: Grid::new([2, 2, 2]), size: job.size(), bytes: Vec::new() },
        memory: vec![7; if kind == BOUND { PIECE_BYTES } else { 0 }],
        dir: dir.into(),
        cluster,
        job,
        opened: OpenGridFile::Nothing,
    };
    process.take_turns(|line, begin| {
        let order: GridTurn = line.parse()?;
        member.columns.lay_out(&order);
        begin.wait()?;
        match kind.as_str() {
            OURS | CACHED => member.take_turn(&order),
            NX => member.take_nx_turn(&order),
            BOUND => member.take_bound_turn(&order),
            _ => member.take_plain_turn(&order),
        }
    })
}

struct GridMember {
    job: Job,
    dir: PathBuf,
    cluster: Option<Cluster>,
    columns: Columns,
    /// The bytes of a large call.
    memory: Vec<u8>,
    opened: OpenGridFile,
}

enum OpenGridFile {
    Nothing,
    Cached(Box<CachedFile>),
    Shared(Box<SharedFile>),
    Plain(File),
}

impl GridMember {
    /// The file of a turn, plain or in the cluster.
    fn source(&self, order: &GridTurn) -> CachedFileSource {
        match &self.cluster {
            Some(cluster) => CachedFileSource::in_cluster(cluster, format!("/{}", order.name)),
            None => CachedFileSource::from(self.dir.join(&order.name)),
        }
    }

    fn take_turn(&mut self, order: &GridTurn) -> Result<()> {
        let source = self.source(order);
        match (order.phase, std::mem::replace(&mut self.opened, OpenGridFile::Nothing)) {
            (GridPhase::Create, _) => {
                let options = CachedOptions::new().write(true).create_new(true).prefault(true);
                let mut file = self.job.cache_with(source, &options)?;
                file.reserve(self.columns.grid.file_bytes())?;
                self.opened = OpenGridFile::Cached(Box::new(file));
            }
            (GridPhase::Open, _) => {
                let options = CachedOptions::new().read(true).prefault(true);
                self.opened =
                    OpenGridFile::Cached(Box::new(self.job.cache_with(source, &options)?));
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

    /// One seek and one call for each column, as the program of the report has them for NX.
    fn take_nx_turn(&mut self, order: &GridTurn) -> Result<()> {
        let cluster = self.cluster.as_ref().context("NX needs a cluster")?;
        let (files, path) = (self.job.files(cluster), format!("/{}", order.name));
        match (order.phase, std::mem::replace(&mut self.opened, OpenGridFile::Nothing)) {
            (GridPhase::Create, _) => {
                let file = files.create(&path, Mode::Async)?;
                if self.job.rank() == 0 {
                    file.file().set_len(self.columns.grid.file_bytes())?;
                }
                self.opened = OpenGridFile::Shared(Box::new(file));
            }
            (GridPhase::Open, _) => {
                let file = files.open(&path, Mode::Async)?;
                self.opened = OpenGridFile::Shared(Box::new(file));
            }
            (GridPhase::Close, OpenGridFile::Shared(file)) => {
                file.sync()?;
                file.close()?;
            }
            (GridPhase::End, OpenGridFile::Shared(file)) => file.close()?,
            (GridPhase::Write, OpenGridFile::Shared(file)) => {
                self.columns.write(self.job.rank(), |bytes, place| {
                    file.seek(SeekFrom::Start(place))?;
                    Ok(file.write(bytes)?)
                })?;
                self.opened = OpenGridFile::Shared(file);
            }
            (GridPhase::Read, OpenGridFile::Shared(file)) => {
                let next = (self.job.rank() + 1) % self.job.size();
                self.columns.read(next, |bytes, place| {
                    file.seek(SeekFrom::Start(place))?;
                    let count = file.read(bytes)?;
                    ensure!(count == bytes.len(), "the file ends at byte {place}");
                    Ok(())
                })?;
                self.opened = OpenGridFile::Shared(file);
            }
            (phase, _) => bail!("nothing is open in the phase {}", phase.name()),
        }
        Ok(())
    }

    /// Like a plain turn, with large calls.
    fn take_bound_turn(&mut self, order: &GridTurn) -> Result<()> {
        let OpenGridFile::Plain(file) = &self.opened else { return self.take_plain_turn(order) };
        let (rank, size) = (u64::from(self.job.rank()), u64::from(self.job.size()));
        let bytes = self.columns.grid.file_bytes();
        let (mut next, end) = (bytes * rank / size, bytes * (rank + 1) / size);
        if !matches!(order.phase, GridPhase::Write | GridPhase::Read) {
            return self.take_plain_turn(order);
        }
        while next < end {
            let len = PIECE_BYTES.min(usize::try_from(end - next)?);
            match order.phase {
                GridPhase::Write => file.write_all_at(&self.memory[..len], next)?,
                _ => file.read_exact_at(&mut self.memory[..len], next)?,
            }
            next += len as u64;
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
