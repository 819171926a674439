//! Errors name what failed and why, are the same on all ranks, and leave the file usable.

use pario_records::{NewRecord, RecordError, RecordFile, RecordId};
use pario_team::TeamError;

use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread, together};

#[test]
fn wrong_ranges_and_records_are_refused() {
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
        assert!(error.contains("need 4 bytes of memory at a stride of 1; the caller gave 1"));
        let error = file.write_strided(&[1], 0, record, 0..1).unwrap_err().to_string();
        assert!(error.contains("a stride of 0"), "{error}");
        let missing = RecordId::of_number(77);
        let error = file.read(&mut [0], missing, 0..1).unwrap_err();
        let text = "record 77 does not exist in this record file".to_owned();
        assert_eq!(error, RecordError::NotFound(text));
        assert_eq!(file.destroy_record(missing).unwrap_err(), error);
        let twice = file.destroy_records(&[record, record]).unwrap_err().to_string();
        assert!(twice.contains("destroy_records names record 1 twice"), "{twice}");
        let huge = file.create_record(u64::MAX).unwrap_err();
        assert!(matches!(huge, RecordError::Invalid(_)), "{huge:?}");
        let parts = file.create_record_irregular(&[1, 2]).unwrap_err().to_string();
        assert!(parts.contains("has 2 block sizes, but the record file has 1 parts"), "{parts}");
        // None of these calls has changed anything.
        assert_eq!(file.records().len(), 1);
        assert_eq!(file.create_record(1).unwrap().number(), 2);
        file.close().unwrap();
    });
}

#[test]
fn calls_that_do_not_match_fail_on_all_ranks_and_the_file_goes_on() {
    EVERY_DISTRIBUTION.into_iter().for_each(call_different_things);
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
        // The error of one rank fails the call on all.
        let blocks = if rank == 1 { vec![1; 2] } else { vec![1; 3] };
        let new = NewRecord::Irregular(blocks);
        let blocks = file.create_records(&[new]).unwrap_err().to_string();
        file.write(b"abc", record, 0..3).unwrap();
        file.close().unwrap();
        (sizes, calls.to_string(), blocks)
    });
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    let (sizes, calls, blocks) = &all[0];
    let expected = "the ranks of the team disagree\n  rank 0 called create_record of 100 bytes\n  \
                    rank 2 called create_record of 101 bytes";
    assert_eq!(sizes, expected);
    assert!(calls.contains("rank 1 called sync of a record file"), "{calls}");
    assert!(blocks.contains("rank 1 called create_record_irregular of 2 blocks"), "{blocks}");
}

#[test]
fn errors_name_a_missing_directory_and_the_rank() {
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
    let error = together(1, |team| RecordFile::open(&team, "missing/..").unwrap_err());
    assert!(error[0].to_string().contains("it ends without a name"), "{error:?}");
}

/// A collective call after a rank has left fails with that rank.
#[test]
fn errors_name_a_rank_that_has_left() {
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
