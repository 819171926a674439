//! Parts on other machines: long accesses, errors of the serving machine, and lost machines.

use std::path::Path;

use pario_records::{RecordError, RecordFile};
use pario_team::Team;

use crate::range::bytes;
use crate::ranks::process::{self, Process, Role, played};
use crate::ranks::{EVERY_DISTRIBUTION, Machines, new_job, spread, together};

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

#[test]
fn long_accesses_transfer_every_byte() {
    const LEN: usize = (37 << 20) + 5;
    for machines in [Machines::Of(1), Machines::Of(2)] {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        spread(3, machines, |team| {
            let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
            let record =
                file.create_record_irregular(&[5, (20 << 20) + 1, (17 << 20) - 1]).unwrap();
            let expected = content(1, LEN);
            if team.rank() == 0 {
                file.write(&expected, record, bytes(0, LEN)).unwrap();
            }
            team.barrier().unwrap();
            let mut found = vec![0; LEN];
            file.read(&mut found, record, bytes(0, LEN)).unwrap();
            assert!(found == expected);
            // From another byte on, as a started access, and with gaps.
            let read = file.start_read(found, record, bytes(3, LEN - 3)).err().unwrap();
            assert!(matches!(read, RecordError::Invalid(_)), "{read:?}");
            let started = file.start_read(vec![0; LEN - 3], record, bytes(3, LEN - 3)).unwrap();
            let mut spread_out = vec![9; 3 * (4 << 20)];
            file.read_strided(&mut spread_out, 3, record, bytes(19 << 20, 4 << 20)).unwrap();
            assert!(started.wait().unwrap() == expected[3..]);
            let (in_place, gaps): (Vec<_>, Vec<_>) =
                spread_out.iter().enumerate().partition(|(place, _)| place % 3 == 0);
            assert!(in_place.iter().map(|(_, byte)| *byte).eq(&expected[19 << 20..23 << 20]));
            assert!(gaps.iter().all(|(_, byte)| **byte == 9));
            team.barrier().unwrap();
            if team.rank() == 1 {
                file.write_strided(&spread_out, 3, record, bytes(7, 4 << 20)).unwrap();
                let writing =
                    file.start_write(vec![7; 14 << 20], record, bytes(23 << 20, 14 << 20));
                writing.unwrap().wait().unwrap();
            }
            team.barrier().unwrap();
            let mut found = vec![0; LEN];
            file.read(&mut found, record, bytes(0, LEN)).unwrap();
            assert!(found[7..7 + (4 << 20)] == expected[19 << 20..23 << 20]);
            assert!(found[23 << 20..37 << 20].iter().all(|byte| *byte == 7));
            assert!(found[37 << 20..] == expected[37 << 20..]);
            file.close().unwrap();
        });
    }
}

/// The thread that waits for a started access completes it; if no thread waits, a pool thread does.
#[test]
fn started_accesses_complete_whether_or_not_a_thread_waits() {
    const PIECE: usize = 100_003;
    const PIECES: usize = 48;
    for machines in [Machines::Of(1), Machines::Of(2)] {
        let dir = tempfile::tempdir().unwrap();
        spread(2, machines, |team| {
            let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
            let record = file.create_record_irregular(&[0, (PIECE * PIECES) as u64]).unwrap();
            let expected = content(2, PIECE * PIECES);
            let range = |piece: usize| bytes((piece * PIECE) as u64, PIECE);
            if team.rank() == 0 {
                let mut waited = Vec::new();
                for (piece, content) in expected.chunks(PIECE).enumerate() {
                    let started = file.start_write(content.to_vec(), record, range(piece)).unwrap();
                    match piece % 4 {
                        0 => waited.push(started),
                        1 => drop(started),
                        2 => {
                            while !started.is_done() {
                                std::thread::yield_now();
                            }
                            assert!(started.wait().unwrap() == content);
                        }
                        _ => {
                            file.wait_for_all();
                            assert!(started.is_done(), "all accesses are complete");
                        }
                    }
                }
                // Waited for in another thread, in reverse order.
                std::thread::scope(|scope| {
                    scope.spawn(move || waited.into_iter().rev().for_each(|one| drop(one.wait())));
                });
                // Also waits for the dropped requests.
                file.wait_for_all();
            }
            team.barrier().unwrap();
            let start = |piece| file.start_read(vec![0; PIECE], record, range(piece)).unwrap();
            let started: Vec<_> = (0..PIECES).map(start).collect();
            for (request, content) in started.into_iter().zip(expected.chunks(PIECE)).rev() {
                assert!(request.wait().unwrap() == content);
            }
            // Only `close` waits for these.
            (0..PIECES).for_each(|piece| drop(start(piece)));
            file.close().unwrap();
        });
    }
}

