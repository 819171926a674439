//! Opening: the parts are found or made, each gets its rank, and the maps of all of them become one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_team::Team;
use rustix::fs::{FlockOperation, RenameFlags, flock, renameat_with};

use super::agree::{Reader, agree, put_bytes, put_number};
use super::error::RecordError;
use super::owner::Owner;
use super::part::{Block, Entry, Identity, Part, PartMap};
use super::record::{Record, RecordId};
use super::search::{Found, Sighting, different_versions, new_path, part_error, part_path};

/// A part that this rank has.
pub struct OwnPart {
    pub number: u32,
    pub path: PathBuf,
    pub part: Part<File>,
}

/// The map of a whole record file, the same on all ranks.
#[derive(Default)]
pub struct Map {
    pub next: u64,
    pub records: BTreeMap<u64, Arc<Record>>,
}

/// What is needed to use a record file.
pub struct Opened {
    pub own: Vec<OwnPart>,
    pub owners: Vec<Owner>,
    pub map: Map,
}

/// Makes a file: each rank makes a part.
pub fn create(team: &Team, call: &str, found: &Found) -> Result<Opened, RecordError> {
    let rank = team.rank();
    let paths: Vec<PathBuf> =
        (0..).zip(&found.paths).map(|(part, path)| part_path(path, part)).collect();
    let identity =
        |number| Identity { file: found.id, number, parts: team.size(), created: found.now };
    let path = &paths[rank as usize];
    let new = new_path(path);
    let places = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
    let made = make(&new, identity(rank), places);
    let (made, told) = match made {
        Ok(part) => (Some(part), Ok(Vec::new())),
        Err(error) => (None, Err(error)),
    };
    // All parts are whole and durable before the first one gets its name.
    let agreed = agree(team, call, &[], told);
    let named = agreed.and_then(|_| {
        let named = rename(&new, path);
        agree(team, call, &[], named.map(|()| Vec::new()))
    });
    if let Err(error) = named {
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    let own = made.map(|part| OwnPart { number: rank, path: path.clone(), part });
    let owner = |(part, path): (u32, PathBuf)| {
        let is_near = found.can_open(team, part, &path, identity(part));
        Owner::new(part, path, identity(part), is_near)
    };
    let owners = (0..).zip(paths).map(owner).collect();
    Ok(Opened { own: own.into_iter().collect(), owners, map: Map { next: 1, ..Map::default() } })
}

/// Makes a part that has no name yet.
fn make(new: &Path, identity: Identity, places: Vec<Vec<u8>>) -> Result<Part<File>, RecordError> {
    let wrong = |error| RecordError::system("making a part", new, &error);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(new);
    let file = file.map_err(wrong)?;
    lock(&file, new)?;
    file.set_len(0).map_err(wrong)?;
    Part::create(file, identity, places).map_err(|error| part_error("making it", new, error))
}

/// Opens a part that nobody else has open, and keeps others from it.
pub fn locked(path: &Path) -> Result<File, RecordError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| RecordError::system("opening it", path, &error))?;
    lock(&file, path)?;
    Ok(file)
}

/// A part is open in one job at a time. The lock ends with the process.
fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecordError::InUse(format!(
            "{}: another job has this record file open; wait until it has closed it",
            path.display()
        ))),
        Err(error) => Err(RecordError::system("locking it", path, &error.into())),
    }
}

/// Gives a part its name, durably. Nothing is replaced.
fn rename(from: &Path, to: &Path) -> Result<(), RecordError> {
    let cwd = rustix::fs::CWD;
    match renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // Such a file system cannot be asked for that.
        Err(rustix::io::Errno::INVAL) => {
            let renamed = std::fs::rename(from, to);
            renamed.map_err(|error| RecordError::system("naming a part", to, &error))?;
        }
        Err(rustix::io::Errno::EXIST) => {
            let text = format!("{}: another job has just made this part", to.display());
            return Err(RecordError::Exists(text));
        }
        Err(error) => return Err(RecordError::system("naming a part", to, &error.into())),
    }
    sync_directory(to)
}

