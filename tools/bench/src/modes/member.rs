//! A process of ours in a turn, or one that uses plain files.

use std::fs::{File, OpenOptions};
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::{Cluster, ClusterOptions, Job, JobFiles, Mode, SharedFile};

use super::line_socket::LineSocket;
use super::mode_turn::{ModeAccess, ModeTurn};
use super::monotonic_time::MonotonicTime;
use crate::cluster::content::Content;
use crate::partner::{ParentProcess, PartnerRole};

/// A process that takes turns.
pub const ROLE: PartnerRole = PartnerRole { name: "modes-member", run: serve };

/// The time limit for all nodes to join.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The arguments of a process of ours.
#[derive(Debug)]
pub struct MemberWords<'a> {
    /// The socket of the listener.
    pub listener: &'a str,
    /// The address of the node.
    pub address: &'a str,
    /// The path of the key, or an empty path if all nodes are on this machine.
    pub key: &'a str,
    /// The name of the job.
    pub job: &'a str,
    /// The number of processes.
    pub size: usize,
    /// The rank of this process.
    pub rank: usize,
}

impl MemberWords<'_> {
    /// The arguments as words.
    pub fn words(&self) -> [String; 7] {
        let Self { listener, address, key, job, size, rank } = self;
        let text = |word: &str| word.to_owned();
        let (size, rank) = (size.to_string(), rank.to_string());
        [text("ours"), text(listener), size, rank, text(address), text(key), text(job)]
    }
}

/// The words for a process that uses plain files in a directory.
pub fn plain_words(listener: &str, size: usize, rank: usize, dir: &str) -> [String; 5] {
    ["plain".to_owned(), listener.to_owned(), size.to_string(), rank.to_string(), dir.to_owned()]
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [kind, listener, size, rank, rest @ ..] = words else {
        bail!("needs a kind, a socket, a size and a rank");
    };
    let (size, rank): (u32, u32) = (size.parse()?, rank.parse()?);
    let mut files = match (kind.as_str(), rest) {
        ("ours", [address, key, job]) => {
            let key = Path::new(key);
            let job = Job::new(job, size, rank)?.files(&connect(address, key)?);
            MemberFiles::Ours { job, is_near: !key.exists(), open: None }
        }
        ("plain", [dir]) => MemberFiles::Plain { dir: dir.into(), open: None },
        _ => bail!("the arguments do not fit the kind of process"),
    };
    let mut lines = LineSocket::connect(Path::new(listener))?;
    let mut last: Option<MemberTurn> = None;
    while let Some(line) = lines.next()? {
        let mut take_turn = || {
            // Before its next turn, because other processes may still work at the end of this one.
            last.as_ref().map_or(Ok(()), MemberTurn::check)?;
            let order: ModeTurn = line.parse()?;
            let memory = vec![byte_of(rank); order.piece_bytes];
            files.take_turn(last.insert(MemberTurn { order, size, rank, memory }), &mut lines)
        };
        if let Err(error) = take_turn() {
            lines.send_line(format!("failed: {error:#}").replace('\n', " "))?;
            return Err(error);
        }
    }
    drop(parent);
    Ok(())
}

/// The byte that a rank writes.
pub fn byte_of(rank: u32) -> u8 {
    b'a' + u8::try_from(rank % 26).unwrap_or(0)
}

/// Connects as users do, when all nodes have joined with their disks.
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
        ensure!(start.elapsed() < TIME_LIMIT, "not all nodes have joined");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A turn of a process.
struct MemberTurn {
    order: ModeTurn,
    size: u32,
    rank: u32,
    memory: Vec<u8>,
}

impl MemberTurn {
    /// The offset of a call: blocks are interleaved by rank, unless all ranks write the same.
    fn place(&self, call: u64) -> u64 {
        let block = match self.order.access {
            ModeAccess::Same => call % self.order.blocks,
            _ => call * u64::from(self.size) + u64::from(self.rank),
        };
        block * self.order.piece_bytes as u64
    }

    /// Checks the bytes that were read last.
    fn check(&self) -> Result<()> {
        let ModeTurn { access, calls, blocks, piece_bytes, .. } = self.order;
        if access == ModeAccess::Global && calls > 0 {
            Content::new(piece_bytes).check((calls - 1) % blocks, &self.memory)?;
        }
        Ok(())
    }
}

