//! Sizes of shared files, and started reads into memory of the caller, over every transport that
//! admits several clients.

use std::io::SeekFrom;
use std::sync::atomic::{AtomicU32, Ordering};

use pario::{Job, JobFiles, Mode};

use crate::sites::{Site, Transport};

const CONNECTED: [Transport; 4] =
    [Transport::Socket, Transport::ShortCut, Transport::Tcp, Transport::TwoNodes];

/// Runs `work` as each rank of a new job, one thread per rank.
fn together(site: &Site, size: u32, work: impl Fn(JobFiles) + Sync) {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let job = format!("job {}", JOBS.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (job, work) = (&job, &work);
            scope.spawn(move || work(Job::new(job, size, rank).unwrap().files(&site.another())));
        }
    });
}

#[test]
fn files_become_longer_and_never_shorter() {
    for transport in CONNECTED {
        eprintln!("{transport:?}");
        let site = Site::new(transport);
        together(&site, 2, |files| {
            for mode in Mode::ALL {
                let file = files.create("/sizes", mode).unwrap();
                assert_eq!(file.extend(SeekFrom::Start(300_000)).unwrap(), 300_000);
                assert_eq!(file.extend(SeekFrom::Start(10)).unwrap(), 300_000);
                assert_eq!(file.extend(SeekFrom::End(-10)).unwrap(), 300_000);
                assert_eq!(file.extend(SeekFrom::Current(-10)).unwrap(), 300_000);
                assert!(file.extend(SeekFrom::Start(u64::MAX)).is_err());
                assert!(file.extend(SeekFrom::End(i64::MAX)).is_err());
                assert_eq!(file.position().unwrap(), 0);
                files.barrier().unwrap();
                file.seek(SeekFrom::Start(400_000)).unwrap();
                files.barrier().unwrap();
                assert_eq!(file.extend(SeekFrom::Current(5)).unwrap(), 400_005);
                let mut bytes = vec![1; 400_005];
                file.file().read_exact_at(&mut bytes, 0).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 0), "the added bytes are zeros");
                files.barrier().unwrap();
                file.close().unwrap();
            }
        });
    }
}

#[test]
fn extending_keeps_concurrent_writes_of_others() {
    let site = Site::new(Transport::Socket);
    together(&site, 3, |files| {
        let file = files.create("/grown", Mode::Async).unwrap();
        let own = [b'a' + u8::try_from(files.job().rank()).unwrap(); 100];
        for round in 0..300 {
            let place = (round * 3 + u64::from(files.job().rank())) * 100;
            file.file().write_at(&own, place).unwrap();
            assert!(file.extend(SeekFrom::Start(place + 50)).unwrap() >= place + 100);
            let mut seen = [0; 100];
            file.file().read_exact_at(&mut seen, place).unwrap();
            assert_eq!(seen, own);
        }
        file.close().unwrap();
    });
}

#[test]
fn started_reads_go_to_memory_of_the_caller() {
    for transport in CONNECTED {
        eprintln!("{transport:?}");
        let site = Site::new(transport);
        let content: Vec<u8> = (0..500_000u32).map(|at| (at % 251) as u8).collect();
        site.cluster.create("/lent").unwrap().write_at(&content, 0).unwrap();
        together(&site, 2, |files| {
            for mode in [Mode::Unix, Mode::Sync, Mode::Global, Mode::Record] {
                let file = files.open("/lent", mode).unwrap();
                let mut memory = vec![vec![0; 100_000]; 3];
                let reads: Vec<_> = memory
                    .iter_mut()
                    .map(|part| {
                        // SAFETY: the memory is left alone until all were waited for.
                        unsafe { file.start_read_into(part.as_mut_ptr(), part.len()) }.unwrap()
                    })
                    .collect();
                let counts: Vec<_> = reads.into_iter().map(|read| read.wait().unwrap()).collect();
                for (number, (part, count)) in memory.iter().zip(counts).enumerate() {
                    let place = match mode {
                        Mode::Unix | Mode::Global => number,
                        _ => number * 2 + files.job().rank() as usize,
                    } * 100_000;
                    let expected = &content[place.min(500_000)..(place + 100_000).min(500_000)];
                    assert_eq!(count, expected.len(), "{mode} {number}");
                    assert!(part[..count] == *expected, "{mode} {number}");
                }
                file.close().unwrap();
            }
        });
    }
}

/// A rank that closes the file while the others make another call has left it; both calls fail and
/// say so.
#[test]
fn a_rank_that_closes_alone_has_left() {
    for transport in [Transport::Socket, Transport::ShortCut] {
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
