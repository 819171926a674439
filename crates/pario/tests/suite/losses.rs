//! Processes and nodes that are killed while the processes of a job share a file, in every mode: the
//! others get an error in time, and acknowledged bytes are kept.
//!
//! Ranks and nodes are processes of this test program.

use std::io::SeekFrom;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pario::{Cluster, ClusterOptions, Job, Mode};

use crate::sites::{NodeProcess, connect_when_complete, key_options, write_key};

const MODES: [Mode; 6] =
    [Mode::Unix, Mode::Log, Mode::Sync, Mode::Record, Mode::Global, Mode::Async];

/// A waiting rank must get its error within this time.
const IN_TIME: Duration = Duration::from_secs(2);
/// A rank that gets its error later than this hangs; a busy machine does not explain the delay.
const LATEST: Duration = Duration::from_secs(20);

/// Ranks of a job.
const SIZE: u32 = 4;
/// Bytes of one access: a unit on each of four disks.
const RECORD: usize = 4 * 4096;
/// Accesses of each rank before anything is killed.
const ROUNDS: u64 = 5;
/// Where ranks with pointers of their own begin: so far apart.
const APART: u64 = 64 << 20;

/// Tells a process that it is a rank: address, directory of the key, rank, mode, what it does.
const RANK: &str = "PARIO_TEST_RANK";

/// The action of a rank after its first accesses.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Nothing, until it is killed.
    Wait,
    /// Makes a collective call.
    Meet,
    /// It goes on.
    Write,
}

/// A rank in a process of its own.
struct Rank {
    process: Child,
    /// The process ends with the one that holds this.
    _word: Option<ChildStdin>,
    rank: u32,
}

/// A report of a rank.
#[derive(Debug)]
enum Said {
    /// This access was acknowledged.
    Done(u64),
    /// A call has failed with this error, at this time.
    Failed(String, Instant),
}

fn file_of(mode: Mode) -> String {
    format!("/{mode}")
}

/// The bytes that one rank writes in one access; in M_GLOBAL all ranks write the same.
fn record(mode: Mode, rank: u32, number: u64) -> Vec<u8> {
    let rank = if mode == Mode::Global { 0 } else { u64::from(rank) };
    (rank << 32 | (number + 1)).to_le_bytes().repeat(RECORD / 8)
}

/// The process of [`Rank`]. It does nothing unless a test has set its variable.
#[test]
fn rank_process() {
    let Ok(told) = std::env::var(RANK) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [address, dir, rank, mode, then] = told[..] else { panic!("{told:?}") };
    let (rank, mode): (u32, Mode) = (rank.parse().unwrap(), mode.parse().unwrap());
    // One line in one write: the test runner writes to the same place.
    let say = |text: String| {
        std::io::stdout().write_all(format!("\n@{text}\n").as_bytes()).unwrap();
    };
    let options = match address.starts_with("unix:") {
        true => ClusterOptions::default(),
        false => key_options(Path::new(dir)),
    };
    let cluster = Cluster::connect_with(address, options).unwrap();
    let files = Job::new(&format!("job {mode}"), SIZE, rank).unwrap().files(&cluster);
    let options = files.options(mode).read(true).write(true).create(true).unit(4096);
    let file = options.open(&file_of(mode)).unwrap();
    if matches!(mode, Mode::Unix | Mode::Async) {
        file.seek(SeekFrom::Start(u64::from(rank) * APART)).unwrap();
    }
    let error = (0..).find_map(|number| {
        let result = match (number == ROUNDS, then) {
            (true, "wait") => {
                std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
                return Some("no test has killed it".to_owned());
            }
            (true, "meet") if !matches!(mode, Mode::Sync | Mode::Global) => {
                let other = if mode == Mode::Log { Mode::Record } else { Mode::Log };
                file.set_mode(other)
            }
            _ => file.write(&record(mode, rank, number)),
        };
        match result {
            Ok(()) => say(format!("done {number}")),
            Err(error) => return Some(error.to_string()),
        }
        None
    });
    say(format!("failed {}", error.unwrap()));
}

