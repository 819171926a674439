//! Ranks that make different calls, or give numbers that fit no job: every rank learns who called
//! what.

use std::io::SeekFrom;

use pario::{Cluster, Error, Job, Mode};

use super::{LOCAL, content, over_every_transport, together};
use crate::sites::Site;

/// Each rank's error says which rank called what; the next calls succeed.
#[test]
fn disagreement_is_reported_to_all() {
    over_every_transport(|site| {
        together(site, 4, |files| {
            let file = files.create("/f", Mode::Sync).unwrap();
            file.write(b"12").unwrap();
            let error = if files.job().rank() == 3 {
                file.read(&mut [0; 100]).unwrap_err()
            } else {
                file.write(&[0; 64]).unwrap_err()
            };
            let text = error.to_string();
            assert!(text.starts_with("/f: job job "), "{text}");
            let who = "the ranks disagree: rank 3 called read of 100 bytes; ranks 0 to 2 called \
                       write of 64 bytes";
            assert!(text.contains(who), "{text}");
            assert_eq!(file.position().unwrap(), 8, "the pointer is where it was");
            file.write(b"34").unwrap();
            let error = file.seek(SeekFrom::Start(files.job().rank().into())).unwrap_err();
            assert!(error.to_string().contains("rank 0 called seek to byte 0"), "{error}");
            file.set_mode(Mode::Global).unwrap();
            let len = if files.job().rank() == 1 { 5 } else { 4 };
            let error = file.write(&vec![0; len]).unwrap_err();
            assert!(error.to_string().contains("rank 1 called write of 5 bytes"), "{error}");
            file.close().unwrap();
        });
        assert_eq!(content(&site.cluster, "/f"), b"1212121234343434");
    });
}

#[test]
fn all_must_open_the_same() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 2, |files| {
            let path = if files.job().rank() == 0 { "/a" } else { "/b" };
            let error = files.create(path, Mode::Log).unwrap_err().to_string();
            assert!(error.contains("rank 0 called open of /a for reading and writing"), "{error}");
            let mode = if files.job().rank() == 0 { Mode::Log } else { Mode::Sync };
            let error = files.create("/a", mode).unwrap_err().to_string();
            assert!(error.contains("in mode M_SYNC"), "{error}");
            let error = files.open("/none", Mode::Log).unwrap_err();
            assert_eq!(error.kind(), pario::ErrorKind::NotFound, "{error}");
            files.create("/a", Mode::Log).unwrap().close().unwrap();
        });
        assert!(site.cluster.metadata("/b").is_err());
    }
}

#[test]
fn ranks_that_make_no_sense_are_refused() {
    for transport in LOCAL {
        let site = Site::new(transport);
        let files = |cluster: &Cluster, size, rank| {
            Job::new("job", size, rank).map(|job| job.files(cluster))
        };
        let refused = |result: Result<(), Error>, text: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(text), "{error:?} instead of {text:?}");
        };
        refused(files(&site.cluster, 4, 4).map(|_| ()), "no rank 4");
        refused(files(&site.cluster, 0, 0).map(|_| ()), "no rank 0");
        let (first, second, third) = (site.another(), site.another(), site.another());
        std::thread::scope(|scope| {
            let meeting = scope.spawn(|| files(&first, 2, 0).unwrap().barrier());
            files(&second, 2, 1).unwrap().barrier().unwrap();
            meeting.join().unwrap().unwrap();
        });
        let wrong = files(&third, 3, 1).unwrap().barrier();
        refused(wrong, "join: job job: it has 2 ranks, but rank 1 gives 3 as its size");
        refused(files(&third, 2, 0).unwrap().barrier(), "another process has rank 0 already");
        refused(files(&second, 2, 0).unwrap().barrier(), "another process has rank 0 already");
        drop(second);
        refused(files(&first, 2, 0).unwrap().barrier(), "rank 1 is gone");
        let long = "x".repeat(1000);
        refused(
            Job::new(&long, 1, 0).unwrap().files(&site.cluster).barrier(),
            "is not the name of a job",
        );
        refused(
            Job::new("", 1, 0).unwrap().files(&site.cluster).barrier(),
            "is not the name of a job",
        );
        let huge = Job::new("huge", u32::MAX, 7).unwrap().files(&site.cluster);
        refused(huge.barrier(), "1 to 65536 processes");
    }
}

/// Each rank's error says which rank called what, also after barriers in shared memory.
#[test]
fn barriers_and_opens_do_not_fit_together() {
    over_every_transport(|site| {
        together(site, 3, |files| {
            for _ in 0..50 {
                files.barrier().unwrap();
            }
            let told = if files.job().rank() == 1 {
                files.barrier().unwrap_err()
            } else {
                files.create("/f", Mode::Log).unwrap_err()
            };
            let told = told.to_string();
            assert!(
                told.contains("rank 1 called barrier; ranks 0, 2 called open of /f for"),
                "{told}"
            );
            files.barrier().unwrap();
            let file = files.create("/f", Mode::Log).unwrap();
            files.barrier().unwrap();
            file.close().unwrap();
            if files.job().rank() < 2 {
                let error = files.barrier().unwrap_err().to_string();
                assert!(error.contains("rank 2 is gone"), "{error}");
            }
        });
    });
}

/// A rank that closes the file while the others make another call has left it; both calls fail and
/// say so.
#[test]
fn a_rank_that_closes_alone_has_left() {
    for transport in LOCAL {
        eprintln!("{transport:?}");
        let site = Site::new(transport);
        together(&site, 2, |files| {
            let file = files.create("/left", Mode::Sync).unwrap();
            if files.job().rank() == 0 {
                let error = file.close().unwrap_err().to_string();
                assert!(error.contains("the ranks disagree"), "{error}");
            } else {
                let error = file.write(b"x").unwrap_err().to_string();
                assert!(error.contains("the ranks disagree"), "{error}");
                let error = file.write(b"x").unwrap_err().to_string();
                assert!(error.contains("rank 0 has closed the file"), "{error}");
            }
            files.barrier().unwrap();
        });
    }
}
