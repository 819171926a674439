//! Creates the parts of a new record file, or opens those that the ranks have found, and joins the
//! maps of all parts into one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_team::Team;
use rustix::fs::{FlockOperation, RenameFlags, flock, renameat_with};

use super::collective::{MessageReader, agree, different_versions, put_bytes, put_number};
use super::error::RecordError;
use super::part::{MapEntry, Part, PartIdentity, PartMap, RecordBlock};
use super::part_owner::PartOwner;
use super::part_search::{PartSearch, SeenPart, new_path, part_error, part_path};
use super::record::{Record, RecordId};

/// A part that belongs to this rank.
pub struct OwnPart {
    pub number: u32,
    pub path: PathBuf,
    pub part: Part<File>,
}

/// The map of a whole record file, the same on all ranks.
#[derive(Default)]
pub struct RecordMap {
    /// The number of the next record.
    pub next: u64,
    pub records: BTreeMap<u64, Arc<Record>>,
}

impl RecordMap {
    /// Looks a record up.
    pub fn record(&self, record: RecordId) -> Result<Arc<Record>, RecordError> {
        let found = self.records.get(&record.number()).cloned();
        found.ok_or_else(|| {
            RecordError::NotFound(format!("{record} does not exist in this record file"))
        })
    }
}

/// The parts of a record file that is open, and their map.
pub struct OpenedParts {
    pub own: Vec<OwnPart>,
    pub owners: Vec<PartOwner>,
    pub map: RecordMap,
}

/// Creates a file: each rank creates one part.
pub fn create(team: &Team, call: &str, found: &PartSearch) -> Result<OpenedParts, RecordError> {
    let rank = team.rank();
    let paths: Vec<PathBuf> =
        (0..).zip(&found.paths).map(|(part, path)| part_path(path, part)).collect();
    let identity =
        |number| PartIdentity { file: found.id, number, parts: team.size(), created: found.now };
    let path = &paths[rank as usize];
    let new = new_path(path);
    let last_paths = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
    let (created, result) = match create_part(&new, identity(rank), last_paths) {
        Ok(part) => (Some(part), Ok(Vec::new())),
        Err(error) => (None, Err(error)),
    };
    // All parts are whole and durable before the first one gets its name.
    let agreed = agree(team, call, &[], result);
    let named = agreed.and_then(|_| {
        let named = rename(&new, path);
        agree(team, call, &[], named.map(|()| Vec::new()))
    });
    if let Err(error) = named {
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    let own = created.map(|part| OwnPart { number: rank, path: path.clone(), part });
    let owner = |(part, path): (u32, PathBuf)| {
        let is_local = found.can_open(team, part, &path, identity(part));
        PartOwner::new(part, path, identity(part), is_local)
    };
    let owners = (0..).zip(paths).map(owner).collect();
    Ok(OpenedParts {
        own: own.into_iter().collect(),
        owners,
        map: RecordMap { next: 1, ..RecordMap::default() },
    })
}

/// Creates a part under its temporary name.
fn create_part(
    new: &Path,
    identity: PartIdentity,
    last_paths: Vec<Vec<u8>>,
) -> Result<Part<File>, RecordError> {
    let wrong = |error| RecordError::system("creating the part", new, &error);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(new);
    let file = file.map_err(wrong)?;
    lock(&file, new)?;
    file.set_len(0).map_err(wrong)?;
    let created = Part::create(file, identity, last_paths);
    created.map_err(|error| part_error("creating the part", new, error))
}

/// Opens a part and locks it; fails if another job has it open.
pub fn open_locked(path: &Path) -> Result<File, RecordError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| RecordError::system("opening it", path, &error))?;
    lock(&file, path)?;
    Ok(file)
}

/// Locks a part, which one job at a time can have open. The lock ends with the process.
fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecordError::InUse(format!(
            "{}: another job has this record file open; wait until that job has closed it",
            path.display()
        ))),
        Err(error) => Err(RecordError::system("locking it", path, &error.into())),
    }
}

