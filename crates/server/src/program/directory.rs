//! Directory threads: each makes, measures and removes the subfiles of one node. That of the own
//! node does it, those of others ask there.

use std::sync::Arc;

use pario_flow::Successor;
use pario_net::Bulk;
use pario_proto::{
    Answer, Failure, FileId, PeerRequest, Reply, Request, SubfileIndex, SubfileMeasure,
};
use pario_store::StoreError;

use super::{SubfilesDone, SubfilesWork, Work, answer};
use crate::disks::NodeDisk;
use crate::shared::Shared;

/// A directory thread.
pub struct Directory {
    shared: Arc<Shared>,
    node: usize,
}

impl Directory {
    /// The thread for a node.
    pub fn new(shared: Arc<Shared>, node: usize) -> Self {
        Self { shared, node }
    }

    /// Has its node do something.
    pub fn work(&mut self, work: SubfilesWork, next: Successor<SubfilesDone>) {
        let node = self.node;
        if node == self.shared.me {
            let result = self.work_here(work.work).result.map(|_| ());
            next.call(SubfilesDone { node, result });
            return;
        }
        let request = match work.work {
            Work::Create { record, path } => PeerRequest::CreateSubfiles { record, path },
            Work::CreateMissing { record, path } => PeerRequest::CreateMissing { record, path },
            Work::Remove { files } => PeerRequest::RemoveSubfiles { files },
            Work::Revoke { file, rights_version } => PeerRequest::Revoke { file, rights_version },
            Work::Measure { .. } => {
                let why = "a question for another node came without a way back".to_owned();
                let name = self.shared.name().to_owned();
                let result = Err(Failure::Internal { node: name, why });
                next.call(SubfilesDone { node, result });
                return;
            }
        };
        self.shared.peers.ask_then(node, Request::Peer(request), move |answer| {
            let result = answer.and_then(|answer| answer.result).map(|_| ());
            next.call(SubfilesDone { node, result });
        });
    }

    /// Does something on the disks of this node.
    pub fn work_here(&mut self, work: Work) -> Answer<Bulk> {
        let disks = &self.shared.disks;
        answer(match work {
            Work::Create { record, path } => {
                disks.create_subfiles(&record, path.as_str()).map(|()| Reply::Done)
            }
            Work::CreateMissing { record, path } => {
                disks.create_missing(&record, path.as_str()).map(|()| Reply::Done)
            }
            Work::Remove { files } => files
                .iter()
                .try_for_each(|record| disks.remove_subfiles(record))
                .map(|()| Reply::Done),
            Work::Revoke { file, rights_version } => {
                self.shared.revoke(file, rights_version);
                Ok(Reply::Done)
            }
            Work::Measure { files } => self.measure(&files).map(Reply::Measured),
        })
    }

    fn measure(
        &self,
        files: &[(FileId, Vec<(usize, SubfileIndex)>)],
    ) -> Result<Vec<Vec<SubfileMeasure>>, Failure> {
        // One lost subfile must not hide the sizes of all other files of a directory.
        let is_strict = files.len() == 1;
        let one = |file: FileId, &(disk, subfile): &(usize, SubfileIndex)| {
            let disk = self.shared.disks.disk(disk);
            match measure(disk, file, subfile)? {
                Some(measure) => Ok(measure),
                None if is_strict && self.is_settled(file, subfile)? => {
                    let (disk, subfile) = (disk.name.clone(), subfile.0);
                    Err(Failure::SubfileMissing { disk, file, subfile })
                }
                // A power loss has taken it, and it was not promised to anybody.
                None => Ok(SubfileMeasure {
                    subfile,
                    len: 0,
                    disk_bytes: 0,
                    extents: 0,
                    modified_ns: 0,
                }),
            }
        };
        files
            .iter()
            .map(|(file, parts)| parts.iter().map(|part| one(*file, part)).collect())
            .collect()
    }

    fn is_settled(&self, file: FileId, subfile: SubfileIndex) -> Result<bool, Failure> {
        let record = self.shared.record_of(file)?;
        Ok(record.is_some_and(|(_, record)| record.is_settled(subfile.0)))
    }
}

/// The size of a subfile, if it is there.
fn measure(
    disk: &NodeDisk,
    file: FileId,
    subfile: SubfileIndex,
) -> Result<Option<SubfileMeasure>, Failure> {
    let id = pario_store::SubfileId::data(file.0, subfile.0);
    let failed = |error| disk.failure(error, id, "measure it");
    match disk.flat(file, subfile.0) {
        Ok(flat) => Ok(Some(SubfileMeasure {
            subfile,
            len: flat.len().map_err(failed)?,
            disk_bytes: flat.disk_bytes().map_err(failed)?,
            extents: 0,
            modified_ns: flat.modified_ns().map_err(failed)?,
        })),
        Err(StoreError::WrongKind { .. }) => {
            let stat = disk.extents(file, subfile.0)?.stat().map_err(failed)?;
            Ok(Some(SubfileMeasure {
                subfile,
                len: stat.live_bytes,
                disk_bytes: stat.disk_bytes,
                extents: stat.extents,
                modified_ns: 0,
            }))
        }
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
