//! Directory threads: each measures and removes the subfiles of one node. That of the own
//! node does it, those of others ask there.

use std::sync::Arc;

use pario_flow::Successor;
use pario_net::Bulk;
use pario_proto::{Answer, Failure, Grant, Part, PeerRequest, Reply, Request, SubfileMeasure};
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
        files: &[(Grant, Vec<(usize, Part)>)],
    ) -> Result<Vec<Vec<SubfileMeasure>>, Failure> {
        // One lost subfile must not hide the sizes of all other files of a directory.
        let is_strict = files.len() == 1;
        let one = |grant: &Grant, &(disk, part): &(usize, Part)| match self.measure_part(
            self.shared.disks.disk(disk),
            grant,
            part,
        ) {
            Err(failure @ Failure::SubfileMissing { .. }) if is_strict => Err(failure),
            Err(Failure::SubfileMissing { .. }) => Ok(nothing_of(part)),
            measured => measured,
        };
        files
            .iter()
            .map(|(grant, parts)| parts.iter().map(|part| one(grant, part)).collect())
            .collect()
    }

    fn measure_part(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: Part,
    ) -> Result<SubfileMeasure, Failure> {
        let failed = |error| disk.failure(error, NodeDisk::subfile_id(grant.file, part), "measure");
        let opened = disk.flat(grant.file, part.subfile.0);
        if let Err(StoreError::WrongKind { .. }) = opened {
            let Some(extents) = self.shared.extents(disk, grant, part)?.made() else {
                return Ok(nothing_of(part));
            };
            let stat = extents.stat().map_err(failed)?;
            return Ok(SubfileMeasure {
                len: stat.live_bytes,
                disk_bytes: stat.disk_bytes,
                extents: stat.extents,
                ..nothing_of(part)
            });
        }
        let Some(flat) = self.shared.found(disk, grant, part, opened)?.made() else {
            return Ok(nothing_of(part));
        };
        Ok(SubfileMeasure {
            len: flat.len().map_err(failed)?,
            disk_bytes: flat.disk_bytes().map_err(failed)?,
            modified_ns: flat.modified_ns().map_err(failed)?,
            ..nothing_of(part)
        })
    }
}

/// The size of a subfile that is not there.
fn nothing_of(part: Part) -> SubfileMeasure {
    SubfileMeasure { subfile: part.subfile, len: 0, disk_bytes: 0, extents: 0, modified_ns: 0 }
}
