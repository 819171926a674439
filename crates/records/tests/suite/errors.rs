//! What cannot be done is refused in sentences, by all ranks alike, and the file goes on.

use pario_records::{NewRecord, RecordError, RecordFile, RecordId};
use pario_team::TeamError;

use crate::ranks::{EVERY_WAY, Machines, spread, together};

#[test]
fn ranges_and_records_that_are_not_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    together(1, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record(10).unwrap();
        let mut byte = [0; 11];
        let wrong = [
            file.read(&mut byte, record, 0..11),
            file.write(&[1], record, 10..11),
            file.write(&[1], record, u64::MAX - 1..u64::MAX),
            file.write(&[1], record, 0..u64::MAX),
        ];
        for error in wrong {
            assert!(matches!(error, Err(RecordError::Invalid(_))), "{error:?}");
        }
        let error = file.write(&[1], record, 0..4).unwrap_err().to_string();
        assert!(error.contains("are 4 bytes of memory, and 1 were given"), "{error}");
        let error = file.write_strided(&[1], 0, record, 0..1).unwrap_err().to_string();
        assert!(error.contains("a stride of 0"), "{error}");
        let missing = RecordId::of_number(77);
        let error = file.read(&mut [0], missing, 0..1).unwrap_err();
        assert_eq!(error, RecordError::NotFound("there is no record 77 in this file".to_owned()));
        assert_eq!(file.destroy_record(missing).unwrap_err(), error);
        let twice = file.destroy_records(&[record, record]).unwrap_err().to_string();
        assert!(twice.contains("record 1 is to be destroyed twice"), "{twice}");
        let huge = file.create_record(u64::MAX).unwrap_err();
        assert!(matches!(huge, RecordError::Invalid(_)), "{huge:?}");
        let parts = file.create_record_irregular(&[1, 2]).unwrap_err().to_string();
        assert!(parts.contains("this file has 1 parts"), "{parts}");
        // All of that has changed nothing.
        assert_eq!(file.records().len(), 1);
        assert_eq!(file.create_record(1).unwrap().number(), 2);
        file.close().unwrap();
    });
}

#[test]
fn ranks_that_call_different_things_all_hear_it_and_go_on() {
    EVERY_WAY.into_iter().for_each(call_different_things);
}

fn call_different_things(machines: Machines) {
    let dir = tempfile::tempdir().unwrap();
    let all = spread(3, machines, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let rank = u64::from(team.rank());
        let sizes = file.create_record(100 + rank / 2).unwrap_err().to_string();
        let record = file.create_record(1000).unwrap();
        let calls = match rank {
            0 => file.destroy_record(record).unwrap_err(),
            _ => file.sync().unwrap_err(),
        };
        // An error of one is an error of all.
        let blocks = if rank == 1 { vec![1; 2] } else { vec![1; 3] };
        let new = NewRecord::Irregular(blocks);
        let blocks = file.create_records(&[new]).unwrap_err().to_string();
        file.write(b"abc", record, 0..3).unwrap();
        file.close().unwrap();
        (sizes, calls.to_string(), blocks)
    });
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    let (sizes, calls, blocks) = &all[0];
    let said = "the ranks of the team disagree\n  rank 0 called a making of a record of 100 bytes\n  \
                rank 2 called a making of a record of 101 bytes";
    assert_eq!(sizes, said);
    assert!(calls.contains("rank 1 called a sync of a record file"), "{calls}");
    assert!(
        blocks.contains("rank 1 called a making of an irregular record of 2 blocks"),
        "{blocks}"
    );
}

#[test]
fn paths_that_lead_nowhere_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let all = together(2, |team| {
        let path =
            dir.path().join(if team.rank() == 0 { "here" } else { "no/such/directory/here" });
        RecordFile::create(&team, path).unwrap_err()
    });
    assert_eq!(all[0], all[1]);
    let text = all[0].to_string();
    assert!(text.starts_with("rank 1: ") && text.contains("no/such/directory"), "{text}");
    assert_eq!(all[0].kind(), std::io::ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    let error = together(1, |team| RecordFile::open(&team, "/").unwrap_err());
    assert!(error[0].to_string().contains("must end with a name"), "{error:?}");
}

/// Somebody who has left is named to those who go on.
#[test]
fn who_is_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let all = together(2, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        file.create_record(10).unwrap();
        if team.rank() == 1 {
            return None;
        }
        Some(file.create_record(10).unwrap_err())
    });
    let error = all[0].clone().unwrap();
    assert!(matches!(error, RecordError::Team(TeamError::Left { rank: 1, .. })), "{error:?}");
}
