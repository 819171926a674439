//! Requests of clients on the subfiles of this node.
//!
//! Reads of bytes and the requests on extents are asynchronous if their subfile is open. A subfile
//! that is not open is opened, or created, in the lane of its disk. All other requests run there as a
//! whole.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use pario_net::{Bulk, BulkBuffer};
use pario_proto::{
    DiskId, EXTENTS_LISTED, ExtentIndex, ExtentMeasure, ExtentPlacement, Failure, Grant,
    RANGES_LIMIT, Reply, ReplyMessage, Request, SubfileLocation, SubfileRange,
    TRANSFER_LIMIT_BYTES,
};
use pario_store::{Buffer, Extent, ExtentBuffer, ExtentFile, FlatFile, MAX_EXTENT_INDEX};

use crate::compaction::{self, CompactionCall};
use crate::disk_access::DiskRequest;
use crate::disks::NodeDisk;
use crate::node_state::NodeState;
use crate::program::plain_reply;

/// The dispatcher copies no longer extents itself: it has other requests to receive.
const LONG_COPY_BYTES: usize = 1 << 20;

/// A request on a subfile of this node. The dispatcher has checked its grant.
#[derive(Debug)]
pub struct DataCall {
    /// The number of the disk.
    pub disk: usize,
    /// The request.
    pub request: Request,
    /// The bytes that came with it.
    pub data: Vec<Bulk>,
}

/// The rest of a call: its place in the queue of the disk, and the function that takes the reply.
struct CallEnd {
    shared: Arc<NodeState>,
    queued: DiskRequest,
    done: Box<dyn FnOnce(ReplyMessage<Bulk>) + Send>,
}

impl DataCall {
    /// Returns the grant and the subfile of the request.
    pub fn subfile(&self) -> Option<(&Grant, SubfileLocation)> {
        Some(match &self.request {
            Request::Read { grant, part, .. }
            | Request::Write { grant, part, .. }
            | Request::Resize { grant, part, .. }
            | Request::Grow { grant, part, .. }
            | Request::SetModified { grant, part, .. }
            | Request::Compact { grant, part, .. }
            | Request::Sync { grant, part } => (grant, *part),
            Request::ReadExtent { grant, disk, place }
            | Request::WriteExtent { grant, disk, place }
            | Request::DeleteExtent { grant, disk, place } => (grant, part_of(*disk, *place)),
            Request::ListExtents { grant, disk, from, .. } => (grant, part_of(*disk, *from)),
            _ => return None,
        })
    }

    /// Returns the number of bytes that came with the request.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|segment| segment.len() as u64).sum()
    }

    /// Starts the request; it never waits. `done` gets the reply, on another thread or on this one.
    pub fn start(
        self,
        shared: &Arc<NodeState>,
        queued: DiskRequest,
        done: impl FnOnce(ReplyMessage<Bulk>) + Send + 'static,
    ) {
        let end = CallEnd { shared: shared.clone(), queued, done: Box::new(done) };
        let Self { disk, request, data } = self;
        match request {
            Request::Read { grant, part, ranges } => {
                let open = shared.disks.disk(disk).open_flat(grant.file, part.subfile.0);
                let find = move |shared: &NodeState, disk: &NodeDisk| {
                    shared.flat(disk, &grant, part).map(|found| found.present())
                };
                end.with_subfile(open, find, move |end, flat| end.read(flat, ranges));
            }
            Request::ReadExtent { grant, disk: id, place } => {
                end.with_extents(grant, part_of(id, place), move |end, extents| {
                    end.read_extent(extents, place);
                });
            }
            Request::DeleteExtent { grant, disk: id, place } => {
                end.with_extents(grant, part_of(id, place), move |end, extents| {
                    end.delete_extent(extents, place);
                });
            }
            Request::WriteExtent { grant, disk: id, place } => {
                end.write_extent(grant, part_of(id, place), place, &data);
            }
            request => end.run(move |shared| Self { disk, request, data }.answer(shared)),
        }
    }

    /// Serves the request on this thread, which may wait for the disk.
    pub fn serve(self, shared: &Arc<NodeState>, queued: DiskRequest) -> ReplyMessage<Bulk> {
        let begun = Instant::now();
        let answered = self.answer(shared);
        queued.note_served(begun.elapsed());
        answered.unwrap_or_else(|failure| plain_reply(Err(failure)))
    }

    /// Serves a request that has no asynchronous form.
    fn answer(self, shared: &Arc<NodeState>) -> Result<ReplyMessage<Bulk>, Failure> {
        let disk = shared.disks.disk(self.disk);
        let done = match self.request {
            Request::Write { grant, part, ranges } => {
                let flat = shared.flat_or_create(disk, &grant, part)?;
                write(disk, &flat, &ranges, &self.data)?;
                Reply::Done
            }
            Request::Resize { grant, part, len } => {
                if len > 0 || shared.flat(disk, &grant, part)?.present().is_some() {
                    let flat = shared.flat_or_create(disk, &grant, part)?;
                    let resized = flat.set_len(len);
                    resized.map_err(|error| disk.failure(error, flat.id(), "resize a file"))?;
                }
                Reply::Done
            }
            Request::Grow { grant, part, len } => {
                if len > 0 {
                    let flat = shared.flat_or_create(disk, &grant, part)?;
                    let grown = flat.grow(len);
                    grown.map_err(|error| disk.failure(error, flat.id(), "extend a file"))?;
                }
                Reply::Done
            }
            Request::Sync { grant, part } => {
                Reply::Synced { is_there: shared.sync(disk, &grant, part)? }
            }
            Request::SetModified { grant, part, modified_ns } => {
                set_modified(shared, disk, &grant, part, modified_ns)?;
                Reply::Done
            }
            Request::ListExtents { grant, disk: id, from, limit } => {
                match shared.extents(disk, &grant, part_of(id, from))?.present() {
                    Some(extents) => list_extents(disk, &extents, from, limit)?,
                    None => Reply::Extents(Vec::new()),
                }
            }
            Request::Compact { grant, part, cursor } => {
                compaction::compact(shared, disk, &CompactionCall { grant, part, cursor })?
            }
            _ => {
                let why = "a request that is not for a disk came to one".to_owned();
                return Err(Failure::Internal { node: shared.name().to_owned(), why });
            }
        };
        Ok(plain_reply(Ok(done)))
    }
}

