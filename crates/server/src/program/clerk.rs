//! Clerks, one per disk: each makes, measures and removes subfiles of its disk for others. So a disk that does not
//! answer holds up only what is wanted of it.

use std::sync::Arc;

use pario_flow::Token;
use pario_net::Bulk;
use pario_proto::{
    Failure, FileId, Grant, KnownFile, Reply, ReplyMessage, SubfileLocation, SubfileMeasure,
};

use super::{DataCall, Work, answer};
use crate::disks::{NodeDisk, NodeDisks};
use crate::shared::Shared;
use crate::unmade::Found;

/// A clerk.
pub struct Clerk {
    shared: Arc<Shared>,
}

/// What the clerks of a node have to do for one request.
#[derive(Clone, Debug)]
pub struct Tasks {
    tasks: Vec<Task>,
    /// How many files are measured; nothing if something else is done.
    measured: Option<usize>,
    /// For each subfile to be synced: whether it is there, before that is known. Nothing if something
    /// else is done.
    synced: Option<Vec<Result<bool, Failure>>>,
    /// What cannot be done by any clerk.
    failure: Option<Failure>,
}

impl Token for Tasks {}

/// What one clerk has to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The number of its disk.
    pub disk: usize,
    what: What,
}

impl Token for Task {}

#[derive(Clone, Debug)]
enum What {
    /// Removes subfiles.
    Remove(Vec<(FileId, u32)>),
    /// Writes into descriptions what the namespace says of files.
    Describe(Vec<(KnownFile, u32)>),
    /// Makes and opens flat subfiles.
    Make(Vec<(Grant, SubfileLocation)>),
    /// Measures subfiles; with the number of the file among those asked for.
    Measure { subfiles: Vec<(usize, Grant, SubfileLocation)>, is_strict: bool },
    /// Makes subfiles durable; with the number of each among those asked for.
    Sync(Vec<(usize, Grant, SubfileLocation)>),
}

/// What a clerk has done.
#[derive(Clone, Debug)]
pub enum Done {
    /// Subfiles are measured, or something else is done.
    Measured(Result<Vec<(usize, SubfileMeasure)>, Failure>),
    /// Subfiles are durable, as far as they are there.
    Synced(Vec<(usize, Result<bool, Failure>)>),
}

impl Token for Done {}

/// What all clerks have done.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// For each file; nothing if something else was done.
    measures: Option<Vec<Vec<SubfileMeasure>>>,
    /// For each subfile to be synced; nothing if something else was done.
    synced: Option<Vec<Result<bool, Failure>>>,
    failure: Option<Failure>,
}

impl Token for Gathered {}

impl Tasks {
    /// Which clerk has to do what.
    pub fn of(work: &Work, disks: &NodeDisks) -> Self {
        let (mut tasks, mut failure, mut synced) = (Vec::new(), None, None);
        let measured = match work {
            Work::Remove { files, .. } => {
                for record in files {
                    for (disk, index) in disks.parts_of(record) {
                        if let What::Remove(subfiles) =
                            find(&mut tasks, disk, || What::Remove(Vec::new()))
                        {
                            subfiles.push((record.id, index));
                        }
                    }
                }
                None
            }
            Work::Describe { files } => {
                for (file, parts) in files {
                    for part in parts {
                        let disk = match disks.number_of(part.disk) {
                            Ok(disk) => disk,
                            Err(missing) => {
                                failure = Some(missing);
                                continue;
                            }
                        };
                        if let What::Describe(subfiles) =
                            find(&mut tasks, disk, || What::Describe(Vec::new()))
                        {
                            subfiles.push((file.clone(), part.subfile.0));
                        }
                    }
                }
                None
            }
            Work::Make { grant, parts } => {
                for &(disk, part) in parts {
                    if let What::Make(subfiles) = find(&mut tasks, disk, || What::Make(Vec::new()))
                    {
                        subfiles.push((grant.clone(), part));
                    }
                }
                None
            }
            Work::Measure { files } => {
                // One lost subfile must not hide the sizes of all other files of a directory.
                let is_strict = files.len() == 1;
                for (number, (grant, parts)) in files.iter().enumerate() {
                    for &(disk, part) in parts {
                        let none = || What::Measure { subfiles: Vec::new(), is_strict };
                        if let What::Measure { subfiles, .. } = find(&mut tasks, disk, none) {
                            subfiles.push((number, grant.clone(), part));
                        }
                    }
                }
                Some(files.len())
            }
            Work::Sync { subfiles } => {
                for (number, subfile) in subfiles.iter().enumerate() {
                    let Ok((disk, grant, part)) = subfile else { continue };
                    if let What::Sync(subfiles) = find(&mut tasks, *disk, || What::Sync(Vec::new()))
                    {
                        subfiles.push((number, grant.clone(), *part));
                    }
                }
                let unknown = |subfile: &Result<_, Failure>| match subfile {
                    Ok(_) => Ok(false),
                    Err(failure) => Err(failure.clone()),
                };
                synced = Some(subfiles.iter().map(unknown).collect());
                None
            }
            Work::Revoke(_) => None,
        };
        Self { tasks, measured, synced, failure }
    }

    /// The numbers of the tasks.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        0..self.tasks.len() as u64
    }

    /// A task by its number.
    pub fn task(&self, number: u64) -> Option<Task> {
        self.tasks.get(usize::try_from(number).ok()?).cloned()
    }

    /// Before any clerk has done anything.
    pub fn nothing_done(&self) -> Gathered {
        let measures = self.measured.map(|files| vec![Vec::new(); files]);
        Gathered { measures, synced: self.synced.clone(), failure: self.failure.clone() }
    }
}

