//! The bound of remote records: a bare TCP stream whose other end reads or writes the same pieces
//! of a plain file, in the same thread, with nothing around it.
//!
//! A request for a piece has 64 bytes, and the other end sends the piece from the page cache
//! (`sendfile`). A written piece is received into the same memory over and over, copied to the file
//! (`pwrite`) and acknowledged with 64 bytes. As many pieces are under way as there are buffers.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::records::PIECE_BYTES;
use crate::namespaces::text;
use crate::net::sockets::{SocketListener, SocketStream, Transport};
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};

/// The process that has the file.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-file-loop", run: serve };

/// Bytes of a request or an acknowledgement.
const NOTE_BYTES: usize = 64;
const READ: &str = "read";
const WRITE: &str = "write";

/// A connection to the process that has the file.
#[derive(Debug)]
pub struct FileLoop {
    partner: PartnerProcess,
    wire: SocketStream,
    pieces: u64,
}

impl FileLoop {
    /// Starts the second process, which creates a file of this many pieces.
    pub fn start(dir: &Path, pieces: u64) -> Result<Self> {
        let path = dir.join("plain");
        let mut partner = PartnerProcess::start(ROLE.name, &[text(&path)?, &pieces.to_string()])?;
        let address = partner.receive_line()?;
        let wire = SocketStream::connect(Transport::Tcp, &address, &path)?;
        Ok(Self { partner, wire, pieces })
    }

    /// The time to read all pieces, into one buffer after the other.
    pub fn read(&mut self, memory: &mut [Vec<u8>]) -> Result<Duration> {
        self.start_turn(READ)?;
        let under_way = memory.len();
        let start = Instant::now();
        for _ in 0..self.pieces.min(under_way as u64) {
            self.wire.write_all(&[0; NOTE_BYTES])?;
        }
        for (piece, number) in (0..self.pieces).zip((0..under_way).cycle()) {
            self.wire.read_exact(&mut memory[number])?;
            if piece + (under_way as u64) < self.pieces {
                self.wire.write_all(&[0; NOTE_BYTES])?;
            }
        }
        Ok(start.elapsed())
    }

    /// The time to write all pieces, from one buffer after the other.
    pub fn write(&mut self, memory: &[Vec<u8>]) -> Result<Duration> {
        self.start_turn(WRITE)?;
        let mut note = [0; NOTE_BYTES];
        let under_way = memory.len();
        let start = Instant::now();
        for (piece, number) in (0..self.pieces).zip((0..under_way).cycle()) {
            if piece >= under_way as u64 {
                self.wire.read_exact(&mut note)?;
            }
            self.wire.write_all(&memory[number])?;
        }
        for _ in 0..self.pieces.min(under_way as u64) {
            self.wire.read_exact(&mut note)?;
        }
        Ok(start.elapsed())
    }

    /// Lets the second process begin.
    fn start_turn(&mut self, what: &str) -> Result<()> {
        self.partner.send_line(what)?;
        let answer = self.partner.receive_line()?;
        ensure!(answer == "ready", "the process with the file sent the line {answer:?}");
        Ok(())
    }
}

/// Runs the other end until its parent ends it.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [path, pieces] = words else { bail!("needs a path and a number") };
    let (path, pieces): (PathBuf, u64) = (path.into(), pieces.parse()?);
    let options = &mut File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("creating {}", path.display()))?;
    let mut memory = vec![7; PIECE_BYTES];
    for piece in 0..pieces {
        file.write_all_at(&memory, place(piece))?;
    }
    let listener = SocketListener::open(Transport::Tcp, &path)?;
    parent.send_line(listener.address()?)?;
    let SocketStream::Tcp(mut wire) = listener.accept()? else { bail!("this is TCP") };
    let mut note = [0; NOTE_BYTES];
    loop {
        let what: String = next_word(&mut parent.receive_line()?.split_whitespace())?;
        parent.send_line("ready")?;
        for piece in 0..pieces {
            let mut at = place(piece);
            if what == READ {
                wire.read_exact(&mut note)?;
                let end = at + PIECE_BYTES as u64;
                while at < end {
                    let left = usize::try_from(end - at)?;
                    let count = rustix::fs::sendfile(&wire, &file, Some(&mut at), left)?;
                    ensure!(count > 0, "the file has become shorter");
                }
            } else {
                wire.read_exact(&mut memory)?;
                file.write_all_at(&memory, at)?;
                wire.write_all(&note)?;
            }
        }
    }
}

/// The offset of a piece.
fn place(piece: u64) -> u64 {
    piece * PIECE_BYTES as u64
}
