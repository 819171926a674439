//! Ten thousand records in one file.

use std::time::{Duration, Instant};

use pario_records::{NewRecord, RecordFile, RecordId};

use crate::range::bytes;
use crate::ranks::together;

const COUNT: usize = 10_000;

/// A time limit that only an algorithm of quadratic time exceeds.
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn ten_thousand_records_are_created_found_and_destroyed_fast() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let content = |record: RecordId| [record.number().to_le_bytes(); 5].concat();
    let begin = Instant::now();
    together(4, |team| {
        let file = RecordFile::create(&team, &path).unwrap();
        let new: Vec<NewRecord> =
            (0..COUNT).map(|number| NewRecord::Regular(40 + number as u64 % 3)).collect();
        let created = file.create_records(&new).unwrap();
        for record in created.iter().skip(team.rank() as usize).step_by(4) {
            file.write(&content(*record), *record, 0..40).unwrap();
        }
        // Also one by one: a change does not rewrite the whole map.
        for _ in 0..50 {
            file.create_record(8).unwrap();
        }
        file.close().unwrap();
    });
    let sizes = || {
        (0..4).map(|part| {
            std::fs::metadata(dir.path().join(format!("file.part{part}"))).unwrap().len()
        })
    };
    let before: Vec<u64> = sizes().collect();
    together(3, |team| {
        let file = RecordFile::open(&team, &path).unwrap();
        let records = file.records();
        assert_eq!(records.len(), COUNT + 50);
        for info in records[..COUNT].iter().step_by(7) {
            let mut found = [0; 40];
            file.read(&mut found, info.id, bytes(0, 40)).unwrap();
            assert_eq!(found.as_slice(), content(info.id));
        }
        // Every second record is destroyed; new ones get their space, filled with zeros.
        let destroyed: Vec<RecordId> = records.iter().step_by(2).map(|info| info.id).collect();
        file.destroy_records(&destroyed).unwrap();
        let again = file.create_records(&vec![NewRecord::Regular(40); destroyed.len()]).unwrap();
        for record in again.iter().step_by(11) {
            let mut found = [1; 40];
            file.read(&mut found, *record, bytes(0, 40)).unwrap();
            assert_eq!(found, [0; 40]);
        }
        for info in records[..COUNT].iter().skip(1).step_by(2) {
            let mut found = [0; 40];
            file.read(&mut found, info.id, bytes(0, 40)).unwrap();
            assert_eq!(found.as_slice(), content(info.id));
        }
        file.close().unwrap();
    });
    for (before, after) in before.iter().zip(sizes()) {
        // Only logs may grow, to four times their content.
        assert!(after < before + before / 4, "a part has grown from {before} to {after}");
    }
    assert!(begin.elapsed() < TIME_LIMIT, "it took {:?}", begin.elapsed());
}