/// Gives a part its final name, durably. Replaces no file.
fn rename(from: &Path, to: &Path) -> Result<(), RecordError> {
    let cwd = rustix::fs::CWD;
    match renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // The file system does not support `RENAME_NOREPLACE`.
        Err(rustix::io::Errno::INVAL) => {
            let renamed = std::fs::rename(from, to);
            renamed.map_err(|error| {
                RecordError::system("renaming the part to this name", to, &error)
            })?;
        }
        Err(rustix::io::Errno::EXIST) => {
            return Err(RecordError::Exists(format!(
                "{}: another job has created this part at the same time; give another path, or open \
                 that record file",
                to.display()
            )));
        }
        Err(error) => {
            return Err(RecordError::system("renaming the part to this name", to, &error.into()));
        }
    }
    sync_directory(to)
}

/// Makes a change of a file's name durable.
pub fn sync_directory(path: &Path) -> Result<(), RecordError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| RecordError::system("syncing the directory", directory, &error))
}

/// Opens a file of which the ranks have found all parts.
pub fn open(team: &Team, call: &str, found: &PartSearch) -> Result<OpenedParts, RecordError> {
    let seen: Vec<&SeenPart> = found.parts.iter().flatten().collect();
    let owned = |seen: &&SeenPart| found.owner_of(seen.identity.number) == team.rank();
    let opened: Result<Vec<OwnPart>, RecordError> =
        seen.iter().copied().filter(owned).map(open_part).collect();
    let own = undo_partial_change(team, call, opened, seen.len())?;
    let (maps, mut own) = exchange_maps(team, call, own, seen.len())?;
    let map = join_maps(&maps).map_err(|why| {
        RecordError::Damaged(format!(
            "{}: the parts of this record file do not belong together: {why}. Put back parts of the \
             same age",
            seen[0].path.display()
        ))
    })?;
    let paths: Vec<PathBuf> = seen.iter().map(|seen| final_path(seen)).collect();
    store_last_paths(team, call, &mut own, &maps[0], &paths)?;
    let owner = |(seen, path): (&&SeenPart, &PathBuf)| {
        let rank = found.owner_of(seen.identity.number);
        let is_local = found.can_open(team, rank, path, seen.identity);
        PartOwner::new(rank, path.clone(), seen.identity, is_local)
    };
    let owners = seen.iter().zip(&paths).map(owner).collect();
    Ok(OpenedParts { own, owners, map })
}

/// The path of a part once it has its final name.
fn final_path(seen: &SeenPart) -> PathBuf {
    if seen.is_new { seen.path.with_extension("") } else { seen.path.clone() }
}

fn open_part(seen: &SeenPart) -> Result<OwnPart, RecordError> {
    let file = open_locked(&seen.path)?;
    let part = Part::open(file).map_err(|error| part_error("reading it", &seen.path, error))?;
    if *part.identity() != seen.identity {
        return Err(RecordError::InUse(format!(
            "{}: another file has replaced this part while it was opened; try again",
            seen.path.display()
        )));
    }
    let path = final_path(seen);
    if seen.is_new {
        rename(&seen.path, &path)?;
    }
    Ok(OwnPart { number: seen.identity.number, path, part })
}

/// Undoes a change that not all parts have: the job that made it was stopped before it ended.
fn undo_partial_change(
    team: &Team,
    call: &str,
    own: Result<Vec<OwnPart>, RecordError>,
    parts: usize,
) -> Result<Vec<OwnPart>, RecordError> {
    let (own, result) = match own {
        Ok(own) => {
            let mut message = Vec::new();
            for own in &own {
                put_number(&mut message, own.number.into());
                put_number(&mut message, own.part.map().change);
            }
            (own, Ok(message))
        }
        Err(error) => (Vec::new(), Err(error)),
    };
    let messages = agree(team, call, &[], result)?;
    let mut changes = vec![0; parts];
    for message in &messages {
        let mut message = MessageReader(message);
        while let (Some(part), Some(change)) = (message.small(), message.number()) {
            *changes.get_mut(part as usize).ok_or_else(different_versions)? = change;
        }
    }
    let (oldest, newest) = (changes.iter().min(), changes.iter().max());
    let (oldest, newest) = (*oldest.unwrap_or(&0), *newest.unwrap_or(&0));
    let part_with = |wanted: u64| changes.iter().position(|change| *change == wanted);
    if newest - oldest > 1 {
        let (one, other) = (part_with(oldest).unwrap_or(0), part_with(newest).unwrap_or(0));
        return Err(RecordError::Damaged(format!(
            "part {one} of this record file has had {oldest} changes of its map, part {other} \
             {newest}: part {one} is an old copy. Put back parts of the same age"
        )));
    }
    if newest == oldest {
        return Ok(own);
    }
    let undo = |own: OwnPart| {
        let OwnPart { number, path, part } = own;
        let part = if part.map().change == newest { part.undo() } else { Ok(part) };
        let part = part.map_err(|error| part_error("undoing its last change", &path, error))?;
        Ok(OwnPart { number, path, part })
    };
    let undone: Result<Vec<OwnPart>, RecordError> = own.into_iter().map(undo).collect();
    let (own, result) = match undone {
        Ok(own) => (own, Ok(Vec::new())),
        Err(error) => (Vec::new(), Err(error)),
    };
    agree(team, call, &[], result)?;
    Ok(own)
}

