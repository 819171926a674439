//! Compaction of a file of extents: its disks return the space between extents.

use std::ops::ControlFlow;

use pario_proto::{
    CompactionCursor, CompactionProgress, FileKind, Reply, Request, SubfileLocation,
};

use super::File;
use crate::connection::strange;
use crate::error::Error;

/// The progress or the result of a compaction on one disk; see [`File::compact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedDisk {
    /// The name of the disk: `node/label`.
    pub disk: String,
    /// The bytes that the file occupied on the disk before.
    pub before_bytes: u64,
    /// The bytes that it occupies now.
    pub after_bytes: u64,
    /// The bytes that the compaction has moved.
    pub moved_bytes: u64,
    /// The bytes of the file's data on the disk before which no hole is left.
    pub compact_bytes: u64,
    /// The bytes of the file's data on the disk.
    pub data_bytes: u64,
    /// Whether the compaction of this disk is finished.
    pub is_finished: bool,
}

impl CompactedDisk {
    /// The bytes that the disk has returned to its file system.
    pub fn freed_bytes(&self) -> u64 {
        self.before_bytes.saturating_sub(self.after_bytes)
    }
}

/// The compaction of one subfile.
struct PartCompaction {
    part: SubfileLocation,
    cursor: Option<CompactionCursor>,
    disk: CompactedDisk,
}

impl File {
    /// Compacts a file of extents: all its disks move its extents together and return the space
    /// between them to their file systems. Other clients may read and write the file at the same
    /// time. Returns one entry for each disk.
    ///
    /// The disks work in steps of a few megabytes. After each step `progress` receives the state of
    /// all disks; if it returns [`ControlFlow::Break`], the compaction ends there, and what it has
    /// done stays.
    ///
    /// Nodes compact files by themselves when they waste much space. This call is for the rest.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use std::ops::ControlFlow;
    ///
    /// use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};
    ///
    /// let tiles =
    ///     cluster.options().read(true).write(true).create(true).extents().open("/tiles")?;
    /// let place = |extent| ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(extent) };
    /// for extent in 0..20 {
    ///     tiles.write_extent(b"", &[1; 100_000], place(extent))?;
    /// }
    /// for extent in 0..19 {
    ///     tiles.delete_extent(place(extent))?;
    /// }
    /// let disks = tiles.compact(|_| ControlFlow::Continue(()))?;
    /// assert!(disks[0].freed_bytes() > 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(
        &self,
        mut progress: impl FnMut(&[CompactedDisk]) -> ControlFlow<()>,
    ) -> Result<Vec<CompactedDisk>, Error> {
        if self.record().kind != FileKind::Extents {
            return Err(Error::invalid(format!(
                "{}: this is a file of bytes, which are stored in place: it has nothing to compact; \
                 name a file of extents",
                self.path()
            )));
        }
        self.check_writable()?;
        let mut parts: Vec<_> = self.parts().iter().map(|part| self.begin(*part)).collect();
        while parts.iter().any(|part| !part.disk.is_finished) {
            self.compact_step(&mut parts)?;
            let disks: Vec<_> = parts.iter().map(|part| part.disk.clone()).collect();
            if progress(&disks).is_break() {
                break;
            }
        }
        Ok(parts.into_iter().map(|part| part.disk).collect())
    }

    fn begin(&self, part: SubfileLocation) -> PartCompaction {
        let disk = CompactedDisk {
            disk: self.state.cluster.shared.disk_name(part.disk),
            before_bytes: 0,
            after_bytes: 0,
            moved_bytes: 0,
            compact_bytes: 0,
            data_bytes: 0,
            is_finished: false,
        };
        PartCompaction { part, cursor: None, disk }
    }

    /// Runs one step on each disk that is not finished, all at the same time.
    fn compact_step(&self, parts: &mut [PartCompaction]) -> Result<(), Error> {
        let shared = &self.state.cluster.shared;
        let unfinished: Vec<_> = parts
            .iter()
            .filter(|part| !part.disk.is_finished)
            .map(|p| (p.part, p.cursor))
            .collect();
        let steps = self.with_retry(self.grant(), |grant| {
            let start = |&(part, cursor): &(SubfileLocation, _)| {
                let node = shared.node(shared.node_of(part.disk)?);
                node.start(Request::Compact { grant: grant.clone(), part, cursor }, Vec::new())
            };
            // Wait for all, also after a failure, so that no request is in flight afterwards.
            let started: Vec<_> = unfinished.iter().map(start).collect();
            let replies: Vec<_> = started.into_iter().map(|step| step?.wait()).collect();
            replies.into_iter().collect::<Result<Vec<_>, Error>>()
        })?;
        let unfinished = parts.iter_mut().filter(|part| !part.disk.is_finished);
        for (part, (reply, _)) in unfinished.zip(steps) {
            let Reply::Compacted(step) = reply else { return Err(strange("storage")) };
            part.add(step);
        }
        Ok(())
    }
}

impl PartCompaction {
    fn add(&mut self, step: CompactionProgress) {
        let disk = &mut self.disk;
        if self.cursor.is_none() {
            disk.before_bytes = step.disk_bytes_before;
        }
        disk.after_bytes = step.disk_bytes;
        disk.moved_bytes = disk.moved_bytes.saturating_add(step.moved_bytes);
        disk.compact_bytes = step.compact_bytes;
        disk.data_bytes = step.data_bytes;
        disk.is_finished = step.next.is_none();
        self.cursor = step.next;
    }
}
