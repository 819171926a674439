//! Making and destroying records: all ranks do it together, in all parts or in none.

use std::sync::Arc;

use super::agree::{Reader, agree, put_number};
use super::error::RecordError;
use super::file::{Own, RecordFile};
use super::opening::OwnPart;
use super::part::{Block, Entry, LAST_RECORD, PartError, Prepared};
use super::record::{NewRecord, Record, RecordId, sizes_of};
use super::search::{different_versions, part_error};

impl RecordFile {
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
}

/// Prepares a change in all own parts, or in none.
fn prepare_all(
    own: &mut [OwnPart],
    mut prepare: impl FnMut(&mut OwnPart) -> Result<(Prepared, Vec<u8>), PartError>,
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
