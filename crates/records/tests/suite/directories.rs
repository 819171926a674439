//! Record files whose path is a directory, and records that are not in all parts.

use pario_records::RecordFile;

use crate::ranks::together;

#[test]
fn the_parts_of_a_directory_are_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = |rank: u32| dir.path().join(format!("disk{rank}"));
    (0..3).for_each(|rank| std::fs::create_dir(disk(rank)).unwrap());
    together(3, |team| {
        let file = RecordFile::open_or_create(&team, disk(team.rank())).unwrap();
        let record = file.create_record(300).unwrap();
        file.write(&[7; 100], record, 100..200).unwrap();
        file.close().unwrap();
    });
    for rank in 0..3 {
        let names: Vec<_> = std::fs::read_dir(disk(rank))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [format!("gio.part{rank}").as_str()]);
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        3,
        "nothing is beside the directories"
    );
    together(2, |team| {
        // A slash behind the name makes no difference.
        let file = RecordFile::open(&team, disk(1).join("")).unwrap();
        let mut found = [0; 100];
        file.read(&mut found, file.records()[0].id, 100..200).unwrap();
        assert_eq!(found, [7; 100]);
        file.close().unwrap();
        RecordFile::delete(&team, disk(0)).unwrap();
    });
    assert!((0..3).all(|rank| std::fs::read_dir(disk(rank)).unwrap().next().is_none()));
}

#[test]
fn a_record_may_have_fewer_blocks_than_there_are_ranks() {
    let dir = tempfile::tempdir().unwrap();
    together(4, |team| {
        let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
        let record = file.create_record_irregular(&[10, 20]).unwrap();
        let lens: Vec<u64> =
            file.distribution(record).unwrap().iter().map(|block| block.len).collect();
        assert_eq!(lens, [10, 20, 0, 0]);
        if team.rank() == 3 {
            file.write(&[5; 30], record, 0..30).unwrap();
        }
        team.barrier().unwrap();
        let mut found = [0; 30];
        file.read(&mut found, record, 0..30).unwrap();
        assert_eq!(found, [5; 30]);
        let empty = file.create_record_irregular(&[]).unwrap();
        assert_eq!(file.record(empty).unwrap().len, 0);
        let error = file.create_record_irregular(&[1; 5]).unwrap_err().to_string();
        assert!(error.contains("5 block sizes, but the record file has 4 parts"), "{error}");
        file.close().unwrap();
    });
    together(1, |team| {
        let file = RecordFile::open(&team, dir.path().join("file")).unwrap();
        assert_eq!((file.parts(), file.records()[0].len), (4, 30));
        file.close().unwrap();
    });
}
