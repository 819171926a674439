//! Serves the parts of this machine to ranks of other machines. Requests arrive at the data server of
//! the machine (`crates/team`); threads of its process carry them out.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Weak};

use pario_net::{Bulk, BulkBuffer};
use pario_team::{Callback, CallbackRequest, TeamError, add_numbers};
use rustix::io::ReadWriteFlags;

use super::collective::different_versions;
use super::error::RecordError;
use super::file::OpenRecordFile;
use super::locked_add::{STRETCH_BYTES, numbers_before};
use super::part_owner::PartOwner;
use super::part_request::{AddTarget, Addend, PartAction, PartRequest};
use super::remote_transfer::CHUNK_BYTES;
use super::worker_pool::WorkerPool;

/// What a server of parts needs. It holds the file weakly, because a strong reference would keep the
/// process in the team.
struct PartServer {
    owners: Arc<[PartOwner]>,
    file: Weak<OpenRecordFile>,
}

/// Registers the servers of parts on all machines. Collective.
pub fn serve(file: &Arc<OpenRecordFile>) -> Result<Callback, TeamError> {
    let owners = file.owners.clone();
    let server = Arc::new(PartServer { owners, file: Arc::downgrade(file) });
    file.team.callback_later(move |message| server.clone().dispatch(message))
}

impl PartServer {
    /// Dispatches a request. The data server must not wait, so that everything that may wait runs on
    /// a pool thread. Additions have a pool of their own: they wait for mutexes, whose holders may
    /// need reads and writes to be served.
    fn dispatch(self: Arc<Self>, message: CallbackRequest) {
        let request = PartRequest::of_bytes(message.call().header);
        let Some(request) = request.filter(|request| request.len <= CHUNK_BYTES) else {
            return message.reply(Err(different_versions().to_line()));
        };
        let pool = match request.action {
            PartAction::Add(..) => WorkerPool::ServeAdd,
            PartAction::Read if self.is_in_page_cache(&request) => {
                return self.reply_from_cache(message, &request);
            }
            PartAction::Read | PartAction::Write => WorkerPool::ServeDisk,
        };
        pool.submit(move || self.perform(message, &request));
    }

    /// Replies with bytes that the page cache holds, from there to the socket if possible.
    fn reply_from_cache(&self, message: CallbackRequest, request: &PartRequest) {
        if !message.can_reply_with_file(request.len) {
            return self.perform(message, request);
        }
        let file = self.owner(request).and_then(|owner| {
            owner.check_len(request.at + request.len as u64)?;
            owner.file()
        });
        match file {
            Ok(file) => message.reply_with_file(file.clone(), request.at, request.len),
            Err(error) => message.reply(Err(error.to_line())),
        }
    }

    fn perform(&self, message: CallbackRequest, request: &PartRequest) {
        let result = match request.action {
            PartAction::Read => self.read(request),
            PartAction::Write => self.write(request, message.call().data).map(|()| Bulk::new()),
            PartAction::Add(addend, target) => {
                let Some(file) = self.file.upgrade() else {
                    return message.reply(Err("the record file was dropped".to_owned()));
                };
                let added = self.add(&file, request, addend, target, message.call().data);
                added.map(|()| Bulk::new())
            }
        };
        message.reply(result.map_err(|error| error.to_line()));
    }

    fn owner(&self, request: &PartRequest) -> Result<&PartOwner, RecordError> {
        self.owners.get(request.part as usize).ok_or_else(different_versions)
    }

    /// Whether the page cache holds the bytes, judged by three of them.
    fn is_in_page_cache(&self, request: &PartRequest) -> bool {
        let Ok(file) = self.owner(request).and_then(PartOwner::file) else { return true };
        let middle = request.at + request.len as u64 / 2;
        let last = request.at + (request.len as u64).saturating_sub(1);
        [request.at, middle, last].into_iter().all(|at| is_cached(file, at))
    }

    fn read(&self, request: &PartRequest) -> Result<Bulk, RecordError> {
        let mut bytes = BulkBuffer::new(request.len);
        self.owner(request)?.read_at(&mut bytes, request.at)?;
        Ok(bytes.freeze())
    }

    fn write(&self, request: &PartRequest, bytes: &[u8]) -> Result<(), RecordError> {
        if bytes.len() != request.len {
            return Err(different_versions());
        }
        self.owner(request)?.write_at(bytes, request.at)
    }

    /// Adds numbers, stretch by stretch, under the same mutexes as the ranks of this machine.
    fn add(
        &self,
        file: &OpenRecordFile,
        request: &PartRequest,
        addend: Addend,
        target: AddTarget,
        numbers: &[u8],
    ) -> Result<(), RecordError> {
        let owner = self.owner(request)?;
        let Addend { kind, each, factor } = addend;
        let is_whole = numbers.len() == request.len && request.len.is_multiple_of(each);
        if !is_whole {
            return Err(different_versions());
        }
        let mut bytes = Vec::new();
        let mut done = 0;
        while done < request.len {
            let begin = target.in_block + done as u64;
            let now = numbers_before(begin, STRETCH_BYTES, each) * each;
            let now = &numbers[done..request.len.min(done + now)];
            let at = request.at + done as u64;
            bytes.resize(now.len(), 0);
            let guard = file.lock(target.record, request.part as usize, begin)?;
            owner.read_at(&mut bytes, at)?;
            if !add_numbers(kind, &factor, now, &mut bytes) {
                return Err(different_versions());
            }
            owner.write_at(&bytes, at)?;
            drop(guard);
            done += now.len();
        }
        Ok(())
    }
}

/// Whether a read of a byte returns without waiting for the disk.
fn is_cached(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let mut bytes = [std::io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file.as_fd(), &mut bytes, at, ReadWriteFlags::NOWAIT).is_ok()
}
