//! A striped file over the node, without the short cut: streams of 1 MiB pieces, against the slower
//! one of a bare socket of the same kind and a plain file.
//!
//! All three move the same number of bytes in each turn. Our side has a few pieces under way; the
//! bare socket has what fits into its buffers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::content::Content;
use super::local::visit;
use super::measured_file::{Direction, MeasuredFile};
use super::node::NodeProcess;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::net::Transport;
use crate::net::bare_socket::BareSocket;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, rotate};

const GOAL: f64 = 0.8;
const FILE_BYTES: u64 = 96 << 20;
const PIECE_BYTES: usize = 1 << 20;
/// Pieces of our side that are under way at once.
const UNDER_WAY: usize = 4;

/// Measures `unix-stream-read` and `unix-stream-write`.
pub fn run_unix(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, Transport::Unix)
}

/// Measures `tcp-stream-read` and `tcp-stream-write`.
pub fn run_tcp(setting: &RunSettings, report: &mut Report) -> Result<()> {
    run(setting, report, Transport::Tcp)
}

fn run(setting: &RunSettings, report: &mut Report, transport: Transport) -> Result<()> {
    let names = Direction::BOTH.map(|way| format!("{}-stream-{}", transport.name(), way.name()));
    if let Some(reason) = setting.lacks_space(4 * FILE_BYTES)? {
        names.iter().for_each(|name| report.skipped(name, reason.clone()));
        return Ok(());
    }
    let turns = setting.choose(101, 21);
    let dir = setting.subdir(&format!("{}-stream", transport.name()))?;
    let node = NodeProcess::start(&dir.join("node"))?;
    let cluster = node.connect_over(transport)?;
    let content = Content::new(PIECE_BYTES);
    let ours = MeasuredFile::create_ours(&cluster, "/file")?;
    ours.ensure_short_cut(false)?;
    let plain = MeasuredFile::create_plain(&dir.join("plain"))?;
    ours.fill(&content, FILE_BYTES)?;
    plain.fill(&content, FILE_BYTES)?;
    let mut bare = BareSocket::start(transport, &dir)?;
    let places: Vec<u64> = (0..FILE_BYTES / PIECE_BYTES as u64).collect();
    let memory = RefCell::new(vec![0; PIECE_BYTES]);
    for (direction, name) in Direction::BOTH.into_iter().zip(names) {
        let seconds = rotate(
            turns,
            &mut [
                &mut || stream(&ours, direction, &places, &content),
                &mut || match direction {
                    Direction::Read => bare.fetch(PIECE_BYTES, places.len() as u64),
                    Direction::Write => bare.stream(PIECE_BYTES, places.len() as u64),
                },
                &mut || visit(&plain, direction, &places, &content, &mut memory.borrow_mut()),
            ],
        )?;
        let [ours_s, socket_s, plain_s] = &seconds[..] else { bail!("three sides took turns") };
        let megabytes = |seconds: &[f64]| FILE_BYTES as f64 / median(seconds) / 1e6;
        let is_socket = median(socket_s) > median(plain_s);
        eprintln!(
            "  {name}: bare socket {:.0} MB/s, plain file {:.0} MB/s: compared with the {}",
            megabytes(socket_s),
            megabytes(plain_s),
            if is_socket { "bare socket" } else { "plain file" },
        );
        let comparison = Comparison::new(ours_s, if is_socket { socket_s } else { plain_s });
        report.measured(&name, comparison, Quantity::Megabytes(FILE_BYTES as f64), GOAL);
        ours.check(&content, PIECE_BYTES, places.len() as u64)?;
    }
    Ok(())
}

/// One turn of our side: accesses pieces in order, some of them under way at once.
fn stream(
    target: &MeasuredFile,
    direction: Direction,
    places: &[u64],
    content: &Content,
) -> Result<Duration> {
    let MeasuredFile::Ours(file) = target else { bail!("only ours has requests under way") };
    let offset = |place: &u64| place * PIECE_BYTES as u64;
    let start = Instant::now();
    match direction {
        Direction::Read => {
            let mut under_way = VecDeque::with_capacity(UNDER_WAY);
            let take = |request: pario::Pending<bytes::Bytes>| -> Result<()> {
                let bytes = request.wait()?;
                ensure!(bytes.len() == PIECE_BYTES, "the file is too short");
                Ok(())
            };
            for place in places {
                if under_way.len() == UNDER_WAY
                    && let Some(oldest) = under_way.pop_front()
                {
                    take(oldest)?;
                }
                under_way.push_back(file.start_read_at(PIECE_BYTES, offset(place))?);
            }
            under_way.into_iter().try_for_each(take)?;
        }
        Direction::Write => {
            let mut under_way = VecDeque::with_capacity(UNDER_WAY);
            for place in places {
                if under_way.len() == UNDER_WAY
                    && let Some(oldest) = under_way.pop_front()
                {
                    pario::Pending::wait(oldest)?;
                }
                under_way
                    .push_back(file.start_write_at(content.shared_piece(*place), offset(place))?);
            }
            for request in under_way {
                request.wait()?;
            }
        }
    }
    Ok(start.elapsed())
}
