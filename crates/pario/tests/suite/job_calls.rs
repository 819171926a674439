//! Calls of one rank that count for its job: calls that it cannot make, and first opens.

use std::io::SeekFrom;
use std::sync::Barrier;

use pario::{
    CallKind, CollectiveError, Error, ErrorKind, Failure, Job, JobFiles, Mode, SharedFile,
};

use crate::shared_files::{over_every_transport, together};

const SIZE: u32 = 3;

/// The rank that could not make a call, and why.
#[track_caller]
fn failed(error: &Error) -> (u32, &str) {
    match error {
        Error::Failure(Failure::Collective {
            error: CollectiveError::RankFailed { rank, why },
            ..
        }) => (*rank, &**why),
        other => panic!("{other}"),
    }
}

/// Makes a call of a kind, together with all other ranks.
fn call(file: &SharedFile, kind: CallKind) -> Result<(), Error> {
    match kind {
        CallKind::SetMode => file.set_mode(file.mode()),
        CallKind::Seek => file.seek(SeekFrom::Start(0)).map(drop),
        CallKind::Transfer => file.write(b"all"),
        CallKind::Close => unreachable!("it is not called here"),
    }
}

#[test]
fn a_call_that_one_rank_cannot_make_fails_on_all_in_every_mode() {
    over_every_transport(|site| {
        together(site, SIZE, |files| {
            let rank = files.job().rank();
            let mut failing = 0;
            for mode in Mode::ALL {
                let file = files.create(&format!("/{mode}"), mode).unwrap();
                for kind in [CallKind::SetMode, CallKind::Seek, CallKind::Transfer] {
                    if !mode.is_collective(kind) {
                        file.fail_call(kind, "this changes nothing");
                        continue;
                    }
                    let why = format!("{kind:?} is not possible in {mode}");
                    if rank == failing {
                        file.fail_call(kind, &why);
                    } else {
                        let error = call(&file, kind).unwrap_err();
                        assert_eq!(failed(&error), (failing, why.as_str()));
                        assert_eq!(error.kind(), ErrorKind::Mismatch);
                    }
                    failing = (failing + 1) % SIZE;
                    assert_eq!(file.mode(), mode);
                    call(&file, kind).unwrap();
                }
                if mode.is_collective(CallKind::Transfer) {
                    // A started access fails as well, and the caller does not wait.
                    if rank == failing {
                        file.start_failed_call(CallKind::Transfer, "no bytes");
                    } else {
                        let error = file.start_read(10).unwrap().wait().unwrap_err();
                        assert_eq!(failed(&error), (failing, "no bytes"));
                    }
                }
                file.close().unwrap();
            }
        });
    });
}

/// An open, which the rank cannot make if it is told to.
type RankOpen = fn(&JobFiles, bool) -> Result<SharedFile, Error>;

#[test]
fn an_open_that_one_rank_cannot_make_fails_on_all() {
    over_every_transport(|site| {
        together(site, SIZE, |files| {
            let rank = files.job().rank();
            let opens: [RankOpen; 3] = [
                |files, is_bad| files.open(if is_bad { "no path" } else { "/x" }, Mode::Sync),
                |files, is_bad| files.options(Mode::Log).write(!is_bad).create(true).open("/x"),
                |files, is_bad| {
                    let options = files.options(Mode::Unix).write(true).create(true);
                    let options = if is_bad { options.disks(["nowhere"]) } else { options };
                    options.open("/x")
                },
            ];
            drop(files.create("/x", Mode::Async).unwrap());
            for (failing, open) in (0..).zip(opens) {
                let error = open(&files, rank == failing).unwrap_err();
                if rank == failing {
                    assert_eq!(error.rank(), None, "{error}");
                } else {
                    assert_eq!(failed(&error).0, failing, "{error}");
                    assert!(!failed(&error).1.is_empty());
                }
                files.barrier().unwrap();
            }
            let error = if rank == 1 {
                files.fail_call("no parameters")
            } else {
                files.barrier().unwrap_err()
            };
            assert_eq!(failed(&error), (1, "no parameters"));
            files.create("/x", Mode::Sync).unwrap().close().unwrap();
        });
    });
}

/// The files of this process alone.
fn own(files: &JobFiles) -> JobFiles {
    let job = format!("{} alone, rank {}", files.job().name(), files.job().rank());
    Job::new(&job, 1, 0).unwrap().files(files.cluster())
}

#[test]
fn the_first_open_of_a_job_counts_until_its_last_close() {
    over_every_transport(|site| {
        let met = Barrier::new(SIZE as usize);
        together(site, SIZE, |files| {
            let (rank, own) = (files.job().rank(), own(&files));
            for round in 0..10 {
                let path = format!("/new{round}");
                let options = || {
                    let options = own.options(Mode::Unix).read(true).write(true);
                    options.create_new(true).truncate(true)
                };
                let file = options().open_first_of(&files, &path).unwrap();
                file.write_at(&[b'a' + u8::try_from(rank).unwrap()], rank.into()).unwrap();
                met.wait();
                let mut bytes = [0; 10];
                assert_eq!(file.read_at(&mut bytes, 0).unwrap(), SIZE as usize);
                assert_eq!(&bytes[..3], b"abc");
                if rank == round % SIZE {
                    drop(file); // dropped or closed
                } else {
                    file.close().unwrap();
                }
                met.wait();
                let error = options().open_first_of(&files, &path).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                met.wait();
            }
        });
    });
}

#[test]
fn processes_of_another_job_do_not_join() {
    over_every_transport(|site| {
        together(site, 2, |files| {
            let own = own(&files);
            // Another job opens the same path by itself.
            let other = Job::new(&format!("other {}", files.job().rank()), 2, 0).unwrap();
            let other = other.files(files.cluster());
            let options = own.options(Mode::Unix).read(true).write(true).create(true);
            let first = options.open_first_of(&files, "/x").unwrap();
            files.barrier().unwrap();
            let options = own.options(Mode::Unix).write(true).create_new(true);
            let error = options.open_first_of(&other, "/x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            first.close().unwrap();
        });
    });
}
