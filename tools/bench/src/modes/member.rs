//! A process of a team of ours, or of one that uses plain files.

use std::fs::{File, OpenOptions};
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::{Cluster, ClusterOptions, Job, JobFiles, Mode, SharedFile};

use super::lines::Lines;
use super::moment::Moment;
use super::order::{Order, What};
use crate::cluster::content::Content;
use crate::partner::{Role, Starter};

/// A process of a team.
pub const ROLE: Role = Role { name: "modes-member", run: serve };

/// How long it may take until all nodes have joined.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a process of ours has to know.
#[derive(Debug)]
pub struct Seat<'a> {
    /// The socket of the team.
    pub door: &'a str,
    /// The node.
    pub address: &'a str,
    /// Where the key is, or no path if it is on one machine with all nodes.
    pub key: &'a str,
    /// The name of the job.
    pub job: &'a str,
    /// How many processes it has.
    pub size: usize,
    /// Which of them this is.
    pub rank: usize,
}

impl Seat<'_> {
    /// The words to start it with.
    pub fn words(&self) -> [String; 7] {
        let Self { door, address, key, job, size, rank } = self;
        let text = |word: &str| word.to_owned();
        let (size, rank) = (size.to_string(), rank.to_string());
        [text("ours"), text(door), size, rank, text(address), text(key), text(job)]
    }
}

/// The words to start a process that uses plain files in a directory.
pub fn plain_words(door: &str, size: usize, rank: usize, dir: &str) -> [String; 5] {
    ["plain".to_owned(), door.to_owned(), size.to_string(), rank.to_string(), dir.to_owned()]
}

fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [kind, door, size, rank, rest @ ..] = words else {
        bail!("needs a kind, a socket, a size and a rank");
    };
    let (size, rank): (u32, u32) = (size.parse()?, rank.parse()?);
    let mut files = match (kind.as_str(), rest) {
        ("ours", [address, key, job]) => {
            let key = Path::new(key);
            let job = Job::new(job, size, rank)?.files(&connect(address, key)?);
            Files::Ours { job, is_near: !key.exists(), open: None }
        }
        ("plain", [dir]) => Files::Plain { dir: dir.into(), open: None },
        _ => bail!("needs what its kind needs"),
    };
    let mut lines = Lines::connect(Path::new(door))?;
    let mut last: Option<Process> = None;
    while let Some(line) = lines.next()? {
        let mut take_turn = || {
            // Not at the end of its own turn, when others may still be at work.
            last.as_ref().map_or(Ok(()), Process::check)?;
            let order: Order = line.parse()?;
            let memory = vec![byte_of(rank); order.piece_bytes];
            files.take_turn(last.insert(Process { order, size, rank, memory }), &mut lines)
        };
        if let Err(error) = take_turn() {
            lines.tell(format!("failed: {error:#}").replace('\n', " "))?;
            return Err(error);
        }
    }
    drop(starter);
    Ok(())
}

/// What a rank writes.
pub fn byte_of(rank: u32) -> u8 {
    b'a' + u8::try_from(rank % 26).unwrap_or(0)
}

