//! The job object: joined once, one team for everything in memory, files of a cluster beside it, and
//! one list of lost ranks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pario::memory::{Broker, Endpoint, Reduction, Rendezvous};
use pario::{CachedOptions, Cluster, ErrorKind, Job, Mode};
use pario_server::Node;
use parking_lot::Mutex;
use rustix::process::{Signal, getpid, kill_process};

use crate::sites::{alone, any_port, key_options, until, write_key};

/// The name of a job that no other job has.
fn new_name() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let number = JOBS.fetch_add(1, Ordering::Relaxed);
    format!("job {number} of process {}", std::process::id())
}

/// Runs the ranks of a job as threads of this process.
fn together<T: Send>(size: u32, work: impl Fn(Job) -> T + Sync) -> Vec<T> {
    let (name, work) = (&new_name(), &work);
    std::thread::scope(|scope| {
        let run = |rank| scope.spawn(move || work(Job::new(name, size, rank).unwrap()));
        let ranks: Vec<_> = (0..size).map(run).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn a_process_that_joins_twice_has_one_job() {
    together(3, |job| {
        let again = Job::new(job.name(), job.size(), job.rank()).unwrap();
        // The ranks meet through either of them, once.
        let team = if job.rank() == 1 { again.team() } else { job.team() }.unwrap();
        assert!(team.is_same(&job.team().unwrap()) && team.is_same(&again.team().unwrap()));
        job.barrier().unwrap();
        drop((team, job));
        again.barrier().unwrap();
    });
}

/// A broker that counts the teams for which it is asked.
#[derive(Debug, Default)]
struct CountingBroker {
    endpoint: Mutex<Option<Endpoint>>,
    teams: AtomicU32,
}

impl Broker for CountingBroker {
    fn offer(&self, _: &str, offer: &Endpoint) -> Result<Endpoint, String> {
        let new = || {
            self.teams.fetch_add(1, Ordering::Relaxed);
            offer.clone()
        };
        Ok(self.endpoint.lock().get_or_insert_with(new).clone())
    }

    fn withdraw(&self, _: &str) {
        *self.endpoint.lock() = None;
    }

    fn common_address(&self) -> Result<SocketAddr, String> {
        Ok((Ipv4Addr::LOCALHOST, 1).into())
    }
}

#[test]
fn ten_cached_files_an_array_and_a_record_file_share_one_team() {
    let dir = &tempfile::tempdir().unwrap();
    let path = |number: u8| dir.path().join(number.to_string());
    for number in 0..10 {
        std::fs::write(path(number), [number; 100_000]).unwrap();
    }
    let (name, broker) = (&new_name(), &Arc::new(CountingBroker::default()));
    std::thread::scope(|scope| {
        for rank in 0..3 {
            scope.spawn(move || {
                let options = Job::options()
                    .rendezvous(Rendezvous::Brokered(broker.clone()))
                    .machine(format!("machine {}", rank % 2));
                let job = options.join(name, 3, rank).unwrap();
                let files: Vec<_> =
                    (0..10).map(|number| job.cache(path(number)).unwrap()).collect();
                let array = job.array::<u64>(1000).unwrap();
                let own = dir.path().join(format!("part of rank {rank}"));
                let records = job.records().create(own).unwrap();
                let team = job.team().unwrap();
                assert!(array.raw().team().is_same(&team) && records.team().is_same(&team));
                for (number, file) in (0..).zip(&files) {
                    let mut bytes = [0; 100];
                    file.read_exact_at(&mut bytes, 70_000).unwrap();
                    assert_eq!(bytes, [number; 100]);
                }
                array.accumulate(&[1], 999).unwrap();
                job.barrier().unwrap();
                let mut sum = [0];
                array.get(&mut sum, 999).unwrap();
                assert_eq!(sum, [3]);
                records.close().unwrap();
            });
        }
    });
    assert_eq!(broker.teams.load(Ordering::Relaxed), 1);
}

#[test]
fn a_job_without_a_cluster_has_memory_and_plain_files() {
    let dir = &tempfile::tempdir().unwrap();
    together(3, |job| {
        let rank = job.rank();
        let mut root = if rank == 2 { *b"from rank 2" } else { [0; 11] };
        job.broadcast(2, &mut root).unwrap();
        assert_eq!(&root, b"from rank 2");
        assert_eq!(job.gather(&vec![7; rank as usize]).unwrap(), [vec![], vec![7], vec![7; 2]]);
        let mut ranks = [rank];
        job.reduce(Reduction::Sum, &mut ranks).unwrap();
        assert_eq!(ranks, [3]);

        let counters = job.segments(8).unwrap();
        counters.fetch_add(1_u64, 0, 0).unwrap();
        let mutexes = job.mutexes(1).unwrap();
        drop(mutexes.lock(1, 0).unwrap());
        let sizes = job.callback(|call| Ok(vec![call.data[0] + 1])).unwrap();
        assert_eq!(sizes.call(b"", &[41], (rank + 1) % 3).unwrap(), [42]);
        job.barrier().unwrap();
        assert_eq!(counters.fetch_add(0_u64, 0, 0).unwrap(), 3);

        let options = CachedOptions::new().write(true).create(true);
        let mut file = job.cache_with(dir.path().join("cached"), &options).unwrap();
        file.reserve(3).unwrap();
        file.write_at(&[b'0' + u8::try_from(rank).unwrap()], rank.into()).unwrap();
        assert_eq!(file.job().name(), job.name());
        file.close().unwrap();
        assert!(job.lost_ranks().is_empty());
    });
    assert_eq!(std::fs::read(dir.path().join("cached")).unwrap(), b"012");
}

#[test]
fn ranks_that_leave_the_memory_can_meet_again() {
    together(2, |job| {
        job.barrier().unwrap();
        if job.rank() == 1 {
            job.leave_memory();
        } else {
            let error = job.barrier().unwrap_err();
            assert!(error.to_string().contains("rank 1 has left"), "{error}");
            // It has left; it is not lost.
            assert!(job.lost_ranks().is_empty());
            job.leave_memory();
        }
        job.barrier().unwrap();
    });
}

#[test]
fn ranks_that_do_not_come_in_time_are_named() {
    let options = Job::options().timeout(std::time::Duration::from_millis(50));
    let error = options.join(&new_name(), 2, 0).unwrap().barrier().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("rank 1 is"), "{error}");
}

/// The variable that makes a process a rank: what it does, address, directory, job, size and rank.
const RANK: &str = "PARIO_TEST_JOB_RANK";

/// A rank in a process of its own, which ends with this.
struct RankProcess {
    process: Child,
    lines: BufReader<ChildStdout>,
    _stdin: ChildStdin,
}

impl RankProcess {
    fn start(role: &str, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "jobs::rank_process", "--nocapture"])
            .env(RANK, role)
            .envs(variables.iter().copied())
            .env_remove("PARIO_CLUSTER")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let stdin = process.stdin.take().unwrap();
        Self { process, lines, _stdin: stdin }
    }

    /// Waits until the rank reports this.
    fn expect(&mut self, report: &str) {
        let is_it = |line: std::io::Result<String>| line.unwrap() == format!("@{report}");
        assert!((&mut self.lines).lines().any(is_it), "the rank ends without {report:?}");
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A rank of another test; does nothing without its variable.
#[test]
fn rank_process() {
    let Ok(role) = std::env::var(RANK) else { return };
    let words: Vec<&str> = role.split('\t').collect();
    let [action, address, dir, name, size, rank] = words[..] else { panic!("{role}") };
    // One line in one write: the test runner writes to the same stream.
    let report =
        |text: &str| std::io::stdout().write_all(format!("\n@{text}\n").as_bytes()).unwrap();
    let options = if dir.is_empty() { Default::default() } else { key_options(Path::new(dir)) };
    let connect = || Cluster::connect_with(address, options).unwrap();
    match action {
        "memory" => Job::new(name, size.parse().unwrap(), rank.parse().unwrap())
            .and_then(|job| job.barrier().map(|()| std::mem::forget(job)))
            .unwrap(),
        "file" | "both" => {
            let job = Job::new(name, size.parse().unwrap(), rank.parse().unwrap()).unwrap();
            if action == "both" {
                job.barrier().unwrap();
            }
            std::mem::forget(job.files(&connect()).create("/f", Mode::Sync).unwrap());
            std::mem::forget(job);
        }
        // The launcher says who this is, and the cluster of the files where the machines meet.
        "brokered" => {
            let job = Job::from_env().unwrap();
            let cluster = connect();
            let files = job.files(&cluster);
            job.barrier().unwrap();
            let team = job.team().unwrap();
            assert!(!team.is_near((job.rank() + 1) % job.size()));
            files.barrier().unwrap();
        }
        // It is stopped in the middle of an open that counts for the job.
        "stopped open" | "open" => {
            let files = Job::new(name, size.parse().unwrap(), rank.parse().unwrap())
                .unwrap()
                .files(&connect());
            let own = Job::new(&format!("{name}, alone"), 1, 0).unwrap().files(files.cluster());
            let options = own.options(Mode::Unix).read(true).write(true).create(true);
            let file = options.open_first_of_by(&files, "/f", |options| {
                if action == "stopped open" {
                    report("opening");
                    kill_process(getpid(), Signal::STOP).unwrap();
                }
                options.open("/f")
            });
            std::mem::forget((file.unwrap(), own, files));
        }
        _ => panic!("{role}"),
    }
    report("ready");
    if action != "brokered" {
        // It stays until it is killed.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}

fn role(action: &str, address: &str, dir: &str, name: &str, size: u32, rank: u32) -> String {
    format!("{action}\t{address}\t{dir}\t{name}\t{size}\t{rank}")
}

/// A node of this process that others reach by its socket.
fn start_node(dir: &Path) -> Node {
    Node::start(&alone(dir), "local").unwrap()
}

#[test]
fn a_loss_in_memory_is_in_the_list() {
    let name = new_name();
    let mut others: Vec<_> = (1..3)
        .map(|rank| RankProcess::start(&role("memory", "", "", &name, 3, rank), &[]))
        .collect();
    let job = Job::new(&name, 3, 0).unwrap();
    assert!(job.lost_ranks().is_empty());
    job.barrier().unwrap();
    others.iter_mut().for_each(|other| other.expect("ready"));
    others[1].kill();
    let error = job.barrier().unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::RankLost, Some(2)));
    assert_eq!(job.lost_ranks(), [2]);
    // No call is needed to learn of a further loss.
    others[0].kill();
    until("both losses are known", || job.lost_ranks() == [1, 2]);
    job.leave_memory();
    assert_eq!(job.lost_ranks(), [1, 2]);
}

#[test]
fn a_loss_that_a_node_reports_is_in_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let node = start_node(dir.path());
    let name = new_name();
    let other = role("file", &node.address(), "", &name, 2, 1);
    let mut other = RankProcess::start(&other, &[]);
    let job = Job::new(&name, 2, 0).unwrap();
    let files = job.files(&Cluster::connect(&node.address()).unwrap());
    let file = files.create("/f", Mode::Sync).unwrap();
    other.expect("ready");
    assert!(job.lost_ranks().is_empty());
    other.kill();
    // The ranks have never met in memory.
    let error = file.write(b"x").unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::RankLost, Some(1)));
    assert_eq!(job.lost_ranks(), [1]);
}

