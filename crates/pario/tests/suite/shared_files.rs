//! Files that the processes of a job have open together, in every mode. The ranks are threads here,
//! each with a connection of its own, as processes have.

use std::future::Future;
use std::io::{Read, SeekFrom, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use fastrand::Rng;
use pario::{Cluster, Error, Job, JobFiles, Mode};

use crate::sites::{Site, Transport};

/// Transports that admit several clients.
const CONNECTED: [Transport; 4] =
    [Transport::Socket, Transport::ShortCut, Transport::Tcp, Transport::TwoNodes];

/// Transports on the machine of the node: ranks coordinate by messages, and in shared memory.
const LOCAL: [Transport; 2] = [Transport::Socket, Transport::ShortCut];

/// Runs a test over every transport that admits several clients.
pub fn over_every_transport(test: impl Fn(&Site)) {
    for transport in CONNECTED {
        eprintln!("{transport:?}");
        test(&Site::new(transport));
    }
}

/// Runs `work` as each rank of a new job, one thread per rank.
pub fn together<T: Send>(site: &Site, size: u32, work: impl Fn(JobFiles) -> T + Sync) -> Vec<T> {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let job = format!("job {}", JOBS.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (job, work) = (&job, &work);
                scope.spawn(move || {
                    let cluster = site.another();
                    work(Job::new(job, size, rank).unwrap().files(&cluster))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn content(cluster: &Cluster, path: &str) -> Vec<u8> {
    let file = cluster.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn byte_of(rank: u32) -> u8 {
    b'a' + u8::try_from(rank).unwrap()
}

#[test]
fn all_ranks_append_to_one_log() {
    over_every_transport(|site| {
        together(site, 4, |files| {
            let log = files.create("/log", Mode::Log).unwrap();
            let mut random = Rng::with_seed(files.job().rank().into());
            for number in 0..40u32 {
                let len = random.usize(0..5_000);
                let mut record = vec![byte_of(files.job().rank())];
                record.extend(number.to_le_bytes());
                record.extend(u32::try_from(len).unwrap().to_le_bytes());
                record.resize(9 + len, byte_of(files.job().rank()));
                log.write(&record).unwrap();
            }
            log.close().unwrap();
        });
        let log = content(&site.cluster, "/log");
        let (mut rest, mut next) = (log.as_slice(), [0u32; 4]);
        while !rest.is_empty() {
            let rank = usize::from(rest[0] - b'a');
            let number = u32::from_le_bytes(rest[1..5].try_into().unwrap());
            let len = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
            assert_eq!(number, next[rank], "the records of a rank are in order");
            next[rank] += 1;
            assert!(rest[9..9 + len].iter().all(|byte| *byte == rest[0]), "records do not mix");
            rest = &rest[9 + len..];
        }
        assert_eq!(next, [40; 4]);
    });
}

/// Each record is read by one rank, and all are.
#[test]
fn records_of_a_log_are_handed_out_once() {
    for transport in LOCAL {
        let site = Site::new(transport);
        let records: Vec<u8> = (0..200u8).flat_map(|record| [record; 100]).collect();
        site.cluster.create("/jobs").unwrap().write_at(&records, 0).unwrap();
        let seen = Mutex::new(Vec::new());
        together(&site, 3, |files| {
            let jobs = files.open("/jobs", Mode::Log).unwrap();
            let mut record = [0; 100];
            while jobs.read(&mut record).unwrap() == 100 {
                assert_eq!(record, [record[0]; 100]);
                seen.lock().unwrap().push(record[0]);
            }
            assert!(jobs.is_at_end().unwrap());
            assert_eq!(jobs.position().unwrap(), 20_000);
            jobs.close().unwrap();
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<u8>>());
    }
}

#[test]
fn ranks_write_in_order_whatever_their_sizes() {
    over_every_transport(|site| {
        let len = |rank: u32, round: u32| ((rank * 7 + round * 13) % 29 * 3_000) as usize;
        together(site, 4, |files| {
            let file = files.create("/result", Mode::Sync).unwrap();
            for round in 0..12 {
                let part = vec![byte_of(files.job().rank()); len(files.job().rank(), round)];
                file.write(&part).unwrap();
            }
            file.seek(SeekFrom::Start(0)).unwrap();
            for round in 0..12 {
                let mut part = vec![0; len(files.job().rank(), round)];
                assert_eq!(file.read(&mut part).unwrap(), part.len());
                assert!(part.iter().all(|byte| *byte == byte_of(files.job().rank())));
            }
            let mut more = [0; 10];
            assert_eq!(file.read(&mut more).unwrap(), 0, "the file is at its end");
            file.close().unwrap();
        });
        let expected: Vec<u8> = (0..12)
            .flat_map(|round| (0..4).map(move |rank| vec![byte_of(rank); len(rank, round)]))
            .flatten()
            .collect();
        assert!(content(&site.cluster, "/result") == expected);
    });
}

/// Reads are cut at the end in the order of ranks.
#[test]
fn the_end_of_the_file_cuts_in_the_order_of_ranks() {
    for transport in LOCAL {
        let site = Site::new(transport);
        site.cluster.create("/short").unwrap().write_at(&[1; 25], 0).unwrap();
        let counts = together(&site, 4, |files| {
            let file = files.open("/short", Mode::Sync).unwrap();
            let count = file.read(&mut [0; 10]).unwrap();
            assert_eq!(file.position().unwrap(), 25);
            file.close().unwrap();
            count
        });
        assert_eq!(counts, [10, 10, 5, 0]);
    }
}

#[test]
fn records_are_interleaved_and_independent() {
    over_every_transport(|site| {
        together(site, 3, |files| {
            let file = files.create("/state", Mode::Record).unwrap();
            // The last rank is done before the others begin.
            if files.job().rank() < 2 {
                files.barrier().unwrap();
            }
            for round in 0..8u8 {
                file.write(&[byte_of(files.job().rank()) + 4 * round; 1000]).unwrap();
            }
            if files.job().rank() == 2 {
                files.barrier().unwrap();
            }
            assert_eq!(file.position().unwrap(), 8 * 3 * 1000);
            file.seek(SeekFrom::Start(3000)).unwrap();
            let mut record = [0; 1000];
            assert_eq!(file.read(&mut record).unwrap(), 1000);
            assert_eq!(record, [byte_of(files.job().rank()) + 4; 1000]);
            file.close().unwrap();
            // Appended records lie where they belong, however far the others are.
            let options = files.options(Mode::Record).read(true).write(true).append(true);
            let file = options.open("/state").unwrap();
            for _ in 0..3 {
                file.write(&[byte_of(files.job().rank()); 10]).unwrap();
            }
            file.close().unwrap();
        });
        let bytes = content(&site.cluster, "/state");
        let mut expected: Vec<u8> = (0..8)
            .flat_map(|round| (0..3).map(move |rank| [byte_of(rank) + 4 * round; 1000]))
            .flatten()
            .collect();
        expected.extend((0..3).flat_map(|_| (0..3).flat_map(|rank| [byte_of(rank); 10])));
        assert!(bytes == expected);
    });
}

#[test]
fn what_all_do_is_done_once() {
    over_every_transport(|site| {
        together(site, 4, |files| {
            let file = files.create("/global", Mode::Global).unwrap();
            for round in 0..6u8 {
                file.write(&[round; 70_000]).unwrap();
            }
            assert_eq!(file.position().unwrap(), 6 * 70_000);
            file.seek(SeekFrom::Start(35_000)).unwrap();
            let mut bytes = vec![0; 70_000];
            for round in 0..5u8 {
                assert_eq!(file.read(&mut bytes).unwrap(), 70_000);
                let (first, second) = bytes.split_at(35_000);
                assert!(first.iter().all(|byte| *byte == round));
                assert!(second.iter().all(|byte| *byte == round + 1));
            }
            assert_eq!(file.read(&mut bytes).unwrap(), 35_000);
            assert_eq!(file.read(&mut bytes).unwrap(), 0);
            file.close().unwrap();
        });
        assert_eq!(content(&site.cluster, "/global").len(), 6 * 70_000);
    });
}

/// A broadcast read is larger than the buffer in shared memory that it goes through.
#[test]
fn more_than_there_is_room_for_is_read_once() {
    const LEN: usize = 5 << 20;
    over_every_transport(|site| {
        let mut bytes = vec![0; 2 * LEN];
        Rng::with_seed(3).fill(&mut bytes);
        site.cluster.create("/large").unwrap().write_at(&bytes, 0).unwrap();
        together(site, 3, |files| {
            let file = files.open("/large", Mode::Global).unwrap();
            let mut first = vec![0; LEN];
            assert_eq!(file.read(&mut first).unwrap(), LEN);
            assert!(first == bytes[..LEN]);
            let begun: Vec<_> = (0..4).map(|_| file.start_read(LEN / 3).unwrap()).collect();
            let mut from = LEN;
            for read in begun {
                let read = read.wait().unwrap();
                assert!(read[..] == bytes[from..from + read.len()]);
                from += read.len();
            }
            assert_eq!(from, 2 * LEN, "the last one was cut");
            file.close().unwrap();
        });
    });
}

/// Another client has truncated the file below the size that the job knows.
#[test]
fn what_one_reads_for_all_comes_to_all_where_the_file_ends_early() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 3, |files| {
            let file = files.create("/f", Mode::Global).unwrap();
            file.write(&[7; 100]).unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            if files.job().rank() == 0 {
                file.file().set_len(60).unwrap();
            }
            files.barrier().unwrap();
            let mut bytes = [0; 100];
            assert_eq!(file.read(&mut bytes).unwrap(), 60);
            assert_eq!(bytes[..60], [7; 60]);
            file.close().unwrap();
        });
    }
}

/// More rounds are begun than a table has room for.
#[test]
fn many_rounds_are_under_way() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 3, |files| {
            let file = files.create("/f", Mode::Sync).unwrap();
            let begun: Vec<_> = (0..100u8)
                .map(|round| {
                    file.start_write(vec![round; files.job().rank() as usize + 1]).unwrap()
                })
                .collect();
            begun.into_iter().for_each(|write| write.wait().unwrap());
            file.close().unwrap();
        });
        let expected: Vec<u8> = (0..100).flat_map(|round| [round; 6]).collect();
        assert_eq!(content(&site.cluster, "/f"), expected);
    }
}

/// Requests are dropped, their file is dropped before them or closed before them: every write is in
/// the file all the same.
#[test]
fn started_writes_are_done_whatever_becomes_of_their_requests() {
    const LEN: usize = 200_000;
    for transport in LOCAL {
        let site = Site::new(transport);
        for ending in 0..4 {
            let path = format!("/f{ending}");
            together(&site, 1, |files| {
                let file = files.create(&path, Mode::Log).unwrap();
                let begun: Vec<_> =
                    (0..20u8).map(|round| file.start_write(vec![round; LEN]).unwrap()).collect();
                match ending {
                    0 => {
                        drop(begun);
                        file.close().unwrap();
                    }
                    1 => {
                        file.close().unwrap();
                        assert!(begun.iter().all(pario::Pending::is_done));
                        begun.into_iter().for_each(|write| write.wait().unwrap());
                    }
                    2 => {
                        drop(file);
                        begun.into_iter().for_each(|write| write.wait().unwrap());
                    }
                    _ => {
                        drop(file);
                        drop(begun);
                    }
                }
            });
            let expected: Vec<u8> = (0..20).flat_map(|round| vec![round; LEN]).collect();
            assert!(content(&site.cluster, &path) == expected, "{transport:?}, {ending}");
        }
    }
}

/// A rank drops the file while its collective write waits for the others, which do not call: the
/// write fails, and neither waiting for it nor dropping it takes forever.
#[test]
fn a_collective_write_of_a_dropped_file_ends_with_an_error() {
    for transport in LOCAL {
        let site = Site::new(transport);
        for is_dropped in [false, true] {
            let path = format!("/f{is_dropped}");
            together(&site, 2, |files| {
                let file = files.create(&path, Mode::Sync).unwrap();
                if files.job().rank() == 0 {
                    let (first, second) =
                        (file.start_write(&b"one"[..]).unwrap(), file.start_write(&b"two"[..]));
                    drop(file);
                    drop(second.unwrap());
                    match is_dropped {
                        true => drop(first),
                        false => assert!(first.wait().is_err()),
                    }
                }
                files.barrier().unwrap();
            });
        }
    }
}

/// A task that the thread of the file wakes runs on that thread, and waits there for later accesses
/// and for the close: the thread performs them itself.
#[test]
fn a_task_on_the_thread_of_the_file_may_wait_for_the_file() {
    struct Inline(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let work = self.0.lock().unwrap().take();
            work.into_iter().for_each(|work| work());
        }
    }

    let site = Site::new(Transport::ShortCut);
    for _ in 0..20 {
        together(&site, 1, |files| {
            let file = files.create("/f", Mode::Log).unwrap();
            let mut first = file.start_write(vec![1; 4 << 20]).unwrap();
            let second = file.start_write(vec![2; 1000]).unwrap();
            let third = file.start_write(vec![3; 1000]).unwrap();
            let unread = file.start_read(10).unwrap();
            let (done, over) = std::sync::mpsc::channel();
            let work = move || {
                drop(second);
                third.wait().unwrap();
                file.close().unwrap();
                assert!(unread.is_done());
                done.send(()).unwrap();
            };
            let inline = Arc::new(Inline(Mutex::new(Some(Box::new(work)))));
            let waker = Waker::from(inline.clone());
            if let Poll::Ready(written) =
                Pin::new(&mut first).poll(&mut Context::from_waker(&waker))
            {
                written.unwrap();
                inline.wake();
            }
            over.recv().unwrap();
        });
        assert_eq!(content(&site.cluster, "/f").len(), (4 << 20) + 2000);
    }
}

