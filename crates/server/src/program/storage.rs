//! Storage threads: they read and write the subfiles of their disks.

use std::io::IoSlice;
use std::sync::Arc;

use pario_net::{Bulk, BulkBuffer};
use pario_proto::{
    EXTENTS_LISTED, ExtentIndex, ExtentMeasure, ExtentPlacement, Failure, Grant, RANGES_LIMIT,
    Reply, ReplyMessage, Request, SubfileLocation, SubfileRange, TRANSFER_LIMIT_BYTES,
};
use pario_store::{ExtentFile, FlatFile, MAX_EXTENT_INDEX};

use super::compaction::CompactionCall;
use super::{DataCall, plain_reply};
use crate::disks::NodeDisk;
use crate::node_state::NodeState;

/// A storage thread.
pub struct Storage {
    pub shared: Arc<NodeState>,
}

impl Storage {
    /// Creates a storage thread.
    pub fn new(shared: Arc<NodeState>) -> Self {
        Self { shared }
    }

    /// Serves a request. The dispatcher has checked its grant.
    pub fn serve(&mut self, call: DataCall) -> ReplyMessage<Bulk> {
        let shared = self.shared.clone();
        let disk = shared.disks.disk(call.disk);
        let served = disk.load.serve(call.bytes());
        let on_thread = call.queued.as_ref().map(|_| {
            let file = call.subfile().map(|(grant, _)| grant.file);
            shared.storage_threads.serve(call.thread, &disk.name, call.request.kind(), file)
        });
        let answered = match call.failure {
            Some(failure) => Err(failure),
            None => self.answer(disk, call.request, call.data),
        };
        drop((on_thread, call.queued));
        drop(served);
        answered.unwrap_or_else(|failure| plain_reply(Err(failure)))
    }

    fn answer(
        &self,
        disk: &NodeDisk,
        request: Request,
        data: Vec<Bulk>,
    ) -> Result<ReplyMessage<Bulk>, Failure> {
        let done = match request {
            Request::Read { grant, part, ranges } => {
                return match self.shared.flat(disk, &grant, part)?.present() {
                    Some(flat) => read(disk, &flat, &ranges),
                    None => nothing_read(&ranges),
                };
            }
            Request::Write { grant, part, ranges } => {
                let flat = self.shared.flat_or_create(disk, &grant, part)?;
                write(disk, &flat, &ranges, &data)?;
                Reply::Done
            }
            Request::Resize { grant, part, len } => {
                if len > 0 || self.shared.flat(disk, &grant, part)?.present().is_some() {
                    let flat = self.shared.flat_or_create(disk, &grant, part)?;
                    let resized = flat.set_len(len);
                    resized.map_err(|error| disk.failure(error, flat.id(), "resize a file"))?;
                }
                Reply::Done
            }
            Request::Grow { grant, part, len } => {
                if len > 0 {
                    let flat = self.shared.flat_or_create(disk, &grant, part)?;
                    let grown = flat.grow(len);
                    grown.map_err(|error| disk.failure(error, flat.id(), "extend a file"))?;
                }
                Reply::Done
            }
            Request::Sync { grant, part } => {
                Reply::Synced { is_there: self.shared.sync(disk, &grant, part)? }
            }
            Request::SetModified { grant, part, modified_ns } => {
                self.set_modified(disk, &grant, part, modified_ns)?;
                Reply::Done
            }
            Request::ReadExtent { grant, disk: id, place } => {
                let part = SubfileLocation { disk: id, subfile: place.subfile };
                match self.shared.extents(disk, &grant, part)?.present() {
                    Some(extents) => return read_extent(disk, &extents, place),
                    None => Reply::Extent { is_there: false },
                }
            }
            Request::WriteExtent { grant, disk: id, place } => {
                let part = SubfileLocation { disk: id, subfile: place.subfile };
                let extents = self.shared.extents_or_create(disk, &grant, part)?;
                write_extent(disk, &extents, place, &data)?;
                Reply::Done
            }
            Request::DeleteExtent { grant, disk: id, place } => {
                let part = SubfileLocation { disk: id, subfile: place.subfile };
                let was_there = match self.shared.extents(disk, &grant, part)?.present() {
                    Some(extents) => extents
                        .delete(place.extent.0)
                        .map_err(|error| disk.failure(error, extents.id(), "delete an extent"))?,
                    None => false,
                };
                Reply::Deleted { was_there }
            }
            Request::ListExtents { grant, disk: id, from, limit } => {
                let part = SubfileLocation { disk: id, subfile: from.subfile };
                match self.shared.extents(disk, &grant, part)?.present() {
                    Some(extents) => list_extents(disk, &extents, from, limit)?,
                    None => Reply::Extents(Vec::new()),
                }
            }
            Request::Compact { grant, part, cursor } => {
                self.compact(disk, &CompactionCall { grant, part, cursor })?
            }
            _ => return Err(self.internal("a request that is not for a disk came to one")),
        };
        Ok(plain_reply(Ok(done)))
    }

    /// Sets the time of a flat subfile. Creates the first subfile of an empty file, which keeps the
    /// time.
    fn set_modified(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
        modified_ns: u64,
    ) -> Result<(), Failure> {
        let flat = match part.subfile.0 {
            0 => Some(self.shared.flat_or_create(disk, grant, part)?),
            _ => self.shared.flat(disk, grant, part)?.present(),
        };
        let Some(flat) = flat else { return Ok(()) };
        let set = flat.set_modified_ns(modified_ns);
        set.map_err(|error| disk.failure(error, flat.id(), "set the time of a file"))
    }

