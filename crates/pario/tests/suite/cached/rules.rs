//! The documented behaviour of each call, and its error messages.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pario::cached::CachedFileSource;
use pario::memory::Reduction;
use pario::{CachedFile, CachedOptions, Cluster, Error, Job};

use super::content::bytes;
use super::job_ranks::{spread, together};
use crate::ranks::{Machines, new_job};

fn new(path: &Path, job: &Job, len: u64) -> CachedFile {
    let options = CachedOptions::new().read(true).write(true).create(true);
    let mut file = job.cache_with(path, &options).unwrap();
    file.reserve(len).unwrap();
    file
}

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, Error>, what: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.contains(what), "{text}");
}

#[test]
fn rights_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    std::fs::write(path, b"0123456789").unwrap();
    together(3, |job| {
        let mut file = job.cache(path).unwrap();
        says(file.reserve(100), "cannot reserve anything: the file was opened for reading only");
        says(file.write_at(b"x", 0), "was not opened for writing");
        says(file.read_exact_at(&mut [0; 3], 8), "the file ends at byte 10; 3 bytes from byte 8");
        let mut rest = [0; 20];
        assert_eq!(file.read_at(&mut rest, 8).unwrap(), 2);
        assert_eq!(file.move_to(std::io::SeekFrom::End(0)).unwrap(), 10);
        file.close().unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"0123456789");
        job.barrier().unwrap();

        let mut file = job.cache_with(path, &CachedOptions::new().write(true)).unwrap();
        // It is empty at once.
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
        says(file.write_at(b"x", 0), "before all ranks have said how long the file can become");
        file.reserve(5).unwrap();
        says(file.read_at(&mut [0], 0), "was not opened for reading");
        says(file.write_at(b"123456", 0), "6 bytes at byte 0 end beyond the 5 bytes");
        says(file.write_at(b"1", u64::MAX), "end beyond the 5 bytes");
        says(file.append(b"x"), "was not opened for appending");
        file.close().unwrap();
        says(job.cache_with(path, &CachedOptions::new()), "for reading, for writing, or both");
        says(job.cache_with(path, &CachedOptions::new().read(true).create(true)), "for writing");
    });
    assert_eq!(std::fs::read(path).unwrap(), b"");
}

#[test]
fn what_is_reserved_too_much_is_not_there_and_gaps_are_zero() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    together(3, |job| {
        let mut file = new(path, &job, 1 << 30);
        if job.rank() == 1 {
            file.write_at(b"end", 200_000).unwrap();
        }
        job.barrier().unwrap();
        assert_eq!(file.len().unwrap(), 200_003);
        says(file.reserve(200_002), "200003 are in the file already");
        file.flush().unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().len(), 200_003);
        file.close().unwrap();
    });
    let mut right = vec![0; 200_003];
    right[200_000..].copy_from_slice(b"end");
    assert!(std::fs::read(path).unwrap() == right);
}

#[test]
fn a_flush_without_changes_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (number, memory) in [None, Some(0)].into_iter().enumerate() {
        let path = &dir.path().join(number.to_string());
        std::fs::write(path, bytes(1, 1_000_000)).unwrap();
        together(4, |job| {
            let mut options = CachedOptions::new().read(true).write(true);
            if let Some(bytes) = memory {
                options = options.memory(bytes);
            }
            let mut file = job.cache_with(path, &options).unwrap();
            file.reserve(2_000_000).unwrap();
            let at_first = file.statistics();
            assert_eq!((at_first.writes, at_first.syncs), (0, 0));
            file.flush().unwrap();
            assert_eq!(file.statistics(), at_first);
            // One page of sixteen is written by one rank, once.
            if job.rank() == 2 {
                file.write_at(b"changed", 300_000).unwrap();
            }
            file.flush().unwrap();
            let now = file.statistics();
            let mut sums = [now.writes, now.written_bytes, now.syncs];
            job.reduce(Reduction::Sum, &mut sums).unwrap();
            assert_eq!(sums, [1, 65_536, 1]);
            let before = file.statistics();
            file.flush().unwrap();
            assert_eq!(file.statistics(), before);
            file.close().unwrap();
        });
        assert_eq!(&std::fs::read(path).unwrap()[300_000..300_007], b"changed");
    }
}

/// A file that is replaced by every flush is not replaced by one that has nothing to say.
#[test]
fn a_file_without_changes_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    std::fs::write(path, bytes(1, 100_000)).unwrap();
    let number = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    let before = number();
    together(3, |job| {
        let options = CachedOptions::new().read(true).write(true).replace(true);
        let mut file = job.cache_with(path, &options).unwrap();
        file.reserve(200_000).unwrap();
        file.flush().unwrap();
        assert_eq!((number(), file.statistics().writes), (before, 0));
        job.barrier().unwrap();
        if job.rank() == 2 {
            file.write_at(b"x", 0).unwrap();
        }
        file.flush().unwrap();
        assert_ne!(number(), before);
        file.close().unwrap();
    });
}

