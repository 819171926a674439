//! Transfers between a backing file and the arrays that hold its pages, and their counters.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pario_team::RawArray;

use super::agreement::RankFailure;
use super::range_to_disk::RangeToDisk;
use super::source::BackingFile;

/// The size of the buffer for a plain file: it fits into the cache of a processor.
const BUFFER_BYTES: usize = 512 << 10;

/// The transfers of this rank between a cached file and its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedStatistics {
    /// The number of reads.
    pub reads: u64,
    /// The bytes read.
    pub read_bytes: u64,
    /// The number of writes.
    pub writes: u64,
    /// The bytes written.
    pub written_bytes: u64,
    /// The number of syncs.
    pub syncs: u64,
}

/// The counters behind [`CachedStatistics`].
#[derive(Debug, Default)]
pub struct IoCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl IoCounters {
    pub fn now(&self) -> CachedStatistics {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CachedStatistics {
            reads: number(&self.reads),
            read_bytes: number(&self.read_bytes),
            writes: number(&self.writes),
            written_bytes: number(&self.written_bytes),
            syncs: number(&self.syncs),
        }
    }
}

/// Bytes within one page of an array: the first one, and their number.
pub type PageSpan = (u64, usize);

/// The backing file, as this rank reads and writes it.
#[derive(Debug)]
pub struct BackingIo {
    file: BackingFile,
    counters: Arc<IoCounters>,
    /// Whether bytes pass through a buffer of this process, as those of other machines must.
    is_copying: bool,
    /// Whether a write is not synced yet.
    has_written: AtomicBool,
}

impl BackingIo {
    pub fn new(file: BackingFile, counters: &Arc<IoCounters>, is_copying: bool) -> Self {
        let has_written = AtomicBool::new(false);
        Self { file, counters: counters.clone(), is_copying, has_written }
    }

    /// Reads consecutive bytes of the file into an array, directly if the pages are on this machine.
    /// No other rank may use these bytes of the array. Returns how many bytes the file had.
    pub fn load(
        &self,
        array: &RawArray,
        spans: &[PageSpan],
        offset: u64,
    ) -> Result<u64, RankFailure> {
        let done = match self.pointers(array, spans) {
            Some(pointers) => {
                let mut pieces: Vec<IoSliceMut<'_>> = Vec::with_capacity(spans.len());
                for (pointer, (_, len)) in pointers.into_iter().zip(spans) {
                    // SAFETY: the array has checked that these bytes exist, and it lives during the
                    // call; the caller guarantees that no other rank uses them.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, *len) };
                    pieces.push(IoSliceMut::new(bytes));
                }
                self.file.read_at(&mut pieces, offset)?
            }
            None => {
                let mut bytes = vec![0; spans.iter().map(|(_, len)| len).sum()];
                let done = self.file.read_at(&mut [IoSliceMut::new(&mut bytes)], offset)?;
                let mut rest = &bytes[..usize::try_from(done).unwrap_or(0)];
                for (first, len) in spans {
                    let (now, later) = rest.split_at((*len).min(rest.len()));
                    array.put(now, *first).map_err(crate::Error::from)?;
                    rest = later;
                }
                done
            }
        };
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        self.counters.read_bytes.fetch_add(done, Ordering::Relaxed);
        Ok(done)
    }

