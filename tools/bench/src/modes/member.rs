//! A process of a team of ours, or of one that uses plain files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::{Cluster, ClusterOptions, Group, Mode, Seek, SharedFile};

use super::line_socket::LineSocket;
use super::mode_turn::{ModeAccess, ModeTurn};
use super::monotonic_time::MonotonicTime;
use crate::cluster::content::Content;
use crate::partner::{ParentProcess, PartnerRole};

/// A process of a team.
pub const ROLE: PartnerRole = PartnerRole { name: "modes-member", run: serve };

/// How long it may take until all nodes have joined.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// What a process of ours has to know.
#[derive(Debug)]
pub struct MemberWords<'a> {
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

impl MemberWords<'_> {
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
    let parent = ParentProcess::listen();
    let [kind, door, size, rank, rest @ ..] = words else {
        bail!("needs a kind, a socket, a size and a rank");
    };
    let (size, rank): (u32, u32) = (size.parse()?, rank.parse()?);
    let mut files = match (kind.as_str(), rest) {
        ("ours", [address, key, job]) => {
            let key = Path::new(key);
            let group = Group::new(&connect(address, key)?, job, size, rank)?;
            MemberFiles::Ours { group, is_near: !key.exists(), open: None }
        }
        ("plain", [dir]) => MemberFiles::Plain { dir: dir.into(), open: None },
        _ => bail!("needs what its kind needs"),
    };
    let mut lines = LineSocket::connect(Path::new(door))?;
    let mut last: Option<MemberTurn> = None;
    while let Some(line) = lines.next()? {
        let mut take_turn = || {
            // Not at the end of its own turn, when others may still be at work.
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
        ensure!(start.elapsed() < TIME_LIMIT, "not all nodes have joined");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process in a turn.
struct MemberTurn {
    order: ModeTurn,
    size: u32,
    rank: u32,
    memory: Vec<u8>,
}

impl MemberTurn {
    /// Where a call goes: blocks are interleaved by rank, unless all write the same.
    fn place(&self, call: u64) -> u64 {
        let block = match self.order.what {
            ModeAccess::Same => call % self.order.blocks,
            _ => call * u64::from(self.size) + u64::from(self.rank),
        };
        block * self.order.piece_bytes as u64
    }

    /// That what was read last is right.
    fn check(&self) -> Result<()> {
        let ModeTurn { what, calls, blocks, piece_bytes, .. } = self.order;
        if what == ModeAccess::Global && calls > 0 {
            Content::new(piece_bytes).check((calls - 1) % blocks, &self.memory)?;
        }
        Ok(())
    }
}

/// What a process has open; a file stays open from turn to turn.
enum MemberFiles {
    Ours { group: Group, is_near: bool, open: Option<(ModeAccess, String, SharedFile)> },
    Plain { dir: PathBuf, open: Option<(String, File)> },
}

impl MemberFiles {
    fn take_turn(&mut self, process: &mut MemberTurn, lines: &mut LineSocket) -> Result<()> {
        match self {
            Self::Ours { group, is_near, open } => {
                let file = prepare_ours(group, *is_near, open, process)?;
                wait_to_begin(lines)?;
                match file {
                    Some(file) => turn_of_ours(file, process)?,
                    None => open_and_close(group, process)?,
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

/// The file of a turn, with all pointers at its beginning; none if the turn opens it.
fn prepare_ours<'a>(
    group: &Group,
    is_near: bool,
    open: &'a mut Option<(ModeAccess, String, SharedFile)>,
    process: &MemberTurn,
) -> Result<Option<&'a SharedFile>> {
    let ModeTurn { what, path, .. } = &process.order;
    let is_open = |(known, at, _): &(ModeAccess, String, SharedFile)| known == what && at == path;
    if !open.as_ref().is_some_and(is_open) {
        if let Some((_, _, file)) = open.take() {
            file.close()?;
        }
        let mode = match what {
            ModeAccess::Log => Mode::Log,
            ModeAccess::Sync => Mode::Sync,
            ModeAccess::Record => Mode::Record,
            ModeAccess::Global => Mode::Global,
            ModeAccess::Unix | ModeAccess::Same => Mode::Unix,
            ModeAccess::Async => Mode::Async,
            ModeAccess::Open => return Ok(None),
        };
        let file = group.open(path, mode)?;
        let found = file.file().has_short_cut();
        ensure!(found == is_near, "short cut: {found}, but the figure needs: {is_near}");
        *open = Some((*what, path.clone(), file));
    }
    let Some((_, _, file)) = open else { return Ok(None) };
    // One pointer for all is moved by one, unless all have to.
    if *what != ModeAccess::Log || process.rank == 0 {
        file.seek(Seek::Start(0))?;
    }
    Ok(Some(file))
}

fn turn_of_ours(file: &SharedFile, process: &mut MemberTurn) -> Result<()> {
    let ModeTurn { what, calls, blocks, piece_bytes, .. } = process.order;
    for call in 0..calls {
        match what {
            ModeAccess::Global => {
                if call > 0 && call % blocks == 0 {
                    file.seek(Seek::Start(0))?;
                }
                let count = file.read(&mut process.memory)?;
                ensure!(count == piece_bytes, "{count} bytes were read instead of {piece_bytes}");
            }
            ModeAccess::Unix | ModeAccess::Same | ModeAccess::Async => {
                file.seek(Seek::Start(process.place(call)))?;
                file.write(&process.memory)?;
            }
            ModeAccess::Log | ModeAccess::Sync | ModeAccess::Record | ModeAccess::Open => {
                file.write(&process.memory)?
            }
        }
    }
    Ok(())
}

/// In a mode in which all meet to close, as in MPI.
fn open_and_close(group: &Group, process: &MemberTurn) -> Result<()> {
    for _ in 0..process.order.calls {
        group.open(&process.order.path, Mode::Record)?.close()?;
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
    let ModeTurn { what, calls, blocks, piece_bytes, .. } = process.order;
    for call in 0..calls {
        match what {
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
