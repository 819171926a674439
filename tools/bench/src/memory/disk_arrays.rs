//! The memory of two processes to the disk and back: a record file, against the disk resident
//! arrays of Global Arrays.
//!
//! Each process writes and reads its half of the numbers: ours in pieces of 1 MiB, theirs with one
//! collective call for everything. On both sides each half lies in its own file, which is in the
//! page cache and was written before; nothing is made durable.
//!
//! The alignment of memory makes a difference: processors copy between addresses that are equal
//! within a page several times as fast as between others. Our memory begins at a page, as segments
//! of a team do; a second pair of figures has it 16 bytes behind a page, as `malloc` returns it.

use anyhow::{Context, Result, bail, ensure};
use pario::records::{RecordFile, RecordId};

use super::arrays;
use super::records::{PIECE_BYTES, range};
use super::team_member::{self, TeamMember};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::namespaces::text;
use crate::partner::PartnerRole;
use crate::report::Report;
use crate::turns::alternate;

/// A process of ours.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-disk-arrays", run: serve };

const GOAL: f64 = 1.5;
const PROCESSES: u64 = 2;
/// Pieces of all numbers together.
const PIECES: u64 = 64;
const WRITE: &str = "disk-write";
/// The value of all bytes.
const WRITTEN: u8 = 7;
const READ: &str = "disk-read";

const PAGE_BYTES: usize = 4096;
/// The offset of the memory behind a page.
const AT_PAGE: usize = 0;
const ODD: usize = 16;

/// Measures `disk-arrays-write` and `disk-arrays-read`, and both with unaligned memory.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let dir = setting.subdir("disk-arrays")?;
    let mut ours = team_member::start(ROLE.name, "disk-arrays", &dir, 2, &[text(&dir)?])?;
    let mut theirs = match arrays::start(&dir)? {
        Ok(theirs) => theirs,
        Err(why) => {
            report.skipped("disk-arrays", why);
            return Ok(());
        }
    };
    let bytes = PIECES * PIECE_BYTES as u64;
    for (name, what, place, goal) in [
        ("disk-arrays-write", WRITE, AT_PAGE, Some(GOAL)),
        ("disk-arrays-read", READ, AT_PAGE, Some(GOAL)),
        ("disk-arrays-write-odd", WRITE, ODD, None),
        ("disk-arrays-read-odd", READ, ODD, None),
    ] {
        // Only our side uses the last number.
        let order = format!("{what} {bytes} 1 {place}");
        let (mut our_turn, mut their_turn) = (|| ours.turn(&order), || theirs.turn(&order));
        let comparison = alternate(setting.choose(61, 21), &mut our_turn, &mut their_turn)?;
        report.measured(name, comparison, Quantity::Megabytes(bytes as f64), goal);
    }
    Ok(())
}

fn serve(words: &[String]) -> Result<()> {
    let (member, rest) = TeamMember::take(words)?;
    let [dir] = rest else { bail!("needs a directory") };
    let job = member.meet()?;
    let file = job.records().create(format!("{dir}/records"))?;
    let record = file.create_record(PIECES * PIECE_BYTES as u64)?;
    let own = PIECES / PROCESSES;
    let len = usize::try_from(own)? * PIECE_BYTES;
    let memory = vec![WRITTEN; len + 2 * PAGE_BYTES];
    let first = own * u64::from(member.rank());
    let mut half = RecordHalf { file, record, first, memory, start: 0, len };
    member.take_turns(|line, begin| {
        let is_write = line.starts_with(WRITE);
        let place = line.split_whitespace().next_back().context("needs a place")?.parse()?;
        half.check_and_set(place, if is_write { WRITTEN } else { 0 })?;
        begin.wait()?;
        if is_write { half.write() } else { half.read() }
    })
}

/// The half of the record that a process has.
struct RecordHalf {
    file: RecordFile,
    record: RecordId,
    first: u64,
    memory: Vec<u8>,
    /// The offset of its bytes in the memory, and their number.
    start: usize,
    len: usize,
}

impl RecordHalf {
    /// Checks that the last turn has left the right bytes in memory, then sets others, at an offset
    /// behind a page.
    fn check_and_set(&mut self, place: usize, byte: u8) -> Result<()> {
        let is_right = self.bytes().iter().all(|byte| *byte == WRITTEN);
        ensure!(is_right, "the turn has read wrong bytes");
        let at = self.memory.as_ptr().addr();
        self.start = at.next_multiple_of(PAGE_BYTES) - at + place;
        self.memory[self.start..][..self.len].fill(byte);
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    fn write(&self) -> Result<()> {
        for (piece, bytes) in (self.first..).zip(self.bytes().chunks(PIECE_BYTES)) {
            self.file.write(bytes, self.record, range(piece))?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let memory = &mut self.memory[self.start..][..self.len];
        for (piece, bytes) in (self.first..).zip(memory.chunks_mut(PIECE_BYTES)) {
            self.file.read(bytes, self.record, range(piece))?;
        }
        Ok(())
    }
}
