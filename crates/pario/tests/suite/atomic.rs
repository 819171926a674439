//! Atomic access by processes that have opened a file each for itself, by jobs, and by both. The
//! processes are threads here, each with a connection of its own, as processes have; the tests of
//! the C interface run real ones.

use std::io::{SeekFrom, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use fastrand::Rng;
use pario::{Cluster, ErrorKind, File, FilePath, Job, Mode, SharedFile};
use pario_proto::home_node;
use pario_server::Node;

use crate::sites::{Over, Site, Transport, alone, until};

/// Transports that admit several clients.
const CONNECTED: [Transport; 4] =
    [Transport::Socket, Transport::ShortCut, Transport::Tcp, Transport::TwoNodes];

/// Bytes of an access: several units of a file on each of its disks.
const BLOCK: usize = 300_000;

/// The processes that use a file at the same time.
#[derive(Clone, Copy, Debug)]
enum Users {
    /// Processes that have opened it each for itself.
    Alone(u32),
    /// A job.
    Job(u32),
}

/// A file as one process has it open.
enum OpenFile {
    Alone(File),
    Shared(SharedFile),
}

impl OpenFile {
    fn write_at(&self, bytes: &[u8], offset: u64) {
        match self {
            Self::Alone(file) => file.write_at(bytes, offset).unwrap(),
            Self::Shared(file) => {
                file.seek(SeekFrom::Start(offset)).unwrap();
                file.write(bytes).unwrap();
            }
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> usize {
        match self {
            Self::Alone(file) => file.read_at(bytes, offset).unwrap(),
            Self::Shared(file) => {
                file.seek(SeekFrom::Start(offset)).unwrap();
                file.read(bytes).unwrap()
            }
        }
    }

    fn append(&self, bytes: &[u8]) {
        match self {
            Self::Alone(file) => (&*file).write_all(bytes).unwrap(),
            Self::Shared(file) => file.write(bytes).unwrap(),
        }
    }

    fn close(self) {
        match self {
            Self::Alone(file) => file.close().unwrap(),
            Self::Shared(file) => file.close().unwrap(),
        }
    }
}

/// Lets all users open a file and work on it, each in a thread with its own connection. They are
/// numbered from 0.
fn with_users(
    site: &Site,
    all: &[Users],
    (path, is_append): (&str, bool),
    work: impl Fn(&OpenFile, u8) + Sync,
) {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let mut number = 0;
        for users in all {
            let job = format!("atomic {}", JOBS.fetch_add(1, Ordering::Relaxed));
            let (Users::Alone(size) | Users::Job(size)) = *users;
            for rank in 0..size {
                let (job, work, number_here) = (job.clone(), &work, number);
                number += 1;
                scope.spawn(move || {
                    let cluster = site.another();
                    let file = match users {
                        Users::Alone(_) => OpenFile::Alone(open(&cluster, path, is_append)),
                        Users::Job(_) => {
                            let files = Job::new(&job, size, rank).unwrap().files(&cluster);
                            let options = files.options(Mode::Unix).read(true).write(true);
                            let options = options.create(true).append(is_append);
                            OpenFile::Shared(options.open(path).unwrap())
                        }
                    };
                    work(&file, number_here);
                    file.close();
                });
            }
        }
    });
}

fn open(cluster: &Cluster, path: &str, is_append: bool) -> File {
    let options = cluster.options().read(true).write(true).create(true);
    options.atomic(true).append(is_append).open(path).unwrap()
}

fn content(cluster: &Cluster, path: &str) -> Vec<u8> {
    let file = cluster.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

const MIXTURES: [&[Users]; 4] = [
    &[Users::Alone(3)],
    &[Users::Job(2), Users::Alone(1)],
    &[Users::Job(2), Users::Job(2)],
    &[Users::Job(3)],
];

/// Writes blocks of one byte, and reads blocks that must have one byte.
fn overwrite(file: &OpenFile, byte: u8, rounds: u32) {
    let (block, mut found) = (vec![byte; BLOCK], vec![0; BLOCK]);
    let mut random = Rng::with_seed(byte.into());
    for round in 0..rounds {
        file.write_at(&block, 0);
        assert_eq!(file.read_at(&mut found, 0), BLOCK);
        let other = found.iter().position(|one| *one != found[0]);
        assert_eq!(other, None, "round {round} of {byte}: {:?}", other.map(|at| found[at]));
        // A part of the block is of one writer too, but possibly of another one than the rest.
        let (from, len) = (random.usize(..BLOCK / 2), random.usize(1..BLOCK / 2));
        assert_eq!(file.read_at(&mut found[..len], from as u64), len);
        assert!(found[..len].iter().all(|one| *one == found[0]));
    }
}

#[test]
fn no_read_mixes_two_writers() {
    for transport in CONNECTED {
        for users in MIXTURES {
            eprintln!("{transport:?}, {users:?}");
            let site = Site::new(transport);
            with_users(&site, users, ("/state", false), |file, number| {
                overwrite(file, number, 12);
            });
        }
    }
}

#[test]
fn no_append_is_lost_or_torn() {
    for transport in CONNECTED {
        for users in MIXTURES {
            eprintln!("{transport:?}, {users:?}");
            let site = Site::new(transport);
            with_users(&site, users, ("/log", true), |file, number| {
                let mut random = Rng::with_seed(number.into());
                for count in 0..40u32 {
                    let len = random.usize(0..90_000);
                    let mut record = vec![number];
                    record.extend(count.to_le_bytes());
                    record.extend(u32::try_from(len).unwrap().to_le_bytes());
                    record.resize(9 + len, number);
                    file.append(&record);
                }
            });
            let log = content(&site.cluster, "/log");
            let (mut rest, mut next) = (log.as_slice(), [0u32; 4]);
            while let [number, ..] = *rest {
                let count = u32::from_le_bytes(rest[1..5].try_into().unwrap());
                let len = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
                assert_eq!(
                    count,
                    next[usize::from(number)],
                    "the records of {number} are in order"
                );
                next[usize::from(number)] += 1;
                assert!(rest[9..9 + len].iter().all(|byte| *byte == number), "a record is torn");
                rest = &rest[9 + len..];
            }
            let processes = users.iter().map(|(Users::Alone(size) | Users::Job(size))| *size);
            assert_eq!(next.iter().sum::<u32>(), 40 * processes.sum::<u32>());
        }
    }
}

/// Every node is the home of some files.
#[test]
fn files_have_homes_on_both_nodes() {
    let site = Site::new(Transport::TwoNodes);
    let mut homes = [0; 2];
    for number in 0..8 {
        let path = format!("/file {number}");
        with_users(&site, &[Users::Alone(2)], (&path, false), |file, number| {
            overwrite(file, number, 2);
        });
        homes[home_node(site.cluster.open(&path).unwrap().record().id, 2)] += 1;
    }
    assert!(homes.iter().all(|count| *count > 0), "{homes:?}");
}

/// Truncations and extensions are atomic too, and the end is never that of half a write.
#[test]
fn the_end_of_a_file_is_that_before_or_after_a_write() {
    for transport in CONNECTED {
        let site = Site::new(transport);
        let is_over = AtomicBool::new(false);
        let (first, second) = (site.another(), site.another());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _over = Over(&is_over);
                let file = open(&first, "/file", false);
                for _ in 0..60 {
                    file.write_at(&[7; BLOCK], 0).unwrap();
                    file.set_len(0).unwrap();
                }
            });
            scope.spawn(|| {
                let file = open(&second, "/file", false);
                while !is_over.load(Ordering::Acquire) {
                    let len = file.len().unwrap();
                    assert!(len == 0 || len == BLOCK as u64, "{transport:?}: {len}");
                }
            });
        });
    }
}