/// Lines of formatted text are written as a whole.
#[test]
fn lines_of_several_ranks_do_not_mix() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 4, |files| {
            let log = files.create("/lines", Mode::Log).unwrap();
            for number in 0..50 {
                writeln!(&log, "rank {} says {number} and {:?}", files.job().rank(), "more")
                    .unwrap();
            }
            (&log).flush().unwrap();
            log.close().unwrap();
        });
        let text = String::from_utf8(content(&site.cluster, "/lines")).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<String> = (0..4)
            .flat_map(|rank| {
                (0..50).map(move |number| format!("rank {rank} says {number} and \"more\""))
            })
            .collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
        together(&site, 1, |files| {
            let mut log = files.open("/lines", Mode::Async).unwrap();
            let mut again = String::new();
            log.read_to_string(&mut again).unwrap();
            assert_eq!(again, text);
            log.close().unwrap();
        });
    }
}

/// Two ranks write the same bytes, on several disks, and two ranks read some of them: no read ever
/// returns bytes of two writes.
#[test]
fn overlapping_accesses_never_mix() {
    const LEN: usize = 300_000;
    over_every_transport(|site| {
        together(site, 4, |files| {
            let file = files.create("/atomic", Mode::Unix).unwrap();
            let mut bytes = vec![0; LEN];
            if files.job().rank() == 0 {
                file.write(&bytes).unwrap();
            }
            files.barrier().unwrap();
            let mut random = Rng::with_seed(files.job().rank().into());
            for round in 0..60 {
                if files.job().rank() < 2 {
                    bytes.fill(2 * round + byte_of(files.job().rank()));
                    file.seek(SeekFrom::Start(0)).unwrap();
                    file.write(&bytes).unwrap();
                } else {
                    let from = random.usize(0..LEN / 2);
                    file.seek(SeekFrom::Start(from as u64)).unwrap();
                    let count = file.read(&mut bytes).unwrap();
                    assert_eq!(count, LEN - from);
                    let is_one = bytes[..count].iter().all(|byte| *byte == bytes[0]);
                    assert!(is_one, "in round {round} from {from}");
                }
            }
            file.close().unwrap();
        });
        let left = content(&site.cluster, "/atomic");
        assert!(left.len() == LEN && left.iter().all(|byte| *byte == left[0]));
    });
}

