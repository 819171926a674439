//! The steps of the scheduler in the processing of extents: each starts an access to a disk or to
//! another node, and continues when it has ended.

use std::sync::Arc;

use pario_flow::Continuation;
use pario_proto::{ExtentPlacement, Failure, ProcessTarget, SubfileLocation};
use pario_store::{Extent, ExtentFile, MAX_EXTENT_INDEX};

use super::cut::{CutTask, PieceToCut};
use super::processing::{OpenedSubfile, SubfileToOpen};
use super::scheduled_extent::{FetchTask, OutputExtent, ScheduledExtent};
use super::scheduler::Scheduler;
use crate::disk_access::DiskRequest;
use crate::disks::NodeDisk;
use crate::processing::{OpenSubfile, RunningCall};

impl Scheduler {
    /// Opens a subfile of a call, and lists its extents if the call processes all of them.
    pub fn open_subfile(&mut self, subfile: SubfileToOpen, next: Continuation<OpenedSubfile>) {
        let SubfileToOpen { running, part, disk } = subfile;
        if running.is_stopped() {
            return next.call(OpenedSubfile(None));
        }
        DiskRequest::new(&running.shared, disk, running.disk_caller, "open", 0).run(
            move |queued| {
                let opened = open(&running, running.shared.disks.disk(disk), part);
                drop(queued);
                next.call(match opened {
                    Ok((file, runs)) => OpenedSubfile(Some(OpenSubfile { part, disk, file, runs })),
                    Err(failure) => {
                        running.fail(failure);
                        OpenedSubfile(None)
                    }
                });
            },
        );
    }

    /// Reads an extent.
    pub fn read_extent(
        &mut self,
        mut extent: ScheduledExtent,
        next: Continuation<ScheduledExtent>,
    ) {
        let (running, part, place) = (extent.running.clone(), extent.part, extent.place);
        start_read(&running, part, place.extent.0, move |read| {
            extent.set_content(read);
            next.call(extent);
        });
    }

    /// Reads what an extent needs from a disk of this node: itself, or the extent of a neighbour.
    pub fn fetch_from_disk(&mut self, mut fetch: FetchTask, next: Continuation<FetchTask>) {
        let running = fetch.running().clone();
        let Some((part, place)) = fetch.source() else { return next.call(fetch) };
        start_read(&running, part, place.extent.0, move |read| {
            fetch.set_read(read);
            next.call(fetch);
        });
    }

    /// Asks another node for a neighbour.
    pub fn fetch_from_node(&mut self, fetch: FetchTask, next: Continuation<FetchTask>) {
        fetch.fetch_from_node(move |fetch| next.call(fetch));
    }

    /// Writes an extent that a task has produced.
    pub fn write_output(
        &mut self,
        mut extent: ScheduledExtent,
        next: Continuation<ScheduledExtent>,
    ) {
        let running = extent.running.clone();
        match extent.output.take().filter(|_| !running.is_stopped()) {
            Some(output) => start_write(&running.clone(), &output, move |written| {
                if let Err(failure) = written {
                    running.fail(failure);
                }
                next.call(extent);
            }),
            None => next.call(extent),
        }
    }

    /// Reads the extent of a piece for another node.
    pub fn read_piece(&mut self, task: CutTask, next: Continuation<PieceToCut>) {
        let (disk, piece) = &task.call.pieces[task.number];
        let (disk, part, shared) = (*disk, piece.part, self.shared.clone());
        let queued = DiskRequest::new(&shared, disk, task.call.caller, "cut", 0);
        let at = shared.disks.disk(disk);
        if let Some(file) = at.open_extents(task.call.grant.file, part.subfile.0) {
            return read_piece_from(queued, Some(&file), task, next);
        }
        queued.run(move |queued| {
            match shared.extents(shared.disks.disk(disk), &task.call.grant, part) {
                Ok(found) => read_piece_from(queued, found.present().as_ref(), task, next),
                Err(failure) => {
                    drop(queued);
                    next.call(PieceToCut { task, extent: Err(failure) });
                }
            }
        });
    }
}

