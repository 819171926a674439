//! Where the parts of a record file are: all ranks look where they were told to, and where the parts
//! they find remember the others.

use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pario_team::Team;

use super::agree::{Reader, agree, put_bytes, put_number};
use super::error::RecordError;
use super::part::{Identity, PATH_LIMIT, Part, PartError, identity_of};

/// What stands behind the path of a record file in the name of a part, before its number.
const PART: &str = ".part";
/// What stands behind the name of a part that is being made.
const NEW: &str = ".new";

/// A part that some rank sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Who.
    pub rank: u32,
    /// Where.
    pub path: PathBuf,
    pub identity: Identity,
    /// It has not got its name yet.
    pub is_new: bool,
    /// By this a file is known that several machines see.
    mark: FileMark,
}

/// The number of a file in its file system, and when it was made, or changed if that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileMark {
    inode: u64,
    time_ns: u64,
}

/// What all ranks have found together: the same on all of them.
#[derive(Debug)]
pub struct Found {
    /// The path that each rank gave, without links and from the root on.
    pub paths: Vec<PathBuf>,
    /// The machine of each rank, and what files it sees there: who has both in common is near.
    places: Vec<(u32, Vec<u8>)>,
    /// What a file that is made now will be.
    pub id: [u8; 16],
    /// When that is, in seconds since 1970.
    pub now: u64,
    /// The parts, one for each that the file has; none if there is no file.
    pub parts: Vec<Option<Sighting>>,
    /// Ranks that see each part, one for each place.
    seers: Vec<Vec<u32>>,
    /// Everything that was seen, also what has no name yet.
    pub sightings: Vec<Sighting>,
    /// Where each part was last.
    last_places: Vec<PathBuf>,
}

/// The path of a part.
pub fn part_path(path: &Path, number: u32) -> PathBuf {
    with_ending(path, &format!("{PART}{number}"))
}