/// The calls about atomic access that a node has answered.
fn atomic_calls(node: &Node) -> u64 {
    let requests = node.monitor().report().unwrap().requests;
    requests.iter().filter(|counts| counts.kind == "atomic access").map(|one| one.answered()).sum()
}

#[test]
fn a_process_or_job_that_is_alone_asks_nobody() {
    for transport in [Transport::Socket, Transport::ShortCut] {
        let site = Site::new(transport);
        let began = std::time::Instant::now();
        let accesses = |file: &OpenFile, number: u8| {
            for _ in 0..500 {
                file.write_at(&[number; 100], 100 * u64::from(number));
                file.read_at(&mut [0; 100], 100 * u64::from(number));
            }
        };
        with_users(&site, &[Users::Alone(1)], ("/alone", false), accesses);
        with_users(&site, &[Users::Job(2)], ("/job", false), accesses);
        // Each opens, closes, waits for a recall, and gets a new lease from time to time.
        let calls = 3 * (4 + began.elapsed().as_secs());
        assert!(atomic_calls(&site.nodes[0]) <= calls, "{}", atomic_calls(&site.nodes[0]));
    }
}

#[test]
fn files_that_do_not_ask_for_it_pay_nothing() {
    let site = Site::new(Transport::ShortCut);
    let file = site.cluster.create("/plain").unwrap();
    file.write_at(&[1; 1000], 0).unwrap();
    let files = Job::new("async", 1, 0).unwrap().files(&site.cluster);
    let shared = files.open("/plain", Mode::Async).unwrap();
    shared.write(&[2; 1000]).unwrap();
    shared.close().unwrap();
    assert_eq!(atomic_calls(&site.nodes[0]), 0);
}