/// Reads the extent of a piece from its subfile; `None` is a lazy one.
fn read_piece_from(
    queued: DiskRequest,
    file: Option<&ExtentFile>,
    task: CutTask,
    next: Continuation<PieceToCut>,
) {
    let index = task.call.pieces[task.number].1.place.extent.0;
    match file {
        Some(file) => queued.read_extent(file, index, true, move |extent| {
            next.call(PieceToCut { task, extent });
        }),
        None => next.call(PieceToCut { task, extent: Ok(None) }),
    }
}

/// Starts to read an extent of an open subfile of a call. `then` gets the extent, or `None` if the
/// call has stopped or the read has failed the call.
fn start_read(
    running: &Arc<RunningCall>,
    part: usize,
    index: u64,
    then: impl FnOnce(Option<Option<Extent>>) + Send + 'static,
) {
    if running.is_stopped() {
        return then(None);
    }
    let open = &running.parts()[part];
    let Some(file) = &open.file else { return then(Some(None)) };
    let (of, disk, begin_ns) = (running.clone(), open.disk, running.now_if_traced());
    let queued = DiskRequest::new(&running.shared, disk, running.disk_caller, "process", 0);
    queued.read_extent(file, index, true, move |read| {
        of.note_disk_span(disk, "read", begin_ns);
        then(match read {
            Ok(found) => Some(found),
            Err(failure) => {
                of.fail(failure);
                None
            }
        });
    });
}

/// Starts to write an extent that a task has produced.
fn start_write(
    running: &Arc<RunningCall>,
    output: &OutputExtent,
    then: impl FnOnce(Result<(), Failure>) + Send + 'static,
) {
    let shared = &running.shared;
    let place = output.placement;
    let Some(ProcessTarget { grant, parts }) = &running.work.target else {
        return then(Err(missing_target(running, place, "the caller has named no target file")));
    };
    let Some(part) = parts.get(place.subfile.0 as usize).copied() else {
        return then(Err(missing_target(running, place, "the target file has no such subfile")));
    };
    let Ok(number) = shared.disks.number_of(part.disk) else {
        let why =
            "its subfile is on another node: give the target file the layout of the source file";
        return then(Err(missing_target(running, place, why)));
    };
    let disk = shared.disks.disk(number);
    let id = NodeDisk::subfile_id(grant.file, part);
    let extent = match output.take().map_err(|error| disk.failure(error, id, "write an extent")) {
        Ok(extent) => extent,
        Err(failure) => return then(Err(failure)),
    };
    let (of, index, bytes) = (running.clone(), place.extent.0, extent.payload_bytes());
    let begin_ns = running.now_if_traced();
    let queued = DiskRequest::new(shared, number, running.disk_caller, "process", bytes);
    let written = move |written: Result<(), Failure>| {
        of.note_disk_span(number, "write", begin_ns);
        if written.is_ok() {
            of.note_written(bytes);
        }
        then(written);
    };
    if let Some(file) = disk.open_extents(grant.file, part.subfile.0) {
        return queued.write_extent(&file, index, extent, written);
    }
    let (shared, grant) = (shared.clone(), grant.clone());
    queued.run(move |queued| {
        match shared.extents_or_create(shared.disks.disk(number), &grant, part) {
            Ok(file) => queued.write_extent(&file, index, extent, written),
            Err(failure) => written(Err(failure)),
        }
    });
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

fn missing_target(running: &RunningCall, place: ExtentPlacement, why: &str) -> Failure {
    Failure::Operation {
        node: running.shared.name().into(),
        operation: running.work.operation.as_str().into(),
        place: Some(Box::new(place)),
        why: format!("it has produced an extent, but {why}"),
    }
}
