//! The short cut: this process itself reads and writes files whose disks are all on its machine,
//! through descriptors that the nodes have passed to it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pario_proto::{
    ByteRange, DescriptorAnswer, DescriptorRequest, FileKind, Striped, SubfileLocation, SubfileRun,
};
use rustix::io::Errno;

use super::File;
use super::batches::{ReadPiece, WritePiece};
use super::lease::Lease;
use super::traffic::DiskTraffic;
use crate::error::Error;

/// The reply of a node to a request for descriptors.
pub(crate) type Descriptors = (Vec<u8>, Vec<OwnedFd>);

/// Buffers of one system call.
const SLICES: usize = 1024;

/// Descriptors of the subfiles of a file: of all, or of the only one used so far. A node creates a
/// subfile to pass its descriptor; a small file thus gets no subfiles that it does not need.
#[derive(Debug)]
pub struct ShortCut {
    files: Vec<Option<OwnedFd>>,
    data_start: u64,
    leases: Vec<Lease>,
    /// The counters of each subfile.
    traffic: Vec<Option<DiskTraffic>>,
}

/// A system call on a subfile failed.
#[derive(Debug)]
pub struct SubfileError {
    /// The subfile.
    pub subfile: usize,
    /// The error of the system.
    pub error: io::Error,
}

impl SubfileError {
    fn of(subfile: usize, error: impl Into<io::Error>) -> Self {
        Self { subfile, error: error.into() }
    }
}

/// The path on which accesses reach the bytes of a file.
#[derive(Clone, Debug, Default)]
pub enum AccessPath {
    /// Not tried yet: a file that is only created or measured needs no descriptors.
    #[default]
    Unknown,
    /// Over the nodes.
    Nodes,
    /// By descriptors.
    Direct(Arc<ShortCut>),
}