#[test]
fn both_sources_of_losses_make_one_list() {
    let dir = tempfile::tempdir().unwrap();
    let node = start_node(dir.path());
    let name = new_name();
    let start = |rank| RankProcess::start(&role("both", &node.address(), "", &name, 3, rank), &[]);
    let mut others: Vec<_> = (1..3).map(start).collect();
    let job = Job::new(&name, 3, 0).unwrap();
    job.barrier().unwrap();
    let files = job.files(&Cluster::connect(&node.address()).unwrap());
    let file = files.create("/f", Mode::Sync).unwrap();
    others.iter_mut().for_each(|other| other.expect("ready"));
    others[1].kill();
    assert_eq!(file.write(b"x").unwrap_err().rank(), Some(2));
    assert_eq!(job.barrier().unwrap_err().rank(), Some(2));
    assert_eq!(job.lost_ranks(), [2]);
    // Without the memory, the report of the node remains.
    job.leave_memory();
    assert_eq!(job.lost_ranks(), [2]);
}

/// There is no time limit for the first open of a job, so that `pario why` must name its process.
#[test]
fn a_first_opener_that_is_stopped_delays_the_others_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let node = start_node(dir.path());
    let name = new_name();
    let mut first =
        RankProcess::start(&role("stopped open", &node.address(), "", &name, 2, 0), &[]);
    first.expect("opening");
    let cluster = Cluster::connect(&node.address()).unwrap();
    let files = Job::new(&name, 2, 1).unwrap().files(&cluster);
    let own = Job::new(&new_name(), 1, 0).unwrap().files(&cluster);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let options = own.options(Mode::Unix).read(true).write(true).create(true);
            options.open_first_of(&files, "/f")
        });
        until("the wait is known", || {
            let jobs = cluster.jobs().unwrap();
            let job = jobs.iter().find(|job| job.job == name).unwrap();
            job.waits.first().is_some_and(|wait| {
                assert_eq!((wait.waiting(), wait.awaited()), (vec![1], vec![0]));
                let told = wait.to_string();
                assert!(told.starts_with("rank 1 waits for rank 0 in open"), "{told}");
                assert!(wait.missing[0].is_here && job.here == [0, 1], "{job:?}");
                true
            })
        });
        assert!(!second.is_finished());
        let pid = rustix::process::Pid::from_raw(first.process.id().cast_signed()).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        first.expect("ready");
        second.join().unwrap().unwrap().close().unwrap();
    });
}

