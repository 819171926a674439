//! Files whose disks are all on this machine are read and written by this process itself, through
//! descriptors that the nodes have handed out.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pario_proto::{ByteRange, DescriptorAnswer, DescriptorRequest, FileKind, Part, Run, Striped};
use rustix::io::Errno;

use super::File;
use super::lease::Lease;
use super::ranges::{ReadPiece, WritePiece};
use crate::error::Error;

/// What a node gives to those who ask for descriptors.
pub(crate) type Descriptors = (Vec<u8>, Vec<OwnedFd>);

/// The most buffers that one system call takes.
const SLICES: usize = 1024;

/// Descriptors of all subfiles of a file.
#[derive(Debug)]
pub struct ShortCut {
    files: Vec<OwnedFd>,
    data_start: u64,
    leases: Vec<Lease>,
}

/// A system call failed.
#[derive(Debug)]
pub struct Broken {
    /// The subfile that it concerned.
    pub subfile: usize,
    /// What the system said.
    pub error: io::Error,
}

impl Broken {
    fn of(subfile: usize, error: impl Into<io::Error>) -> Self {
        Self { subfile, error: error.into() }
    }
}

/// How the bytes of a file are reached.
#[derive(Clone, Debug, Default)]
pub enum Way {
    /// Nobody has tried yet: files that are only created or looked at need no descriptors.
    #[default]
    Unknown,
    /// Over the nodes.
    Nodes,
    /// By descriptors.
    Direct(Arc<ShortCut>),
}

impl File {
    /// Descriptors, if all disks are on this machine and their nodes give any. `is_refused` is set if
    /// a node has refused the grant, and another one may help.
    fn find_short_cut(&self, is_refused: &mut bool) -> Option<Arc<ShortCut>> {
        let shared = &self.cluster.shared;
        if !shared.uses_short_cut() || self.record.kind != FileKind::Flat {
            return None;
        }
        let mut by_node: Vec<(usize, Vec<Part>)> = Vec::new();
        for part in &self.parts {
            let node = shared.node_of(part.disk).ok()?;
            match by_node.iter_mut().find(|(known, _)| *known == node) {
                Some((_, parts)) => parts.push(*part),
                None => by_node.push((node, vec![*part])),
            }
        }
        let mut files: Vec<Option<OwnedFd>> = self.parts.iter().map(|_| None).collect();
        let (mut leases, mut data_start) = (Vec::new(), 0);
        for (node, parts) in by_node {
            let (grant, wanted) = (self.grant(), parts.clone());
            let request = DescriptorRequest::Subfiles { grant, parts: wanted };
            let bytes = postcard::to_allocvec(&request).ok()?;
            let (answer, descriptors) = match shared.ask_descriptors(node, &bytes)? {
                Ok(given) => given,
                Err(failure) => {
                    *is_refused = failure.is_some_and(|failure| failure.needs_renewal());
                    return None;
                }
            };
            let answer: DescriptorAnswer = postcard::from_bytes(&answer).ok()?;
            let mut descriptors = descriptors.into_iter();
            leases.push(Lease::take(&descriptors.next()?, self.record.id, answer.lease)?);
            data_start = answer.data_start_bytes;
            for part in parts {
                files[part.subfile.0 as usize] = Some(descriptors.next()?);
            }
        }
        let files: Option<Vec<OwnedFd>> = files.into_iter().collect();
        Some(Arc::new(ShortCut { files: files?, data_start, leases }))
    }

    /// The short cut, if there is one and rights have not changed. If they have, the grant is
    /// renewed, or the call fails.
    pub(super) fn usable_short_cut(&self) -> Result<Option<Arc<ShortCut>>, Error> {
        let is_known = match &*self.short_cut.read() {
            Way::Nodes => return Ok(None),
            Way::Direct(short_cut) if short_cut.is_valid() => return Ok(Some(short_cut.clone())),
            Way::Direct(_) => true,
            Way::Unknown => false,
        };
        if is_known {
            *self.short_cut.write() = Way::Unknown;
            self.renew().map_err(|error| error.of_file(self.path.as_str()))?;
        }
        let mut is_refused = false;
        let mut found = self.find_short_cut(&mut is_refused);
        if is_refused {
            self.renew().map_err(|error| error.of_file(self.path.as_str()))?;
            found = self.find_short_cut(&mut is_refused);
        }
        *self.short_cut.write() = found.clone().map_or(Way::Nodes, Way::Direct);
        Ok(found)
    }

