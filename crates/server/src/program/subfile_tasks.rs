//! Tasks on the subfiles of one disk: creating, measuring, describing, syncing and removing them. They
//! run in the lane of the disk, so that a disk that does not answer delays only its own tasks.

use pario_flow::Token;
use pario_net::Bulk;
use pario_proto::{
    Failure, FileId, Grant, KnownFile, Reply, ReplyMessage, SubfileLocation, SubfileMeasure,
};

use super::{NodeTask, plain_reply};
use crate::disks::{NodeDisk, NodeDisks};
use crate::lazy_subfiles::SubfileLookup;
use crate::node_state::NodeState;

/// The tasks of the disks for one request.
#[derive(Clone, Debug)]
pub struct SubfileTasks {
    tasks: Vec<SubfileTask>,
    /// The number of files to measure; `None` for other requests.
    measured: Option<usize>,
    /// For each subfile to sync: whether it exists, `false` at first. `None` for other requests.
    synced: Option<Vec<Result<bool, Failure>>>,
    /// A failure that concerns no disk.
    failure: Option<Failure>,
}

impl Token for SubfileTasks {}

/// The task of one disk.
#[derive(Clone, Debug)]
pub struct SubfileTask {
    /// The number of its disk.
    pub disk: usize,
    action: SubfileAction,
}

impl Token for SubfileTask {}

#[derive(Clone, Debug)]
enum SubfileAction {
    /// Removes subfiles.
    Remove(Vec<(FileId, u32)>),
    /// Writes what the namespace says of files into their descriptions.
    Describe(Vec<(KnownFile, u32)>),
    /// Creates and opens flat subfiles.
    Create(Vec<(Grant, SubfileLocation)>),
    /// Measures subfiles, each with the number of its file in the request.
    Measure { subfiles: Vec<(usize, Grant, SubfileLocation)>, is_strict: bool },
    /// Syncs subfiles, each with its number in the request.
    Sync(Vec<(usize, Grant, SubfileLocation)>),
}

/// The result of one task.
#[derive(Clone, Debug)]
pub enum SubfileTaskResult {
    /// The sizes of measured subfiles; empty for other tasks.
    Measured(Result<Vec<(usize, SubfileMeasure)>, Failure>),
    /// For each subfile to sync: whether it exists.
    Synced(Vec<(usize, Result<bool, Failure>)>),
}

impl Token for SubfileTaskResult {}

/// The results of all tasks of a request.
#[derive(Clone, Debug)]
pub struct SubfileTaskResults {
    /// The sizes of the subfiles of each file; `None` for other requests.
    measures: Option<Vec<Vec<SubfileMeasure>>>,
    /// For each subfile to sync: whether it exists. `None` for other requests.
    synced: Option<Vec<Result<bool, Failure>>>,
    failure: Option<Failure>,
}

impl Token for SubfileTaskResults {}