    /// Reads bytes of the file to the same offsets of an array whose pages are untouched: through a
    /// buffer, because a direct read would fault the pages in one by one. Returns how many bytes the
    /// file had.
    pub fn load_new(&self, array: &RawArray, bytes: Range<u64>) -> Result<u64, RankFailure> {
        let wanted = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX);
        // A file of a cluster is read with one call, so that all of its disks work.
        let is_plain = matches!(self.file, BackingFile::Plain(_));
        let mut memory = vec![0; if is_plain { wanted.min(BUFFER_BYTES) } else { wanted }];
        let mut next = bytes.start;
        while next < bytes.end {
            let left = usize::try_from(bytes.end - next).unwrap_or(usize::MAX);
            let piece = left.min(memory.len());
            let piece = &mut memory[..piece];
            let done = self.file.read_at(&mut [IoSliceMut::new(piece)], next)?;
            let filled = &piece[..usize::try_from(done).unwrap_or(0)];
            array.fill(filled, next).map_err(crate::Error::from)?;
            next += done;
            if filled.len() < piece.len() {
                break;
            }
        }
        let done = next - bytes.start;
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        self.counters.read_bytes.fetch_add(done, Ordering::Relaxed);
        Ok(done)
    }

    /// Writes bytes of an array to consecutive bytes of the file. No rank may change them during the
    /// call.
    pub fn store(
        &self,
        array: &RawArray,
        spans: &[PageSpan],
        offset: u64,
    ) -> Result<(), RankFailure> {
        self.store_from(array, spans, offset, self.pointers(array, spans))
    }

    /// Writes bytes of an array that ranks may change during the call; the file then has any mixture
    /// of old and new ones.
    pub fn store_used(
        &self,
        array: &RawArray,
        spans: &[PageSpan],
        offset: u64,
    ) -> Result<(), RankFailure> {
        // The bytes of a plain file are read by the kernel alone. Those of a cluster file are read by
        // this process, and must stay the same while they are under way.
        let is_plain = matches!(self.file, BackingFile::Plain(_));
        let pointers = self.pointers(array, spans).filter(|_| is_plain);
        self.store_from(array, spans, offset, pointers)
    }

    fn store_from(
        &self,
        array: &RawArray,
        spans: &[PageSpan],
        offset: u64,
        pointers: Option<Vec<*mut u8>>,
    ) -> Result<(), RankFailure> {
        self.has_written.store(true, Ordering::Relaxed);
        match pointers {
            Some(pointers) => {
                let mut pieces: Vec<IoSlice<'_>> = Vec::with_capacity(spans.len());
                for (pointer, (_, len)) in pointers.into_iter().zip(spans) {
                    // SAFETY: as in `load`; the bytes are only read, and if other ranks may change
                    // them, by the kernel alone.
                    pieces.push(IoSlice::new(unsafe { std::slice::from_raw_parts(pointer, *len) }));
                }
                self.file.write_at(&mut pieces, offset)?;
            }
            None => {
                let mut bytes = vec![0; spans.iter().map(|(_, len)| len).sum()];
                let mut rest = &mut bytes[..];
                for (first, len) in spans {
                    let (now, later) = rest.split_at_mut(*len);
                    array.get(now, *first).map_err(crate::Error::from)?;
                    rest = later;
                }
                self.file.write_at(&mut [IoSlice::new(&bytes)], offset)?;
            }
        }
        let len: usize = spans.iter().map(|(_, len)| len).sum();
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.counters.written_bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The addresses of the bytes, if all of them are in the memory of this machine.
    fn pointers(&self, array: &RawArray, spans: &[PageSpan]) -> Option<Vec<*mut u8>> {
        if self.is_copying {
            return None;
        }
        spans.iter().map(|(first, len)| array.in_memory(*first..*first + *len as u64)).collect()
    }

    /// Extends the file to this length, if it is shorter.
    pub fn extend_to(&self, len: u64) -> Result<(), RankFailure> {
        if self.file.len()? < len {
            self.has_written.store(true, Ordering::Relaxed);
            self.file.set_len(len)?;
        }
        Ok(())
    }

    /// Notes a change that must be synced.
    pub fn note_change(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Whether a write is not synced yet.
    pub fn has_written(&self) -> bool {
        self.has_written.load(Ordering::Relaxed)
    }

    /// Notes that another process has synced the writes.
    pub fn note_synced(&self) {
        self.has_written.store(false, Ordering::Relaxed);
    }

    /// What moves written bytes of a plain file to its disk.
    pub fn range_to_disk(&self) -> Option<RangeToDisk> {
        match &self.file {
            BackingFile::Plain(file) => Some(RangeToDisk::new(file)),
            BackingFile::Cluster(_) => None,
        }
    }

    /// Makes the writes of this rank durable, if there are any.
    pub fn sync(&self) -> Result<(), RankFailure> {
        if self.has_written() { self.sync_all() } else { Ok(()) }
    }

    /// Makes the writes durable; of a plain file, those of all processes of the machine.
    pub fn sync_all(&self) -> Result<(), RankFailure> {
        self.file.sync().map_err(|why| why.context("cannot make durable what it wrote"))?;
        self.note_synced();
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