    /// Reads pieces if there is a short cut; whether some subfile was shorter than wanted.
    pub(super) fn read_directly(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<Option<bool>, Error> {
        let Some(short_cut) = self.usable_short_cut()? else { return Ok(None) };
        let mut is_short = false;
        for (offset, piece) in pieces {
            let read = short_cut.read(striped, *offset, piece);
            is_short |= read.map_err(|broken| self.failed(&short_cut, &broken))?;
        }
        Ok(Some(is_short))
    }

    /// Writes pieces if there is a short cut; whether there is.
    pub(super) fn write_directly(
        &self,
        striped: &Striped,
        pieces: &[WritePiece<'_>],
    ) -> Result<bool, Error> {
        let Some(short_cut) = self.usable_short_cut()? else { return Ok(false) };
        for (offset, piece) in pieces {
            let written = short_cut.write(striped, *offset, piece);
            written.map_err(|broken| self.failed(&short_cut, &broken))?;
        }
        Ok(true)
    }
}

impl ShortCut {
    #[inline]
    fn is_valid(&self) -> bool {
        self.leases.iter().all(Lease::is_valid)
    }

    /// The length of the file.
    pub fn len(&self, striped: &Striped) -> Result<u64, Broken> {
        let mut lens = Vec::with_capacity(self.files.len());
        for (subfile, file) in self.files.iter().enumerate() {
            let stat = rustix::fs::fstat(file).map_err(|error| Broken::of(subfile, error))?;
            let len = u64::try_from(stat.st_size).unwrap_or(0);
            lens.push(len.saturating_sub(self.data_start));
        }
        striped.file_size_bytes(&lens).map_err(|error| Broken::of(0, io::Error::other(error)))
    }

    /// What is left on the disk of a subfile.
    pub fn free_bytes(&self, subfile: usize) -> u64 {
        let found = self.files.get(subfile).and_then(|file| rustix::fs::fstatvfs(file).ok());
        found.map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Reads a piece; whether some subfile was shorter than wanted. What is missing is zero.
    fn read(&self, striped: &Striped, offset: u64, buffer: &mut [u8]) -> Result<bool, Broken> {
        if let Some(first) = self.first_of_few(striped, offset, buffer.len()) {
            let (one, other) = buffer.split_at_mut(first);
            let is_short = self.read_in_unit(striped, offset, one)?;
            let after = offset + first as u64;
            return Ok(!other.is_empty() && self.read_in_unit(striped, after, other)? || is_short);
        }
        let range = byte_range(offset, buffer.len())?;
        let mut is_short = false;
        for run in striped.runs(range) {
            let read = self.read_run(&run, buffer);
            is_short |= read.map_err(|error| Broken::of(run.subfile().0 as usize, error))?;
        }
        Ok(is_short)
    }

    /// How much of a piece lies in its first unit, if it has no more than one or two, on different
    /// disks: then there is nothing to gather.
    #[inline]
    fn first_of_few(&self, striped: &Striped, offset: u64, len: usize) -> Option<usize> {
        let unit = striped.unit_bytes();
        let first = to_usize((unit - offset % unit).min(len as u64));
        let is_few = first == len || (len - first) as u64 <= unit && self.files.len() > 1;
        is_few.then_some(first)
    }

    #[inline]
    fn read_in_unit(
        &self,
        striped: &Striped,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<bool, Broken> {
        let place = striped.locate(offset);
        let subfile = place.subfile.0 as usize;
        let read = read_all(&self.files[subfile], place.offset_bytes + self.data_start, buffer);
        read.map_err(|error| Broken::of(subfile, error))
    }

    #[inline]
    fn write_in_unit(&self, striped: &Striped, offset: u64, buffer: &[u8]) -> Result<(), Broken> {
        let place = striped.locate(offset);
        let subfile = place.subfile.0 as usize;
        let written = write_all(&self.files[subfile], place.offset_bytes + self.data_start, buffer);
        written.map_err(|error| Broken::of(subfile, error))
    }

    fn read_run(&self, run: &Run, buffer: &mut [u8]) -> io::Result<bool> {
        let file = &self.files[run.subfile().0 as usize];
        let mut position = run.offset_bytes() + self.data_start;
        let mut segments = run.segments();
        let (mut rest, mut at) = (buffer, 0);
        loop {
            let mut slices = Vec::with_capacity(SLICES.min(32));
            let mut bytes = 0u64;
            for segment in segments.by_ref().take(SLICES) {
                let start = to_usize(segment.buffer_offset_bytes);
                let (_, from) = rest.split_at_mut(start - at);
                let (slice, later) = from.split_at_mut(to_usize(segment.len_bytes));
                at = start + slice.len();
                bytes += slice.len() as u64;
                slices.push(IoSliceMut::new(slice));
                rest = later;
            }
            if slices.is_empty() {
                return Ok(false);
            }
            if read_vectored(file, position, &mut slices)? {
                // The subfile ends here: what follows of it is zero.
                for segment in segments {
                    let start = to_usize(segment.buffer_offset_bytes) - at;
                    rest[start..start + to_usize(segment.len_bytes)].fill(0);
                }
                return Ok(true);
            }
            position += bytes;
        }
    }

    fn write(&self, striped: &Striped, offset: u64, buffer: &[u8]) -> Result<(), Broken> {
        if let Some(first) = self.first_of_few(striped, offset, buffer.len()) {
            let (one, other) = buffer.split_at(first);
            self.write_in_unit(striped, offset, one)?;
            if other.is_empty() {
                return Ok(());
            }
            return self.write_in_unit(striped, offset + first as u64, other);
        }
        let range = byte_range(offset, buffer.len())?;
        for run in striped.runs(range) {
            let subfile = run.subfile().0 as usize;
            let file = &self.files[subfile];
            let mut position = run.offset_bytes() + self.data_start;
            let mut segments = run.segments();
            loop {
                let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES.min(32));
                let mut bytes = 0;
                for segment in segments.by_ref().take(SLICES) {
                    let start = to_usize(segment.buffer_offset_bytes);
                    let slice = &buffer[start..start + to_usize(segment.len_bytes)];
                    bytes += slice.len() as u64;
                    slices.push(IoSlice::new(slice));
                }
                if slices.is_empty() {
                    break;
                }
                write_vectored(file, position, &mut slices)
                    .map_err(|error| Broken::of(subfile, error))?;
                position += bytes;
            }
        }
        Ok(())
    }
}

fn byte_range(offset: u64, len: usize) -> Result<ByteRange, Broken> {
    ByteRange::new(offset, len as u64).map_err(|error| Broken::of(0, io::Error::other(error)))
}

/// A length within a buffer of this process.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).expect("a buffer is in memory")
}

/// Reads as much as there is; the rest is zero. Whether there was less.
#[inline]
fn read_all(file: &OwnedFd, position: u64, buffer: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file, &mut buffer[done..], position + done as u64) {
            Ok(0) => {
                buffer[done..].fill(0);
                return Ok(true);
            }
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn read_vectored(
    file: &OwnedFd,
    position: u64,
    mut slices: &mut [IoSliceMut<'_>],
) -> io::Result<bool> {
    let mut done = 0;
    while !slices.is_empty() {
        match rustix::io::preadv(file, slices, position + done) {
            Ok(0) => {
                slices.iter_mut().for_each(|slice| slice.fill(0));
                return Ok(true);
            }
            Ok(count) => {
                done += count as u64;
                IoSliceMut::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

#[inline]
fn write_all(file: &OwnedFd, position: u64, buffer: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pwrite(file, &buffer[done..], position + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn write_vectored(file: &OwnedFd, position: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut done = 0;
    while !slices.is_empty() {
        match rustix::io::pwritev(file, slices, position + done) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                done += count as u64;
                IoSlice::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
