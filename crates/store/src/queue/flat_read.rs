//! The read of ranges of a flat subfile into one buffer, one after the other.
//!
//! Bytes that are in memory are copied at once; the engine reads the others.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Reply;
use super::engine::Io;
use super::request_state::Step;
use crate::buffer::Buffer;
use crate::flat::OpenFlatFile;

/// A read in progress.
pub(crate) struct FlatRead {
    file: Arc<OpenFlatFile>,
    ranges: std::vec::IntoIter<Range<u64>>,
    /// The buffer, while no operation has it.
    buffer: Option<Buffer>,
    filled: usize,
    /// The bytes of the current range that were in memory.
    in_memory: usize,
    lens: Vec<usize>,
}

impl FlatRead {
    pub(crate) fn new(file: Arc<OpenFlatFile>, ranges: Vec<Range<u64>>, buffer: Buffer) -> Self {
        let lens = Vec::with_capacity(ranges.len());
        let (ranges, buffer) = (ranges.into_iter(), Some(buffer));
        Self { file, ranges, buffer, filled: 0, in_memory: 0, lens }
    }

    /// Reads ranges up to the first one that is not in memory.
    pub(crate) fn next(&mut self) -> Step {
        let Some(mut buffer) = self.buffer.take() else {
            unreachable!("the last operation has returned the buffer")
        };
        while let Some(range) = self.ranges.next() {
            let room = buffer.len() - self.filled;
            let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(room);
            let len = len.min(room);
            let position = match self.file.position(range.start, len as u64) {
                Ok(position) => position,
                Err(error) => return Step::Done(Err(error)),
            };
            let into = &mut buffer[self.filled..self.filled + len];
            self.in_memory = self.file.file.read_in_memory(into, position);
            if self.in_memory < len {
                let file = self.file.file.clone();
                let (start, len) = (self.filled + self.in_memory, len - self.in_memory);
                let position = position + self.in_memory as u64;
                return Step::Io(Io::Read { file, position, buffer, start, len });
            }
            self.end_range(len);
        }
        let lens = std::mem::take(&mut self.lens);
        Step::Done(Ok(Reply::Read { buffer, lens }))
    }

    /// Continues with the result of the last step.
    pub(crate) fn resume(&mut self, moved: io::Result<usize>, buffer: Buffer) -> Step {
        match moved {
            Ok(moved) => {
                self.buffer = Some(buffer);
                self.end_range(self.in_memory + moved);
                self.next()
            }
            Err(error) => Step::Done(Err(self.file.context.io(error, "read"))),
        }
    }

    fn end_range(&mut self, len: usize) {
        self.filled += len;
        self.lens.push(len);
    }
}
