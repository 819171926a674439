//! An open record file: what all ranks do together, and who holds what.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use pario_team::{Callback, Mutexes, Team};
use parking_lot::{Mutex, RwLock};

use super::agree::agree;
use super::error::RecordError;
use super::opening::{self, Map, Opened, OwnPart, sync_directory};
use super::owner::Owner;
use super::record::{Holding, Record, RecordId, RecordInfo};
use super::request::{Gate, Passage};
use super::search::{Found, different_versions, part_error};
use super::served;

/// Mutexes that each rank gives for accumulating.
pub(super) const LOCKS: u32 = 64;

/// A record file that is open, as one rank of a team sees it.
///
/// Opening, making and destroying records, [`sync`](Self::sync) and [`close`](Self::close) are
/// collective: all ranks call them, in the same order, with the same arguments. Everything else
/// needs nobody else, and may be called by several threads at once.
///
/// ```
/// use pario_records::RecordFile;
///
/// # let dir = tempfile::tempdir()?;
/// # let team = pario_team::Team::meet("a record file", 1, 0)?;
/// # let path = dir.path().join("state");
/// let file = RecordFile::create(&team, &path)?; // each rank may give another path
/// let matrix = file.create_record(8 * 100)?;
/// file.write(&[7; 16], matrix, 16..32)?;
/// let mut row = [0; 24];
/// file.read(&mut row, matrix, 8..32)?;
/// assert_eq!(row[..8], [0; 8]); // nobody has written there
/// assert_eq!(row[8..], [7; 16]);
/// file.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordFile {
    pub(super) shared: Arc<Shared>,
    /// Held during collective calls.
    pub(super) own: Mutex<Own>,
}

/// What accesses need.
pub(super) struct Shared {
    pub team: Team,
    pub owners: Arc<[Owner]>,
    pub mutexes: Mutexes,
    /// How parts on other machines are reached, if there are any.
    callback: OnceLock<Callback>,
    /// Questions to other machines that are under way.
    pub asked: AtomicUsize,
    pub map: RwLock<Map>,
    pub gate: Arc<Gate>,
}

/// What this rank has to care for.
pub(super) struct Own {
    pub parts: Vec<OwnPart>,
    /// Why the file can be changed no more.
    pub broken: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Open,
    Create,
    Either,
}

impl RecordFile {
    /// Makes a record file, together with all others. Part `r` is a file of rank `r`: its name is
    /// the path that this rank gives, with `.part` and the number behind it.
    pub fn create(team: &Team, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::open_as(team, path.as_ref(), How::Create)
    }

    /// Opens a record file that is there, together with all others, however many they are.
    ///
    /// Every rank gives a path. All parts that are seen there, by whichever rank, are used; parts
    /// that nobody sees are looked for where they were last, as those that were found remember. So
    /// one path with one part is enough for all ranks of a machine, unless parts were moved: then
    /// the paths of all ranks together must lead to all parts. A part belongs to a rank of a machine
    /// that sees it: if all do, part `p` to rank `p` modulo the number of ranks. Parts of a machine
    /// on which no rank runs are missing.
    pub fn open(team: &Team, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::open_as(team, path.as_ref(), How::Open)
    }

    /// Opens a record file, and makes it if no rank sees any part of it.
    pub fn open_or_create(team: &Team, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::open_as(team, path.as_ref(), How::Either)
    }