impl CallEnd {
    /// Ends the call with its reply.
    fn end(self, answered: Result<ReplyMessage<Bulk>, Failure>) {
        let Self { queued, done, .. } = self;
        drop(queued);
        done(answered.unwrap_or_else(|failure| plain_reply(Err(failure))));
    }

    /// Runs work that may block, and ends the call with its reply.
    fn run(
        self,
        work: impl FnOnce(&Arc<NodeState>) -> Result<ReplyMessage<Bulk>, Failure> + Send + 'static,
    ) {
        let Self { shared, queued, done } = self;
        queued.run(move |queued| {
            let begun = Instant::now();
            let answered = work(&shared);
            queued.note_served(begun.elapsed());
            Self { shared, queued, done }.end(answered);
        });
    }

    /// Continues with an open subfile, or finds it first, which may block; `None` is a lazy one.
    fn with_subfile<T>(
        self,
        open: Option<T>,
        find: impl FnOnce(&NodeState, &NodeDisk) -> Result<Option<T>, Failure> + Send + 'static,
        then: impl FnOnce(Self, Option<T>) + Send + 'static,
    ) {
        if open.is_some() {
            return then(self, open);
        }
        let Self { shared, queued, done } = self;
        queued.run(move |queued| {
            let found = find(&shared, shared.disks.disk(queued.disk));
            let end = Self { shared, queued, done };
            match found {
                Ok(found) => then(end, found),
                Err(failure) => end.end(Err(failure)),
            }
        });
    }

    /// Continues with an extent subfile; `None` is a lazy one.
    fn with_extents(
        self,
        grant: Grant,
        part: SubfileLocation,
        then: impl FnOnce(Self, Option<ExtentFile>) + Send + 'static,
    ) {
        let disk = self.shared.disks.disk(self.queued.disk);
        let open = disk.open_extents(grant.file, part.subfile.0);
        let find = move |shared: &NodeState, disk: &NodeDisk| {
            shared.extents(disk, &grant, part).map(|found| found.present())
        };
        self.with_subfile(open, find, then);
    }

    fn read(self, flat: Option<FlatFile>, ranges: Vec<SubfileRange>) {
        let total = match total_of(&ranges) {
            Ok(total) => total,
            Err(failure) => return self.end(Err(failure)),
        };
        let Some(flat) = flat else {
            let lens = vec![0; ranges.len()];
            let data = vec![BulkBuffer::new(0).freeze()];
            return self.end(Ok(ReplyMessage { result: Ok(Reply::Read { lens }), data }));
        };
        let end = |range: &SubfileRange| range.offset.saturating_add(range.len);
        let ranges = ranges.iter().map(|range| range.offset..end(range)).collect();
        let Self { queued, done, .. } = self;
        queued.read_flat(&flat, ranges, total, move |read| {
            done(match read {
                Ok((buffer, lens)) => {
                    let total = lens.iter().sum();
                    let lens = lens.into_iter().map(|len| len as u64).collect();
                    let data = vec![Bulk::from(bytes_of(buffer, total))];
                    ReplyMessage { result: Ok(Reply::Read { lens }), data }
                }
                Err(failure) => plain_reply(Err(failure)),
            });
        });
    }