    fn internal(&self, why: &str) -> Failure {
        Failure::Internal { node: self.shared.name().to_owned(), why: why.to_owned() }
    }
}

/// Reads ranges into one buffer, one after the other, each up to the end of the subfile.
fn read(
    disk: &NodeDisk,
    flat: &FlatFile,
    ranges: &[SubfileRange],
) -> Result<ReplyMessage<Bulk>, Failure> {
    let total = total_of(ranges)?;
    let mut buffer = BulkBuffer::new(total);
    let mut filled = 0;
    let mut lens = Vec::with_capacity(ranges.len());
    for range in ranges {
        let len = usize::try_from(range.len).unwrap_or(total);
        let count = flat
            .read_at(&mut buffer[filled..filled + len], range.offset)
            .map_err(|error| disk.failure(error, flat.id(), "read"))?;
        filled += count;
        lens.push(count as u64);
    }
    buffer.truncate(filled);
    disk.load.read(filled as u64);
    Ok(ReplyMessage { result: Ok(Reply::Read { lens }), data: vec![buffer.freeze()] })
}

/// Returns the reply to a read of a lazy subfile: no bytes.
fn nothing_read(ranges: &[SubfileRange]) -> Result<ReplyMessage<Bulk>, Failure> {
    total_of(ranges)?;
    let lens = vec![0; ranges.len()];
    Ok(ReplyMessage { result: Ok(Reply::Read { lens }), data: vec![BulkBuffer::new(0).freeze()] })
}

/// Writes ranges from consecutive segments, whose borders need not match those of the ranges.
fn write(
    disk: &NodeDisk,
    flat: &FlatFile,
    ranges: &[SubfileRange],
    data: &[Bulk],
) -> Result<(), Failure> {
    let total = total_of(ranges)?;
    let given: usize = data.iter().map(|segment| segment.len()).sum();
    if given != total {
        let text = format!("{given} bytes came for ranges of {total} bytes");
        return Err(Failure::Invalid(text));
    }
    let mut segments = data.iter().map(|segment| &segment[..]);
    let mut rest: &[u8] = &[];
    for range in ranges {
        let mut left = usize::try_from(range.len).unwrap_or(total);
        let mut slices = Vec::with_capacity(2);
        while left > 0 {
            if rest.is_empty() {
                rest = segments.next().unwrap_or_default();
                continue;
            }
            let (now, later) = rest.split_at(left.min(rest.len()));
            slices.push(IoSlice::new(now));
            left -= now.len();
            rest = later;
        }
        flat.write_vectored_at(&mut slices, range.offset)
            .map_err(|error| disk.failure(error, flat.id(), "write"))?;
    }
    disk.load.written(total as u64);
    Ok(())
}

fn total_of(ranges: &[SubfileRange]) -> Result<usize, Failure> {
    let total = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.len));
    match total {
        Some(total) if total <= TRANSFER_LIMIT_BYTES && ranges.len() <= RANGES_LIMIT => {
            Ok(usize::try_from(total).unwrap_or(0))
        }
        _ => Err(Failure::Invalid(format!(
            "a request moves at most {TRANSFER_LIMIT_BYTES} bytes in {RANGES_LIMIT} ranges: send \
             several"
        ))),
    }
}

fn read_extent(
    disk: &NodeDisk,
    extents: &ExtentFile,
    place: ExtentPlacement,
) -> Result<ReplyMessage<Bulk>, Failure> {
    let read = extents.read(place.extent.0);
    let found = read.map_err(|error| disk.failure(error, extents.id(), "read an extent"))?;
    let Some(extent) = found else {
        return Ok(plain_reply(Ok(Reply::Extent { is_there: false })));
    };
    disk.load.read((extent.header().len() + extent.body().len()) as u64);
    let header = Bulk::from(extent.header().to_vec());
    let body = Bulk::from(body_of(extent));
    Ok(ReplyMessage { result: Ok(Reply::Extent { is_there: true }), data: vec![header, body] })
}

/// Returns the body of an extent without a copy.
fn body_of(extent: pario_store::Extent) -> bytes::Bytes {
    struct Body(pario_store::Extent);
    impl AsRef<[u8]> for Body {
        fn as_ref(&self) -> &[u8] {
            self.0.body()
        }
    }
    bytes::Bytes::from_owner(Body(extent))
}

fn write_extent(
    disk: &NodeDisk,
    extents: &ExtentFile,
    place: ExtentPlacement,
    data: &[Bulk],
) -> Result<(), Failure> {
    let [header, body] = data else {
        return Err(Failure::Invalid("an extent is written with a header and a body".to_owned()));
    };
    extents
        .write(place.extent.0, header, body)
        .map_err(|error| disk.failure(error, extents.id(), "write an extent"))?;
    disk.load.written((header.len() + body.len()) as u64);
    Ok(())
}

fn list_extents(
    disk: &NodeDisk,
    extents: &ExtentFile,
    from: ExtentPlacement,
    limit: u32,
) -> Result<Reply, Failure> {
    let mut found = Vec::new();
    for info in
        extents.list(from.extent.0..=MAX_EXTENT_INDEX).take(limit.min(EXTENTS_LISTED) as usize)
    {
        let info = info.map_err(|error| disk.failure(error, extents.id(), "list extents"))?;
        found.push(ExtentMeasure {
            extent: ExtentIndex(info.index),
            header_len: u64::from(info.header_len),
            body_len: u64::from(info.body_len),
        });
    }
    Ok(Reply::Extents(found))
}