    fn open_as(team: &Team, path: &Path, how: How) -> Result<Self, RecordError> {
        let call = match how {
            How::Open => "an opening of a record file",
            How::Create => "a making of a record file",
            How::Either => "an opening or making of a record file",
        };
        let found = Found::search(team, call, path)?;
        let Opened { own, owners, map } = if found.parts.is_empty() {
            if how == How::Open {
                let text = format!("{}: no rank sees a part of such a record file", path.display());
                return Err(RecordError::NotFound(text));
            }
            opening::create(team, call, &found)?
        } else {
            if how == How::Create {
                let text = format!("{}: there is such a record file already", path.display());
                return Err(RecordError::Exists(text));
            }
            found.check_complete(path)?;
            opening::open(team, call, &found)?
        };
        let mutexes = team.mutexes(LOCKS)?;
        let team = team.clone();
        let gate = Arc::default();
        let (owners, map, callback) = (owners.into(), RwLock::new(map), OnceLock::new());
        let asked = AtomicUsize::new(0);
        let shared = Arc::new(Shared { team, owners, mutexes, callback, asked, map, gate });
        if !found.are_all_near() {
            // Nobody has opened it before.
            let _ = shared.callback.set(served::serve(&shared)?);
        }
        let own = Own { parts: own, broken: None };
        Ok(Self { shared, own: Mutex::new(own) })
    }

    /// Deletes a record file, together with all others: all its parts that are found, also if some
    /// are missing.
    pub fn delete(team: &Team, path: impl AsRef<Path>) -> Result<(), RecordError> {
        let call = "a deleting of a record file";
        let path = path.as_ref();
        let found = Found::search(team, call, path)?;
        if found.parts.is_empty() {
            let text = format!("{}: no rank sees a part of such a record file", path.display());
            return Err(RecordError::NotFound(text));
        }
        let own: Vec<PathBuf> = (found.parts.iter().flatten())
            .filter(|seen| found.owner_of(seen.identity.number) == team.rank())
            .map(|seen| seen.path.clone())
            .collect();
        let locked: Result<Vec<_>, RecordError> = own.iter().map(|p| opening::locked(p)).collect();
        let told = locked.as_ref().map(|_| Vec::new()).map_err(RecordError::clone);
        // Nothing is removed while somebody has a part of it open.
        agree(team, call, &[], told)?;
        let remove = |path: &PathBuf| {
            let removed = std::fs::remove_file(path);
            removed.map_err(|error| RecordError::system("removing it", path, &error))?;
            sync_directory(path)
        };
        let removed = own.iter().try_for_each(remove);
        agree(team, call, &[], removed.map(|()| Vec::new())).map(drop)
    }