impl SubfileTasks {
    /// Returns the tasks of the disks for a task of the node.
    pub fn of(task: &NodeTask, disks: &NodeDisks) -> Self {
        let (mut tasks, mut failure, mut synced) = (Vec::new(), None, None);
        let measured = match task {
            NodeTask::Remove { files, .. } => {
                for record in files {
                    for (disk, index) in disks.parts_of(record) {
                        if let SubfileAction::Remove(subfiles) =
                            action_of(&mut tasks, disk, || SubfileAction::Remove(Vec::new()))
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
                            action_of(&mut tasks, disk, || SubfileAction::Describe(Vec::new()))
                        {
                            subfiles.push((file.clone(), part.subfile.0));
                        }
                    }
                }
                None
            }
            NodeTask::Create { grant, parts } => {
                for &(disk, part) in parts {
                    if let SubfileAction::Create(subfiles) =
                        action_of(&mut tasks, disk, || SubfileAction::Create(Vec::new()))
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
                            action_of(&mut tasks, disk, none)
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
                        action_of(&mut tasks, *disk, || SubfileAction::Sync(Vec::new()))
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

    /// Returns the numbers of the tasks.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        0..self.tasks.len() as u64
    }

    /// Returns a task by its number.
    pub fn task(&self, number: u64) -> Option<SubfileTask> {
        self.tasks.get(usize::try_from(number).ok()?).cloned()
    }

    /// Returns the results before any task is done.
    pub fn initial_results(&self) -> SubfileTaskResults {
        let measures = self.measured.map(|files| vec![Vec::new(); files]);
        SubfileTaskResults { measures, synced: self.synced.clone(), failure: self.failure.clone() }
    }
}

/// Returns the action of a disk, which `none` creates.
fn action_of(
    tasks: &mut Vec<SubfileTask>,
    disk: usize,
    none: impl FnOnce() -> SubfileAction,
) -> &mut SubfileAction {
    let at = tasks.iter().position(|task| task.disk == disk).unwrap_or_else(|| {
        tasks.push(SubfileTask { disk, action: none() });
        tasks.len() - 1
    });
    &mut tasks[at].action
}

impl SubfileTaskResults {
    /// Adds the result of a task.
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

    /// Returns the reply to the request.
    pub fn into_reply(self) -> ReplyMessage<Bulk> {
        plain_reply(match (self.failure, self.measures, self.synced) {
            (Some(failure), ..) => Err(failure),
            (None, Some(measures), _) => Ok(Reply::Measured(measures)),
            (None, None, Some(synced)) => Ok(Reply::SyncedMany(synced)),
            (None, None, None) => Ok(Reply::Done),
        })
    }
}

impl SubfileTask {
    /// Returns what the task does, for the status.
    pub fn kind(&self) -> &'static str {
        match &self.action {
            SubfileAction::Remove(_) => "remove",
            SubfileAction::Describe(_) => "describe",
            SubfileAction::Create(_) => "create",
            SubfileAction::Measure { .. } => "measure",
            SubfileAction::Sync(_) => "sync",
        }
    }

    /// Performs the task, which may wait for the disk.
    pub fn perform(self, shared: &NodeState) -> SubfileTaskResult {
        let disk = shared.disks.disk(self.disk);
        SubfileTaskResult::Measured(match self.action {
            SubfileAction::Sync(subfiles) => {
                return SubfileTaskResult::Synced(sync(shared, disk, subfiles));
            }
            SubfileAction::Remove(subfiles) => disk.remove_many(&subfiles).map(|()| Vec::new()),
            SubfileAction::Describe(subfiles) => subfiles
                .into_iter()
                .try_for_each(|(file, index)| disk.describe(&file, index))
                .map(|()| Vec::new()),
            SubfileAction::Create(subfiles) => subfiles
                .into_iter()
                .try_for_each(|(grant, part)| shared.flat_or_create(disk, &grant, part).map(|_| ()))
                .map(|()| Vec::new()),
            SubfileAction::Measure { subfiles, is_strict } => subfiles
                .into_iter()
                .map(|(file, grant, part)| match measure(shared, disk, &grant, part) {
                    Err(Failure::SubfileMissing { .. }) if !is_strict => {
                        Ok((file, absent_measure(part)))
                    }
                    measured => Ok((file, measured?)),
                })
                .collect(),
        })
    }
}

/// Syncs subfiles. Returns for each whether it exists.
fn sync(
    shared: &NodeState,
    disk: &NodeDisk,
    subfiles: Vec<(usize, Grant, SubfileLocation)>,
) -> Vec<(usize, Result<bool, Failure>)> {
    let mut done = Vec::with_capacity(subfiles.len());
    let (mut numbers, mut flats) = (Vec::new(), Vec::new());
    for (number, grant, part) in subfiles {
        if disk.has_extents(grant.file, part.subfile.0) {
            done.push((number, shared.sync(disk, &grant, part)));
            continue;
        }
        match shared.flat(disk, &grant, part) {
            Ok(SubfileLookup::Present(flat)) => {
                numbers.push(number);
                flats.push(flat);
            }
            Ok(SubfileLookup::Lazy) => done.push((number, Ok(false))),
            Err(failure) => done.push((number, Err(failure))),
        }
    }
    let synced = shared.sync_flats(disk, &flats).into_iter();
    done.extend(numbers.into_iter().zip(synced.map(|synced| synced.map(|()| true))));
    done
}

fn measure(
    shared: &NodeState,
    disk: &NodeDisk,
    grant: &Grant,
    part: SubfileLocation,
) -> Result<SubfileMeasure, Failure> {
    let failed = |error| disk.failure(error, NodeDisk::subfile_id(grant.file, part), "measure");
    if disk.has_extents(grant.file, part.subfile.0) {
        let Some(extents) = shared.extents(disk, grant, part)?.present() else {
            return Ok(absent_measure(part));
        };
        let stat = extents.stat().map_err(failed)?;
        return Ok(SubfileMeasure {
            len: stat.live_bytes,
            disk_bytes: stat.disk_bytes,
            extents: stat.extents,
            modified_ns: stat.modified_ns,
            ..absent_measure(part)
        });
    }
    let Some(flat) = shared.flat(disk, grant, part)?.present() else {
        return Ok(absent_measure(part));
    };
    Ok(SubfileMeasure {
        len: flat.len().map_err(failed)?,
        disk_bytes: flat.disk_bytes().map_err(failed)?,
        modified_ns: flat.modified_ns().map_err(failed)?,
        ..absent_measure(part)
    })
}

/// Returns the size of a subfile that does not exist.
fn absent_measure(part: SubfileLocation) -> SubfileMeasure {
    SubfileMeasure { subfile: part.subfile, len: 0, disk_bytes: 0, extents: 0, modified_ns: 0 }
}
