//! Files that are opened again: by another number of ranks, with other paths, with parts that are
//! missing, moved or copied.

use std::fs;
use std::path::{Path, PathBuf};

use pario_records::{RecordError, RecordFile, RecordId};

use crate::range::bytes;
use crate::ranks::together;

/// A file of three ranks on three disks, with a record of which byte `i` is `i % 251`.
fn on_three_disks(dir: &Path) -> RecordId {
    let content: Vec<u8> = (0..3000_u32).map(|at| (at % 251) as u8).collect();
    let made = together(3, |team| {
        let disk = dir.join(format!("disk{}", team.rank()));
        fs::create_dir(&disk).unwrap();
        let file = RecordFile::create(&team, disk.join("run")).unwrap();
        let record = file.create_record(3000).unwrap();
        if team.rank() == 1 {
            file.write(&content, record, 0..3000).unwrap();
        }
        file.close().unwrap();
        record
    });
    made[0]
}

fn check_content(file: &RecordFile, record: RecordId) {
    let mut found = vec![0; 3000];
    file.read(&mut found, record, bytes(0, 3000)).unwrap();
    assert!(found.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
}

#[test]
fn one_path_leads_to_all_parts() {
    let dir = tempfile::tempdir().unwrap();
    let record = on_three_disks(dir.path());
    for (size, disk) in [(1, "disk0"), (1, "disk2"), (2, "disk1"), (5, "disk1"), (3, "disk0")] {
        together(size, |team| {
            let file = RecordFile::open(&team, dir.path().join(disk).join("run")).unwrap();
            check_content(&file, record);
            for part in 0..3 {
                let place = dir.path().canonicalize().unwrap();
                let place = place.join(format!("disk{part}/run.part{part}"));
                assert_eq!(file.part_path(part), Some(place.as_path()));
            }
            file.close().unwrap();
        });
    }
}

#[test]
fn moved_parts_are_found_by_the_paths_of_all_ranks_and_their_new_paths_stored() {
    let dir = tempfile::tempdir().unwrap();
    let record = on_three_disks(dir.path());
    let part = |disk: &str, number: u32| dir.path().join(disk).join(format!("run.part{number}"));
    fs::create_dir(dir.path().join("new")).unwrap();
    fs::rename(part("disk2", 2), part("new", 2)).unwrap();
    together(2, |team| {
        let disk = ["disk0", "new"][team.rank() as usize];
        let file = RecordFile::open(&team, dir.path().join(disk).join("run")).unwrap();
        check_content(&file, record);
        // Not closed: opening has stored the new paths.
    });
    together(1, |team| {
        let file = RecordFile::open(&team, dir.path().join("disk1/run")).unwrap();
        check_content(&file, record);
        assert!(file.part_path(2).unwrap().ends_with("new/run.part2"));
    });
}

fn error_of(size: u32, path: &Path) -> RecordError {
    let all = together(size, |team| RecordFile::open(&team, path).unwrap_err());
    assert!(all.iter().all(|error| *error == all[0]), "{all:?}");
    all[0].clone()
}

#[test]
fn an_error_names_missing_parts_with_their_last_paths() {
    let dir = tempfile::tempdir().unwrap();
    on_three_disks(dir.path());
    let lost = dir.path().join("disk1/run.part1");
    let kept = dir.path().join("kept");
    fs::rename(&lost, &kept).unwrap();
    let error = error_of(2, &dir.path().join("disk0/run"));
    assert!(matches!(error, RecordError::NotFound(_)), "{error:?}");
    let text = error.to_string();
    let place = dir.path().canonicalize().unwrap().join("disk1/run.part1");
    assert!(text.contains(&format!("part 1, which was last at {}", place.display())), "{text}");
    assert!(text.contains("of 3 parts"), "{text}");
    // A part of another file at its path does not replace it.
    together(1, |team| RecordFile::create(&team, dir.path().join("other")).unwrap().close());
    fs::copy(dir.path().join("other.part0"), &lost).unwrap();
    let text = error_of(1, &dir.path().join("disk0/run")).to_string();
    assert!(text.contains("part 1, which was last at"), "{text}");
    // Paths that lead to parts of two files are refused.
    let all = together(2, |team| {
        let path = dir.path().join(format!("disk{}/run", team.rank()));
        RecordFile::open(&team, path).unwrap_err().to_string()
    });
    assert_eq!(all[0], all[1]);
    assert!(all[0].contains("are parts of different record files"), "{}", all[0]);
    fs::rename(&kept, &lost).unwrap();
    together(1, |team| RecordFile::open(&team, dir.path().join("disk0/run")).unwrap().close());
}

#[test]
fn copies_and_old_parts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    on_three_disks(dir.path());
    let part = dir.path().join("disk1/run.part1");
    let old = fs::read(&part).unwrap();
    fs::create_dir(dir.path().join("copy")).unwrap();
    fs::write(dir.path().join("copy/run.part1"), &old).unwrap();
    let all = together(2, |team| {
        let disk = ["disk1", "copy"][team.rank() as usize];
        RecordFile::open(&team, dir.path().join(disk).join("run")).unwrap_err().to_string()
    });
    assert!(all[0].contains("part 1 of the record file exists twice"), "{}", all[0]);
    // Two changes later the old copy of a part is recognised.
    together(3, |team| {
        let file = RecordFile::open(&team, dir.path().join("disk0/run")).unwrap();
        file.create_record(10).unwrap();
        file.create_record(10).unwrap();
        file.close().unwrap();
    });
    let new = fs::read(&part).unwrap();
    fs::write(&part, &old).unwrap();
    let error = error_of(3, &dir.path().join("disk0/run"));
    assert!(error.to_string().contains("part 1 is an old copy"), "{error}");
    fs::write(&part, &new).unwrap();
    together(3, |team| RecordFile::open(&team, dir.path().join("disk0/run")).unwrap().close());
}

