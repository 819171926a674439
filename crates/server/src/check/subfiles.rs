//! The subfiles on the disks of a node, for the check of the cluster.

use std::sync::Arc;

use pario_proto::{
    CheckDepth, DiskId, Failure, FileId, FoundDescription, FoundRights, FoundSubfile, Layout,
    Reply, SUBFILES_LISTED, SubfileIndex,
};
use pario_store::{Description, Rights, StoreError, SubfileId, SubfileKind};

use super::Position;
use crate::disks::NodeDisk;
use crate::node_state::NodeState;

/// Returns a page of the subfiles on the disks of a node, in order.
pub fn list_subfiles(
    shared: &NodeState,
    after: Option<Position>,
    limit: u32,
    depth: CheckDepth,
) -> Result<Reply, Failure> {
    let limit = limit.clamp(1, SUBFILES_LISTED);
    let mut found = Vec::new();
    for (id, disk) in shared.disks.all() {
        if after.is_some_and(|(last, ..)| id < last) {
            continue;
        }
        let ids = disk.disk().subfile_ids();
        let mut ids =
            ids.map_err(|error| Failure::Disk { disk: disk.name.clone(), why: error.to_string() })?;
        ids.sort();
        for (subfile, kind) in ids {
            let position = (id, FileId(subfile.file), SubfileIndex(subfile.index));
            if after.is_some_and(|after| position <= after) {
                continue;
            }
            if found.len() >= limit as usize {
                return Ok(Reply::Subfiles { found, is_more: true });
            }
            found.push(inspect(disk, position, subfile, kind, depth));
        }
    }
    Ok(Reply::Subfiles { found, is_more: false })
}

/// Repairs a poisoned flat subfile: it accepts changes again after every byte of it was read.
pub fn repair_subfile(
    shared: &Arc<NodeState>,
    disk: DiskId,
    file: FileId,
    subfile: SubfileIndex,
) -> Result<Reply, Failure> {
    let disk = shared.disks.disk(shared.disks.number_of(disk)?);
    let id = SubfileId::data(file.0, subfile.0);
    let repaired = disk.disk().repair_flat(id);
    let read_bytes = repaired.map_err(|error| disk.failure(error, id, "repair a file"))?;
    Ok(Reply::Repaired { read_bytes })
}

fn inspect(
    disk: &NodeDisk,
    (id, file, index): Position,
    subfile: SubfileId,
    kind: SubfileKind,
    depth: CheckDepth,
) -> FoundSubfile {
    let is_extents = kind == SubfileKind::Extents;
    let described = disk.disk().description(subfile);
    let is_poisoned = !is_extents && disk.disk().is_poisoned(subfile).unwrap_or(false);
    let description = described.map_err(|error| error.to_string()).and_then(found_description);
    let mut found = FoundSubfile {
        disk: id,
        file,
        subfile: index,
        is_extents,
        description,
        damage: Vec::new(),
        is_poisoned,
        verified_bytes: 0,
        unverified_bytes: 0,
    };
    if depth == CheckDepth::Everything
        && let Err(error) = verify(disk, subfile, &mut found)
        && is_extents
    {
        found.damage.push(error.to_string());
    }
    found
}

/// Verifies everything with a checksum, and measures the rest.
fn verify(disk: &NodeDisk, subfile: SubfileId, found: &mut FoundSubfile) -> Result<(), StoreError> {
    if !found.is_extents {
        // Holes hold no bytes that could be damaged.
        let flat = disk.disk().open_flat(subfile)?;
        found.unverified_bytes = flat.len()?.min(flat.disk_bytes()?);
        return Ok(());
    }
    let extents = disk.disk().open_extents(subfile)?;
    let problems = extents.check(pario_store::CheckDepth::Content)?;
    found.damage.extend(problems.iter().map(ToString::to_string));
    found.verified_bytes = extents.stat()?.live_bytes;
    Ok(())
}

fn found_description(description: Description) -> Result<FoundDescription, String> {
    let layout = Layout::decode(&description.layout).map_err(|error| error.to_string())?;
    let Description { path, path_version, created_s, rights, synced, .. } = description;
    let rights = rights.map(|Rights { uid, gid, mode, version: rights_version }| FoundRights {
        uid,
        gid,
        mode,
        rights_version,
    });
    Ok(FoundDescription { path, path_version, layout, created_s, rights, synced })
}