impl File {
    /// Fetches descriptors of one subfile, or of all, if their disks are on this machine and their
    /// nodes pass any. Sets `is_refused` if a node has refused the grant, and a new one may help.
    fn find_short_cut(
        &self,
        subfile: Option<usize>,
        is_refused: &mut bool,
    ) -> Option<Arc<ShortCut>> {
        let shared = &self.state.cluster.shared;
        if !shared.uses_short_cut() || self.state.record.kind != FileKind::Flat {
            return None;
        }
        let mut by_node: Vec<(usize, Vec<SubfileLocation>)> = Vec::new();
        let is_wanted =
            |part: &&SubfileLocation| subfile.is_none_or(|one| part.subfile.0 as usize == one);
        for part in self.state.parts.iter().filter(is_wanted) {
            let node = shared.node_of(part.disk).ok()?;
            match by_node.iter_mut().find(|(known, _)| *known == node) {
                Some((_, parts)) => parts.push(*part),
                None => by_node.push((node, vec![*part])),
            }
        }
        let mut files: Vec<Option<OwnedFd>> = self.state.parts.iter().map(|_| None).collect();
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
            leases.push(Lease::take(&descriptors.next()?, self.state.record.id, answer.lease)?);
            data_start = answer.data_start_bytes;
            for part in parts {
                files[part.subfile.0 as usize] = Some(descriptors.next()?);
            }
        }
        let traffic = self.traffic(&files);
        Some(Arc::new(ShortCut { files, data_start, leases, traffic }))
    }

    /// The counters of the subfiles that have descriptors.
    fn traffic(&self, files: &[Option<OwnedFd>]) -> Vec<Option<DiskTraffic>> {
        let shared = &self.state.cluster.shared;
        let mut traffic: Vec<_> = files.iter().map(|_| None).collect();
        for part in &self.state.parts {
            let subfile = part.subfile.0 as usize;
            if files[subfile].is_some()
                && let Ok(node) = shared.node_of(part.disk)
            {
                traffic[subfile] = shared.traffic(node).and_then(|table| table.disk(part.disk));
            }
        }
        traffic
    }

    /// Whether there are connections to all nodes that have disks of the file.
    fn can_ask_nodes(&self) -> bool {
        let shared = &self.state.cluster.shared;
        self.state
            .parts
            .iter()
            .all(|part| shared.node_of(part.disk).is_ok_and(|node| shared.node(node).is_open()))
    }

    /// The short cut, if there is one and rights have not changed. If they have, renews the grant,
    /// or fails. `subfile` returns the subfile that is needed; none if several are.
    pub(super) fn usable_short_cut(
        &self,
        subfile: impl FnOnce() -> Option<usize>,
    ) -> Result<Option<Arc<ShortCut>>, Error> {
        let (mut is_stale, mut subfile_needed) = (false, None);
        match &*self.state.short_cut.read() {
            AccessPath::Nodes => return Ok(None),
            AccessPath::Direct(short_cut) if !short_cut.is_valid() => {
                (is_stale, subfile_needed) = (true, subfile());
            }
            // A restarted node does not have the counters.
            AccessPath::Direct(short_cut)
                if short_cut.has_lost_counters() && self.can_ask_nodes() =>
            {
                subfile_needed = subfile();
            }
            AccessPath::Direct(short_cut) if short_cut.is_complete() => {
                return Ok(Some(short_cut.clone()));
            }
            AccessPath::Direct(short_cut) => {
                if subfile().is_some_and(|subfile| short_cut.files[subfile].is_some()) {
                    return Ok(Some(short_cut.clone()));
                }
            }
            AccessPath::Unknown => subfile_needed = subfile(),
        }
        if is_stale {
            *self.state.short_cut.write() = AccessPath::Unknown;
            self.renew().map_err(|error| error.of_file(self.state.path.as_str()))?;
        }
        let mut is_refused = false;
        let mut found = self.find_short_cut(subfile_needed, &mut is_refused);
        if is_refused {
            self.renew().map_err(|error| error.of_file(self.state.path.as_str()))?;
            found = self.find_short_cut(subfile_needed, &mut is_refused);
        }
        *self.state.short_cut.write() = found.clone().map_or(AccessPath::Nodes, AccessPath::Direct);
        Ok(found)
    }

    /// The short cut, if there is a valid one with the descriptors of all subfiles.
    pub(super) fn complete_short_cut(&self) -> Option<Arc<ShortCut>> {
        match &*self.state.short_cut.read() {
            AccessPath::Direct(short_cut) if short_cut.is_valid() && short_cut.is_complete() => {
                Some(short_cut.clone())
            }
            _ => None,
        }
    }

    /// Reads the parts of an access by the short cut. Returns whether a subfile was shorter than
    /// requested; none if there is no short cut.
    pub(super) fn read_directly(
        &self,
        striped: &Striped,
        pieces: &mut [ReadPiece<'_>],
    ) -> Result<Option<bool>, Error> {
        let needed = || only_subfile(striped, pieces.iter().map(|(at, piece)| (*at, piece.len())));
        let Some(short_cut) = self.usable_short_cut(needed)? else { return Ok(None) };
        let mut is_short = false;
        for (offset, piece) in pieces {
            let read = short_cut.read(striped, *offset, piece);
            is_short |= read.map_err(|failed| self.failed(&short_cut, &failed))?;
        }
        Ok(Some(is_short))
    }

    /// Writes the parts of an access by the short cut. Returns whether there is one.
    pub(super) fn write_directly(
        &self,
        striped: &Striped,
        pieces: &[WritePiece<'_>],
    ) -> Result<bool, Error> {
        let needed = || only_subfile(striped, pieces.iter().map(|(at, piece)| (*at, piece.len())));
        let Some(short_cut) = self.usable_short_cut(needed)? else { return Ok(false) };
        for (offset, piece) in pieces {
            let written = short_cut.write(striped, *offset, piece);
            written.map_err(|failed| self.failed(&short_cut, &failed))?;
        }
        Ok(true)
    }
}

impl ShortCut {
    #[inline]
    fn is_valid(&self) -> bool {
        self.leases.iter().all(Lease::is_valid)
    }

    #[inline]
    fn has_lost_counters(&self) -> bool {
        self.traffic.iter().flatten().any(DiskTraffic::is_lost)
    }

    #[inline]
    fn note_read(&self, subfile: usize, bytes: u64) {
        if let Some(traffic) = &self.traffic[subfile] {
            traffic.read(bytes);
        }
    }

    #[inline]
    fn note_written(&self, subfile: usize, bytes: u64) {
        if let Some(traffic) = &self.traffic[subfile] {
            traffic.written(bytes);
        }
    }

    #[inline]
    fn is_complete(&self) -> bool {
        self.files.iter().all(Option::is_some)
    }

    /// The descriptor of a subfile that the caller has requested before.
    #[inline]
    fn file(&self, subfile: usize) -> Result<&OwnedFd, SubfileError> {
        let missing = || SubfileError::of(subfile, io::Error::other("its descriptor is missing"));
        self.files[subfile].as_ref().ok_or_else(missing)
    }

    /// The length of the file.
    pub fn len(&self, striped: &Striped) -> Result<u64, SubfileError> {
        let mut lens = Vec::with_capacity(self.files.len());
        for subfile in 0..self.files.len() {
            let stat = rustix::fs::fstat(self.file(subfile)?)
                .map_err(|error| SubfileError::of(subfile, error))?;
            let len = u64::try_from(stat.st_size).unwrap_or(0);
            lens.push(len.saturating_sub(self.data_start));
        }
        striped.file_size_bytes(&lens).map_err(|error| SubfileError::of(0, io::Error::other(error)))
    }

    /// The free bytes on the disk of a subfile.
    pub fn free_bytes(&self, subfile: usize) -> u64 {
        let file = self.files.get(subfile).and_then(Option::as_ref);
        let found = file.and_then(|file| rustix::fs::fstatvfs(file).ok());
        found.map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Reads consecutive bytes. Returns whether a subfile was shorter than requested; missing bytes
    /// are zero.
    fn read(
        &self,
        striped: &Striped,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<bool, SubfileError> {
        if let Some(first) = self.first_of_few(striped, offset, buffer.len()) {
            let (one, other) = buffer.split_at_mut(first);
            let is_short = self.read_in_unit(striped, offset, one)?;
            let after = offset + first as u64;
            return Ok(!other.is_empty() && self.read_in_unit(striped, after, other)? || is_short);
        }
        let range = byte_range(offset, buffer.len())?;
        let mut is_short = false;
        for run in striped.runs(range) {
            let read = self.read_run(self.file(run.subfile().0 as usize)?, &run, buffer);
            is_short |= read.map_err(|error| SubfileError::of(run.subfile().0 as usize, error))?;
        }
        Ok(is_short)
    }

    /// The bytes in the first unit, if the range touches at most two units, on different disks:
    /// then there is nothing to gather.
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
    ) -> Result<bool, SubfileError> {
        let place = striped.locate(offset);
        let subfile = place.subfile.0 as usize;
        let read = read_all(self.file(subfile)?, place.offset_bytes + self.data_start, buffer);
        let count = read.map_err(|error| SubfileError::of(subfile, error))?;
        self.note_read(subfile, count as u64);
        Ok(count < buffer.len())
    }

    #[inline]
    fn write_in_unit(
        &self,
        striped: &Striped,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), SubfileError> {
        let place = striped.locate(offset);
        let subfile = place.subfile.0 as usize;
        let written = write_all(self.file(subfile)?, place.offset_bytes + self.data_start, buffer);
        written.map_err(|error| SubfileError::of(subfile, error))?;
        self.note_written(subfile, buffer.len() as u64);
        Ok(())
    }

    fn read_run(&self, file: &OwnedFd, run: &SubfileRun, buffer: &mut [u8]) -> io::Result<bool> {
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
            let count = read_vectored(file, position, &mut slices)?;
            self.note_read(run.subfile().0 as usize, count);
            if count < bytes {
                // The subfile ends here: its further bytes are zero.
                for segment in segments {
                    let start = to_usize(segment.buffer_offset_bytes) - at;
                    rest[start..start + to_usize(segment.len_bytes)].fill(0);
                }
                return Ok(true);
            }
            position += bytes;
        }
    }

    fn write(&self, striped: &Striped, offset: u64, buffer: &[u8]) -> Result<(), SubfileError> {
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
            let file = self.file(subfile)?;
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
                    .map_err(|error| SubfileError::of(subfile, error))?;
                self.note_written(subfile, bytes);
                position += bytes;
            }
        }
        Ok(())
    }
}