/// Sends the maps of the own parts to all ranks, and returns the maps of all parts.
fn exchange_maps(
    team: &Team,
    call: &str,
    own: Vec<OwnPart>,
    parts: usize,
) -> Result<(Vec<PartMap>, Vec<OwnPart>), RecordError> {
    let mut message = Vec::new();
    for own in &own {
        put_number(&mut message, own.number.into());
        let mut entries = Vec::new();
        own.part.map().entries().iter().for_each(|entry| entry.encode(&mut entries));
        put_bytes(&mut message, &entries);
    }
    let messages = agree(team, call, &[], Ok(message))?;
    let mut maps = vec![PartMap::default(); parts];
    for message in &messages {
        let mut message = MessageReader(message);
        while let (Some(part), Some(mut entries)) = (message.small(), message.bytes()) {
            let map = maps.get_mut(part as usize).ok_or_else(different_versions)?;
            while !entries.is_empty() {
                let (entry, rest) = MapEntry::decode(entries).ok_or_else(different_versions)?;
                map.apply(&entry).map_err(RecordError::Damaged)?;
                entries = rest;
            }
        }
    }
    Ok((maps, own))
}

/// Joins the maps of all parts into one; the error says why they do not belong together.
fn join_maps(maps: &[PartMap]) -> Result<RecordMap, String> {
    let mut map = RecordMap { next: 1, ..RecordMap::default() };
    let Some(first) = maps.first() else { return Ok(map) };
    map.next = maps.iter().map(|map| map.next).max().unwrap_or(1);
    for (number, part) in maps.iter().enumerate() {
        if !part.records.keys().eq(first.records.keys()) {
            return Err(format!("parts 0 and {number} have different records"));
        }
    }
    for (id, whole) in &first.records {
        let blocks: Vec<&RecordBlock> = maps.iter().filter_map(|map| map.records.get(id)).collect();
        let mut end = 0_u64;
        for (number, block) in blocks.iter().enumerate() {
            let is_fitting = block.start == end
                && block.total == whole.total
                && block.is_regular == whole.is_regular;
            if !is_fitting {
                return Err(format!(
                    "the block of record {id} in part {number} does not continue that of the part \
                     before"
                ));
            }
            end += block.len;
        }
        if end != whole.total {
            return Err(format!(
                "the blocks of record {id} have {end} bytes together, and the record {}",
                whole.total
            ));
        }
        let sizes: Vec<u64> = blocks.iter().map(|block| block.len).collect();
        let offsets = blocks.iter().map(|block| block.offset).collect();
        let record = Record::new(RecordId::of_number(*id), whole.is_regular, &sizes, offsets);
        map.records.insert(*id, Arc::new(record));
    }
    Ok(map)
}

/// Stores the paths of all parts in each part, if parts were moved.
fn store_last_paths(
    team: &Team,
    call: &str,
    own: &mut [OwnPart],
    known: &PartMap,
    paths: &[PathBuf],
) -> Result<(), RecordError> {
    let is_new = |(part, path): &(u32, &PathBuf)| {
        known.last_paths.get(part).map(Vec::as_slice) != Some(path.as_os_str().as_bytes())
    };
    let entry = |(part, path): (u32, &PathBuf)| {
        MapEntry::LastPath(part, path.as_os_str().as_bytes().to_vec())
    };
    let entries: Vec<MapEntry> = (0..).zip(paths).filter(is_new).map(entry).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let store = |own: &mut OwnPart| {
        let prepared = own.part.prepare(entries.clone());
        prepared
            .and_then(|prepared| own.part.commit(&prepared))
            .map_err(|error| part_error("storing the paths of all parts", &own.path, error))
    };
    let stored = own.iter_mut().try_for_each(store);
    agree(team, call, &[], stored.map(|()| Vec::new())).map(drop)
}