/// Connects as users do, when all nodes have their disks.
pub fn connect(address: &str, key: &Path) -> Result<Cluster> {
    let options = ClusterOptions {
        short_cut: Some(true),
        key_file: key.exists().then(|| key.to_owned()),
        client: Some("member".to_owned()),
        ..ClusterOptions::default()
    };
    let start = Instant::now();
    loop {
        let cluster = Cluster::connect_with(address, options.clone())?;
        if cluster.map().nodes.iter().all(|node| !node.disks.is_empty()) {
            return Ok(cluster);
        }
        ensure!(start.elapsed() < PATIENCE, "not all nodes have joined");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process in a turn.
struct Process {
    order: Order,
    size: u32,
    rank: u32,
    memory: Vec<u8>,
}

impl Process {
    /// Where a call goes: blocks are interleaved by rank, unless all write the same.
    fn place(&self, call: u64) -> u64 {
        let block = match self.order.what {
            What::Same => call % self.order.blocks,
            _ => call * u64::from(self.size) + u64::from(self.rank),
        };
        block * self.order.piece_bytes as u64
    }

    /// That what was read last is right.
    fn check(&self) -> Result<()> {
        let Order { what, calls, blocks, piece_bytes, .. } = self.order;
        if what == What::Global && calls > 0 {
            Content::new(piece_bytes).check((calls - 1) % blocks, &self.memory)?;
        }
        Ok(())
    }
}

/// What a process has open; a file stays open from turn to turn.
enum Files {
    Ours { job: JobFiles, is_near: bool, open: Option<(What, String, SharedFile)> },
    Plain { dir: PathBuf, open: Option<(String, File)> },
}

impl Files {
    fn take_turn(&mut self, process: &mut Process, lines: &mut Lines) -> Result<()> {
        match self {
            Self::Ours { job, is_near, open } => {
                let file = prepare_ours(job, *is_near, open, process)?;
                wait_to_begin(lines)?;
                match file {
                    Some(file) => turn_of_ours(file, process)?,
                    None => open_and_close(job, process)?,
                }
            }
            Self::Plain { dir, open } => {
                let file = prepare_plain(dir, open, process)?;
                wait_to_begin(lines)?;
                turn_of_plain(file, process)?;
            }
        }
        lines.tell(Moment::now().ns().to_string())
    }
}

fn wait_to_begin(lines: &mut Lines) -> Result<()> {
    lines.tell("ready")?;
    Moment::of_ns(lines.hear_value()?).wait();
    Ok(())
}

/// The file of a turn, with all pointers at its beginning; none if the turn opens it.
fn prepare_ours<'a>(
    job: &JobFiles,
    is_near: bool,
    open: &'a mut Option<(What, String, SharedFile)>,
    process: &Process,
) -> Result<Option<&'a SharedFile>> {
    let Order { what, path, .. } = &process.order;
    let is_open = |(known, at, _): &(What, String, SharedFile)| known == what && at == path;
    if !open.as_ref().is_some_and(is_open) {
        if let Some((_, _, file)) = open.take() {
            file.close()?;
        }
        let mode = match what {
            What::Log => Mode::Log,
            What::Sync => Mode::Sync,
            What::Record => Mode::Record,
            What::Global => Mode::Global,
            What::Unix | What::Same => Mode::Unix,
            What::Async => Mode::Async,
            What::Open => return Ok(None),
        };
        let file = job.open(path, mode)?;
        let found = file.file().has_short_cut();
        ensure!(found == is_near, "short cut: {found}, but the figure needs: {is_near}");
        *open = Some((*what, path.clone(), file));
    }
    let Some((_, _, file)) = open else { return Ok(None) };
    // One pointer for all is moved by one, unless all have to.
    if *what != What::Log || process.rank == 0 {
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(Some(file))
}

fn turn_of_ours(file: &SharedFile, process: &mut Process) -> Result<()> {
    let Order { what, calls, blocks, piece_bytes, .. } = process.order;
    for call in 0..calls {
        match what {
            What::Global => {
                if call > 0 && call % blocks == 0 {
                    file.seek(SeekFrom::Start(0))?;
                }
                let count = file.read(&mut process.memory)?;
                ensure!(count == piece_bytes, "{count} bytes were read instead of {piece_bytes}");
            }
            What::Unix | What::Same | What::Async => {
                file.seek(SeekFrom::Start(process.place(call)))?;
                file.write(&process.memory)?;
            }
            What::Log | What::Sync | What::Record | What::Open => file.write(&process.memory)?,
        }
    }
    Ok(())
}

/// In a mode in which all meet to close, as in MPI.
fn open_and_close(job: &JobFiles, process: &Process) -> Result<()> {
    for _ in 0..process.order.calls {
        job.open(&process.order.path, Mode::Record)?.close()?;
    }
    Ok(())
}

fn prepare_plain<'a>(
    dir: &Path,
    open: &'a mut Option<(String, File)>,
    process: &Process,
) -> Result<&'a File> {
    let path = &process.order.path;
    if open.as_ref().is_none_or(|(at, _)| at != path) {
        let at = dir.join(path.trim_start_matches('/'));
        let file = OpenOptions::new().read(true).write(true).open(&at);
        let file = file.with_context(|| format!("opening {}", at.display()))?;
        *open = Some((path.clone(), file));
    }
    match open {
        Some((_, file)) => Ok(file),
        None => bail!("nothing is open"),
    }
}

fn turn_of_plain(file: &File, process: &mut Process) -> Result<()> {
    let Order { what, calls, blocks, piece_bytes, .. } = process.order;
    for call in 0..calls {
        match what {
            What::Global => {
                let offset = call % blocks * piece_bytes as u64;
                file.read_exact_at(&mut process.memory, offset)?;
            }
            What::Open => bail!("plain files are not opened together"),
            _ => file.write_all_at(&process.memory, process.place(call))?,
        }
    }
    Ok(())
}
