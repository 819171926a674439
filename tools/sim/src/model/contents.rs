//! The bytes that a file may have, given the writes and their times.
//!
//! Of writes that overlap in time and range, each byte is from one of them. A write that begins
//! after another one has ended hides it. A write that has begun and not ended may be visible byte
//! by byte. An atomic write is visible as a whole when it has ended; other atomic accesses see
//! nothing of it before.

use anyhow::{Result, ensure};

use crate::bytes::Bytes;

/// The bytes that a file may have.
#[derive(Debug, Default)]
pub struct Contents {
    /// The bytes of the last quiet moment, and of atomic writes since.
    stable: Bytes,
    writes: Vec<Write>,
    last: u64,
}

#[derive(Debug)]
struct Write {
    id: u64,
    from: u64,
    bytes: Vec<u8>,
    is_atomic: bool,
    began: u64,
    ended: Option<u64>,
    /// Whether it was completed.
    is_whole: bool,
}

/// The result of a read.
#[derive(Debug)]
pub struct Read<'b> {
    /// The offset.
    pub from: u64,
    /// The number of bytes requested.
    pub wanted: usize,
    /// The bytes that were read.
    pub bytes: &'b [u8],
    /// When it began and ended.
    pub time: (u64, u64),
    /// Whether no other rank may write these bytes at the same time.
    pub is_atomic: bool,
}

impl Contents {
    /// A file with these bytes.
    pub fn new(bytes: &Bytes) -> Self {
        Self { stable: bytes.clone(), writes: Vec::new(), last: 0 }
    }

    /// Whether a write that is not atomic has begun since the last quiet moment.
    pub fn is_unstable(&self) -> bool {
        self.writes.iter().any(|write| !write.is_atomic)
    }

    /// Begins a write. Returns its number.
    pub fn begin(&mut self, from: u64, bytes: &[u8], is_atomic: bool, now: u64) -> u64 {
        self.last += 1;
        let (id, bytes) = (self.last, bytes.to_vec());
        let write = Write { id, from, bytes, is_atomic, began: now, ended: None, is_whole: false };
        self.writes.push(write);
        id
    }

    /// Ends a write.
    pub fn finish(&mut self, id: u64, now: u64) {
        let Some(at) = self.writes.iter().position(|write| write.id == id) else { return };
        if self.writes[at].is_atomic {
            let write = self.writes.remove(at);
            self.stable.write(write.from, &write.bytes);
        } else {
            let write = &mut self.writes[at];
            (write.ended, write.is_whole) = (Some(now), true);
        }
    }

    /// Ends a write that has stopped in the middle.
    pub fn give_up(&mut self, id: u64, now: u64, file: &Bytes) -> Result<()> {
        let Some(at) = self.writes.iter().position(|write| write.id == id) else { return Ok(()) };
        if !self.writes[at].is_atomic {
            self.writes[at].ended = Some(now);
            return Ok(());
        }
        let write = self.writes.remove(at);
        let there = file.read(write.from, write.bytes.len());
        let before = self.stable.read(write.from, write.bytes.len());
        for (offset, index) in (write.from..file.len()).zip(0..there.len()) {
            let (is, old, new) = (there[index], before[index], write.bytes[index]);
            ensure!(is == old || is == new, "byte {offset} is {is}, and neither {old} nor {new}");
            if is == new {
                self.stable.write(offset, &[is]);
            }
        }
        Ok(())
    }

    /// Fails if a read cannot have this result.
    pub fn check(&self, read: &Read<'_>) -> Result<()> {
        let (began, ended) = read.time;
        let (least, most) = self.ends(began, ended);
        let room = |end: u64| usize::try_from(end.saturating_sub(read.from)).unwrap_or(usize::MAX);
        let (least, most) = (room(least).min(read.wanted), room(most).min(read.wanted));
        let count = read.bytes.len();
        ensure!(
            (least..=most).contains(&count),
            "{count} bytes were read at {}, and {least} to {most} could have been",
            read.from
        );
        let stable = self.stable.read(read.from, count);
        let to = read.from + count as u64;
        let is_near = |write: &&Write| write.from < to && read.from < write.end();
        // An atomic read sees nothing of writes that are under way.
        let near: Vec<&Write> =
            self.writes.iter().filter(is_near).filter(|_| !read.is_atomic).collect();
        for (offset, (is, stable)) in (read.from..).zip(read.bytes.iter().zip(stable)) {
            ensure!(
                can_be(&near, offset, *is, stable, read.time),
                "byte {offset} is {is}, and was {stable} before {} writes",
                near.len()
            );
        }
        Ok(())
    }