#[test]
fn a_second_process_with_a_rank_of_a_named_job_is_refused_and_both_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let node = start_node(dir.path());
    let name = new_name();
    let mut first = RankProcess::start(&role("open", &node.address(), "", &name, 2, 0), &[]);
    first.expect("ready");
    let cluster = Cluster::connect(&node.address()).unwrap();
    let files = Job::new(&name, 2, 0).unwrap().files(&cluster);
    let own = Job::new(&new_name(), 1, 0).unwrap().files(&cluster);
    let open = own.options(Mode::Unix).read(true).open_first_of(&files, "/f").map(drop);
    for error in [files.barrier().unwrap_err(), open.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Busy);
        let told = error.to_string();
        for part in [
            format!("process {} (", std::process::id()),
            format!("cannot be rank 0 of job {name}: process {} (", first.process.id()),
            "on host ".to_owned(),
            "PARIO_JOB".to_owned(),
        ] {
            assert!(told.contains(&part), "{told}");
        }
    }
    first.kill();
    // The rank is free when its process has ended.
    until("the node knows that the process has ended", || {
        let options = own.options(Mode::Unix).read(true);
        options.open_first_of(&files, "/f").is_ok()
    });
}

/// Two processes are on machines of their own, as far as they can tell. They find each other through
/// the cluster of their files: no variable names it.
#[test]
fn machines_meet_through_the_cluster_of_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = alone(dir.path());
    config.key_file = Some(write_key(dir.path()));
    config.nodes[0].listen = Some(any_port());
    let node = Node::start(&config, "local").unwrap();
    let (name, dir) = (new_name(), dir.path().to_str().unwrap());
    let start = |rank: u32| {
        let role = role("brokered", &node.address(), dir, &name, 2, rank);
        let (rank, machine) = (rank.to_string(), format!("machine {rank}"));
        let variables = [
            ("PARIO_RANK", &*rank),
            ("PARIO_SIZE", "2"),
            ("PARIO_JOB", &*name),
            ("PARIO_TEAM", "cluster"),
            ("PARIO_MACHINE", &*machine),
        ];
        RankProcess::start(&role, &variables)
    };
    let mut ranks = [start(0), start(1)];
    ranks.iter_mut().for_each(|rank| rank.expect("ready"));
}