/// The subfile that holds all parts of an access, if there is one.
fn only_subfile(striped: &Striped, pieces: impl Iterator<Item = (u64, usize)>) -> Option<usize> {
    if striped.disks().as_slice().len() == 1 {
        return Some(0);
    }
    let mut only = None;
    for (offset, len) in pieces.filter(|(_, len)| *len > 0) {
        let (first, unit) = (striped.locate(offset).subfile, striped.unit_bytes());
        if offset % unit + len as u64 > unit || only.is_some_and(|only| only != first) {
            return None;
        }
        only = Some(first);
    }
    only.map(|subfile| subfile.0 as usize)
}

fn byte_range(offset: u64, len: usize) -> Result<ByteRange, SubfileError> {
    ByteRange::new(offset, len as u64).map_err(|error| SubfileError::of(0, io::Error::other(error)))
}

/// A length within a buffer of this process.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).expect("a buffer is in memory")
}

/// Reads up to the end of the subfile, and returns the number of bytes; the rest is zero.
#[inline]
fn read_all(file: &OwnedFd, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file, &mut buffer[done..], position + done as u64) {
            Ok(0) => {
                buffer[done..].fill(0);
                break;
            }
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Like `read_all`, into several buffers.
fn read_vectored(
    file: &OwnedFd,
    position: u64,
    mut slices: &mut [IoSliceMut<'_>],
) -> io::Result<u64> {
    let mut done = 0;
    while !slices.is_empty() {
        match rustix::io::preadv(file, slices, position + done) {
            Ok(0) => {
                slices.iter_mut().for_each(|slice| slice.fill(0));
                break;
            }
            Ok(count) => {
                done += count as u64;
                IoSliceMut::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
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