/// The open file of a process, which stays open from turn to turn.
enum MemberFiles {
    Ours { job: JobFiles, is_near: bool, open: Option<(ModeAccess, String, SharedFile)> },
    Plain { dir: PathBuf, open: Option<(String, File)> },
}

impl MemberFiles {
    fn take_turn(&mut self, process: &mut MemberTurn, lines: &mut LineSocket) -> Result<()> {
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
        lines.send_line(MonotonicTime::now().ns().to_string())
    }
}

fn wait_to_begin(lines: &mut LineSocket) -> Result<()> {
    lines.send_line("ready")?;
    MonotonicTime::of_ns(lines.receive_value()?).wait();
    Ok(())
}

/// Prepares the file of a turn, with all pointers at its beginning; `None` if the turn opens it.
fn prepare_ours<'a>(
    job: &JobFiles,
    is_near: bool,
    open: &'a mut Option<(ModeAccess, String, SharedFile)>,
    process: &MemberTurn,
) -> Result<Option<&'a SharedFile>> {
    let ModeTurn { access, path, .. } = &process.order;
    let is_open = |(known, at, _): &(ModeAccess, String, SharedFile)| known == access && at == path;
    if !open.as_ref().is_some_and(is_open) {
        if let Some((_, _, file)) = open.take() {
            file.close()?;
        }
        let mode = match access {
            ModeAccess::Log => Mode::Log,
            ModeAccess::Sync => Mode::Sync,
            ModeAccess::Record => Mode::Record,
            ModeAccess::Global => Mode::Global,
            ModeAccess::Unix | ModeAccess::Same => Mode::Unix,
            ModeAccess::Async => Mode::Async,
            ModeAccess::Open => return Ok(None),
        };
        let file = job.open(path, mode)?;
        let found = file.file().has_short_cut();
        ensure!(found == is_near, "short cut: {found}, but the figure needs: {is_near}");
        *open = Some((*access, path.clone(), file));
    }
    let Some((_, _, file)) = open else { return Ok(None) };
    // One rank moves a shared pointer, unless the call is collective.
    if *access != ModeAccess::Log || process.rank == 0 {
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(Some(file))
}

fn turn_of_ours(file: &SharedFile, process: &mut MemberTurn) -> Result<()> {
    let ModeTurn { access, calls, blocks, piece_bytes, .. } = process.order;
    for call in 0..calls {
        match access {
            ModeAccess::Global => {
                if call > 0 && call % blocks == 0 {
                    file.seek(SeekFrom::Start(0))?;
                }
                let count = file.read(&mut process.memory)?;
                ensure!(count == piece_bytes, "{count} bytes were read instead of {piece_bytes}");
            }
            ModeAccess::Unix | ModeAccess::Same | ModeAccess::Async => {
                file.seek(SeekFrom::Start(process.place(call)))?;
                file.write(&process.memory)?;
            }
            ModeAccess::Log | ModeAccess::Sync | ModeAccess::Record | ModeAccess::Open => {
                file.write(&process.memory)?
            }
        }
    }
    Ok(())
}

/// Opens the file in a mode whose close is collective, as in MPI.
fn open_and_close(job: &JobFiles, process: &MemberTurn) -> Result<()> {
    for _ in 0..process.order.calls {
        job.open(&process.order.path, Mode::Record)?.close()?;
    }
    Ok(())
}

fn prepare_plain<'a>(
    dir: &Path,
    open: &'a mut Option<(String, File)>,
    process: &MemberTurn,
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

fn turn_of_plain(file: &File, process: &mut MemberTurn) -> Result<()> {
    let ModeTurn { access, calls, blocks, piece_bytes, .. } = process.order;
    for call in 0..calls {
        match access {
            ModeAccess::Global => {
                let offset = call % blocks * piece_bytes as u64;
                file.read_exact_at(&mut process.memory, offset)?;
            }
            ModeAccess::Open => bail!("plain files are not opened together"),
            _ => file.write_all_at(&process.memory, process.place(call))?,
        }
    }
    Ok(())
}