/// What has happened to the name of a file is durable.
pub fn sync_directory(path: &Path) -> Result<(), RecordError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| RecordError::system("syncing a directory", directory, &error))
}

/// Opens a file whose parts were all found.
pub fn open(team: &Team, call: &str, found: &Found) -> Result<Opened, RecordError> {
    let seen: Vec<&Sighting> = found.parts.iter().flatten().collect();
    let owned = |seen: &&Sighting| found.owner_of(seen.identity.number) == team.rank();
    let opened: Result<Vec<OwnPart>, RecordError> =
        seen.iter().copied().filter(owned).map(open_part).collect();
    let own = level(team, call, opened, seen.len())?;
    let (maps, mut own) = maps(team, call, own, seen.len())?;
    let map = join(&maps)
        .map_err(|why| RecordError::Damaged(format!("{}: {why}", seen[0].path.display())))?;
    let paths: Vec<PathBuf> = seen.iter().map(|seen| name_of(seen)).collect();
    remember(team, call, &mut own, &maps[0], &paths)?;
    let owner = |(seen, path): (&&Sighting, &PathBuf)| {
        let rank = found.owner_of(seen.identity.number);
        let is_near = found.can_open(team, rank, path, seen.identity);
        Owner::new(rank, path.clone(), seen.identity, is_near)
    };
    let owners = seen.iter().zip(&paths).map(owner).collect();
    Ok(Opened { own, owners, map })
}

/// The path that a part has when it is open.
fn name_of(seen: &Sighting) -> PathBuf {
    if seen.is_new { seen.path.with_extension("") } else { seen.path.clone() }
}

fn open_part(seen: &Sighting) -> Result<OwnPart, RecordError> {
    let file = locked(&seen.path)?;
    let part = Part::open(file).map_err(|error| part_error("reading it", &seen.path, error))?;
    if *part.identity() != seen.identity {
        let text = format!("{}: somebody has just replaced this part", seen.path.display());
        return Err(RecordError::InUse(text));
    }
    let path = name_of(seen);
    if seen.is_new {
        rename(&seen.path, &path)?;
    }
    Ok(OwnPart { number: seen.identity.number, path, part })
}

/// Takes a change back that not all parts have: who made it was stopped before it was over.
fn level(
    team: &Team,
    call: &str,
    own: Result<Vec<OwnPart>, RecordError>,
    parts: usize,
) -> Result<Vec<OwnPart>, RecordError> {
    let (own, told) = match own {
        Ok(own) => {
            let mut told = Vec::new();
            for own in &own {
                put_number(&mut told, own.number.into());
                put_number(&mut told, own.part.map().change);
            }
            (own, Ok(told))
        }
        Err(error) => (Vec::new(), Err(error)),
    };
    let all = agree(team, call, &[], told)?;
    let mut changes = vec![0; parts];
    for told in &all {
        let mut told = Reader(told);
        while let (Some(part), Some(change)) = (told.small(), told.number()) {
            *changes.get_mut(part as usize).ok_or_else(different_versions)? = change;
        }
    }
    let (oldest, newest) = (changes.iter().min(), changes.iter().max());
    let (oldest, newest) = (*oldest.unwrap_or(&0), *newest.unwrap_or(&0));
    let part_with = |wanted: u64| changes.iter().position(|change| *change == wanted);
    if newest - oldest > 1 {
        let (one, other) = (part_with(oldest).unwrap_or(0), part_with(newest).unwrap_or(0));
        return Err(RecordError::Damaged(format!(
            "part {one} of this record file has seen {oldest} changes of its map, part {other} \
             {newest}: an old copy of a part cannot be used with new ones. Put parts back that \
             belong together"
        )));
    }
    if newest == oldest {
        return Ok(own);
    }
    let undo = |own: OwnPart| {
        let OwnPart { number, path, part } = own;
        let part = if part.map().change == newest { part.undo() } else { Ok(part) };
        let part = part.map_err(|error| part_error("undoing a change", &path, error))?;
        Ok(OwnPart { number, path, part })
    };
    let undone: Result<Vec<OwnPart>, RecordError> = own.into_iter().map(undo).collect();
    let (own, told) = match undone {
        Ok(own) => (own, Ok(Vec::new())),
        Err(error) => (Vec::new(), Err(error)),
    };
    agree(team, call, &[], told)?;
    Ok(own)
}