impl Rank {
    fn start(
        address: &str,
        dir: &Path,
        rank: u32,
        mode: Mode,
        then: Then,
    ) -> (Self, Receiver<Said>) {
        let then = match then {
            Then::Wait => "wait",
            Then::Meet => "meet",
            Then::Write => "write",
        };
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "losses::rank_process", "--nocapture"])
            .env(RANK, format!("{address} {} {rank} {mode} {then}", dir.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (send, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((word, rest)) = line.strip_prefix('@').and_then(|l| l.split_once(' '))
                else {
                    continue;
                };
                let said = match word {
                    "done" => Said::Done(rest.parse().unwrap()),
                    _ => Said::Failed(rest.to_owned(), Instant::now()),
                };
                if send.send(said).is_err() {
                    break;
                }
            }
        });
        let word = process.stdin.take();
        (Self { process, _word: word, rank }, said)
    }

    fn kill(&mut self) -> Instant {
        self.process.kill().unwrap();
        let killed = Instant::now();
        self.process.wait().unwrap();
        killed
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two nodes in two processes: `a` keeps the names, and both have disks.
struct Pair {
    a: Option<NodeProcess>,
    b: Option<NodeProcess>,
    first: SocketAddr,
    dir: tempfile::TempDir,
}

impl Pair {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        write_key(dir.path());
        // The port was free a moment ago; other programs on this machine rarely take the same one.
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut pair = Self { a: None, b: None, first, dir };
        pair.a = Some(pair.node("a"));
        pair.b = Some(pair.node("b"));
        pair
    }

    fn node(&self, name: &str) -> NodeProcess {
        NodeProcess::start(self.dir.path(), name, Some(self.first))
    }

    fn address(&self) -> String {
        format!("tcp:{}", self.first)
    }

    fn cluster(&self) -> Cluster {
        connect_when_complete(&self.address(), &key_options(self.dir.path()))
    }

    fn ranks(&self, mode: Mode, then: impl Fn(u32) -> Then) -> Vec<(Rank, Receiver<Said>)> {
        ranks(&self.address(), self.dir.path(), mode, then)
    }
}

fn ranks(
    address: &str,
    dir: &Path,
    mode: Mode,
    then: impl Fn(u32) -> Then,
) -> Vec<(Rank, Receiver<Said>)> {
    (0..SIZE).map(|rank| Rank::start(address, dir, rank, mode, then(rank))).collect()
}

/// One node, whose clients have the short cut and meet in common memory.
struct Near {
    node: NodeProcess,
    dir: tempfile::TempDir,
}

impl Near {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { node: NodeProcess::start(dir.path(), "local", None), dir }
    }

    fn address(&self) -> String {
        format!("unix:{}", self.dir.path().join("s").display())
    }
}

/// Waits until a rank has made its first accesses.
fn first_accesses(said: &Receiver<Said>) {
    for number in 0..ROUNDS {
        match said.recv_timeout(LATEST).expect("the rank gets on") {
            Said::Done(done) => assert_eq!(done, number),
            Said::Failed(text, _) => panic!("{text}"),
        }
    }
}

/// Waits for the error of a rank: how many accesses were acknowledged before, what it says, and
/// how long after a moment it came.
fn failure(said: &Receiver<Said>, since: Instant) -> (u64, String, Duration) {
    let mut acknowledged = ROUNDS;
    loop {
        match said.recv_timeout(LATEST).expect("the rank reports its error") {
            Said::Done(number) => acknowledged = number + 1,
            Said::Failed(text, at) => {
                return (acknowledged, text, at.saturating_duration_since(since));
            }
        }
    }
}

/// Half of all times are in time. A single one may be late on a machine that has other things to
/// do; if what tells the ranks were too slow, most would be.
fn check_times(mut times: Vec<Duration>) {
    times.sort_unstable();
    assert!(times[times.len() / 2] < IN_TIME, "{times:?}");
}

/// Every access that was acknowledged is where it belongs.
fn check_content(cluster: &Cluster, mode: Mode, acknowledged: &[u64]) {
    let file = cluster.open(&file_of(mode)).unwrap();
    let len = file.len().unwrap();
    let at = |offset: u64| {
        let mut bytes = vec![0; RECORD];
        file.read_at(&mut bytes, offset).unwrap();
        bytes
    };
    let step = RECORD as u64;
    let logged: Vec<Vec<u8>> = match mode {
        Mode::Log => (0..len.div_ceil(step)).map(|place| at(place * step)).collect(),
        _ => Vec::new(),
    };
    for (rank, count) in (0..SIZE).zip(acknowledged) {
        for number in 0..*count {
            let expected = record(mode, rank, number);
            let row = number * u64::from(SIZE) + u64::from(rank);
            let is_there = match mode {
                Mode::Log => logged.contains(&expected),
                Mode::Sync | Mode::Record => at(row * step) == expected,
                Mode::Global => at(number * step) == expected,
                Mode::Unix | Mode::Async => at(u64::from(rank) * APART + number * step) == expected,
            };
            assert!(is_there, "{mode}: access {number} of rank {rank} was acknowledged");
        }
    }
}

#[test]
fn a_rank_that_is_killed_is_named_to_those_who_wait_for_it() {
    let pair = Pair::start();
    kill_a_rank(&pair.address(), pair.dir.path(), &pair.cluster());
}

#[test]
fn a_rank_that_is_killed_is_named_to_those_who_wait_in_common_memory() {
    let near = Near::start();
    let cluster = Cluster::connect(&near.address()).unwrap();
    kill_a_rank(&near.address(), near.dir.path(), &cluster);
}