#[test]
fn modes_change_and_the_pointer_stays() {
    for transport in LOCAL {
        let site = Site::new(transport);
        together(&site, 3, |files| {
            let file = files.create("/f", Mode::Global).unwrap();
            file.write(b"head").unwrap();
            file.set_mode(Mode::Sync).unwrap();
            assert_eq!(file.mode(), Mode::Sync);
            file.write(&vec![byte_of(files.job().rank()); files.job().rank() as usize + 1])
                .unwrap();
            file.set_mode(Mode::Record).unwrap();
            file.write(&[byte_of(files.job().rank()); 2]).unwrap();
            file.set_mode(Mode::Async).unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            let mut bytes = [0; 16];
            assert_eq!(file.read(&mut bytes).unwrap(), 16);
            assert_eq!(&bytes, b"headabbcccaabbcc");
            assert_eq!(file.seek(SeekFrom::End(-2)).unwrap(), 14);
            file.close().unwrap();
        });
    }
}

#[test]
fn several_accesses_are_under_way_and_have_their_places() {
    over_every_transport(|site| {
        for mode in [Mode::Sync, Mode::Record, Mode::Log, Mode::Global] {
            let path = format!("/started-{mode}");
            together(site, 3, |files| {
                let file = files.create(&path, mode).unwrap();
                let bytes = |round: u8| vec![round; 500];
                let writes: Vec<_> =
                    (0..10).map(|round| file.start_write(bytes(round)).unwrap()).collect();
                for write in writes {
                    write.wait().unwrap();
                }
                if mode == Mode::Log {
                    files.barrier().unwrap();
                    if files.job().rank() == 0 {
                        file.seek(SeekFrom::Start(0)).unwrap();
                    }
                    files.barrier().unwrap();
                } else {
                    file.seek(SeekFrom::Start(0)).unwrap();
                }
                let reads: Vec<_> = (0..10).map(|_| file.start_read(500).unwrap()).collect();
                for (round, read) in (0..10).zip(reads) {
                    let read = read.wait().unwrap();
                    assert_eq!(read.len(), 500, "{mode}");
                    assert!(mode == Mode::Log || read[..] == bytes(round), "{mode} {round}");
                }
                file.close().unwrap();
            });
        }
    });
}

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
        refused(wrong, "barrier: job job: it has 2 ranks, but rank 1 gives 3 as its size");
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