    /// Makes everything durable that was written before by any rank, together with all others.
    /// Accesses of this process that were started before are waited for.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.sync_as("a sync of a record file")
    }

    fn sync_as(&self, call: &str) -> Result<(), RecordError> {
        self.shared.gate.wait_until_empty();
        let mut own = self.own.lock();
        let own = &mut *own;
        let team = &self.shared.team;
        // All have written what they have written before the first one syncs.
        agree(team, call, &[], own.check().map(|()| Vec::new()))?;
        let sync = |own: &mut OwnPart| {
            own.part.sync().map_err(|error| part_error("syncing it", &own.path, error))
        };
        let synced = own.parts.iter_mut().try_for_each(sync);
        let synced = agree(team, call, &[], synced.map(|()| Vec::new()));
        let mark = |own: &mut OwnPart| {
            let marked = own.part.mark();
            marked.map_err(|error| part_error("noting what is complete", &own.path, error))
        };
        let marked = synced.and_then(|_| {
            let marked = own.parts.iter_mut().try_for_each(mark);
            agree(team, call, &[], marked.map(|()| Vec::new()))
        });
        if let Err(error) = marked {
            own.broken.get_or_insert(error.to_string());
            return Err(error);
        }
        Ok(())
    }

    /// Closes the file, together with all others, when everything is durable. What was started is
    /// waited for. The file is closed also if this fails.
    pub fn close(self) -> Result<(), RecordError> {
        self.finish()
    }

    /// What [`close`](Self::close) does, for who cannot give the file away because other threads
    /// have it too. It is closed when the last one has dropped it.
    pub fn finish(&self) -> Result<(), RecordError> {
        self.sync_as("a closing of a record file")?;
        // All have come to it, and nobody needs the parts any more.
        if let Some(callback) = self.shared.callback.get() {
            callback.forget();
        }
        Ok(())
    }

    /// How many parts the file has: as many as processes have made it.
    pub fn parts(&self) -> u32 {
        // There are no more than a team has processes.
        u32::try_from(self.shared.owners.len()).unwrap_or(u32::MAX)
    }

    /// The team.
    pub fn team(&self) -> &Team {
        &self.shared.team
    }

    /// Where a part is, on the machine of the rank that has it.
    pub fn part_path(&self, part: u32) -> Option<&Path> {
        self.shared.owners.get(part as usize).map(|owner| owner.path.as_path())
    }

    /// All records, by number.
    pub fn records(&self) -> Vec<RecordInfo> {
        self.shared.map.read().records.values().map(|record| record.info.clone()).collect()
    }

    /// What is known of a record.
    pub fn record(&self, record: RecordId) -> Result<RecordInfo, RecordError> {
        Ok(self.shared.record(record)?.info.clone())
    }

    /// Which rank holds which bytes of a record: one block for each part, in order.
    ///
    /// ```
    /// # use pario_records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario_team::Team::meet("distribution", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let record = file.create_record_irregular(&[100])?;
    /// for block in file.distribution(record)? {
    ///     println!("rank {} has {} bytes from {} on", block.rank, block.len, block.start);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn distribution(&self, record: RecordId) -> Result<Vec<Holding>, RecordError> {
        let record = self.shared.record(record)?;
        Ok((0..record.parts()).map(|part| self.holding(&record, part)).collect())
    }

    /// The blocks of a record that this rank holds: it reaches them without the disk of another.
    pub fn held_here(&self, record: RecordId) -> Result<Vec<Holding>, RecordError> {
        let mut all = self.distribution(record)?;
        all.retain(|held| held.rank == self.shared.team.rank() && held.len > 0);
        Ok(all)
    }

    /// The block that holds a byte of a record.
    pub fn locate(&self, record: RecordId, position: u64) -> Result<Holding, RecordError> {
        let record = self.shared.record(record)?;
        record.check_byte(position)?;
        Ok(self.holding(&record, record.part_of(position)))
    }

    fn holding(&self, record: &Record, part: usize) -> Holding {
        let (start, len, _) = record.block(part);
        let rank = self.shared.owners[part].rank;
        Holding { part: u32::try_from(part).unwrap_or(u32::MAX), rank, start, len }
    }
}

impl Shared {
    /// What is known of a record, with where everything is.
    pub fn record(&self, record: RecordId) -> Result<Arc<Record>, RecordError> {
        let found = self.map.read().records.get(&record.number()).cloned();
        found.ok_or_else(|| RecordError::NotFound(format!("there is no {record} in this file")))
    }

    /// A record, for an access: it stays while the access is under way.
    pub fn enter(&self, record: RecordId) -> Result<(Arc<Record>, Passage), RecordError> {
        let map = self.map.read();
        let found = map.records.get(&record.number()).cloned();
        let found = found
            .ok_or_else(|| RecordError::NotFound(format!("there is no {record} in this file")))?;
        Ok((found, self.gate.enter()))
    }

    /// How parts on other machines are reached.
    pub fn callback(&self) -> Result<&Callback, RecordError> {
        self.callback.get().ok_or_else(different_versions)
    }

    /// Waits until no access of this process is under way.
    pub fn wait_for_all(&self) {
        self.gate.wait_until_empty();
    }
}

impl Own {
    /// An error if the file can be changed no more.
    pub fn check(&self) -> Result<(), RecordError> {
        match &self.broken {
            None => Ok(()),
            Some(why) => Err(RecordError::Broken(format!(
                "this record file can be changed and synced no more, since that has failed before \
                 ({why}); close it and open it again"
            ))),
        }
    }
}

impl fmt::Debug for RecordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.shared.map.read().records.len();
        write!(f, "RecordFile({records} records in {} parts)", self.shared.owners.len())
    }
}
