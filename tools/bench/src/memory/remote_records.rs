//! Pieces of 1 MiB of a part on another machine, against a bare TCP stream of as many bytes.
//!
//! Both ranks run on this machine and are configured to be on different ones, so that all bytes go
//! over TCP on loopback. A few pieces are under way at once, as a stream has them in its buffers.
//! The file is in the page cache; the stream sends the same memory over and over, and discards what
//! it receives. A stream whose other end also reads or writes a file takes turns with them: it
//! shows the speed that can be reached.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::Job;
use pario::records::{Pending, RecordFile, RecordId};

use super::file_loop::FileLoop;
use super::records::{PIECE_BYTES, range};
use super::remote_pair::{RemotePair, SecondRank};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::namespaces::text;
use crate::net::bare_socket::BareSocket;
use crate::net::sockets::Transport;
use crate::partner::PartnerRole;
use crate::report::Report;
use crate::turns::{Comparison, TurnRunner, rotate};

/// The rank that has the part.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-far-records", run: serve };

const GOAL: f64 = 0.85;
/// Pieces under way.
const UNDER_WAY: usize = 4;

/// Measures `far-records-read-1m` and `far-records-write-1m`, and against both the loop with a file
/// at its other end.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("far-records")?;
    let turns = setting.choose(61, 21);
    let pieces: u64 = setting.choose(256, 64);
    let quantity = Quantity::Megabytes(pieces as f64 * PIECE_BYTES as f64);
    let mut other = RemotePair::start(ROLE.name, &[text(&dir)?, &pieces.to_string()])?;
    let job = other.meet()?;
    let mut far = RemoteRecord::make(&job, &dir, pieces)?;
    let mut bare = BareSocket::start(Transport::Tcp, &dir)?;
    // Afterwards the file has all its pages.
    let before = loopback_bytes()?;
    far.write()?;
    if loopback_bytes()? - before < pieces * PIECE_BYTES as u64 {
        report.skipped("far-records", "the part is reached as one of this machine");
        drop(far);
        return other.part();
    }
    let mut with_file = FileLoop::start(&dir, pieces)?;
    let mut memory = vec![vec![7; PIECE_BYTES]; UNDER_WAY];
    let mut compare = |what: &str, sides: &mut [TurnRunner<'_>; 3]| -> Result<()> {
        let seconds = rotate(turns, sides)?;
        let [ours, stream, with_file] = &seconds[..] else { bail!("three sides") };
        let mut print = |name: &str, one: &[f64], other: &[f64], goal: Option<f64>| {
            let name = format!("far-records-{what}-{name}");
            report.measured(&name, Comparison::new(one, other), quantity, goal);
        };
        print("1m", ours, stream, Some(GOAL));
        print("limit", with_file, stream, None);
        print("of-limit", ours, with_file, None);
        Ok(())
    };
    let read = &mut || with_file.read(&mut memory);
    compare("read", &mut [&mut || far.read(), &mut || bare.fetch(PIECE_BYTES, pieces), read])?;
    let write = &mut || with_file.write(&memory);
    compare("write", &mut [&mut || far.write(), &mut || bare.stream(PIECE_BYTES, pieces), write])?;
    drop(far);
    other.part()
}

/// Bytes that have gone over loopback.
fn loopback_bytes() -> Result<u64> {
    let path = "/sys/class/net/lo/statistics/rx_bytes";
    let count = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok(count.trim().parse()?)
}

/// A record that lies completely at the second rank.
struct RemoteRecord {
    file: RecordFile,
    record: RecordId,
    pieces: u64,
    /// The buffers of pieces that are not under way.
    free: Vec<Vec<u8>>,
}

impl RemoteRecord {
    /// Creates the record, by both ranks together.
    fn make(job: &Job, dir: &Path, pieces: u64) -> Result<Self> {
        let file = job.records().create(dir.join("records"))?;
        let record = file.create_record_irregular(&[0, pieces * PIECE_BYTES as u64])?;
        Ok(Self { file, record, pieces, free: vec![vec![7; PIECE_BYTES]; UNDER_WAY] })
    }

    fn write(&mut self) -> Result<Duration> {
        self.move_all(|file, record, piece, memory| {
            Ok(file.start_write(memory, record, range(piece))?)
        })
    }

    fn read(&mut self) -> Result<Duration> {
        let taken = self.move_all(|file, record, piece, memory| {
            Ok(file.start_read(memory, record, range(piece))?)
        })?;
        let is_right = self.free.iter().flatten().all(|byte| *byte == 7);
        ensure!(is_right, "the turn has read wrong bytes");
        Ok(taken)
    }

    fn move_all(
        &mut self,
        begin: impl Fn(&RecordFile, RecordId, u64, Vec<u8>) -> Result<Pending<Vec<u8>>>,
    ) -> Result<Duration> {
        let mut under_way = VecDeque::new();
        let start = Instant::now();
        for piece in 0..self.pieces {
            let memory = match self.free.pop() {
                Some(memory) => memory,
                None => match under_way.pop_front().map(Pending::wait) {
                    Some(memory) => memory?,
                    None => bail!("no buffer is free"),
                },
            };
            under_way.push_back(begin(&self.file, self.record, piece, memory)?);
        }
        for request in under_way {
            self.free.push(request.wait()?);
        }
        Ok(start.elapsed())
    }
}

fn serve(words: &[String]) -> Result<()> {
    let (second, rest) = SecondRank::take(words)?;
    let [dir, pieces] = rest else { bail!("needs a directory and a number") };
    let _far = RemoteRecord::make(second.job(), Path::new(dir), pieces.parse()?)?;
    second.stay()
}