/// Kills a rank for which all others wait, in each mode.
fn kill_a_rank(address: &str, dir: &Path, cluster: &Cluster) {
    let mut times = Vec::new();
    for mode in MODES {
        let victim = fastrand::u32(0..SIZE);
        eprintln!("{mode}: rank {victim} is killed");
        let then = |rank| if rank == victim { Then::Wait } else { Then::Meet };
        let mut ranks = ranks(address, dir, mode, then);
        for (_, said) in &ranks {
            first_accesses(said);
        }
        crate::sites::until("all others wait for it", || {
            let jobs = cluster.jobs().unwrap();
            let job = jobs.iter().find(|job| job.job == format!("job {mode}"));
            job.is_some_and(|job| {
                job.waits.iter().any(|wait| {
                    wait.awaited() == [victim] && wait.arrived.len() == SIZE as usize - 1
                })
            })
        });
        let killed = ranks[victim as usize].0.kill();
        for (rank, said) in ranks.iter().filter(|(rank, _)| rank.rank != victim) {
            let (acknowledged, text, took) = failure(said, killed);
            assert_eq!(acknowledged, ROUNDS, "{mode}");
            let told = format!("rank {victim} is gone");
            assert!(text.contains(&told), "{mode}: rank {}: {text}", rank.rank);
            times.push(took);
        }
        check_content(cluster, mode, &[ROUNDS; SIZE as usize]);
    }
    check_times(times);
}

/// It may die with anything in its hands.
#[test]
fn a_rank_is_killed_while_all_are_at_work_in_common_memory() {
    let near = Near::start();
    let cluster = Cluster::connect(&near.address()).unwrap();
    let mut times = Vec::new();
    for mode in [Mode::Sync, Mode::Global].into_iter().cycle().take(10) {
        let victim = fastrand::u32(0..SIZE);
        let mut ranks = ranks(&near.address(), near.dir.path(), mode, |_| Then::Write);
        for (_, said) in &ranks {
            first_accesses(said);
        }
        let killed = ranks[victim as usize].0.kill();
        let mut acknowledged = vec![ROUNDS; SIZE as usize];
        for (rank, said) in ranks.iter().filter(|(rank, _)| rank.rank != victim) {
            let (count, text, took) = failure(said, killed);
            assert!(text.contains(&format!("rank {victim} is gone")), "{mode}: {text}");
            acknowledged[rank.rank as usize] = count;
            times.push(took);
        }
        drop(ranks);
        check_content(&cluster, mode, &acknowledged);
        cluster.remove(&file_of(mode)).unwrap();
    }
    check_times(times);
}

/// Without the node no rank would learn of losses, so calls that need other ranks fail. Other calls
/// succeed, because the disks are on this machine.
#[test]
fn ranks_in_shared_memory_get_an_error_when_the_node_is_killed() {
    let mut near = Near::start();
    let mut times = Vec::new();
    for mode in [Mode::Unix, Mode::Log, Mode::Sync, Mode::Global] {
        eprintln!("{mode}");
        let ranks = ranks(&near.address(), near.dir.path(), mode, |_| Then::Write);
        for (_, said) in &ranks {
            first_accesses(said);
        }
        let killed = Instant::now();
        near.node.kill();
        let mut acknowledged = Vec::new();
        for (_, said) in &ranks {
            let (count, text, took) = failure(said, killed);
            assert!(text.contains("does not answer"), "{mode}: {text}");
            acknowledged.push(count);
            times.push(took);
        }
        drop(ranks);
        near.node = NodeProcess::start(near.dir.path(), "local", None);
        check_content(&Cluster::connect(&near.address()).unwrap(), mode, &acknowledged);
    }
    check_times(times);
}

/// Kills a node while all ranks write, in each mode, and starts it again.
fn kill_a_node(name: &str) {
    let mut pair = Pair::start();
    drop(pair.cluster());
    let mut times = Vec::new();
    for mode in MODES {
        eprintln!("{mode}: node {name} is killed");
        let ranks = pair.ranks(mode, |_| Then::Write);
        for (_, said) in &ranks {
            first_accesses(said);
        }
        let node = if name == "a" { &mut pair.a } else { &mut pair.b };
        let killed = Instant::now();
        node.as_mut().unwrap().kill();
        let mut acknowledged = Vec::new();
        for (_, said) in &ranks {
            let (count, text, took) = failure(said, killed);
            acknowledged.push(count);
            let reasons = ["does not answer", "is gone", "has closed", "could not perform"];
            assert!(reasons.iter().any(|reason| text.contains(reason)), "{mode}: {text}");
            times.push(took);
        }
        drop(ranks);
        *node = None;
        let again = pair.node(name);
        *(if name == "a" { &mut pair.a } else { &mut pair.b }) = Some(again);
        check_content(&pair.cluster(), mode, &acknowledged);
    }
    check_times(times);
}

#[test]
fn ranks_are_told_when_the_node_at_which_they_meet_is_killed() {
    kill_a_node("a");
}

#[test]
fn ranks_are_told_when_a_node_with_disks_is_killed() {
    kill_a_node("b");
}
