//! Creates and destroys records. All ranks change their maps together, in all parts or in none.

use std::sync::Arc;

use super::collective::{MessageReader, agree, different_versions, put_number};
use super::error::RecordError;
use super::file::{OwnParts, RecordFile};
use super::open_parts::OwnPart;
use super::part::{LAST_RECORD, MapEntry, PartError, PreparedChange, RecordBlock};
use super::part_search::part_error;
use super::record::{NewRecord, Record, RecordId, sizes_of};

impl RecordFile {
    /// Creates a record of `len` zero bytes in even blocks over all parts. Collective. The record is
    /// durable when this returns.
    pub fn create_record(&self, len: u64) -> Result<RecordId, RecordError> {
        self.create_one(NewRecord::Regular(len))
    }

    /// Creates a record whose block in part `i` has `sizes[i]` bytes; parts without a size have no
    /// byte of it. Collective.
    pub fn create_record_irregular(&self, sizes: &[u64]) -> Result<RecordId, RecordError> {
        self.create_one(NewRecord::Irregular(sizes.to_vec()))
    }

    fn create_one(&self, new: NewRecord) -> Result<RecordId, RecordError> {
        let created = self.create_records(&[new])?;
        created.first().copied().ok_or_else(different_versions)
    }

    /// Creates any number of records at once: all of them, or none. Collective. The call costs one
    /// sync for any number of records.
    ///
    /// ```
    /// use pario_records::{NewRecord, RecordFile};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario_team::Team::meet("many records", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let steps = file.create_records(&vec![NewRecord::Regular(4096); 1000])?;
    /// assert_eq!(file.records().len(), 1000);
    /// file.destroy_records(&steps[..999])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_records(&self, new: &[NewRecord]) -> Result<Vec<RecordId>, RecordError> {
        let call = match new {
            [NewRecord::Regular(len)] => format!("create_record of {len} bytes"),
            [NewRecord::Irregular(sizes)] => {
                format!("create_record_irregular of {} blocks", sizes.len())
            }
            many => format!("create_records of {} records", many.len()),
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
        let first = self.file.map.read().next;
        let prepare = |own: &mut Vec<OwnPart>| {
            let sizes = sizes.as_ref().map_err(RecordError::clone)?;
            if first + new.len() as u64 > LAST_RECORD + 1 {
                return Err(RecordError::Invalid(format!(
                    "creating {} records: the record file has given {} of its {LAST_RECORD} record \
                     numbers, and never gives one twice; create a new record file",
                    new.len(),
                    first - 1
                )));
            }
            let blocks = |part: usize| {
                let block = |((id, sizes), new): ((u64, &Vec<u64>), &NewRecord)| {
                    let is_regular = matches!(new, NewRecord::Regular(_));
                    let (total, start) = (sizes.iter().sum(), sizes[..part].iter().sum());
                    (id, RecordBlock { is_regular, total, start, len: sizes[part], offset: 0 })
                };
                (first..).zip(sizes).zip(new).map(block).collect::<Vec<_>>()
            };
            prepare_all(own, |own| {
                let (prepared, offsets) = own.part.prepare_records(&blocks(own.number as usize))?;
                let mut message = Vec::new();
                put_number(&mut message, own.number.into());
                offsets.iter().for_each(|offset| put_number(&mut message, *offset));
                Ok((prepared, message))
            })
        };
        let messages = self.change(&mut own, &call, &arguments, prepare, || ())?;
        let mut offsets = vec![vec![0; parts as usize]; new.len()];
        for message in &messages {
            let mut message = MessageReader(message);
            while let Some(part) = message.small() {
                for offsets in &mut offsets {
                    let offset = offsets.get_mut(part as usize).ok_or_else(different_versions)?;
                    *offset = message.number().ok_or_else(different_versions)?;
                }
            }
        }
        let mut map = self.file.map.write();
        let mut created = Vec::new();
        for (((id, new), sizes), offsets) in (first..).zip(new).zip(&sizes?).zip(offsets) {
            let is_regular = matches!(new, NewRecord::Regular(_));
            let record = Record::new(RecordId::of_number(id), is_regular, sizes, offsets);
            created.push(record.info.id);
            map.records.insert(id, Arc::new(record));
        }
        map.next = first + new.len() as u64;
        Ok(created)
    }

