//! The steps of storage threads in the processing of extents.

use pario_net::Bulk;
use pario_proto::{ExtentPlacement, Failure, ProcessTarget, SubfileLocation};
use pario_store::{ExtentFile, MAX_EXTENT_INDEX};

use super::cut::{CutResult, CutTask};
use super::extent_scheduler::{OpenedSubfile, SubfileToOpen};
use super::scheduled_extent::{ScheduledExtent, read_extent, stored};
use super::storage::Storage;
use crate::disks::NodeDisk;
use crate::operation::ExtentOutput;
use crate::processing::{OpenSubfile, RunningCall};

impl Storage {
    /// Opens a subfile of a call, and lists its extents if the call processes all of them.
    pub fn open_subfile(&mut self, subfile: SubfileToOpen) -> OpenedSubfile {
        let SubfileToOpen { running, part, disk, .. } = subfile;
        if running.is_stopped() {
            return OpenedSubfile(None);
        }
        let at = running.shared.disks.disk(disk);
        match open(&running, at, part) {
            Ok((file, runs)) => OpenedSubfile(Some(OpenSubfile { part, disk, file, runs })),
            Err(failure) => {
                running.fail(failure);
                OpenedSubfile(None)
            }
        }
    }

    /// Writes an extent that a task has produced.
    pub fn write_output(&mut self, mut extent: ScheduledExtent) -> ScheduledExtent {
        let output = extent.output.take();
        let running = extent.running.clone();
        if let Some(output) = output
            && !running.is_stopped()
            && let ExtentOutput::Extent { placement, header, body } = output.as_ref()
            && let Err(failure) = write(&running, *placement, header, body)
        {
            running.fail(failure);
        }
        extent
    }

    /// Cuts a piece of an extent for another node.
    pub fn cut(&mut self, task: CutTask) -> CutResult {
        let CutTask { call, number } = task;
        let (_, disk, piece) = &call.pieces[number];
        let disk = self.shared.disks.disk(*disk);
        let cut = || {
            let found = self.shared.extents(disk, &call.grant, piece.part)?;
            let extent = match found.present() {
                Some(file) => read_extent(disk, &file, piece.place)?,
                None => None,
            };
            let bytes = call.operation.cut(&piece.what, extent.as_ref().map(stored));
            bytes.map(Bulk::from).map_err(|why| Failure::Operation {
                node: self.shared.name().into(),
                operation: call.name.as_str().into(),
                place: Some(Box::new(piece.place)),
                why,
            })
        };
        CutResult { number, bytes: cut() }
    }
}

/// Consecutive extents: the first one, and their number.
type ExtentRun = (u64, u64);

/// Opens a subfile, if it exists, and lists its extents if the call processes all of them.
fn open(
    running: &RunningCall,
    disk: &NodeDisk,
    part: SubfileLocation,
) -> Result<(Option<ExtentFile>, Vec<ExtentRun>), Failure> {
    let grant = &running.work.grant;
    let Some(file) = running.shared.extents(disk, grant, part)?.present() else {
        return Ok((None, Vec::new()));
    };
    let mut runs: Vec<ExtentRun> = Vec::new();
    if running.wants_all() {
        for info in file.list(0..=MAX_EXTENT_INDEX) {
            let info = info.map_err(|error| disk.failure(error, file.id(), "list extents"))?;
            match runs.last_mut() {
                Some((first, len)) if *first + *len == info.index => *len += 1,
                _ => runs.push((info.index, 1)),
            }
        }
    }
    Ok((Some(file), runs))
}

fn write(
    running: &RunningCall,
    place: ExtentPlacement,
    header: &[u8],
    body: &[u8],
) -> Result<(), Failure> {
    let shared = &running.shared;
    let Some(ProcessTarget { grant, parts }) = &running.work.target else {
        return Err(missing_target(running, place, "the caller has named no target file"));
    };
    let Some(part) = parts.get(place.subfile.0 as usize) else {
        return Err(missing_target(running, place, "the target file has no such subfile"));
    };
    let Ok(number) = shared.disks.number_of(part.disk) else {
        let why =
            "its subfile is on another node: give the target file the layout of the source file";
        return Err(missing_target(running, place, why));
    };
    let disk = shared.disks.disk(number);
    running.timed(
        || disk.name.clone(),
        "write",
        || {
            let file = shared.extents_or_create(disk, grant, *part)?;
            let written = file.write(place.extent.0, header, body);
            written.map_err(|error| disk.failure(error, file.id(), "write an extent"))
        },
    )?;
    let bytes = (header.len() + body.len()) as u64;
    disk.load.written(bytes);
    running.note_written(bytes);
    Ok(())
}

fn missing_target(running: &RunningCall, place: ExtentPlacement, why: &str) -> Failure {
    Failure::Operation {
        node: running.shared.name().into(),
        operation: running.work.operation.as_str().into(),
        place: Some(Box::new(place)),
        why: format!("it has produced an extent, but {why}"),
    }
}

impl ScheduledExtent {
    /// Returns the storage thread of the disk to which the output is written.
    pub fn target_thread(&self) -> usize {
        let Some(ExtentOutput::Extent { placement, .. }) = self.output.as_deref() else { return 0 };
        let target = self.running.work.target.as_ref();
        let part = target.and_then(|target| target.parts.get(placement.subfile.0 as usize));
        let shared = &self.running.shared;
        let number = part.and_then(|part| shared.disks.number_of(part.disk).ok());
        number.map_or(0, |number| shared.storage_threads.first_of(number))
    }
}