    /// Fails if the file cannot have these bytes; otherwise they are the stable bytes from now on.
    /// No write is under way.
    pub fn stabilize(&mut self, file: &Bytes, now: u64) -> Result<()> {
        let (least, most) = self.ends(now, now);
        let len = file.len();
        ensure!((least..=most).contains(&len), "it has {len} bytes, and not {least} to {most}");
        for write in &self.writes {
            let len = file.len().saturating_sub(write.from).min(write.bytes.len() as u64);
            let bytes = file.read(write.from, usize::try_from(len)?);
            let (from, wanted) = (write.from, bytes.len());
            let read = Read { from, wanted, bytes: &bytes, time: (now, now), is_atomic: false };
            self.check(&read)?;
        }
        for write in std::mem::take(&mut self.writes) {
            let len = file.len().saturating_sub(write.from).min(write.bytes.len() as u64);
            self.stable.write(write.from, &file.read(write.from, usize::try_from(len)?));
        }
        Ok(())
    }

    /// Fails if the file differs from the stable bytes.
    pub fn compare(&self, file: &Bytes) -> Result<()> {
        let difference = self.stable.difference(file);
        ensure!(difference.is_none(), "the file is another one from byte {difference:?} on");
        Ok(())
    }

    /// The least and the greatest end of the file that a read during a time can see.
    fn ends(&self, began: u64, ended: u64) -> (u64, u64) {
        let (mut least, mut most) = (self.stable.len(), self.stable.len());
        for write in self.writes.iter().filter(|write| write.began <= ended) {
            let end = if write.bytes.is_empty() { 0 } else { write.end() };
            most = most.max(end);
            if write.is_over_at(began) {
                least = least.max(end);
            }
        }
        (least, most)
    }
}

impl Write {
    fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    /// Whether the write was complete before a time.
    fn is_over_at(&self, time: u64) -> bool {
        self.is_whole && self.ended.is_some_and(|ended| ended < time)
    }

    fn at(&self, offset: u64) -> Option<u8> {
        let index = usize::try_from(offset.checked_sub(self.from)?).ok()?;
        self.bytes.get(index).copied()
    }
}

/// Whether a read during a time can see a byte.
fn can_be(writes: &[&Write], offset: u64, is: u8, stable: u8, (began, ended): (u64, u64)) -> bool {
    let hides = |since: Option<u64>| {
        writes.iter().any(|later| {
            let is_later = since.is_none_or(|since| later.began > since);
            is_later && later.is_over_at(began) && later.at(offset).is_some()
        })
    };
    if is == stable && !hides(None) {
        return true;
    }
    writes.iter().any(|write| {
        let is_it = write.began <= ended && write.at(offset) == Some(is);
        is_it && !write.ended.is_some_and(|ended| hides(Some(ended)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], time: (u64, u64), is_atomic: bool) -> Read<'_> {
        Read { from: 0, wanted: 4, bytes, time, is_atomic }
    }

    #[test]
    fn bytes_are_from_a_write_that_is_not_hidden() {
        let mut model = Contents::default();
        let (one, two) = (model.begin(0, &[1; 4], false, 1), model.begin(0, &[2; 4], false, 2));
        assert!(model.check(&read(&[], (3, 4), false)).is_ok(), "nothing has to be there yet");
        assert!(model.check(&read(&[1, 2, 0, 1], (3, 4), false)).is_ok());
        model.finish(one, 5);
        model.finish(two, 6);
        assert!(model.check(&read(&[1, 2, 2, 1], (7, 8), false)).is_ok());
        assert!(model.check(&read(&[1, 2, 0, 1], (7, 8), false)).is_err(), "both were there");
        assert!(model.check(&read(&[1, 2, 2], (7, 8), false)).is_err(), "the file is longer");
        let three = model.begin(1, &[3; 2], false, 9);
        model.finish(three, 10);
        assert!(model.check(&read(&[1, 3, 3, 2], (11, 12), false)).is_ok());
        assert!(model.check(&read(&[1, 1, 3, 2], (11, 12), false)).is_err());
        assert!(model.check(&read(&[1, 1, 3, 2], (9, 12), false)).is_ok(), "it was under way");
        let mut file = Bytes::default();
        file.write(0, &[2, 3, 3, 1]);
        model.stabilize(&file, 13).unwrap();
        model.compare(&file).unwrap();
    }

    #[test]
    fn atomic_writes_are_seen_whole_or_not_at_all() {
        let mut model = Contents::default();
        let mut file = Bytes::default();
        file.write(0, &[1; 4]);
        let one = model.begin(0, &[1; 4], true, 1);
        model.finish(one, 2);
        let two = model.begin(0, &[2; 4], true, 3);
        assert!(model.check(&read(&[1; 4], (4, 5), true)).is_ok());
        assert!(model.check(&read(&[1, 1, 2, 2], (4, 5), true)).is_err());
        file.write(1, &[2; 2]);
        model.give_up(two, 6, &file).unwrap();
        assert!(model.check(&read(&[1, 2, 2, 1], (7, 8), true)).is_ok(), "the writer has died");
        model.compare(&file).unwrap();
        let three = model.begin(0, &[3; 4], true, 9);
        file.write(2, &[7]);
        assert!(model.give_up(three, 10, &file).is_err(), "no write has these bytes");
    }
}