/// The maps of all parts.
fn maps(
    team: &Team,
    call: &str,
    own: Vec<OwnPart>,
    parts: usize,
) -> Result<(Vec<PartMap>, Vec<OwnPart>), RecordError> {
    let mut told = Vec::new();
    for own in &own {
        put_number(&mut told, own.number.into());
        let mut entries = Vec::new();
        own.part.map().entries().iter().for_each(|entry| entry.encode(&mut entries));
        put_bytes(&mut told, &entries);
    }
    let all = agree(team, call, &[], Ok(told))?;
    let mut maps = vec![PartMap::default(); parts];
    for told in &all {
        let mut told = Reader(told);
        while let (Some(part), Some(mut entries)) = (told.small(), told.bytes()) {
            let map = maps.get_mut(part as usize).ok_or_else(different_versions)?;
            while !entries.is_empty() {
                let (entry, rest) = Entry::decode(entries).ok_or_else(different_versions)?;
                map.apply(&entry).map_err(RecordError::Damaged)?;
                entries = rest;
            }
        }
    }
    Ok((maps, own))
}

/// One map of those of all parts; otherwise why they do not belong together.
fn join(maps: &[PartMap]) -> Result<Map, String> {
    let mut map = Map { next: 1, ..Map::default() };
    let Some(first) = maps.first() else { return Ok(map) };
    map.next = maps.iter().map(|map| map.next).max().unwrap_or(1);
    for (number, part) in maps.iter().enumerate() {
        if !part.records.keys().eq(first.records.keys()) {
            return Err(format!("parts 0 and {number} of this file have different records"));
        }
    }
    for (id, whole) in &first.records {
        let blocks: Vec<&Block> = maps.iter().filter_map(|map| map.records.get(id)).collect();
        let mut end = 0_u64;
        for (number, block) in blocks.iter().enumerate() {
            let is_fitting = block.start == end
                && block.total == whole.total
                && block.is_regular == whole.is_regular;
            if !is_fitting {
                return Err(format!("record {id}: the block of part {number} does not fit"));
            }
            end += block.len;
        }
        if end != whole.total {
            return Err(format!("record {id}: it has {end} bytes of {}", whole.total));
        }
        let sizes: Vec<u64> = blocks.iter().map(|block| block.len).collect();
        let offsets = blocks.iter().map(|block| block.offset).collect();
        let record = Record::new(RecordId::of_number(*id), whole.is_regular, &sizes, offsets);
        map.records.insert(*id, Arc::new(record));
    }
    Ok(map)
}

/// Lets each part remember where all are, if they are elsewhere now.
fn remember(
    team: &Team,
    call: &str,
    own: &mut [OwnPart],
    known: &PartMap,
    paths: &[PathBuf],
) -> Result<(), RecordError> {
    let is_new = |(part, path): &(u32, &PathBuf)| {
        known.places.get(part).map(Vec::as_slice) != Some(path.as_os_str().as_bytes())
    };
    let entry =
        |(part, path): (u32, &PathBuf)| Entry::Place(part, path.as_os_str().as_bytes().to_vec());
    let entries: Vec<Entry> = (0..).zip(paths).filter(is_new).map(entry).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let note = |own: &mut OwnPart| {
        let prepared = own.part.prepare(entries.clone());
        prepared
            .and_then(|prepared| own.part.commit(&prepared))
            .map_err(|error| part_error("noting where the parts are", &own.path, error))
    };
    let noted = own.iter_mut().try_for_each(note);
    agree(team, call, &[], noted.map(|()| Vec::new())).map(drop)
}
