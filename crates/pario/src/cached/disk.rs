//! Bytes between a file and the arrays that hold its pages, and how often they moved.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pario_team::RawArray;

use super::agreement::Trouble;
use super::place::Backing;

/// Bytes that pass through memory of a process at once: no more than a processor keeps near.
const PASSED_AT_ONCE: usize = 512 << 10;

/// What a rank has moved between a cached file and its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedStatistics {
    /// How often it has read.
    pub reads: u64,
    /// How much.
    pub read_bytes: u64,
    /// How often it has written.
    pub writes: u64,
    /// How much.
    pub written_bytes: u64,
    /// How often it has made something durable.
    pub syncs: u64,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub struct Counted {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Counted {
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

/// Bytes of an array that lie within one of its pages: the first one, and how many.
pub type Stretch = (u64, usize);

/// The file, as this rank uses it.
#[derive(Debug)]
pub struct Disk {
    backing: Backing,
    counted: Arc<Counted>,
    /// Whether bytes go through memory of this process, as they must to other machines.
    is_copying: bool,
    /// Whether something was written that no sync has followed.
    has_written: AtomicBool,
}

impl Disk {
    pub fn new(backing: Backing, counted: &Arc<Counted>, is_copying: bool) -> Self {
        let has_written = AtomicBool::new(false);
        Self { backing, counted: counted.clone(), is_copying, has_written }
    }

    /// Reads consecutive bytes of the file to places of an array, straight to where they are on this
    /// machine. Nobody else may use these places. How many there were before the end of the file.
    pub fn load(
        &self,
        array: &RawArray,
        stretches: &[Stretch],
        offset: u64,
    ) -> Result<u64, Trouble> {
        let done = match self.pointers(array, stretches) {
            Some(pointers) => {
                let mut pieces: Vec<IoSliceMut<'_>> = Vec::with_capacity(stretches.len());
                for (pointer, (_, len)) in pointers.into_iter().zip(stretches) {
                    // SAFETY: the array says that so many bytes are there, and it is there during
                    // the call; the caller says that nobody else uses them.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, *len) };
                    pieces.push(IoSliceMut::new(bytes));
                }
                self.backing.read_at(&mut pieces, offset)?
            }
            None => {
                let mut bytes = vec![0; stretches.iter().map(|(_, len)| len).sum()];
                let done = self.backing.read_at(&mut [IoSliceMut::new(&mut bytes)], offset)?;
                let mut rest = &bytes[..usize::try_from(done).unwrap_or(0)];
                for (first, len) in stretches {
                    let (now, later) = rest.split_at((*len).min(rest.len()));
                    array.put(now, *first).map_err(crate::Error::from)?;
                    rest = later;
                }
                done
            }
        };
        self.counted.reads.fetch_add(1, Ordering::Relaxed);
        self.counted.read_bytes.fetch_add(done, Ordering::Relaxed);
        Ok(done)
    }

    /// Reads bytes of the file to the same places of an array that nobody has used before: through
    /// memory of this process, because to be given memory page by page takes longer. How many there
    /// were before the end of the file.
    pub fn load_new(&self, array: &RawArray, bytes: Range<u64>) -> Result<u64, Trouble> {
        let wanted = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX);
        // A file of a cluster has all of its disks read at once.
        let is_plain = matches!(self.backing, Backing::Plain(_));
        let mut memory = vec![0; if is_plain { wanted.min(PASSED_AT_ONCE) } else { wanted }];
        let mut next = bytes.start;
        while next < bytes.end {
            let left = usize::try_from(bytes.end - next).unwrap_or(usize::MAX);
            let piece = left.min(memory.len());
            let piece = &mut memory[..piece];
            let done = self.backing.read_at(&mut [IoSliceMut::new(piece)], next)?;
            let filled = &piece[..usize::try_from(done).unwrap_or(0)];
            array.fill(filled, next).map_err(crate::Error::from)?;
            next += done;
            if filled.len() < piece.len() {
                break;
            }
        }
        let done = next - bytes.start;
        self.counted.reads.fetch_add(1, Ordering::Relaxed);
        self.counted.read_bytes.fetch_add(done, Ordering::Relaxed);
        Ok(done)
    }

    /// Writes bytes of an array to consecutive bytes of the file. Nobody may change them meanwhile.
    pub fn store(
        &self,
        array: &RawArray,
        stretches: &[Stretch],
        offset: u64,
    ) -> Result<(), Trouble> {
        self.has_written.store(true, Ordering::Relaxed);
        match self.pointers(array, stretches) {
            Some(pointers) => {
                let mut pieces: Vec<IoSlice<'_>> = Vec::with_capacity(stretches.len());
                for (pointer, (_, len)) in pointers.into_iter().zip(stretches) {
                    // SAFETY: as in `load`; the bytes are only read.
                    pieces.push(IoSlice::new(unsafe { std::slice::from_raw_parts(pointer, *len) }));
                }
                self.backing.write_at(&mut pieces, offset)?;
            }
            None => {
                let mut bytes = vec![0; stretches.iter().map(|(_, len)| len).sum()];
                let mut rest = &mut bytes[..];
                for (first, len) in stretches {
                    let (now, later) = rest.split_at_mut(*len);
                    array.get(now, *first).map_err(crate::Error::from)?;
                    rest = later;
                }
                self.backing.write_at(&mut [IoSlice::new(&bytes)], offset)?;
            }
        }
        let len: usize = stretches.iter().map(|(_, len)| len).sum();
        self.counted.writes.fetch_add(1, Ordering::Relaxed);
        self.counted.written_bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Where the bytes are, if all of them are in memory of this machine.
    fn pointers(&self, array: &RawArray, stretches: &[Stretch]) -> Option<Vec<*mut u8>> {
        if self.is_copying {
            return None;
        }
        stretches.iter().map(|(first, len)| array.in_memory(*first..*first + *len as u64)).collect()
    }

    /// Makes the file at least so long.
    pub fn reach(&self, len: u64) -> Result<(), Trouble> {
        if self.backing.len()? < len {
            self.has_written.store(true, Ordering::Relaxed);
            self.backing.set_len(len)?;
        }
        Ok(())
    }

    /// Something was changed by other means.
    pub fn note_change(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Makes durable what was written, if anything was.
    pub fn sync(&self) -> Result<(), Trouble> {
        if self.has_written.load(Ordering::Relaxed) {
            self.backing.sync().map_err(|why| why.doing("cannot make durable what it wrote"))?;
            self.has_written.store(false, Ordering::Relaxed);
            self.counted.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
