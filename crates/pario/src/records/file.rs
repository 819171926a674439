//! An open record file: what all ranks do together, and who holds what.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pario_team::{Mutexes, Team};
use parking_lot::{Mutex, RwLock};

use super::agree::{Reader, agree, put_number};
use super::error::RecordError;
use super::opening::{self, Map, Opened, OwnPart, sync_directory};
use super::owner::Owner;
use super::part::{Block, Entry, LAST_RECORD, Prepared};
use super::record::{Holding, NewRecord, Record, RecordId, RecordInfo, sizes_of};
use super::request::{Gate, Passage};
use super::search::{Found, different_versions, part_error};

/// Mutexes that each rank gives for accumulating.
pub(super) const LOCKS: u32 = 64;

/// A record file that is open, as one rank of a team sees it.
///
/// Opening, making and destroying records, [`sync`](Self::sync) and [`close`](Self::close) are
/// collective: all ranks call them, in the same order, with the same arguments. Everything else
/// needs nobody else, and may be called by several threads at once.
///
/// ```
/// use pario::records::RecordFile;
///
/// # let dir = tempfile::tempdir()?;
/// # let team = pario::team::Team::meet("a record file", 1, 0)?;
/// # let path = dir.path().join("state");
/// let file = RecordFile::create(&team, &path)?; // each rank may give another path
/// let matrix = file.create_record(8 * 100)?;
/// file.write(matrix, 16..=31, &[7; 16])?;
/// let mut row = [0; 24];
/// file.read(matrix, 8..=31, &mut row)?;
/// assert_eq!(row[..8], [0; 8]); // nobody has written there
/// assert_eq!(row[8..], [7; 16]);
/// file.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordFile {
    pub(super) shared: Arc<Shared>,
    /// Held during collective calls.
    own: Mutex<Own>,
}

/// What accesses need.
pub(super) struct Shared {
    pub team: Team,
    pub owners: Vec<Owner>,
    pub mutexes: Mutexes,
    map: RwLock<Map>,
    gate: Arc<Gate>,
}

/// What this rank has to care for.
struct Own {
    parts: Vec<OwnPart>,
    /// Why the file can be changed no more.
    broken: Option<String>,
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
    /// the paths of all ranks together must lead to all parts. Part `p` belongs to rank `p` modulo
    /// the number of ranks.
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
        let shared = Shared { team, owners, mutexes, map: RwLock::new(map), gate };
        let own = Own { parts: own, broken: None };
        Ok(Self { shared: Arc::new(shared), own: Mutex::new(own) })
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
            .filter(|seen| found.owner_of(seen) == team.rank())
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

    /// Makes a record of so many bytes, cut evenly over all parts, together with all others. They
    /// are zero. It is durable when this returns.
    pub fn create_record(&self, len: u64) -> Result<RecordId, RecordError> {
        self.create_one(NewRecord::Regular(len))
    }

    /// Makes a record with one block in each part, of these sizes, together with all others.
    pub fn create_record_irregular(&self, sizes: &[u64]) -> Result<RecordId, RecordError> {
        self.create_one(NewRecord::Irregular(sizes.to_vec()))
    }

    fn create_one(&self, new: NewRecord) -> Result<RecordId, RecordError> {
        let made = self.create_records(&[new])?;
        made.first().copied().ok_or_else(different_versions)
    }