#[test]
fn one_job_at_a_time_has_a_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    together(2, |team| {
        let file = RecordFile::create(&team, &path).unwrap();
        team.barrier().unwrap();
        if team.rank() == 0 {
            let error = error_of(1, &path);
            assert!(matches!(error, RecordError::InUse(_)), "{error:?}");
            let text =
                together(1, |team| RecordFile::delete(&team, &path).unwrap_err().to_string());
            assert!(text[0].contains("another job has this record file open"), "{text:?}");
        }
        file.close().unwrap();
    });
    let names = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    assert_eq!(names(dir.path()).len(), 2);
    together(3, |team| RecordFile::delete(&team, &path).unwrap());
    assert_eq!(names(dir.path()).len(), 0);
    assert!(matches!(error_of(1, &path), RecordError::NotFound(_)));
}

/// A job that is stopped while it creates a file leaves parts with temporary names.
#[test]
fn opening_finishes_or_ignores_a_creation_that_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let part = |number: u32| dir.path().join(format!("file.part{number}"));
    let new = |number: u32| dir.path().join(format!("file.part{number}.new"));
    together(3, |team| RecordFile::create(&team, &path).unwrap().close().unwrap());
    // One part has its final name, so all are whole.
    fs::rename(part(0), new(0)).unwrap();
    fs::rename(part(2), new(2)).unwrap();
    together(2, |team| RecordFile::open(&team, &path).unwrap().close().unwrap());
    assert!(part(0).exists() && part(2).exists() && !new(0).exists());
    // No part has its final name, so the file does not exist.
    (0..3).for_each(|number| fs::rename(part(number), new(number)).unwrap());
    fs::write(new(1), b"half").unwrap();
    assert!(matches!(error_of(1, &path), RecordError::NotFound(_)));
    together(2, |team| RecordFile::create(&team, &path).unwrap().close().unwrap());
    assert!(part(0).exists() && part(1).exists() && !part(2).exists());
    let error = together(2, |team| RecordFile::create(&team, &path).unwrap_err());
    assert!(matches!(error[0], RecordError::Exists(_)), "{error:?}");
}
