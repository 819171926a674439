//! The search for the parts of a record file. All ranks look at the paths that they were given, and
//! then at the last known paths that the found parts store.

use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pario_team::Team;

use super::collective::{MessageReader, agree, different_versions, put_bytes, put_number};
use super::error::RecordError;
use super::part::{PATH_LIMIT, Part, PartError, PartIdentity, identity_of};

/// The text between the path of a record file and the number of a part.
const PART: &str = ".part";
/// The name of a record file whose path is a directory.
const NAME_IN_DIRECTORY: &str = "gio";
/// The ending of the temporary name of a part that is being created.
const NEW: &str = ".new";

/// A part that a rank has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPart {
    /// The rank that has found it.
    pub rank: u32,
    pub path: PathBuf,
    pub identity: PartIdentity,
    /// Whether it still has its temporary name.
    pub is_new: bool,
    /// Identifies a file that several machines see.
    stamp: InodeStamp,
}

/// The inode number of a file, and its time of creation (of its last change, if the file system does
/// not store that).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InodeStamp {
    inode: u64,
    time_ns: u64,
}

/// What all ranks have found together: the same on all of them.
#[derive(Debug)]
pub struct PartSearch {
    /// The absolute path that each rank gave, without symbolic links.
    pub paths: Vec<PathBuf>,
    /// The machine of each rank, and the files that it sees there. Ranks with the same two are local
    /// to each other.
    locations: Vec<(u32, Vec<u8>)>,
    /// The id of the record file, if this call creates it.
    pub id: [u8; 16],
    /// The time of its creation, in seconds since 1970.
    pub now: u64,
    /// For each part of the file, where it was found; empty if the file does not exist.
    pub parts: Vec<Option<SeenPart>>,
    /// For each part, one rank of each location that sees it.
    finders: Vec<Vec<u32>>,
    /// Everything that the ranks have found, also parts with temporary names.
    seen: Vec<SeenPart>,
    /// The last known path of each part.
    last_paths: Vec<PathBuf>,
}

/// The path of a part.
pub fn part_path(path: &Path, number: u32) -> PathBuf {
    with_ending(path, &format!("{PART}{number}"))
}