/// The threads and files of one process are kept apart too.
#[test]
fn the_threads_of_a_process_do_not_mix() {
    let site = Site::new(Transport::Embedded);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let cluster = &site.cluster;
            scope.spawn(move || {
                overwrite(&OpenFile::Alone(open(cluster, "/state", false)), number, 20);
            });
        }
    });
    let file = open(&site.cluster, "/state", false);
    let (one, other) = (file.start_write_at(vec![1; 10], 0).unwrap(), file.start_read_at(10, 0));
    assert_eq!(&other.unwrap().wait().unwrap()[..], &[1; 10]);
    one.wait().unwrap();
}

/// A home node that is restarted knows no opener; they register again.
#[test]
fn accesses_go_on_after_a_restart_of_the_home_node() {
    let mut site = Site::new(Transport::Socket);
    let clients = [site.another(), site.another()];
    let files = clients.each_ref().map(|cluster| OpenFile::Alone(open(cluster, "/state", false)));
    files[0].write_at(&[9; BLOCK], 0);
    site.nodes.clear();
    site.nodes.push(Node::start(&alone(site.dir.path()), "local").unwrap());
    std::thread::scope(|scope| {
        for (number, file) in (0..).zip(&files) {
            scope.spawn(move || overwrite(file, number, 10));
        }
    });
}

#[test]
fn a_process_that_waits_for_bytes_is_shown_with_those_that_use_them() {
    let site = Site::new(Transport::Socket);
    let clients = [site.another(), site.another()];
    let files = clients.each_ref().map(|cluster| open(cluster, "/state", false));
    files[0].write_at(&[1; BLOCK], 0).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for file in &files {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    file.write_at(&[2; 20 * BLOCK], 0).unwrap();
                }
            });
        }
        let _over = Over(&is_over);
        let own = format!("({})", std::process::id());
        until("one waits for the other", || {
            let waits =
                site.cluster.atomic_waits(Duration::from_secs(10)).swap_remove(0).1.unwrap();
            waits.iter().any(|wait| {
                assert_eq!((wait.path.as_str(), wait.is_recall), ("/state", false));
                assert!(wait.holders.iter().chain([&wait.client]).all(|name| name.ends_with(&own)));
                wait.bytes.is_some_and(|bytes| bytes.is_write) && wait.holders.len() == 1
            })
        });
    });
}

/// Each file is reset at its home, also where a delegation lets a process access it without asking.
#[test]
fn a_reset_reaches_the_openers_of_all_nodes() {
    let site = Site::new(Transport::TwoNodes);
    let client = site.another();
    let mut homes = [0; 2];
    for number in 0..8 {
        let path = format!("/file {number}");
        let file = open(&client, &path, false);
        file.write_at(&[1; 100], 0).unwrap();
        homes[home_node(file.record().id, 2)] += 1;
        let (_, files) = site.cluster.reset(&[FilePath::new(&path).unwrap()]).unwrap();
        assert_eq!(files.iter().map(FilePath::as_str).collect::<Vec<_>>(), [path.as_str()]);
        let mut error = None;
        until("the process knows it", || {
            error = file.write_at(&[2; 100], 0).err();
            error.is_some()
        });
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Stale);
        assert!(error.to_string().contains("`pario reset` has ended"), "{error}");
        open(&client, &path, false).write_at(&[3; 100], 0).unwrap();
    }
    assert!(homes.iter().all(|count| *count > 0), "{homes:?}");
}

#[test]
fn a_file_of_extents_has_no_atomic_access() {
    let site = Site::new(Transport::Embedded);
    let options = site.cluster.options().read(true).write(true).create(true).extents();
    let error = options.atomic(true).open("/extents").unwrap_err().to_string();
    assert!(error.contains("file of extents"), "{error}");
}
