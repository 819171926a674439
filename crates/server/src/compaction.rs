//! One step of the compaction of a subfile, for `pario compact`.

use pario_proto::{CompactionCursor, CompactionProgress, Failure, Grant, Reply, SubfileLocation};
use pario_store::{ExtentFile, StoreError};

use crate::disks::NodeDisk;
use crate::node_state::NodeState;

/// A step of the compaction of a subfile, from a [`pario_proto::Request::Compact`].
pub struct CompactionCall {
    pub grant: Grant,
    pub part: SubfileLocation,
    pub cursor: Option<CompactionCursor>,
}

/// Runs one step of the compaction of an extent subfile. A subfile that does not exist yet has
/// nothing to compact.
pub fn compact(
    shared: &NodeState,
    disk: &NodeDisk,
    call: &CompactionCall,
) -> Result<Reply, Failure> {
    let CompactionCall { grant, part, cursor } = call;
    let Some(extents) = shared.extents(disk, grant, *part)?.present() else {
        return Ok(Reply::Compacted(CompactionProgress::default()));
    };
    let failed = |error| disk.failure(error, extents.id(), "compact a file");
    step(&extents, *cursor).map(Reply::Compacted).map_err(failed)
}

fn step(
    extents: &ExtentFile,
    cursor: Option<CompactionCursor>,
) -> Result<CompactionProgress, StoreError> {
    let before = extents.stat()?;
    let cursor = cursor.map(|cursor| pario_store::CompactionCursor {
        granule: cursor.granule,
        budget_granules: cursor.budget_granules,
    });
    let step = extents.compact_step(cursor)?;
    let after = extents.stat()?;
    Ok(CompactionProgress {
        disk_bytes_before: before.disk_bytes,
        disk_bytes: after.disk_bytes,
        live_bytes: after.live_bytes,
        moved_bytes: step.moved_bytes,
        compact_bytes: step.compact_bytes,
        data_bytes: step.data_bytes,
        next: step.next.map(|next| CompactionCursor {
            granule: next.granule,
            budget_granules: next.budget_granules,
        }),
    })
}