/// The temporary path of a part that is being created.
pub fn new_path(part: &Path) -> PathBuf {
    with_ending(part, NEW)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Turns an error of a part into one of the record file. `doing` names the step that failed.
pub fn part_error(doing: &str, path: &Path, error: PartError) -> RecordError {
    match error {
        PartError::System(error) => RecordError::system(doing, path, &error),
        PartError::Damaged(why) => {
            let text = format!(
                "{}: {doing}: {why}. No part was changed; put the part back from a copy, or delete \
                 the record file",
                path.display()
            );
            RecordError::Damaged(text)
        }
        PartError::Full(why) => RecordError::Invalid(format!("{}: {doing}: {why}", path.display())),
        PartError::Broken => RecordError::Broken(format!(
            "{}: {doing}: an earlier write or sync of this part has failed, so that the content of \
             the disk is unknown; close the record file and open it again",
            path.display()
        )),
    }
}

impl PartSearch {
    /// Searches for the parts. Collective.
    pub fn search(team: &Team, call: &str, path: &Path) -> Result<Self, RecordError> {
        let messages = agree(team, call, &[], look_at(path))?;
        let mut found = Self {
            paths: Vec::new(),
            locations: Vec::new(),
            id: [0; 16],
            now: 0,
            parts: Vec::new(),
            finders: Vec::new(),
            seen: Vec::new(),
            last_paths: Vec::new(),
        };
        for (rank, message) in (0..).zip(&messages) {
            found.add_rank(team, rank, message).ok_or_else(different_versions)?;
        }
        found.assign_parts()?;
        if found.parts.iter().any(Option::is_none) {
            found.search_last_paths(team, call)?;
            found.assign_parts()?;
        }
        Ok(found)
    }

    /// Adds what a rank has found at its path; `None` if the message is not one.
    fn add_rank(&mut self, team: &Team, rank: u32, message: &[u8]) -> Option<()> {
        let mut message = MessageReader(message);
        let (path, files) = (message.bytes()?, message.bytes()?);
        self.paths.push(path_of(path));
        self.locations.push((team.machine_of(rank), files.to_vec()));
        let (id, now) = (message.bytes()?, message.number()?);
        if rank == 0 {
            self.id = *id.first_chunk()?;
            self.now = now;
        }
        self.add_seen(rank, &mut message)
    }

    fn add_seen(&mut self, rank: u32, message: &mut MessageReader<'_>) -> Option<()> {
        while !message.0.is_empty() {
            let path = path_of(message.bytes()?);
            let file = *message.bytes()?.first_chunk()?;
            let (number, parts) = (message.small()?, message.small()?);
            let identity = PartIdentity { file, number, parts, created: message.number()? };
            let is_new = message.number()? != 0;
            let stamp = InodeStamp { inode: message.number()?, time_ns: message.number()? };
            self.seen.push(SeenPart { rank, path, identity, is_new, stamp });
        }
        Some(())
    }

    /// Finds out which found file is which part.
    fn assign_parts(&mut self) -> Result<(), RecordError> {
        let Some(first) = self.seen.iter().find(|seen| !seen.is_new) else {
            self.parts = Vec::new();
            return Ok(());
        };
        let named = || self.seen.iter().filter(|seen| !seen.is_new);
        let is_other = |seen: &&SeenPart| {
            seen.identity.file != first.identity.file || seen.identity.parts != first.identity.parts
        };
        if let Some(other) = named().find(is_other) {
            return Err(RecordError::Invalid(format!(
                "{} (rank {}) and {} (rank {}) are parts of different record files; give each record \
                 file a name of its own, and let all ranks open the same one",
                first.path.display(),
                first.rank,
                other.path.display(),
                other.rank
            )));
        }
        let mut parts: Vec<Option<SeenPart>> = vec![None; first.identity.parts as usize];
        let mut finders: Vec<Vec<u32>> = vec![Vec::new(); parts.len()];
        // If one part has its final name, those with temporary names are whole as well.
        let of_file = self.seen.iter().filter(|seen| seen.identity.file == first.identity.file);
        let (unnamed, named): (Vec<_>, Vec<_>) = of_file.partition(|seen| seen.is_new);
        for seen in named.iter().chain(&unnamed) {
            let number = seen.identity.number as usize;
            let Some(part) = parts.get_mut(number) else { continue };
            match part {
                None => *part = Some((*seen).clone()),
                Some(known) if known.is_new == seen.is_new && !self.is_same(known, seen) => {
                    return Err(RecordError::Damaged(format!(
                        "part {} of the record file exists twice: {} (rank {}) and {} (rank {}). One \
                         of them is a copy; move it away",
                        seen.identity.number,
                        known.path.display(),
                        known.rank,
                        seen.path.display(),
                        seen.rank
                    )));
                }
                Some(known) if known.is_new != seen.is_new => continue,
                Some(_) => {}
            }
            if !finders[number].iter().any(|rank| self.is_local(*rank, seen.rank)) {
                finders[number].push(seen.rank);
            }
        }
        self.parts = parts;
        self.finders = finders;
        Ok(())
    }

    /// Whether two ranks have found the same file: both found it at the same path, and machines that
    /// share a file system give it the same stamp.
    fn is_same(&self, one: &SeenPart, other: &SeenPart) -> bool {
        let files = |seen: &SeenPart| &self.locations[seen.rank as usize].1;
        one.path == other.path && (files(one) == files(other) || one.stamp == other.stamp)
    }

    /// Whether two ranks are on the same machine and see the same files there.
    fn is_local(&self, one: u32, other: u32) -> bool {
        self.locations[one as usize] == self.locations[other as usize]
    }

    /// Whether this process can open a part of a rank itself: it runs on the rank's machine and sees
    /// that file, even if it does not see all the same files.
    pub fn can_open(&self, team: &Team, rank: u32, path: &Path, identity: PartIdentity) -> bool {
        self.is_local(rank, team.rank())
            || (team.is_near(rank) && read_identity(path).is_ok_and(|seen| seen.0 == identity))
    }

    /// Whether all ranks are on one machine and see the same files.
    pub fn are_all_local(&self) -> bool {
        self.locations.iter().all(|location| *location == self.locations[0])
    }

    /// Looks for missing parts at their last known paths.
    fn search_last_paths(&mut self, team: &Team, call: &str) -> Result<(), RecordError> {
        let Some(first) = self.parts.iter().flatten().next().cloned() else { return Ok(()) };
        let result = match first.rank == team.rank() {
            true => last_paths_in(&first.path),
            false => Ok(Vec::new()),
        };
        let messages = agree(team, call, &[], result)?;
        let mut paths = MessageReader(&messages[first.rank as usize]);
        while !paths.0.is_empty() {
            self.last_paths.push(path_of(paths.bytes().ok_or_else(different_versions)?));
        }
        let missing = self.parts.iter().zip(&self.last_paths).filter(|(seen, _)| seen.is_none());
        let mut message = Vec::new();
        for (_, last_path) in missing {
            for (path, is_new) in [(last_path.clone(), false), (new_path(last_path), true)] {
                if let Ok(seen) = read_identity(&path) {
                    put_seen(&mut message, &path, &seen, is_new);
                }
            }
        }
        let messages = agree(team, call, &[], Ok(message))?;
        let file = first.identity.file;
        for (rank, message) in (0..).zip(&messages) {
            let known = self.seen.len();
            self.add_seen(rank, &mut MessageReader(message)).ok_or_else(different_versions)?;
            // A part of another record file may have taken the path.
            let seen = self.seen.split_off(known);
            self.seen.extend(seen.into_iter().filter(|seen| seen.identity.file == file));
        }
        Ok(())
    }

    /// Fails if parts are missing, and names their last known paths.
    pub fn check_complete(&self, path: &Path) -> Result<(), RecordError> {
        let missing: Vec<String> = (self.parts.iter().enumerate())
            .filter(|(_, seen)| seen.is_none())
            .map(|(number, _)| match self.last_paths.get(number) {
                Some(path) => format!("part {number}, which was last at {}", path.display()),
                None => format!("part {number}"),
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let shown = missing.iter().take(8).cloned().collect::<Vec<_>>().join("; ");
        let more = missing.len().saturating_sub(8);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        Err(RecordError::NotFound(format!(
            "{}: of {} parts of this record file these are missing: {shown}{more}. Put them back, or \
             let a rank give the path where they are now; for parts on another machine, run a \
             process there",
            path.display(),
            self.parts.len()
        )))
    }

    /// The rank that has a found part: the ranks of the locations that see it take turns.
    pub fn owner_of(&self, part: u32) -> u32 {
        let finders = &self.finders[part as usize];
        let sees = |rank: &u32| finders.iter().any(|finder| self.is_local(*finder, *rank));
        let ranks = (0..).zip(&self.paths).map(|(rank, _)| rank);
        let ranks: Vec<u32> = ranks.filter(sees).collect();
        ranks[part as usize % ranks.len()]
    }
}

/// Reads the last known paths of all parts from one of them.
fn last_paths_in(path: &Path) -> Result<Vec<u8>, RecordError> {
    let opened = File::open(path).map_err(PartError::System).and_then(Part::open);
    let part = opened.map_err(|error| part_error("reading it", path, error))?;
    let mut message = Vec::new();
    for number in 0..part.identity().parts {
        put_bytes(&mut message, part.map().last_paths.get(&number).map_or(&[], Vec::as_slice));
    }
    Ok(message)
}

/// Looks for parts at the path that this rank was given, and encodes them for the others.
fn look_at(path: &Path) -> Result<Vec<u8>, RecordError> {
    let shown = path.display();
    let path = &if path.is_dir() { path.join(NAME_IN_DIRECTORY) } else { path.to_owned() };
    let Some(name) = path.file_name() else {
        return Err(RecordError::Invalid(format!(
            "{shown}: this is not the path of a record file, because it ends without a name; add a \
             name to the directory"
        )));
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let directory = directory.canonicalize().map_err(|error| {
        RecordError::system("opening the directory of the record file", directory, &error)
    })?;
    let path = directory.join(name);
    if path.as_os_str().len() + 32 > PATH_LIMIT {
        return Err(RecordError::Invalid(format!(
            "{shown}: the path of this record file has {} bytes, and at most {} are possible; give a \
             shorter one",
            path.as_os_str().len(),
            PATH_LIMIT - 32
        )));
    }
    let mut message = Vec::new();
    put_bytes(&mut message, path.as_os_str().as_bytes());
    put_bytes(&mut message, &visible_files());
    put_bytes(&mut message, &new_id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    put_number(&mut message, now.map_or(0, |now| now.as_secs()));
    let wrong = |error| RecordError::system("looking for parts", &directory, &error);
    for entry in directory.read_dir().map_err(wrong)? {
        let entry = entry.map_err(wrong)?.file_name();
        let Some(is_new) = part_name(name.as_bytes(), entry.as_bytes()) else { continue };
        let path = directory.join(&entry);
        match read_identity(&path) {
            Ok(seen) => put_seen(&mut message, &path, &seen, is_new),
            // The job that created it was stopped before the part was whole.
            Err(_) if is_new => {}
            Err(error) => return Err(part_error("reading its superblock", &path, error)),
        }
    }
    Ok(message)
}

/// Whether a file name is that of a part; if so, whether it is a temporary one.
fn part_name(file: &[u8], name: &[u8]) -> Option<bool> {
    let number = name.strip_prefix(file)?.strip_prefix(PART.as_bytes())?;
    let whole = number.strip_suffix(NEW.as_bytes());
    let digits = whole.unwrap_or(number);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some(whole.is_some())
}

fn read_identity(path: &Path) -> Result<(PartIdentity, InodeStamp), PartError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let time = metadata.created().or_else(|_| metadata.modified())?;
    let time_ns = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let time_ns = u64::try_from(time_ns).unwrap_or(0);
    Ok((identity_of(&file)?, InodeStamp { inode: metadata.ino(), time_ns }))
}

fn put_seen(message: &mut Vec<u8>, path: &Path, seen: &(PartIdentity, InodeStamp), is_new: bool) {
    let (identity, stamp) = seen;
    put_bytes(message, path.as_os_str().as_bytes());
    put_bytes(message, &identity.file);
    for number in [identity.number.into(), identity.parts.into(), identity.created, is_new.into()] {
        put_number(message, number);
    }
    put_number(message, stamp.inode);
    put_number(message, stamp.time_ns);
}

/// The boot and the mount namespace: equal in processes that see the same files.
fn visible_files() -> Vec<u8> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mounts = std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    [boot, mounts.into_os_string().into_vec()].concat()
}

fn new_id() -> [u8; 16] {
    let mut id = [0; 16];
    let mut done = 0;
    while done < id.len() {
        match rustix::rand::getrandom(&mut id[done..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => done += more,
            Err(rustix::io::Errno::INTR) => {}
            // `getrandom` does not fail for 16 bytes once the system has started.
            Err(_) => break,
        }
    }
    id
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}