#[test]
fn a_file_grows_by_single_bytes_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    together(3, |job| {
        let file = new(path, &job, 30);
        for place in 0..30_u64 {
            if place % 3 == u64::from(job.rank()) {
                file.write_at(&[b'a' + place as u8], place).unwrap();
            }
            job.barrier().unwrap();
            assert_eq!(file.len().unwrap(), place + 1);
            job.barrier().unwrap();
        }
        file.close().unwrap();
    });
    assert_eq!(std::fs::read(path).unwrap(), (b'a'..b'a' + 30).collect::<Vec<u8>>());
}

#[test]
fn an_error_of_one_rank_is_reported_to_all() {
    let dir = tempfile::tempdir().unwrap();
    let errors = together(3, |job| {
        let missing = dir.path().join("missing");
        let error = job.cache(&missing).unwrap_err();
        assert_eq!(error.kind(), pario::ErrorKind::NotFound);
        assert!(job.cache(dir.path()).unwrap_err().to_string().contains("directory"));
        says(job.cache("/dev/null"), "it is a device, which cannot be cached");
        // The memory of this machine does not hold so much.
        let mut file = new(&dir.path().join("x"), &job, 10);
        says(file.reserve(1 << 50), "with CachedOptions::memory");
        says(file.reserve(u64::MAX), "more than 2^62 bytes");
        file.write_at(b"0123456789", 0).unwrap();
        file.close().unwrap();
        error
    });
    let text =
        format!("{}: rank 0 cannot open it: No such file", dir.path().join("missing").display());
    assert!(errors.iter().all(|error| error.to_string().starts_with(&text)), "{errors:?}");
}

#[test]
fn a_flush_that_fails_fails_for_all_and_can_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    std::fs::write(path, b"flushed before").unwrap();
    let options = CachedOptions::new().read(true).write(true).replace(true);
    let errors = together(3, |job| {
        let mut file = job.cache_with(path, &options).unwrap();
        file.reserve(100).unwrap();
        file.write_at(b"never there", 0).unwrap();
        job.barrier().unwrap();
        // The file is gone, so that none can be made beside it.
        if job.rank() == 0 {
            std::fs::rename(path, dir.path().join("y")).unwrap();
        }
        job.barrier().unwrap();
        let error = file.flush().unwrap_err();
        job.barrier().unwrap();
        if job.rank() == 0 {
            std::fs::rename(dir.path().join("y"), path).unwrap();
        }
        job.barrier().unwrap();
        // It can be tried again.
        assert_eq!(std::fs::read(path).unwrap(), b"flushed before");
        job.barrier().unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"never thereore");
        error.to_string()
    });
    let all_same = errors.iter().all(|error| *error == errors[0]);
    assert!(all_same && errors[0].contains("rank 0 cannot make a file beside it"), "{errors:?}");
}

#[test]
fn a_file_that_is_replaced_keeps_its_rights() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (&dir.path().join("x"), &dir.path().join("link"));
    std::fs::write(path, b"old").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o604)).unwrap();
    std::os::unix::fs::symlink("x", link).unwrap();
    let before = std::fs::File::open(path).unwrap();
    together(2, |job| {
        let options = CachedOptions::new().write(true).replace(true);
        let mut file = job.cache_with(link, &options).unwrap();
        // It is as it was until the flush, also if it is to be emptied.
        assert_eq!(std::fs::read(path).unwrap(), b"old");
        file.reserve(10).unwrap();
        file.write_at(&[b'0' + job.rank() as u8], job.rank().into()).unwrap();
        file.close().unwrap();
    });
    assert_eq!(std::fs::read(path).unwrap(), b"01");
    assert!(std::fs::symlink_metadata(link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o604);
    let mut old = String::new();
    std::io::Read::read_to_string(&mut &before, &mut old).unwrap();
    assert_eq!(old, "old");
}

#[test]
fn ranks_that_call_different_things_get_an_error_and_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    together(3, |job| {
        let mut file = new(path, &job, 100);
        let error = if job.rank() == 1 { file.reserve(50) } else { file.flush() };
        let text = error.unwrap_err().to_string();
        assert!(text.contains(&format!("ranks 0, 2 called flush of {}", path.display())), "{text}");
        assert!(text.contains("rank 1 called reserve of 50 bytes"), "{text}");
        let write = job.rank() == 0;
        let options = CachedOptions::new().read(true).write(write);
        says(job.cache_with(path, &options), "rank 0 called open of");
        file.write_at(&[7], 0).unwrap();
        file.close().unwrap();
    });
}

