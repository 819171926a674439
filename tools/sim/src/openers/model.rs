//! The model of atomic access: the bytes of the file, and the accesses that are between their first
//! and their last part. It knows neither claims nor delegations.

use anyhow::{Result, ensure};
use pario_proto::BytesUse;

/// A file in memory. Each byte has the number of the write that it comes from.
#[derive(Debug, Default)]
pub struct File {
    pub bytes: Vec<u32>,
    under_way: Vec<Performance>,
    writes: u32,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Reads bytes.
    Read(u64, u64),
    /// Writes bytes.
    Write(u64, u64),
    /// Writes this number of bytes at the end.
    Append(u64),
    /// Finds out the end.
    Measure,
    /// Truncates or extends the file.
    SetLen(u64),
}

/// An access between its first and its last part.
#[derive(Debug)]
struct Performance {
    id: u64,
    process: usize,
    kind: AccessKind,
    bytes: BytesUse,
    /// The number of the write.
    stamp: u32,
    /// What a read must return, or the end that a measurement must find.
    expected: Vec<u32>,
    end: u64,
    found: Vec<u32>,
    /// Parts that are left, each a range of the file.
    left: Vec<(u64, u64)>,
    /// Whether the access may mix with others: its process was stopped for too long or reset, or
    /// the home node was restarted.
    is_exempt: bool,
    /// Whether such an access was under way at the same time, whose bytes it may find in part.
    is_disturbed: bool,
}

impl AccessKind {
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Read(..) | Self::Measure)
    }
}

impl File {
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Begins an access. Fails if it conflicts with another one, unless it is exempt.
    pub fn begin(
        &mut self,
        id: u64,
        process: usize,
        kind: AccessKind,
        is_exempt: bool,
    ) -> Result<()> {
        let end = self.len();
        let (from, len) = match kind {
            AccessKind::Read(from, len) | AccessKind::Write(from, len) => (from, len),
            AccessKind::Append(len) => (end, len),
            AccessKind::Measure | AccessKind::SetLen(_) => (0, u64::MAX),
        };
        let bytes = BytesUse::new(from, len, kind.is_write());
        for other in &self.under_way {
            let may_mix = is_exempt || other.is_exempt || !other.bytes.clashes(&bytes);
            ensure!(may_mix, "{kind:?} of process {process} begins during {other:?}");
        }
        let mut is_disturbed = false;
        for other in self.under_way.iter_mut().filter(|other| other.bytes.clashes(&bytes)) {
            other.is_disturbed |= is_exempt;
            is_disturbed = true;
        }
        self.writes += 1;
        let left = match kind {
            AccessKind::Measure | AccessKind::SetLen(_) => Vec::new(),
            // The second half comes first: disks work in any order.
            _ => vec![(from, len / 2), (from + len / 2, len - len / 2)],
        };
        let expected = match kind {
            AccessKind::Read(from, len) => self.slice(from, len),
            _ => Vec::new(),
        };
        self.under_way.push(Performance {
            id,
            process,
            kind,
            bytes,
            stamp: self.writes,
            expected,
            end,
            found: Vec::new(),
            left,
            is_exempt,
            is_disturbed,
        });
        Ok(())
    }

    /// Performs the next part of an access. Returns whether it was the last one.
    pub fn perform_part(&mut self, id: u64) -> Result<bool> {
        let Some(index) = self.under_way.iter().position(|one| one.id == id) else {
            return Ok(true);
        };
        let Some((from, len)) = self.under_way[index].left.pop() else {
            let done = self.under_way.remove(index);
            self.finish(&done)?;
            return Ok(true);
        };
        if len == 0 {
            return Ok(false);
        }
        if self.under_way[index].kind.is_write() {
            let stamp = self.under_way[index].stamp;
            let (from, to) = (to_usize(from), to_usize(from + len));
            if to > self.bytes.len() {
                self.bytes.resize(to, 0);
            }
            self.bytes[from..to].fill(stamp);
        } else {
            let mut found = self.slice(from, len);
            found.append(&mut self.under_way[index].found);
            self.under_way[index].found = found;
        }
        Ok(false)
    }

    fn finish(&mut self, done: &Performance) -> Result<()> {
        if let AccessKind::SetLen(len) = done.kind {
            self.bytes.resize(to_usize(len), 0);
        }
        if done.is_exempt || done.is_disturbed {
            return Ok(());
        }
        match done.kind {
            AccessKind::Read(..) => {
                let is_one_moment = done.found == done.expected;
                ensure!(is_one_moment, "a read has mixed two writes: {done:?}");
            }
            AccessKind::Measure => ensure!(self.len() == done.end, "the end has moved: {done:?}"),
            AccessKind::Write(..) | AccessKind::Append(_) => {
                let BytesUse { from, to, .. } = done.bytes;
                let written = self.slice(from, to - from);
                let is_whole = written.iter().all(|byte| *byte == done.stamp);
                ensure!(is_whole, "a write has lost bytes: {done:?}");
            }
            AccessKind::SetLen(_) => {}
        }
        Ok(())
    }

    /// The accesses of a process may mix with others from now on.
    pub fn exempt(&mut self, is_exempt: impl Fn(usize) -> bool) {
        let those = self.under_way.iter_mut().filter(|one| is_exempt(one.process));
        those.for_each(|one| one.is_exempt = true);
    }

    /// The process has ended in the middle of its accesses.
    pub fn abandon(&mut self, process: usize) {
        self.under_way.retain(|one| one.process != process);
    }

    /// The bytes of a range. Those beyond the end are zero, as in a file that another write makes
    /// longer at the same time.
    fn slice(&self, from: u64, len: u64) -> Vec<u32> {
        let byte = |at: u64| self.bytes.get(to_usize(at)).copied().unwrap_or(0);
        (from..from + len).map(byte).collect()
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("files are small here")
}