/// Each machine has its files in a directory of its own.
#[test]
fn a_later_job_finds_the_parts_of_all_machines() {
    const LEN: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let path = |team: &Team, machines: u32| {
        let own = dir.path().join(format!("disk{}", team.rank() % machines));
        std::fs::create_dir_all(&own).unwrap();
        own.join("file")
    };
    let record = spread(4, Machines::InTurn(2), |team| {
        let file = RecordFile::create(&team, path(&team, 2)).unwrap();
        let record = file.create_record(LEN as u64).unwrap();
        if team.rank() == 3 {
            file.write(&content(5, LEN), record, bytes(0, LEN)).unwrap();
        }
        file.close().unwrap();
        record
    })[0];
    for (size, machines) in [(2, 2), (5, 2), (3, 1)] {
        spread(size, Machines::InTurn(machines), |team| {
            let file = RecordFile::open(&team, path(&team, machines)).unwrap();
            assert_eq!(file.parts(), 4);
            let mut found = vec![0; LEN];
            file.read(&mut found, record, bytes(0, LEN)).unwrap();
            assert!(found == content(5, LEN));
            let held: u64 = file.held_here(record).unwrap().iter().map(|held| held.len).sum();
            let mut all = [held];
            team.reduce(pario_team::Reduction::Sum, &mut all).unwrap();
            assert_eq!(all[0], LEN as u64, "each block belongs to one rank");
            file.close().unwrap();
        });
    }
    let opening = spread(3, Machines::Of(1), |team| RecordFile::delete(&team, path(&team, 2)));
    opening.into_iter().for_each(Result::unwrap);
    let left = |disk: &str| std::fs::read_dir(dir.path().join(disk)).unwrap().count();
    assert_eq!(left("disk0") + left("disk1"), 0);
}

#[test]
fn an_error_of_the_serving_machine_names_the_part() {
    let dir = tempfile::tempdir().unwrap();
    let part = dir.path().join("file.part1");
    let texts = |work: &(dyn Fn(&Path) + Sync)| {
        spread(2, Machines::Of(1), |team| {
            let file = RecordFile::create(&team, dir.path().join("file")).unwrap();
            let record = file.create_record(4 << 20).unwrap();
            if team.rank() == 1 {
                work(&part);
            }
            team.barrier().unwrap();
            let mut found = vec![0; 2 << 20];
            let errors = [
                file.read(&mut found, record, bytes(2 << 20, 2 << 20)).err(),
                file.read(&mut found[..1], record, bytes((4 << 20) - 1, 1)).err(),
                file.accumulate(&[1_u64], 1, record, bytes((4 << 20) - 8, 8)).err(),
            ];
            team.barrier().unwrap();
            drop(file);
            team.barrier().unwrap();
            if team.rank() == 0 {
                std::fs::remove_file(dir.path().join("file.part0")).unwrap();
                std::fs::remove_file(&part).unwrap();
            }
            (team.rank() == 0).then_some(errors)
        })
        .swap_remove(0)
        .unwrap()
    };
    let name = part.canonicalize().unwrap_or(part.clone()).display().to_string();
    let cut = texts(&|part| {
        std::fs::File::options().write(true).open(part).unwrap().set_len(100_000).unwrap()
    });
    for error in cut.into_iter().flatten() {
        assert!(matches!(error, RecordError::Damaged(_)), "{error:?}");
        let expected =
            format!("{name}: this part of rank 1 was truncated while the record file is");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    let replaced = texts(&|part| {
        std::fs::remove_file(part).unwrap();
        std::fs::write(part, b"something else").unwrap();
    });
    assert!(replaced.iter().all(Option::is_some), "{replaced:?}");
    for error in replaced.into_iter().flatten() {
        assert!(matches!(error, RecordError::Damaged(_)), "{error:?}");
        let expected = format!("{name}: another file has replaced the part that rank 1 has open");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

/// A rank that has closed a file may open it again while others still close it.
#[test]
fn a_file_can_be_closed_and_opened_again_at_once() {
    for machines in EVERY_DISTRIBUTION {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        spread(3, machines, |team| {
            for _ in 0..3 {
                let file = RecordFile::open_or_create(&team, &path).unwrap();
                let record = file.create_record(30).unwrap();
                file.write(&[1; 10], record, bytes(u64::from(team.rank()) * 10, 10)).unwrap();
                file.close().unwrap();
            }
        });
        together(1, |team| {
            let file = RecordFile::open(&team, &path).unwrap();
            for info in file.records() {
                let mut found = [0; 30];
                file.read(&mut found, info.id, 0..30).unwrap();
                assert_eq!(found, [1; 30]);
            }
        });
    }
}

/// A rank in a process of its own, which uses a record file until that fails. It does nothing unless
/// another test starts it.
#[test]
fn other_process() {
    let Some((team, path)) = played() else { return };
    let file = RecordFile::create(&team, path).unwrap();
    let record = file.create_record(8 << 20).unwrap();
    team.barrier().unwrap();
    println!("says ready");
    let mut memory = vec![1; 2 << 20];
    let error = loop {
        let used = (0..4).try_for_each(|block| {
            let range = bytes(block * (2 << 20), 2 << 20);
            match block % 3 {
                0 => file.read(&mut memory, record, range),
                1 => file.write(&memory, record, range),
                _ => file.accumulate(&[1_u32; 512 << 10], 1, record, range),
            }
        });
        if let Err(error) = used {
            break error;
        }
    };
    println!("says {error}");
    // After a loss, dropping the file and the team does not wait for the other ranks.
    drop((file, team));
}

/// Kills a rank whose part the others use: their accesses fail with its number, in time.
#[test]
fn accesses_fail_with_the_killed_rank() {
    for (machines, victim) in [(Machines::Of(1), 3), (Machines::Of(1), 0), (Machines::Of(2), 3)] {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = dir.path().join("file");
        let (job, options) = (new_job(), machines.options());
        let start = |rank| {
            let role = Role { job: &job, size: 4, rank, doing: path.to_str().unwrap() };
            Process::start("other_machines::other_process", &role, &options(rank))
        };
        process::lose((0..4).map(start).collect(), victim, &format!("{machines:?}"));
    }
}
