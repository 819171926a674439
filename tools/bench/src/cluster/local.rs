//! A striped file through the short cut, against `pread` and `pwrite` on a plain file.
//!
//! Both files are in the page cache, are filled in the same way, and are visited in the same order
//! with the same memory. The location of a file's pages makes a difference of a few per cent, so
//! both files are created again several times.

use std::cell::RefCell;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::content::Content;
use super::measured_file::{Direction, MeasuredFile};
use super::node::NodeProcess;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::{Comparison, rotate};

const FILE_BYTES: u64 = 96 << 20;
/// Random accesses of a turn: some ten milliseconds.
const RANDOM_PLACES: u64 = 12_000;

/// Measures `local-stream-read`.
pub fn run_stream_read(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, &STREAM, Direction::Read)
}

/// Measures `local-stream-write`.
pub fn run_stream_write(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, &STREAM, Direction::Write)
}

/// Measures `local-random-4k-read` and `local-random-4k-write`.
pub fn run_random(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, &RANDOM, Direction::Read)?;
    run(setting, report, &RANDOM, Direction::Write)
}

/// One case of this comparison.
struct LocalCase {
    name: &'static str,
    piece_bytes: usize,
    is_random: bool,
    goal: f64,
}

const STREAM: LocalCase =
    LocalCase { name: "local-stream", piece_bytes: 1 << 20, is_random: false, goal: 0.97 };
const RANDOM: LocalCase =
    LocalCase { name: "local-random-4k", piece_bytes: 4096, is_random: true, goal: 0.9 };

fn run(
    setting: &RunSettings,
    report: &mut Report,
    kind: &LocalCase,
    direction: Direction,
) -> Result<()> {
    let name = format!("{}-{}", kind.name, direction.name());
    if let Some(reason) = setting.lacks_space(4 * FILE_BYTES)? {
        report.skipped(&name, reason);
        return Ok(());
    }
    let (rounds, turns) = setting.choose((9, 61), (3, 31));
    let dir = setting.subdir(&name)?;
    let node = NodeProcess::start(&dir.join("node"))?;
    let cluster = node.connect()?;
    let content = Content::new(kind.piece_bytes);
    let pieces = FILE_BYTES / kind.piece_bytes as u64;
    let memory = RefCell::new(vec![0; kind.piece_bytes]);
    let (mut ours_s, mut theirs_s) = (Vec::new(), Vec::new());
    let mut bytes = 0.0;
    for round in 0..rounds {
        let path = format!("/{name}-{round}");
        let plain_path = dir.join("plain");
        let ours = MeasuredFile::create_ours(&cluster, &path)?;
        ours.ensure_short_cut(true)?;
        let plain = MeasuredFile::create_plain(&plain_path)?;
        plain.fill(&content, FILE_BYTES)?;
        ours.fill(&content, FILE_BYTES)?;
        let places: Vec<u64> = if kind.is_random {
            let mut random = fastrand::Rng::with_seed(round);
            (0..RANDOM_PLACES).map(|_| random.u64(..pieces)).collect()
        } else {
            (0..pieces).collect()
        };
        bytes = (places.len() * kind.piece_bytes) as f64;
        let turn = |target: &MeasuredFile| {
            visit(target, direction, &places, &content, &mut memory.borrow_mut())
        };
        let mut seconds =
            rotate(turns, &mut [&mut || turn(&ours), &mut || turn(&plain)])?.into_iter();
        ours_s.extend(seconds.next().into_iter().flatten());
        theirs_s.extend(seconds.next().into_iter().flatten());
        if round == 0 {
            ours.check(&content, kind.piece_bytes, pieces)?;
            plain.check(&content, kind.piece_bytes, pieces)?;
        }
        drop(ours);
        cluster.remove(&path)?;
        fs::remove_file(plain_path)?;
    }
    let comparison = Comparison::new(&ours_s, &theirs_s);
    report.measured(&name, comparison, Quantity::Megabytes(bytes), kind.goal);
    Ok(())
}

/// One turn of one side: accesses all pieces in order.
pub fn visit(
    target: &MeasuredFile,
    direction: Direction,
    places: &[u64],
    content: &Content,
    memory: &mut [u8],
) -> Result<Duration> {
    let piece_bytes = memory.len() as u64;
    let start = Instant::now();
    match direction {
        Direction::Read => {
            for place in places {
                target.read(memory, place * piece_bytes)?;
            }
        }
        Direction::Write => {
            for place in places {
                target.write(content.piece(*place), place * piece_bytes)?;
            }
        }
    }
    Ok(start.elapsed())
}
