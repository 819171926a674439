//! Files that the processes of a job have open together, in every mode. The ranks are threads here,
//! each with a connection of its own, as processes have.

mod agreement;
mod lost_ranks;
mod opening;
mod sizes;
mod started;

use std::io::{Read, SeekFrom, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use fastrand::Rng;
use pario::{Cluster, Job, JobFiles, Mode};

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
