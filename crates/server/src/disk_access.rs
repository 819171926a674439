//! Access to the disks of a node without waiting: reads, writes and deletions of extents, reads of
//! bytes. The storage thread of the disk passes each result to a function.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pario_proto::Failure;
use pario_store::{
    Buffer, Caching, Extent, ExtentBuffer, ExtentFile, FlatFile, Reply, Request, StoreError,
    SubfileId,
};

use crate::node_state::NodeState;
use crate::storage_threads::RegisteredRequest;

/// A request in the queue of a disk. Dropping it removes the request.
#[must_use = "the request leaves the queue when this is dropped"]
pub struct DiskRequest {
    shared: Arc<NodeState>,
    /// The number of the disk.
    pub disk: usize,
    /// The client or the call for which the request is.
    caller: u64,
    bytes: u64,
    _registered: RegisteredRequest,
}

impl DiskRequest {
    /// Puts a request with its bytes into the queue of a disk.
    pub fn new(
        shared: &Arc<NodeState>,
        disk: usize,
        caller: u64,
        kind: &'static str,
        bytes: u64,
    ) -> Self {
        shared.disks.disk(disk).load.enqueue(bytes);
        let registered = shared.storage_threads.register(disk, kind);
        Self { shared: shared.clone(), disk, caller, bytes, _registered: registered }
    }

    /// Reads an extent; `None` if it does not exist. `prefetch_index` is for callers that read many.
    pub fn read_extent(
        self,
        file: &ExtentFile,
        index: u64,
        prefetch_index: bool,
        then: impl FnOnce(Result<Option<Extent>, Failure>) + Send + 'static,
    ) {
        let (id, caching) = (file.id(), Caching::Use);
        let request = Request::ReadExtent { file: file.clone(), index, caching, prefetch_index };
        self.submit(
            request,
            id,
            "read an extent",
            |disk, read| match read {
                Reply::Extent(found) => {
                    if let Some(extent) = &found {
                        disk.load.read((extent.header().len() + extent.body().len()) as u64);
                    }
                    Some(found)
                }
                _ => None,
            },
            then,
        );
    }

    /// Writes an extent.
    pub fn write_extent(
        self,
        file: &ExtentFile,
        index: u64,
        extent: ExtentBuffer,
        then: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let (id, caching, bytes) = (file.id(), Caching::Use, extent.payload_bytes());
        let request = Request::WriteExtent { file: file.clone(), index, extent, caching };
        self.submit(
            request,
            id,
            "write an extent",
            move |disk, _| {
                disk.load.written(bytes);
                Some(())
            },
            then,
        );
    }

    /// Deletes an extent; tells whether it existed.
    pub fn delete_extent(
        self,
        file: &ExtentFile,
        index: u64,
        then: impl FnOnce(Result<bool, Failure>) + Send + 'static,
    ) {
        let id = file.id();
        let request = Request::DeleteExtent { file: file.clone(), index };
        self.submit(
            request,
            id,
            "delete an extent",
            |_, deleted| match deleted {
                Reply::Deleted(was_there) => Some(was_there),
                _ => None,
            },
            then,
        );
    }

    /// Reads ranges of a flat subfile of `total` bytes; tells how many bytes each range has.
    pub fn read_flat(
        self,
        file: &FlatFile,
        ranges: Vec<Range<u64>>,
        total: usize,
        then: impl FnOnce(Result<(Buffer, Vec<usize>), Failure>) + Send + 'static,
    ) {
        let buffer = self.shared.disks.disk(self.disk).disk().pool().get(total);
        let id = file.id();
        let request = Request::ReadFlat { file: file.clone(), ranges, buffer };
        self.submit(
            request,
            id,
            "read",
            |disk, read| match read {
                Reply::Read { buffer, lens } => {
                    disk.load.read(lens.iter().map(|len| *len as u64).sum());
                    Some((buffer, lens))
                }
                _ => None,
            },
            then,
        );
    }

    /// Runs work that may block. The request leaves the queue when the work drops it.
    pub fn run(self, work: impl FnOnce(Self) + Send + 'static) {
        let shared = self.shared.clone();
        shared.storage_threads.run(self.disk, move || work(self));
    }

    /// Notes how long the disk took for a request.
    pub fn note_served(&self, took: Duration) {
        self.shared.disks.disk(self.disk).load.note_served(took);
    }

    fn submit<T>(
        self,
        request: Request,
        id: SubfileId,
        action: &'static str,
        take: impl FnOnce(&crate::disks::NodeDisk, Reply) -> Option<T> + Send + 'static,
        then: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) {
        let shared = self.shared.clone();
        shared.storage_threads.submit(self.disk, self.caller, request, move |result, took| {
            self.note_served(took);
            let disk = self.shared.disks.disk(self.disk);
            let taken = result
                .map_err(|error: StoreError| disk.failure(error, id, action))
                .and_then(|reply| {
                    take(disk, reply).ok_or_else(|| Failure::Internal {
                        node: self.shared.name().to_owned(),
                        why: format!("a disk has sent a reply that does not fit: {action}"),
                    })
                });
            drop(self);
            then(taken);
        });
    }
}

impl Drop for DiskRequest {
    fn drop(&mut self) {
        self.shared.disks.disk(self.disk).load.dequeue(self.bytes);
    }
}
