//! Shared files are opened and closed: again and again, many at once, below new directories.

use pario::{Job, Mode};

use super::{LOCAL, byte_of, content, together};
use crate::sites::Site;

/// A closed file is closed at the node too, and its table in shared memory is used again, whether
/// all ranks close it together or not.
#[test]
fn files_are_opened_and_closed_again_and_again() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 3, |files| {
            for round in 0..150u8 {
                let mode = Mode::ALL[usize::from(round) % Mode::ALL.len()];
                let file = files.create("/file", mode).unwrap();
                file.write(&[round; 10]).unwrap();
                file.close().unwrap();
                let file = files.open("/file", Mode::Global).unwrap();
                let mut bytes = [0; 10];
                assert_eq!(file.read(&mut bytes).unwrap(), 10);
                assert_eq!(bytes, [round; 10]);
                file.close().unwrap();
            }
            let error = files.open("/none", Mode::Log).unwrap_err();
            assert_eq!(error.kind(), pario::ErrorKind::NotFound, "{error}");
            files.barrier().unwrap();
            // While all ranks are connected: a rank that leaves closes its files anyway.
            crate::sites::until("all is closed", || site.status().open_files == 0);
            files.barrier().unwrap();
        });
    }
}

/// More files than there are tables in the memory of a job.
#[test]
fn many_files_are_open_at_once() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 2, |files| {
            let path = |number| format!("/{number}");
            let open: Vec<_> =
                (0..100u8).map(|number| files.create(&path(number), Mode::Log).unwrap()).collect();
            for (number, file) in (0..100u8).zip(&open) {
                file.write(&[number; 100]).unwrap();
            }
            // In another order than they were opened in.
            let (first, second): (Vec<_>, Vec<_>) =
                (0..100).zip(open).partition(|(n, _)| n % 2 == 0);
            for (_, file) in second.into_iter().chain(first) {
                file.close().unwrap();
            }
            files.barrier().unwrap();
            crate::sites::until("all is closed", || site.status().open_files == 0);
            files.barrier().unwrap();
        });
        for number in 0..100u8 {
            assert_eq!(content(&site.cluster, &format!("/{number}")), [number; 200]);
        }
    }
}

/// A process may ask for the files of its job as often as it likes.
#[test]
fn the_files_of_a_job_are_the_same_wherever_they_were_made() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 2, |files| {
            files.barrier().unwrap();
            let again =
                Job::new(files.job().name(), 2, files.job().rank()).unwrap().files(files.cluster());
            again.barrier().unwrap();
            files.barrier().unwrap();
            again.create("/f", Mode::Log).unwrap().close().unwrap();
        });
    }
}

#[test]
fn the_first_rank_makes_the_directories_above_a_new_file() {
    for transport in LOCAL {
        let site = Site::new(transport);
        let said = together(&site, 3, |files| {
            let error = files.create("/runs/7/log", Mode::Log).unwrap_err().to_string();
            let log = files.create_all("/runs/7/log", Mode::Log).unwrap();
            log.write(&[byte_of(files.job().rank())]).unwrap();
            log.close().unwrap();
            error
        });
        for error in said {
            assert!(error.starts_with("/runs/7/log: there is no directory /runs:"), "{error}");
            assert!(error.contains("create_parents(true)"), "{error}");
        }
        let mut bytes = content(&site.another(), "/runs/7/log");
        bytes.sort_unstable();
        assert_eq!(bytes, b"abc");

        // The rank that tried learns why they cannot be made; no rank waits for another.
        let said = together(&site, 2, |files| {
            files.create_all("/runs/7/log/x/y", Mode::Log).map(|_| ()).unwrap_err().kind()
        });
        assert_eq!(said, [pario::ErrorKind::NotADirectory; 2]);
    }
}