    fn read_extent(self, extents: Option<ExtentFile>, place: ExtentPlacement) {
        let absent = || plain_reply(Ok(Reply::Extent { is_there: false }));
        let Some(extents) = extents else { return self.end(Ok(absent())) };
        let Self { queued, done, .. } = self;
        queued.read_extent(&extents, place.extent.0, false, move |read| {
            done(match read {
                Ok(Some(extent)) => {
                    let header = Bulk::from(extent.header().to_vec());
                    let data = vec![header, Bulk::from(body_of(extent))];
                    ReplyMessage { result: Ok(Reply::Extent { is_there: true }), data }
                }
                Ok(None) => absent(),
                Err(failure) => plain_reply(Err(failure)),
            });
        });
    }

    fn delete_extent(self, extents: Option<ExtentFile>, place: ExtentPlacement) {
        let Some(extents) = extents else {
            return self.end(Ok(plain_reply(Ok(Reply::Deleted { was_there: false }))));
        };
        let Self { queued, done, .. } = self;
        queued.delete_extent(&extents, place.extent.0, move |deleted| {
            done(plain_reply(deleted.map(|was_there| Reply::Deleted { was_there })));
        });
    }

    fn write_extent(
        self,
        grant: Grant,
        part: SubfileLocation,
        place: ExtentPlacement,
        data: &[Bulk],
    ) {
        let [header, body] = data else {
            let why = "an extent is written with a header and a body".to_owned();
            return self.end(Err(Failure::Invalid(why)));
        };
        let (header, body) = (header.clone(), body.clone());
        let disk = self.shared.disks.disk(self.queued.disk);
        let is_long = header.len() + body.len() > LONG_COPY_BYTES;
        let open = disk.open_extents(grant.file, part.subfile.0).filter(|_| !is_long);
        let find = move |shared: &NodeState, disk: &NodeDisk| {
            shared.extents_or_create(disk, &grant, part).map(Some)
        };
        self.with_subfile(open, find, move |end, extents| {
            let Some(extents) = extents else { unreachable!("a lazy subfile was created") };
            let disk = end.shared.disks.disk(end.queued.disk);
            let copied = ExtentBuffer::copy_of(disk.disk().pool(), &header, &body);
            drop((header, body));
            match copied.map_err(|error| disk.failure(error, extents.id(), "write an extent")) {
                Ok(extent) => {
                    let Self { queued, done, .. } = end;
                    queued.write_extent(&extents, place.extent.0, extent, move |written| {
                        done(plain_reply(written.map(|()| Reply::Done)));
                    });
                }
                Err(failure) => end.end(Err(failure)),
            }
        });
    }
}

fn part_of(disk: DiskId, place: ExtentPlacement) -> SubfileLocation {
    SubfileLocation { disk, subfile: place.subfile }
}

/// Returns the first bytes of a buffer without a copy.
fn bytes_of(buffer: Buffer, len: usize) -> bytes::Bytes {
    struct Filled(Buffer, usize);
    impl AsRef<[u8]> for Filled {
        fn as_ref(&self) -> &[u8] {
            &self.0[..self.1]
        }
    }
    bytes::Bytes::from_owner(Filled(buffer, len))
}

/// Returns the body of an extent without a copy.
fn body_of(extent: Extent) -> bytes::Bytes {
    struct Body(Extent);
    impl AsRef<[u8]> for Body {
        fn as_ref(&self) -> &[u8] {
            self.0.body()
        }
    }
    bytes::Bytes::from_owner(Body(extent))
}

/// Sets the time of a flat subfile. Creates the first subfile of an empty file, which keeps the
/// time.
fn set_modified(
    shared: &NodeState,
    disk: &NodeDisk,
    grant: &Grant,
    part: SubfileLocation,
    modified_ns: u64,
) -> Result<(), Failure> {
    let flat = match part.subfile.0 {
        0 => Some(shared.flat_or_create(disk, grant, part)?),
        _ => shared.flat(disk, grant, part)?.present(),
    };
    let Some(flat) = flat else { return Ok(()) };
    let set = flat.set_modified_ns(modified_ns);
    set.map_err(|error| disk.failure(error, flat.id(), "set the time of a file"))
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