/// When a rank is gone, the calls that wait for it fail at once and name it.
#[test]
fn a_rank_that_is_gone_is_named() {
    over_every_transport(|site| {
        for mode in [Mode::Sync, Mode::Global, Mode::Record, Mode::Log] {
            let path = format!("/{mode}");
            let gone_at = Mutex::new(None);
            together(site, 3, |files| {
                let file = files.create(&path, mode).unwrap();
                file.write(&[1; 100]).unwrap();
                if files.job().rank() == 1 {
                    *gone_at.lock().unwrap() = Some(Instant::now());
                    return; // its connection closes with it
                }
                let error = match mode {
                    Mode::Sync | Mode::Global => file.write(&[2; 100]).unwrap_err(),
                    _ => file.set_mode(Mode::Unix).unwrap_err(),
                };
                let since = gone_at.lock().unwrap().expect("only rank 1 can be the reason");
                assert!(since.elapsed() < Duration::from_secs(2), "{mode}: {:?}", since.elapsed());
                let text = error.to_string();
                let told =
                    text.contains("rank 1 is gone") || text.contains("rank 1 has closed the file");
                assert!(told, "{mode}: {text}");
                // A call that needs no other rank succeeds.
                if mode == Mode::Log {
                    file.write(&[3; 100]).unwrap();
                }
                assert!(
                    file.close().is_err(),
                    "{mode}: it is closed, and all know that one is not"
                );
            });
        }
        crate::sites::until("nothing is open any more", || site.status().open_files == 0);
    });
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

/// When the home node is restarted, the calls of all ranks fail once; then the ranks open the file
/// again.
#[test]
fn ranks_coordinate_again_after_a_restart_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", dir.path().join("s").display());
    let node = Mutex::new(Some(crate::sites::NodeProcess::start(dir.path(), "local", None)));
    let here = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (address, node, here, dir) = (&address, &node, &here, &dir);
            scope.spawn(move || {
                let cluster = Cluster::connect(address).unwrap();
                let files = Job::new("job", 2, rank).unwrap().files(&cluster);
                let file = files.create("/f", Mode::Sync).unwrap();
                file.write(&[byte_of(rank); 10]).unwrap();
                here.wait();
                if rank == 0 {
                    // The other one waits in a call, or will.
                    node.lock().unwrap().as_mut().unwrap().kill();
                } else {
                    let begun = Instant::now();
                    let error = file.write(&[0; 10]).unwrap_err();
                    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
                    let error = error.to_string();
                    assert!(error.starts_with("node local at unix:"), "{error}");
                    assert!(error.contains(" does not answer"), "{error}");
                }
                here.wait();
                if rank == 0 {
                    let again = crate::sites::NodeProcess::start(dir.path(), "local", None);
                    *node.lock().unwrap() = Some(again);
                }
                here.wait();
                crate::sites::until("the file is known to be open no more", || {
                    file.write(&[0; 10]).unwrap_err().to_string().contains("was restarted")
                });
                drop(file);
                let mut file = files.open("/f", Mode::Sync);
                if file.is_err() {
                    // The first open reports the restart; the second one starts anew.
                    file = files.open("/f", Mode::Sync);
                }
                let file = file.unwrap();
                let mut bytes = [0; 10];
                assert_eq!(file.read(&mut bytes).unwrap(), 10);
                assert_eq!(bytes, [byte_of(rank); 10], "what was acknowledged is there");
                file.close().unwrap();
            });
        }
    });
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
