//! Syncs of subfiles, one or several of a disk.

use pario_proto::{Failure, FileId, Grant, SubfileLocation};
use pario_store::{FlatFile, StoreError, SubfileId};

use crate::disks::NodeDisk;
use crate::node_state::NodeState;

impl NodeState {
    /// Syncs a subfile. Returns whether it exists.
    pub fn sync(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<bool, Failure> {
        let synced = if disk.has_extents(grant.file, part.subfile.0) {
            self.extents(disk, grant, part)?.present().map(|extents| extents.sync())
        } else {
            self.flat(disk, grant, part)?.present().map(|flat| flat.sync())
        };
        let id = NodeDisk::subfile_id(grant.file, part);
        let is_there = synced.is_some();
        synced.transpose().map_err(|error| self.sync_failed(disk, id, error))?;
        Ok(is_there)
    }

    /// Syncs flat subfiles of a disk together.
    pub fn sync_flats(&self, disk: &NodeDisk, flats: &[FlatFile]) -> Vec<Result<(), Failure>> {
        let synced = disk.disk().sync_flats(flats).into_iter().zip(flats);
        let result = |(synced, flat): (Result<(), StoreError>, &FlatFile)| {
            synced.map_err(|error| self.sync_failed(disk, flat.id(), error))
        };
        synced.map(result).collect()
    }

    fn sync_failed(&self, disk: &NodeDisk, id: SubfileId, error: StoreError) -> Failure {
        tracing::error!(disk = disk.name, subfile = %id, %error, "a sync failed");
        // A client that writes through a descriptor must ask the node again, and then learns that
        // the subfile accepts no writes.
        if let Err(error) = self.leases.raise(FileId(id.file)) {
            tracing::error!(%error, "the lease cannot be raised; clients with descriptors do not learn of the failed sync");
        }
        disk.failure(error, id, "make it durable")
    }
}
