//! Clerks, one per disk: each makes, measures and removes subfiles of its disk for others. So a disk that does not
//! answer holds up only what is wanted of it.

use std::sync::Arc;

use pario_flow::Token;
use pario_net::Bulk;
use pario_proto::{
    Failure, FileId, Grant, KnownFile, Reply, ReplyMessage, SubfileLocation, SubfileMeasure,
};

use super::{DataCall, NodeTask, plain_reply};
use crate::disks::{NodeDisk, NodeDisks};
use crate::lazy_subfiles::SubfileLookup;
use crate::node_state::NodeState;

/// A subfile_worker.
pub struct SubfileWorker {
    shared: Arc<NodeState>,
}

/// SubfileAction the clerks of a node have to do for one request.
#[derive(Clone, Debug)]
pub struct SubfileTasks {
    tasks: Vec<SubfileTask>,
    /// How many files are measured; nothing if something else is done.
    measured: Option<usize>,
    /// For each subfile to be synced: whether it is there, before that is known. Nothing if something
    /// else is done.
    synced: Option<Vec<Result<bool, Failure>>>,
    /// SubfileAction cannot be done by any subfile_worker.
    failure: Option<Failure>,
}

impl Token for SubfileTasks {}

/// SubfileAction one subfile_worker has to do.
#[derive(Clone, Debug)]
pub struct SubfileTask {
    /// The number of its disk.
    pub disk: usize,
    what: SubfileAction,
}

impl Token for SubfileTask {}

#[derive(Clone, Debug)]
enum SubfileAction {
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

/// SubfileAction a subfile_worker has done.
#[derive(Clone, Debug)]
pub enum SubfileTaskResult {
    /// Subfiles are measured, or something else is done.
    Measured(Result<Vec<(usize, SubfileMeasure)>, Failure>),
    /// Subfiles are durable, as far as they are there.
    Synced(Vec<(usize, Result<bool, Failure>)>),
}

impl Token for SubfileTaskResult {}

/// SubfileAction all clerks have done.
#[derive(Clone, Debug)]
pub struct SubfileTaskResults {
    /// For each file; nothing if something else was done.
    measures: Option<Vec<Vec<SubfileMeasure>>>,
    /// For each subfile to be synced; nothing if something else was done.
    synced: Option<Vec<Result<bool, Failure>>>,
    failure: Option<Failure>,
}

impl Token for SubfileTaskResults {}

impl SubfileTasks {
    /// Which subfile_worker has to do what.
    pub fn of(work: &NodeTask, disks: &NodeDisks) -> Self {
        let (mut tasks, mut failure, mut synced) = (Vec::new(), None, None);
        let measured = match work {
            NodeTask::Remove { files, .. } => {
                for record in files {
                    for (disk, index) in disks.parts_of(record) {
                        if let SubfileAction::Remove(subfiles) =
                            find(&mut tasks, disk, || SubfileAction::Remove(Vec::new()))
                        {
                            subfiles.push((record.id, index));
                        }
                    }
                }
                None
            }
            NodeTask::Describe { files } => {
                for (file, parts) in files {
                    for part in parts {
                        let disk = match disks.number_of(part.disk) {
                            Ok(disk) => disk,
                            Err(missing) => {
                                failure = Some(missing);
                                continue;
                            }
                        };
                        if let SubfileAction::Describe(subfiles) =
                            find(&mut tasks, disk, || SubfileAction::Describe(Vec::new()))
                        {
                            subfiles.push((file.clone(), part.subfile.0));
                        }
                    }
                }
                None
            }
            NodeTask::Make { grant, parts } => {
                for &(disk, part) in parts {
                    if let SubfileAction::Make(subfiles) =
                        find(&mut tasks, disk, || SubfileAction::Make(Vec::new()))
                    {
                        subfiles.push((grant.clone(), part));
                    }
                }
                None
            }
            NodeTask::Measure { files } => {
                // One lost subfile must not hide the sizes of all other files of a directory.
                let is_strict = files.len() == 1;
                for (number, (grant, parts)) in files.iter().enumerate() {
                    for &(disk, part) in parts {
                        let none = || SubfileAction::Measure { subfiles: Vec::new(), is_strict };
                        if let SubfileAction::Measure { subfiles, .. } =
                            find(&mut tasks, disk, none)
                        {
                            subfiles.push((number, grant.clone(), part));
                        }
                    }
                }
                Some(files.len())
            }
            NodeTask::Sync { subfiles } => {
                for (number, subfile) in subfiles.iter().enumerate() {
                    let Ok((disk, grant, part)) = subfile else { continue };
                    if let SubfileAction::Sync(subfiles) =
                        find(&mut tasks, *disk, || SubfileAction::Sync(Vec::new()))
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
            NodeTask::Revoke(_) => None,
        };
        Self { tasks, measured, synced, failure }
    }

    /// The numbers of the tasks.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        0..self.tasks.len() as u64
    }

    /// A task by its number.
    pub fn task(&self, number: u64) -> Option<SubfileTask> {
        self.tasks.get(usize::try_from(number).ok()?).cloned()
    }

    /// Before any subfile_worker has done anything.
    pub fn nothing_done(&self) -> SubfileTaskResults {
        let measures = self.measured.map(|files| vec![Vec::new(); files]);
        SubfileTaskResults { measures, synced: self.synced.clone(), failure: self.failure.clone() }
    }
}

/// SubfileAction a disk's subfile_worker has to do so far.
fn find(
    tasks: &mut Vec<SubfileTask>,
    disk: usize,
    none: impl FnOnce() -> SubfileAction,
) -> &mut SubfileAction {
    let at = tasks.iter().position(|task| task.disk == disk).unwrap_or_else(|| {
        tasks.push(SubfileTask { disk, what: none() });
        tasks.len() - 1
    });
    &mut tasks[at].what
}

impl SubfileTaskResults {
    /// A subfile_worker is done.
    pub fn add(&mut self, done: SubfileTaskResult) {
        match done {
            SubfileTaskResult::Synced(done) => {
                for (number, result) in done {
                    if let Some(synced) = &mut self.synced {
                        synced[number] = result;
                    }
                }
            }
            SubfileTaskResult::Measured(Ok(measured)) => {
                for (file, measure) in measured {
                    if let Some(measures) = &mut self.measures {
                        measures[file].push(measure);
                    }
                }
            }
            SubfileTaskResult::Measured(Err(failure)) => self.failure = Some(failure),
        }
    }

