//! What storage threads do for work with extents.

use pario_net::Bulk;
use pario_proto::{ExtentPlacement, Failure, ProcessTarget, SubfileLocation};
use pario_store::{ExtentFile, MAX_EXTENT_INDEX};

use super::cut::{CutDone, CutOne};
use super::process::{Opened, Opening};
use super::storage::Storage;
use super::visit::{Visit, read_extent, stored};
use crate::disks::NodeDisk;
use crate::operation::ExtentOutput;
use crate::processing::{OpenPart, Running};

impl Storage {
    /// Opens a subfile of a call, and finds out which extents it has if all are wanted.
    pub fn open_part(&mut self, opening: Opening) -> Opened {
        let Opening { running, part, disk, .. } = opening;
        if running.is_stopped() {
            return Opened(None);
        }
        let at = running.shared.disks.disk(disk);
        match open(&running, at, part) {
            Ok((file, runs)) => Opened(Some(OpenPart { part, disk, file, runs })),
            Err(failure) => {
                running.fail(failure);
                Opened(None)
            }
        }
    }

    /// Writes an extent that a task has made.
    pub fn put(&mut self, mut visit: Visit) -> Visit {
        let made = visit.made.take();
        let running = visit.running.clone();
        if let Some(made) = made
            && !running.is_stopped()
            && let ExtentOutput::Extent { placement, header, body } = made.as_ref()
            && let Err(failure) = write(&running, *placement, header, body)
        {
            running.fail(failure);
        }
        visit
    }

    /// Cuts a part of an extent for another node.
    pub fn cut(&mut self, one: CutOne) -> CutDone {
        let CutOne { call, number } = one;
        let (_, disk, piece) = &call.pieces[number];
        let disk = self.shared.disks.disk(*disk);
        let cut = || {
            let found = self.shared.extents(disk, &call.grant, piece.part)?;
            let extent = match found.made() {
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
        CutDone { number, bytes: cut() }
    }
}

/// Extents that follow each other: the first, and how many.
type Run = (u64, u64);

/// A subfile, if it has come into being, and which extents it has, if all are wanted.
fn open(
    running: &Running,
    disk: &NodeDisk,
    part: SubfileLocation,
) -> Result<(Option<ExtentFile>, Vec<Run>), Failure> {
    let grant = &running.work.grant;
    let Some(file) = running.shared.extents(disk, grant, part)?.made() else {
        return Ok((None, Vec::new()));
    };
    let mut runs: Vec<Run> = Vec::new();
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
    running: &Running,
    place: ExtentPlacement,
    header: &[u8],
    body: &[u8],
) -> Result<(), Failure> {
    let shared = &running.shared;
    let Some(ProcessTarget { grant, parts }) = &running.work.target else {
        return Err(missing_target(running, place, "the caller has named no file for it"));
    };
    let Some(part) = parts.get(place.subfile.0 as usize) else {
        return Err(missing_target(running, place, "the file for it has no such subfile"));
    };
    let Ok(number) = shared.disks.number_of(part.disk) else {
        let why = "that subfile is at another node: give the file the layout of the one it is \
                   made of";
        return Err(missing_target(running, place, why));
    };
    let disk = shared.disks.disk(number);
    running.timed(
        || disk.name.clone(),
        "write",
        || {
            let file = shared.extents_made(disk, grant, *part)?;
            let written = file.write(place.extent.0, header, body);
            written.map_err(|error| disk.failure(error, file.id(), "write an extent"))
        },
    )?;
    let bytes = (header.len() + body.len()) as u64;
    disk.load.written(bytes);
    running.note_written(bytes);
    Ok(())
}

fn missing_target(running: &Running, place: ExtentPlacement, why: &str) -> Failure {
    Failure::Operation {
        node: running.shared.name().into(),
        operation: running.work.operation.as_str().into(),
        place: Some(Box::new(place)),
        why: format!("it has made an extent, but {why}"),
    }
}

impl Visit {
    /// The storage thread of the disk for what was made of the extent.
    pub fn target_thread(&self) -> usize {
        let Some(ExtentOutput::Extent { placement, .. }) = self.made.as_deref() else { return 0 };
        let target = self.running.work.target.as_ref();
        let part = target.and_then(|target| target.parts.get(placement.subfile.0 as usize));
        let disks = &self.running.shared.disks;
        let number = part.and_then(|part| disks.number_of(part.disk).ok());
        number.map_or(0, |number| disks.disk(number).thread)
    }
}