    /// Destroys a record and frees its space. Collective. Waits for the started accesses of this
    /// process.
    pub fn destroy_record(&self, record: RecordId) -> Result<(), RecordError> {
        self.destroy_records(&[record])
    }

    /// Destroys any number of records at once: all of them, or none. Collective.
    pub fn destroy_records(&self, records: &[RecordId]) -> Result<(), RecordError> {
        let call = match records {
            [one] => format!("destroy_record of {one}"),
            many => format!("destroy_records of {} records", many.len()),
        };
        let mut arguments = Vec::new();
        records.iter().for_each(|record| put_number(&mut arguments, record.number()));
        let mut blocks = Vec::new();
        let prepare = |own: &mut Vec<OwnPart>| {
            let mut sorted = records.to_vec();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                let text = format!("destroy_records names {} twice; name it once", pair[0]);
                return Err(RecordError::Invalid(text));
            }
            for record in records {
                self.file.record(*record)?;
            }
            prepare_all(own, |own| {
                let known = &own.part.map().records;
                let gone = records.iter().filter_map(|record| known.get(&record.number()).copied());
                blocks.push(gone.collect::<Vec<RecordBlock>>());
                let entries =
                    records.iter().map(|record| MapEntry::Removed(record.number())).collect();
                Ok((own.part.prepare(entries)?, Vec::new()))
            })
        };
        // After the agreement no access of this process begins, and all that have begun end before
        // this rank reports its commit.
        let end_accesses = || {
            let mut map = self.file.map.write();
            records.iter().for_each(|record| drop(map.records.remove(&record.number())));
            drop(map);
            self.file.accesses.wait_until_empty();
        };
        let mut own = self.own.lock();
        self.change(&mut own, &call, &arguments, prepare, end_accesses)?;
        for (own, blocks) in own.parts.iter_mut().zip(&blocks) {
            own.part.release(blocks);
        }
        Ok(())
    }

    /// Changes the map in all parts or in none. `prepare` checks whether the own parts can be changed,
    /// and returns this rank's message to the others; `agreed` runs when all ranks have prepared.
    /// Returns the messages of all ranks.
    fn change(
        &self,
        own: &mut OwnParts,
        call: &str,
        arguments: &[u8],
        prepare: impl FnOnce(&mut Vec<OwnPart>) -> Result<(Vec<PreparedChange>, Vec<u8>), RecordError>,
        agreed: impl FnOnce(),
    ) -> Result<Vec<Vec<u8>>, RecordError> {
        let team = &self.file.team;
        let prepared = own.check().and_then(|()| prepare(&mut own.parts));
        let (prepared, result) = match prepared {
            Ok((prepared, message)) => (prepared, Ok(message)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let messages = match agree(team, call, arguments, result) {
            Ok(messages) => messages,
            Err(error) => {
                for (own, prepared) in own.parts.iter_mut().zip(&prepared) {
                    own.part.abandon(prepared);
                }
                return Err(error);
            }
        };
        agreed();
        let commit = |(own, prepared): (&mut OwnPart, &PreparedChange)| {
            let committed = own.part.commit(prepared);
            committed.map_err(|error| part_error("changing its map", &own.path, error))
        };
        let committed = own.parts.iter_mut().zip(&prepared).try_for_each(commit);
        if let Err(error) = agree(team, call, arguments, committed.map(|()| Vec::new())) {
            own.broken = Some(error.to_string());
            return Err(error);
        }
        Ok(messages)
    }
}

/// Prepares a change in all own parts, or in none.
fn prepare_all(
    own: &mut [OwnPart],
    mut prepare: impl FnMut(&mut OwnPart) -> Result<(PreparedChange, Vec<u8>), PartError>,
) -> Result<(Vec<PreparedChange>, Vec<u8>), RecordError> {
    let mut all: Vec<PreparedChange> = Vec::new();
    let mut message = Vec::new();
    for number in 0..own.len() {
        match prepare(&mut own[number]) {
            Ok((prepared, more)) => {
                all.push(prepared);
                message.extend_from_slice(&more);
            }
            Err(error) => {
                for (own, prepared) in own.iter_mut().zip(&all) {
                    own.part.abandon(prepared);
                }
                return Err(part_error("changing its map", &own[number].path, error));
            }
        }
    }
    Ok((all, message))
}