/// The path of a part that is being made.
pub fn new_path(part: &Path) -> PathBuf {
    with_ending(part, NEW)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Says what an error of a part means, with its path.
pub fn part_error(doing: &str, path: &Path, error: PartError) -> RecordError {
    match error {
        PartError::System(error) => RecordError::system(doing, path, &error),
        PartError::Damaged(why) => {
            let text = format!(
                "{}: {doing}: {why}. Nothing was changed; put the part back from a copy, or delete \
                 the record file",
                path.display()
            );
            RecordError::Damaged(text)
        }
        PartError::Full(why) => RecordError::Invalid(format!("{}: {doing}: {why}", path.display())),
        PartError::Broken => RecordError::Broken(format!(
            "{}: {doing}: a write or a sync of this part has failed before, so that nobody knows \
             what is on the disk; open the file again",
            path.display()
        )),
    }
}

impl Found {
    /// Looks for the parts, together with all others.
    pub fn search(team: &Team, call: &str, path: &Path) -> Result<Self, RecordError> {
        let told = agree(team, call, &[], look(path))?;
        let mut found = Self {
            paths: Vec::new(),
            places: Vec::new(),
            id: [0; 16],
            now: 0,
            parts: Vec::new(),
            seers: Vec::new(),
            sightings: Vec::new(),
            last_places: Vec::new(),
        };
        for (rank, told) in (0..).zip(&told) {
            found.hear(team, rank, told).ok_or_else(different_versions)?;
        }
        found.sort()?;
        if found.parts.iter().any(Option::is_none) {
            found.follow(team, call)?;
            found.sort()?;
        }
        Ok(found)
    }

    /// What a rank has seen at its own path.
    fn hear(&mut self, team: &Team, rank: u32, told: &[u8]) -> Option<()> {
        let mut told = Reader(told);
        let (path, files) = (told.bytes()?, told.bytes()?);
        self.paths.push(path_of(path));
        self.places.push((team.machine_of(rank), files.to_vec()));
        let (id, now) = (told.bytes()?, told.number()?);
        if rank == 0 {
            self.id = *id.first_chunk()?;
            self.now = now;
        }
        self.hear_sightings(rank, &mut told)
    }

    fn hear_sightings(&mut self, rank: u32, told: &mut Reader<'_>) -> Option<()> {
        while !told.0.is_empty() {
            let path = path_of(told.bytes()?);
            let file = *told.bytes()?.first_chunk()?;
            let (number, parts) = (told.small()?, told.small()?);
            let identity = Identity { file, number, parts, created: told.number()? };
            let is_new = told.number()? != 0;
            let mark = FileMark { inode: told.number()?, time_ns: told.number()? };
            self.sightings.push(Sighting { rank, path, identity, is_new, mark });
        }
        Some(())
    }

    /// Finds out which sighting is which part.
    fn sort(&mut self) -> Result<(), RecordError> {
        let Some(first) = self.sightings.iter().find(|seen| !seen.is_new) else {
            self.parts = Vec::new();
            return Ok(());
        };
        let named = || self.sightings.iter().filter(|seen| !seen.is_new);
        let is_other = |seen: &&Sighting| {
            seen.identity.file != first.identity.file || seen.identity.parts != first.identity.parts
        };
        if let Some(other) = named().find(is_other) {
            return Err(RecordError::Invalid(format!(
                "{} (rank {}) and {} (rank {}) are parts of different record files: give each file a \
                 name of its own, and all ranks the same one",
                first.path.display(),
                first.rank,
                other.path.display(),
                other.rank
            )));
        }
        let mut parts: Vec<Option<Sighting>> = vec![None; first.identity.parts as usize];
        let mut seers: Vec<Vec<u32>> = vec![Vec::new(); parts.len()];
        // Parts that have no name yet are complete if another part has got its name.
        let of_file =
            self.sightings.iter().filter(|seen| seen.identity.file == first.identity.file);
        let (unnamed, named): (Vec<_>, Vec<_>) = of_file.partition(|seen| seen.is_new);
        for seen in named.iter().chain(&unnamed) {
            let number = seen.identity.number as usize;
            let Some(place) = parts.get_mut(number) else { continue };
            match place {
                None => *place = Some((*seen).clone()),
                Some(known) if known.is_new == seen.is_new && !self.is_same(known, seen) => {
                    return Err(RecordError::Damaged(format!(
                        "part {} is there twice: {} (rank {}) and {} (rank {}). One of them is a \
                         copy: move it away",
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
            if !seers[number].iter().any(|rank| self.is_near(*rank, seen.rank)) {
                seers[number].push(seen.rank);
            }
        }
        self.parts = parts;
        self.seers = seers;
        Ok(())
    }

    /// Whether two ranks see the same file: it is where both look, and machines that have a file
    /// system in common know it by the same mark.
    fn is_same(&self, one: &Sighting, other: &Sighting) -> bool {
        let files = |seen: &Sighting| &self.places[seen.rank as usize].1;
        one.path == other.path && (files(one) == files(other) || one.mark == other.mark)
    }

    /// Whether two ranks are on the same machine and see the same files there.
    pub fn is_near(&self, one: u32, other: u32) -> bool {
        self.places[one as usize] == self.places[other as usize]
    }

    /// Whether this process can open a part of a rank itself: it is on its machine, and sees that
    /// file there, if perhaps not the same others.
    pub fn can_open(&self, team: &Team, rank: u32, path: &Path, identity: Identity) -> bool {
        self.is_near(rank, team.rank())
            || (team.is_near(rank) && read_identity(path).is_ok_and(|seen| seen.0 == identity))
    }

    /// Whether all ranks are.
    pub fn are_all_near(&self) -> bool {
        self.places.iter().all(|place| *place == self.places[0])
    }

    /// Looks for parts that are missing where they were last.
    fn follow(&mut self, team: &Team, call: &str) -> Result<(), RecordError> {
        let Some(first) = self.parts.iter().flatten().next().cloned() else { return Ok(()) };
        let told = if first.rank == team.rank() { places_in(&first.path) } else { Ok(Vec::new()) };
        let told = agree(team, call, &[], told)?;
        let mut places = Reader(&told[first.rank as usize]);
        while !places.0.is_empty() {
            self.last_places.push(path_of(places.bytes().ok_or_else(different_versions)?));
        }
        let missing = self.parts.iter().zip(&self.last_places).filter(|(seen, _)| seen.is_none());
        let mut told = Vec::new();
        for (_, place) in missing {
            for (path, is_new) in [(place.clone(), false), (new_path(place), true)] {
                if let Ok(seen) = read_identity(&path) {
                    put_sighting(&mut told, &path, &seen, is_new);
                }
            }
        }
        let told = agree(team, call, &[], Ok(told))?;
        let file = first.identity.file;
        for (rank, told) in (0..).zip(&told) {
            let known = self.sightings.len();
            self.hear_sightings(rank, &mut Reader(told)).ok_or_else(different_versions)?;
            // Another file may have taken the place.
            let seen = self.sightings.split_off(known);
            self.sightings.extend(seen.into_iter().filter(|seen| seen.identity.file == file));
        }
        Ok(())
    }

    /// An error if parts are missing, which says where they were last.
    pub fn check_complete(&self, path: &Path) -> Result<(), RecordError> {
        let missing: Vec<String> = (self.parts.iter().enumerate())
            .filter(|(_, seen)| seen.is_none())
            .map(|(number, _)| match self.last_places.get(number) {
                Some(place) => format!("part {number}, which was last at {}", place.display()),
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
             let a rank that sees them give their path; parts on another machine need a process \
             there",
            path.display(),
            self.parts.len()
        )))
    }

    /// The rank that has a part that was found: those of machines that see it take turns.
    pub fn owner_of(&self, part: u32) -> u32 {
        let seers = &self.seers[part as usize];
        let sees = |rank: &u32| seers.iter().any(|seer| self.is_near(*seer, *rank));
        let ranks = (0..).zip(&self.paths).map(|(rank, _)| rank);
        let ranks: Vec<u32> = ranks.filter(sees).collect();
        ranks[part as usize % ranks.len()]
    }
}

/// Where the parts of a file were last, as one of them remembers.
fn places_in(path: &Path) -> Result<Vec<u8>, RecordError> {
    let opened = File::open(path).map_err(PartError::System).and_then(Part::open);
    let part = opened.map_err(|error| part_error("reading it", path, error))?;
    let mut told = Vec::new();
    for number in 0..part.identity().parts {
        put_bytes(&mut told, part.map().places.get(&number).map_or(&[], Vec::as_slice));
    }
    Ok(told)
}

/// What is at the path that this rank was given.
fn look(path: &Path) -> Result<Vec<u8>, RecordError> {
    let shown = path.display();
    let Some(name) = path.file_name() else {
        let text = format!("{shown:?} is no path of a record file: it must end with a name");
        return Err(RecordError::Invalid(text));
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let directory = directory.canonicalize().map_err(|error| {
        RecordError::system("looking for the directory of a record file", directory, &error)
    })?;
    let path = directory.join(name);
    if path.as_os_str().len() + 32 > PATH_LIMIT {
        return Err(RecordError::Invalid(format!("{shown}: a path of a record file is too long")));
    }
    let mut told = Vec::new();
    put_bytes(&mut told, path.as_os_str().as_bytes());
    put_bytes(&mut told, &seen_files());
    put_bytes(&mut told, &new_id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    put_number(&mut told, now.map_or(0, |now| now.as_secs()));
    let wrong = |error| RecordError::system("looking for parts", &directory, &error);
    for entry in directory.read_dir().map_err(wrong)? {
        let entry = entry.map_err(wrong)?.file_name();
        let Some(is_new) = part_name(name.as_bytes(), entry.as_bytes()) else { continue };
        let path = directory.join(&entry);
        match read_identity(&path) {
            Ok(seen) => put_sighting(&mut told, &path, &seen, is_new),
            // Whoever made it has been stopped.
            Err(_) if is_new => {}
            Err(error) => return Err(part_error("looking at it", &path, error)),
        }
    }
    Ok(told)
}

/// Whether a name is that of a part of a file, and if so, whether the part is being made.
fn part_name(file: &[u8], name: &[u8]) -> Option<bool> {
    let number = name.strip_prefix(file)?.strip_prefix(PART.as_bytes())?;
    let whole = number.strip_suffix(NEW.as_bytes());
    let digits = whole.unwrap_or(number);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then_some(whole.is_some())
}

fn read_identity(path: &Path) -> Result<(Identity, FileMark), PartError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let time = metadata.created().or_else(|_| metadata.modified())?;
    let time_ns = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let time_ns = u64::try_from(time_ns).unwrap_or(0);
    Ok((identity_of(&file)?, FileMark { inode: metadata.ino(), time_ns }))
}

fn put_sighting(told: &mut Vec<u8>, path: &Path, seen: &(Identity, FileMark), is_new: bool) {
    let (identity, mark) = seen;
    put_bytes(told, path.as_os_str().as_bytes());
    put_bytes(told, &identity.file);
    for number in [identity.number.into(), identity.parts.into(), identity.created, is_new.into()] {
        put_number(told, number);
    }
    put_number(told, mark.inode);
    put_number(told, mark.time_ns);
}

/// A name that processes have in common that see the same files.
fn seen_files() -> Vec<u8> {
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
            // It never fails for so few bytes on a system that has started.
            Err(_) => break,
        }
    }
    id
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

/// Ranks that do not understand each other.
pub fn different_versions() -> RecordError {
    let text = "the processes of the job run different versions of Pario: build all alike";
    RecordError::Invalid(text.to_owned())
}