    /// SubfileAction is answered.
    pub fn answer(self) -> ReplyMessage<Bulk> {
        plain_reply(match (self.failure, self.measures, self.synced) {
            (Some(failure), ..) => Err(failure),
            (None, Some(measures), _) => Ok(Reply::Measured(measures)),
            (None, None, Some(synced)) => Ok(Reply::SyncedMany(synced)),
            (None, None, None) => Ok(Reply::Done),
        })
    }
}

impl SubfileWorker {
    /// A subfile_worker of a node.
    pub fn new(shared: Arc<NodeState>) -> Self {
        Self { shared }
    }

    /// Does what is to be done on its disk.
    pub fn work(&mut self, task: SubfileTask) -> SubfileTaskResult {
        let disk = self.shared.disks.disk(task.disk);
        SubfileTaskResult::Measured(match task.what {
            SubfileAction::Sync(subfiles) => {
                return SubfileTaskResult::Synced(self.sync(disk, subfiles));
            }
            SubfileAction::Remove(subfiles) => disk.remove_many(&subfiles).map(|()| Vec::new()),
            SubfileAction::Describe(subfiles) => subfiles
                .into_iter()
                .try_for_each(|(file, index)| disk.describe(&file, index))
                .map(|()| Vec::new()),
            SubfileAction::Make(subfiles) => subfiles
                .into_iter()
                .try_for_each(|(grant, part)| {
                    self.shared.flat_or_create(disk, &grant, part).map(|_| ())
                })
                .map(|()| Vec::new()),
            SubfileAction::Measure { subfiles, is_strict } => subfiles
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
                Ok(SubfileLookup::Present(flat)) => {
                    numbers.push(number);
                    flats.push(flat);
                }
                Ok(SubfileLookup::Lazy) => done.push((number, Ok(false))),
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
            let Some(extents) = self.shared.extents(disk, grant, part)?.present() else {
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
        let Some(flat) = self.shared.flat(disk, grant, part)?.present() else {
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