/// What a disk's clerk has to do so far.
fn find(tasks: &mut Vec<Task>, disk: usize, none: impl FnOnce() -> What) -> &mut What {
    let at = tasks.iter().position(|task| task.disk == disk).unwrap_or_else(|| {
        tasks.push(Task { disk, what: none() });
        tasks.len() - 1
    });
    &mut tasks[at].what
}

impl Gathered {
    /// A clerk is done.
    pub fn add(&mut self, done: Done) {
        match done {
            Done::Synced(done) => {
                for (number, result) in done {
                    if let Some(synced) = &mut self.synced {
                        synced[number] = result;
                    }
                }
            }
            Done::Measured(Ok(measured)) => {
                for (file, measure) in measured {
                    if let Some(measures) = &mut self.measures {
                        measures[file].push(measure);
                    }
                }
            }
            Done::Measured(Err(failure)) => self.failure = Some(failure),
        }
    }

    /// What is answered.
    pub fn answer(self) -> ReplyMessage<Bulk> {
        answer(match (self.failure, self.measures, self.synced) {
            (Some(failure), ..) => Err(failure),
            (None, Some(measures), _) => Ok(Reply::Measured(measures)),
            (None, None, Some(synced)) => Ok(Reply::SyncedMany(synced)),
            (None, None, None) => Ok(Reply::Done),
        })
    }
}

impl Clerk {
    /// A clerk of a node.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Does what is to be done on its disk.
    pub fn work(&mut self, task: Task) -> Done {
        let disk = self.shared.disks.disk(task.disk);
        Done::Measured(match task.what {
            What::Sync(subfiles) => return Done::Synced(self.sync(disk, subfiles)),
            What::Remove(subfiles) => disk.remove_many(&subfiles).map(|()| Vec::new()),
            What::Describe(subfiles) => subfiles
                .into_iter()
                .try_for_each(|(file, index)| disk.describe(&file, index))
                .map(|()| Vec::new()),
            What::Make(subfiles) => subfiles
                .into_iter()
                .try_for_each(|(grant, part)| self.shared.flat_made(disk, &grant, part).map(|_| ()))
                .map(|()| Vec::new()),
            What::Measure { subfiles, is_strict } => subfiles
                .into_iter()
                .map(|(file, grant, part)| match self.measure(disk, &grant, part) {
                    Err(Failure::SubfileMissing { .. }) if !is_strict => {
                        Ok((file, nothing_of(part)))
                    }
                    measured => Ok((file, measured?)),
                })
                .collect(),
        })
    }

    /// Finds out whether the subfile of a request is there, or may be made, so that the storage thread
    /// need not ask the interface node.
    pub fn find(&mut self, mut call: DataCall) -> DataCall {
        let disk = self.shared.disks.disk(call.disk);
        let Some((grant, part)) = call.subfile() else { return call };
        if disk.is_known(grant.file, part.subfile.0) {
            return call;
        }
        let found = if disk.has_extents(grant.file, part.subfile.0) {
            self.shared.extents(disk, grant, part).map(|_| ())
        } else {
            self.shared.flat(disk, grant, part).map(|_| ())
        };
        call.failure = found.err();
        call
    }

    /// Makes subfiles durable; for each, whether it is there.
    fn sync(
        &self,
        disk: &NodeDisk,
        subfiles: Vec<(usize, Grant, SubfileLocation)>,
    ) -> Vec<(usize, Result<bool, Failure>)> {
        let mut done = Vec::with_capacity(subfiles.len());
        let (mut numbers, mut flats) = (Vec::new(), Vec::new());
        for (number, grant, part) in subfiles {
            if disk.has_extents(grant.file, part.subfile.0) {
                done.push((number, self.shared.sync(disk, &grant, part)));
                continue;
            }
            match self.shared.flat(disk, &grant, part) {
                Ok(Found::Made(flat)) => {
                    numbers.push(number);
                    flats.push(flat);
                }
                Ok(Found::Unmade) => done.push((number, Ok(false))),
                Err(failure) => done.push((number, Err(failure))),
            }
        }
        let synced = self.shared.sync_flats(disk, &flats).into_iter();
        done.extend(numbers.into_iter().zip(synced.map(|synced| synced.map(|()| true))));
        done
    }

    fn measure(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<SubfileMeasure, Failure> {
        let failed = |error| disk.failure(error, NodeDisk::subfile_id(grant.file, part), "measure");
        if disk.has_extents(grant.file, part.subfile.0) {
            let Some(extents) = self.shared.extents(disk, grant, part)?.made() else {
                return Ok(nothing_of(part));
            };
            let stat = extents.stat().map_err(failed)?;
            return Ok(SubfileMeasure {
                len: stat.live_bytes,
                disk_bytes: stat.disk_bytes,
                extents: stat.extents,
                modified_ns: stat.modified_ns,
                ..nothing_of(part)
            });
        }
        let Some(flat) = self.shared.flat(disk, grant, part)?.made() else {
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
fn nothing_of(part: SubfileLocation) -> SubfileMeasure {
    SubfileMeasure { subfile: part.subfile, len: 0, disk_bytes: 0, extents: 0, modified_ns: 0 }
}