    /// Makes any number of records at once, together with all others: all of them, or none. It costs
    /// one sync, however many they are.
    ///
    /// ```
    /// use pario::records::{NewRecord, RecordFile};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario::team::Team::meet("many records", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let steps = file.create_records(&vec![NewRecord::Regular(4096); 1000])?;
    /// assert_eq!(file.records().len(), 1000);
    /// file.destroy_records(&steps[..999])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_records(&self, new: &[NewRecord]) -> Result<Vec<RecordId>, RecordError> {
        let call = match new {
            [NewRecord::Regular(len)] => format!("a making of a record of {len} bytes"),
            [NewRecord::Irregular(sizes)] => {
                format!("a making of an irregular record of {} blocks", sizes.len())
            }
            many => format!("a making of {} records", many.len()),
        };
        let mut arguments = Vec::new();
        for new in new {
            let sizes = match new {
                NewRecord::Regular(len) => std::slice::from_ref(len),
                NewRecord::Irregular(sizes) => sizes,
            };
            put_number(&mut arguments, u64::from(matches!(new, NewRecord::Regular(_))));
            put_number(&mut arguments, sizes.len() as u64);
            sizes.iter().for_each(|size| put_number(&mut arguments, *size));
        }
        let parts = self.parts();
        let sizes: Result<Vec<Vec<u64>>, RecordError> =
            new.iter().map(|new| sizes_of(new, parts)).collect();
        let mut own = self.own.lock();
        let first = self.shared.map.read().next;
        let prepare = |own: &mut Vec<OwnPart>| {
            let sizes = sizes.as_ref().map_err(RecordError::clone)?;
            if first + new.len() as u64 > LAST_RECORD + 1 {
                let text = format!("this file has had {LAST_RECORD} records, and can have no more");
                return Err(RecordError::Invalid(text));
            }
            let blocks = |part: usize| {
                let block = |((id, sizes), new): ((u64, &Vec<u64>), &NewRecord)| {
                    let is_regular = matches!(new, NewRecord::Regular(_));
                    let (total, start) = (sizes.iter().sum(), sizes[..part].iter().sum());
                    (id, Block { is_regular, total, start, len: sizes[part], offset: 0 })
                };
                (first..).zip(sizes).zip(new).map(block).collect::<Vec<_>>()
            };
            prepare_all(own, |own| {
                let (prepared, offsets) = own.part.prepare_records(&blocks(own.number as usize))?;
                let mut told = Vec::new();
                put_number(&mut told, own.number.into());
                offsets.iter().for_each(|offset| put_number(&mut told, *offset));
                Ok((prepared, told))
            })
        };
        let told = self.change(&mut own, &call, &arguments, prepare, || ())?;
        let mut offsets = vec![vec![0; parts as usize]; new.len()];
        for told in &told {
            let mut told = Reader(told);
            while let Some(part) = told.small() {
                for offsets in &mut offsets {
                    let place = offsets.get_mut(part as usize).ok_or_else(different_versions)?;
                    *place = told.number().ok_or_else(different_versions)?;
                }
            }
        }
        let mut map = self.shared.map.write();
        let mut made = Vec::new();
        for (((id, new), sizes), offsets) in (first..).zip(new).zip(&sizes?).zip(offsets) {
            let is_regular = matches!(new, NewRecord::Regular(_));
            let record = Record::new(RecordId::of_number(id), is_regular, sizes, offsets);
            made.push(record.info.id);
            map.records.insert(id, Arc::new(record));
        }
        map.next = first + new.len() as u64;
        Ok(made)
    }

    /// Destroys a record, together with all others. Accesses of this process that were started
    /// before are waited for. Its space is used again.
    pub fn destroy_record(&self, record: RecordId) -> Result<(), RecordError> {
        self.destroy_records(&[record])
    }

    /// Destroys any number of records at once, together with all others: all of them, or none.
    pub fn destroy_records(&self, records: &[RecordId]) -> Result<(), RecordError> {
        let call = match records {
            [one] => format!("a destroying of {one}"),
            many => format!("a destroying of {} records", many.len()),
        };
        let mut arguments = Vec::new();
        records.iter().for_each(|record| put_number(&mut arguments, record.number()));
        let mut blocks = Vec::new();
        let prepare = |own: &mut Vec<OwnPart>| {
            let mut sorted = records.to_vec();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                let text = format!("{} is to be destroyed twice", pair[0]);
                return Err(RecordError::Invalid(text));
            }
            for record in records {
                self.shared.record(*record)?;
            }
            prepare_all(own, |own| {
                let known = &own.part.map().records;
                let gone = records.iter().filter_map(|record| known.get(&record.number()).copied());
                blocks.push(gone.collect::<Vec<Block>>());
                let entries = records.iter().map(|record| Entry::Gone(record.number())).collect();
                Ok((own.part.prepare(entries)?, Vec::new()))
            })
        };
        // From the agreement on nobody begins an access; what has begun is over before all say that
        // they are done.
        let shut = || {
            let mut map = self.shared.map.write();
            records.iter().for_each(|record| drop(map.records.remove(&record.number())));
            drop(map);
            self.shared.gate.wait_until_empty();
        };
        let mut own = self.own.lock();
        self.change(&mut own, &call, &arguments, prepare, shut)?;
        for (own, blocks) in own.parts.iter_mut().zip(&blocks) {
            own.part.release(blocks);
        }
        Ok(())
    }

    /// A change of the map, in all parts or in none. `prepare` finds out whether it can be done, and
    /// what the others must know; `agreed` is called when all have said that it can.
    fn change(
        &self,
        own: &mut Own,
        call: &str,
        arguments: &[u8],
        prepare: impl FnOnce(&mut Vec<OwnPart>) -> Result<(Vec<Prepared>, Vec<u8>), RecordError>,
        agreed: impl FnOnce(),
    ) -> Result<Vec<Vec<u8>>, RecordError> {
        let team = &self.shared.team;
        let prepared = own.check().and_then(|()| prepare(&mut own.parts));
        let (prepared, told) = match prepared {
            Ok((prepared, told)) => (prepared, Ok(told)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let told = match agree(team, call, arguments, told) {
            Ok(told) => told,
            Err(error) => {
                for (own, prepared) in own.parts.iter_mut().zip(&prepared) {
                    own.part.abandon(prepared);
                }
                return Err(error);
            }
        };
        agreed();
        let commit = |(own, prepared): (&mut OwnPart, &Prepared)| {
            let committed = own.part.commit(prepared);
            committed.map_err(|error| part_error("changing the map", &own.path, error))
        };
        let committed = own.parts.iter_mut().zip(&prepared).try_for_each(commit);
        if let Err(error) = agree(team, call, arguments, committed.map(|()| Vec::new())) {
            own.broken = Some(error.to_string());
            return Err(error);
        }
        Ok(told)
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
        self.sync_as("a closing of a record file")
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
    /// # use pario::records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario::team::Team::meet("distribution", 1, 0)?;
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
        record.check(&RangeInclusive::new(position, position))?;
        Ok(self.holding(&record, record.part_of(position)))
    }

    fn holding(&self, record: &Record, part: usize) -> Holding {
        let (start, len, _) = record.block(part);
        let rank = self.shared.owners[part].rank;
        Holding { part: u32::try_from(part).unwrap_or(u32::MAX), rank, start, len }
    }
}

impl Shared {
    fn record(&self, record: RecordId) -> Result<Arc<Record>, RecordError> {
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

    /// Waits until no access of this process is under way.
    pub fn wait_for_all(&self) {
        self.gate.wait_until_empty();
    }
}

impl Own {
    fn check(&self) -> Result<(), RecordError> {
        match &self.broken {
            None => Ok(()),
            Some(why) => Err(RecordError::Broken(format!(
                "this record file can be changed and synced no more, since that has failed before \
                 ({why}); close it and open it again"
            ))),
        }
    }
}

/// Prepares a change in all own parts, or in none.
fn prepare_all(
    own: &mut [OwnPart],
    mut prepare: impl FnMut(&mut OwnPart) -> Result<(Prepared, Vec<u8>), super::part::PartError>,
) -> Result<(Vec<Prepared>, Vec<u8>), RecordError> {
    let mut all: Vec<Prepared> = Vec::new();
    let mut told = Vec::new();
    for number in 0..own.len() {
        match prepare(&mut own[number]) {
            Ok((prepared, more)) => {
                all.push(prepared);
                told.extend_from_slice(&more);
            }
            Err(error) => {
                for (own, prepared) in own.iter_mut().zip(&all) {
                    own.part.abandon(prepared);
                }
                return Err(part_error("changing the map", &own[number].path, error));
            }
        }
    }
    Ok((all, told))
}

impl fmt::Debug for RecordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.shared.map.read().records.len();
        write!(f, "RecordFile({records} records in {} parts)", self.shared.owners.len())
    }
}