#[test]
fn who_leaves_without_closing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    let errors = together(3, |job| {
        let mut file = new(path, &job, 100);
        file.write_at(b"flushed", 0).unwrap();
        file.flush().unwrap();
        file.write_at(b"not so!", 0).unwrap();
        if job.rank() == 1 {
            return None;
        }
        Some(file.close().unwrap_err().to_string())
    });
    let errors: Vec<String> = errors.into_iter().flatten().collect();
    assert!(errors.iter().any(|error| error.contains("rank 1 has left")), "{errors:?}");
    assert_eq!(std::fs::read(path).unwrap(), b"flushed");
}

#[test]
fn jobs_cache_files_of_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = &Cluster::embedded(dir.path()).unwrap();
    cluster.create("/mesh").unwrap().write_at(&bytes(5, 300_000), 0).unwrap();
    together(3, |job| {
        let in_cluster = |path| CachedFileSource::in_cluster(cluster, path);
        // Two at a time, beside other uses of the memory.
        job.barrier().unwrap();
        let mesh = job.cache(in_cluster("/mesh")).unwrap();
        let options = CachedOptions::new().write(true).create(true);
        let mut out = job.cache_with(in_cluster("/out"), &options).unwrap();
        out.reserve(300_000).unwrap();
        let mut part = vec![0; 100_000];
        mesh.read_exact_at(&mut part, u64::from(job.rank()) * 100_000).unwrap();
        out.write_at(&part, u64::from(job.rank()) * 100_000).unwrap();
        out.close().unwrap();
        mesh.close().unwrap();
        job.barrier().unwrap();
    });
    let mut got = vec![0; 300_000];
    cluster.open("/out").unwrap().read_exact_at(&mut got, 0).unwrap();
    assert!(got == bytes(5, 300_000));
    let missing = CachedFileSource::in_cluster(cluster, "/missing");
    let error = Job::new(&new_job(), 1, 0).unwrap().cache(missing).unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::NotFound);
}

/// Tells a process which file it is to write, and in how much memory.
const LIMITED: &str = "PARIO_TEST_LIMITED";

/// When the system refuses a write of one rank, all ranks get the error; flushed bytes are kept.
#[test]
fn files_that_cannot_grow() {
    let dir = tempfile::tempdir().unwrap();
    for memory in [None, Some(0)] {
        let path = dir.path().join("x");
        std::fs::write(&path, bytes(8, 500_000)).unwrap();
        let told = format!("{}\t{}", path.display(), memory.map_or(-1, |_: i32| 0));
        // A write beyond the limit fails with an error instead of a signal.
        let limited = "trap '' XFSZ; exec \"$0\" \"$@\"";
        let status = std::process::Command::new("sh")
            .args(["-c", limited])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "cached::rules::limited_process"])
            .env(LIMITED, told)
            .status()
            .unwrap();
        assert!(status.success());
        assert!(std::fs::read(&path).unwrap()[..500_000] == bytes(8, 500_000));
    }
}

/// The process of the test above; without its variable it is no test and does nothing.
#[test]
fn limited_process() {
    let Ok(told) = std::env::var(LIMITED) else { return };
    let (path, memory) = told.split_once('\t').unwrap();
    together(3, |job| {
        let mut options = CachedOptions::new().read(true).write(true);
        if memory == "0" {
            options = options.memory(0);
        }
        let mut file = job.cache_with(path, &options).unwrap();
        file.reserve(20 << 20).unwrap();
        // Memory of a team is subject to the limit as well: it comes afterwards.
        let limit = rustix::process::Rlimit { current: Some(1 << 20), maximum: None };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        // The second rank writes the part that does not fit, since it is its share.
        let written = file.write_at(&[9; 65_536], 18 << 20);
        assert!(written.is_ok(), "{written:?}");
        job.barrier().unwrap();
        for _ in 0..2 {
            let error = file.flush().unwrap_err();
            assert_eq!(error.kind(), pario::ErrorKind::TooLarge, "{error}");
            says(Err::<(), _>(error), "rank 1 cannot write: File too large");
        }
    });
}

#[test]
fn a_plain_file_is_kept_in_part_by_one_machine_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("x");
    std::fs::write(path, [7; 300_000]).unwrap();
    let errors = spread(3, Machines::Of(2), |job| {
        let options = CachedOptions::new().read(true).memory(0);
        let error = job.cache_with(path, &options).unwrap_err().to_string();
        let whole = job.cache(path).unwrap();
        // A rank reads no file of another machine.
        assert!(job.rank() < 2 || whole.statistics().reads == 0);
        let mut last = [0];
        whole.read_exact_at(&mut last, 299_999).unwrap();
        assert_eq!(last, [7]);
        whole.close().unwrap();
        error
    });
    for error in errors {
        assert!(
            error.contains("plain file of the machine of rank 0, and rank 2 is on another"),
            "{error}"
        );
    }
}
