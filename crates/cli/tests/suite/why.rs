//! Waits in jobs: `pario why`, `pario status --file`, the warnings of a node, `pario reset`, and
//! the PFSLib names of commands.

use std::fs::Permissions;
use std::io::SeekFrom;
use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::command::{Sandbox, ServerProcess, stderr, stdout, until};
use pario::{Cluster, ClusterOptions, Job, JobFiles, LockKind, Mode, SharedFile};
use serde_json::{Value, json};

/// A rank of a job, in a thread that runs the operations it receives.
struct Rank {
    tell: Sender<RankOperation>,
    heard: Receiver<Result<(), String>>,
    thread: JoinHandle<()>,
}

type RankOperation = Box<dyn FnOnce(&JobFiles, &SharedFile) -> Result<(), pario::Error> + Send>;

impl Rank {
    /// Starts a rank of a job on the node of a sandbox; all ranks open a shared file.
    fn start(sandbox: &Sandbox, job: &str, size: u32, rank: u32) -> Self {
        Self::opening(sandbox, ClusterOptions::default(), (job, size, rank), |files| {
            files.create("/result", Mode::Sync)
        })
    }

    /// Starts a rank that opens a given shared file.
    fn opening(
        sandbox: &Sandbox,
        options: ClusterOptions,
        (job, size, rank): (&str, u32, u32),
        open: impl FnOnce(&JobFiles) -> Result<SharedFile, pario::Error> + Send + 'static,
    ) -> Self {
        let ((tell, told), (say, heard)) = (channel::<RankOperation>(), channel());
        let (address, job) = (sandbox.file("data").display().to_string(), job.to_owned());
        let thread = thread::spawn(move || {
            let cluster = Cluster::connect_with(&address, options).unwrap();
            let files = Job::new(&job, size, rank).unwrap().files(&cluster);
            let file = open(&files).unwrap();
            for deed in told {
                let _ = say.send(deed(&files, &file).map_err(|error| error.to_string()));
            }
        });
        Self { tell, heard, thread }
    }

    fn begin(
        &self,
        deed: impl FnOnce(&JobFiles, &SharedFile) -> Result<(), pario::Error> + Send + 'static,
    ) {
        self.tell.send(Box::new(deed)).unwrap();
    }

    fn outcome(&self) -> Result<(), String> {
        self.heard.recv_timeout(Duration::from_secs(60)).expect("an answer")
    }

    fn end(self) {
        drop(self.tell);
        self.thread.join().unwrap();
    }
}

/// Starts three ranks that share a file; ranks 0 and 1 wait for rank 2 in a write.
fn waiting(sandbox: &Sandbox) -> Vec<Rank> {
    let ranks: Vec<_> = (0..3).map(|rank| Rank::start(sandbox, "job 7", 3, rank)).collect();
    for rank in &ranks[..2] {
        rank.begin(|_, file| file.write(&[1; 100]));
    }
    until("two have arrived", || {
        let json = sandbox.json(&["why"]);
        let wait = &json["jobs"][0]["waits"][0];
        let is_write = wait["path"] == "/result";
        (is_write && wait["arrived"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    ranks
}

fn finish(ranks: Vec<Rank>) {
    ranks[2].begin(|_, file| file.write(&[1; 100]));
    for rank in &ranks {
        rank.outcome().unwrap();
    }
    for rank in ranks {
        rank.end();
    }
}

#[test]
fn why_tells_who_waits_for_whom() {
    let sandbox = Sandbox::served();
    assert_eq!(sandbox.ok(&["why"]), "no jobs\n");
    let ranks = waiting(&sandbox);
    let text = sandbox.ok(&["why", "job 7"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("job job 7, 3 ranks, waiting for "), "{text}");
    assert!(lines[1].starts_with("  /result  M_SYNC, call 0, for "), "{text}");
    assert_eq!(lines[2], "    in write of 100 bytes: ranks 0, 1", "{text}");
    assert!(lines[3].starts_with("    missing: rank 2, "), "{text}");
    assert!(lines[3].contains(" ago it called open of /result for reading and writing"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");

    let listed = sandbox.ok(&["why"]);
    assert!(listed.starts_with("job    user"), "{listed}");
    assert!(listed.contains("for rank 2"), "{listed}");
    let status = sandbox.ok(&["status"]);
    assert!(status.contains("job 7  "), "{status}");

    let json = sandbox.json(&["why"]);
    let job = &json["jobs"][0];
    assert_eq!((&job["job"], &job["size"]), (&"job 7".into(), &3.into()));
    assert_eq!(job["waits"][0]["missing"][0]["rank"], 2);
    assert_eq!(job["waits"][0]["missing"][0]["here"], true);
    assert_eq!(job["waits"][0]["arrived"][1]["call"], "write of 100 bytes");
    assert_eq!(sandbox.json(&["status"])["jobs"][0]["job"], "job 7");
    finish(ranks);
    until("the job is over", || (sandbox.ok(&["why"]) == "no jobs\n").then_some(()));
}

/// Also names calls that never reach the node, because ranks coordinate in shared memory and read
/// through descriptors.
fn the_last_call_is_named(is_near: bool) {
    let sandbox = Sandbox::served();
    let options = || ClusterOptions { short_cut: Some(is_near), ..ClusterOptions::default() };
    let start = |rank| {
        Rank::opening(&sandbox, options(), ("job 8", 2, rank), |files| {
            files.create("/first", Mode::Unix)
        })
    };
    let ranks: Vec<_> = (0..2).map(start).collect();
    let both = |deed: fn(&JobFiles, &SharedFile) -> Result<(), pario::Error>| {
        ranks.iter().for_each(|rank| rank.begin(deed));
        ranks.iter().for_each(|rank| rank.outcome().unwrap());
    };
    // Rank 0 waits in the barrier; the last call of rank 1 is shown.
    let told = |deed: fn(&JobFiles, &SharedFile) -> Result<(), pario::Error>| {
        ranks[1].begin(deed);
        ranks[1].outcome().unwrap();
        ranks[0].begin(|files, _| files.barrier());
        let text = until("one waits", || {
            let text = sandbox.ok(&["why", "job 8"]);
            text.contains("in barrier: rank 0").then_some(text)
        });
        let json = sandbox.json(&["why", "job 8"]);
        ranks[1].begin(|files, _| files.barrier());
        ranks.iter().for_each(|rank| rank.outcome().unwrap());
        let missing = text.lines().find(|line| line.contains("missing: rank 1, ")).unwrap();
        assert!(!text.contains(['{', '}']), "{text}");
        let call = &json["jobs"][0]["waits"][0]["missing"][0]["last_call"];
        let (_, last) = missing.split_once(" ago it called ").expect(missing);
        assert!(last.starts_with(call.as_str().unwrap()), "{last}: {json}");
        last.to_owned()
    };
    assert_eq!(
        told(|_, _| Ok(())),
        "open of /first for reading and writing in mode M_UNIX, created if needed with mode 0644"
    );
    both(|_, file| file.write(&[1; 100]));
    assert_eq!(told(|_, file| file.write(&[1; 4096])), "write of 4096 bytes on /first");
    assert_eq!(told(|_, file| file.read(&mut [0; 7]).map(|_| ())), "read of 7 bytes on /first");
    both(|_, file| file.set_mode(Mode::Log));
    assert_eq!(told(|_, _| Ok(())), "setiomode(M_LOG) on /first");
    let seek = |_: &JobFiles, file: &SharedFile| file.seek(SeekFrom::Start(9)).map(|_| ());
    assert_eq!(told(seek), "seek to byte 9 on /first");
    assert_eq!(told(|_, file| file.write(&[1; 3])), "write of 3 bytes on /first");
    both(|files, _| files.create("/second", Mode::Sync)?.close());
    assert_eq!(told(|_, _| Ok(())), "close on /second");
    ranks.into_iter().for_each(Rank::end);
}

#[test]
fn the_last_call_is_named_with_the_short_cut() {
    the_last_call_is_named(true);
}

#[test]
fn the_last_call_is_named_without_the_short_cut() {
    the_last_call_is_named(false);
}

#[test]
fn an_unknown_job_is_reported() {
    let sandbox = Sandbox::served();
    let told = sandbox.refused(3, &["why", "4711"]);
    assert!(told.starts_with("pario: there is no job 4711: "), "{told}");
    assert!(told.contains("`pario why` lists the jobs"), "{told}");
}

#[test]
fn a_rank_that_never_came_is_told_apart() {
    let sandbox = Sandbox::served();
    let cluster = Cluster::connect(&sandbox.file("data").display().to_string()).unwrap();
    let files = Job::new("half", 2, 0).unwrap().files(&cluster);
    let barrier = thread::spawn(move || files.barrier());
    let text = until("one waits", || {
        let output = sandbox.run(&["why", "half"]);
        let text = stdout(&output);
        text.contains("waiting").then(|| text.to_owned())
    });
    assert!(text.contains("\n  not here: rank 1\n"), "{text}");
    assert!(text.contains("\n    in barrier: rank 0\n"), "{text}");
    assert!(text.contains("\n    missing: rank 1, which has not come yet\n"), "{text}");
    sandbox.ok(&["reset"]);
    let error = barrier.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("was reset"), "{error}");
}

#[test]
fn the_state_of_a_file_is_shown() {
    let sandbox = Sandbox::served();
    let ranks = waiting(&sandbox);
    let text = sandbox.ok(&["status", "--file", "/result"]);
    assert!(text.starts_with("/result: 1 job has it open\n\nfile     job "), "{text}");
    assert!(text.contains("M_SYNC"), "{text}");
    assert!(text.contains("ranks 0 to 2"), "{text}");
    assert!(text.contains("\n    in write of 100 bytes: ranks 0, 1\n"), "{text}");
    let json = sandbox.json(&["status", "--file", "pario:/result"]);
    assert_eq!(json["path"], "/result");
    assert_eq!(json["jobs"][0]["files"][0]["position"], 0);
    assert_eq!(json["jobs"][0]["waits"][0]["missing"][0]["rank"], 2);
    finish(ranks);
    until("no client has it open", || {
        let text = sandbox.ok(&["status", "--file", "/result"]);
        (text == "/result: no job has it open\n").then_some(())
    });
    assert!(sandbox.refused(3, &["status", "--file", "/none"]).contains("/none"));
    assert!(sandbox.refused(2, &["status", "--file", "none"]).contains("none"));
}

/// Clients that wait for locks need not belong to a job.
#[test]
fn waits_for_locks_are_told() {
    let sandbox = Sandbox::served();
    let connect = || Cluster::connect(&sandbox.file("data").display().to_string()).unwrap();
    let (one, two) = (connect(), connect());
    let holder = one.create("/index").unwrap();
    holder.lock(.., LockKind::Exclusive).unwrap();
    let file = two.options().read(true).write(true).open("/index").unwrap();
    let request = file.start_lock(3..5, LockKind::Shared).unwrap();
    let json = until("one waits", || {
        let json = sandbox.json(&["status", "--file", "/index"]);
        (json["lock_waits"].as_array().map(Vec::len) == Some(1)).then_some(json)
    });
    let wait = &json["lock_waits"][0];
    assert_eq!((&wait["from"], &wait["to"]), (&3.into(), &5.into()));
    assert_eq!((&wait["kind"], &wait["path"]), (&"shared".into(), &"/index".into()));
    let own = format!("({})", std::process::id());
    assert!(wait["holders"][0].as_str().is_some_and(|name| name.ends_with(&own)), "{json}");
    let sentence = format!("{own} waits for bytes 3 to 4 of /index (shared), locked by ");
    for arguments in [&["why"][..], &["status", "--file", "/index"]] {
        let text = sandbox.ok(arguments);
        assert!(text.contains("\n\nfor ") && text.contains(&sentence), "{text}");
    }
    sandbox.ok(&["mkdir", "/other"]);
    drop(one.create("/other/index").unwrap());
    let other = sandbox.json(&["status", "--file", "/other/index"]);
    assert_eq!(other["lock_waits"], serde_json::json!([]));
    drop(holder);
    request.wait().unwrap();
    assert_eq!(sandbox.ok(&["why"]), "no jobs\n");
}

/// Ends the work of other threads when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Processes that write the same bytes of a file with atomic access wait for each other.
#[test]
fn waits_for_atomic_access_are_told() {
    let sandbox = Sandbox::served();
    let connect = || Cluster::connect(&sandbox.file("data").display().to_string()).unwrap();
    let clusters = [connect(), connect()];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for cluster in &clusters {
            let is_over = &is_over;
            scope.spawn(move || {
                let options = cluster.options().read(true).write(true).create(true);
                let file = options.atomic(true).open("/state").unwrap();
                while !is_over.load(Ordering::Acquire) {
                    file.write_at(&[7; 8 << 20], 0).unwrap();
                }
            });
        }
        let _over = Over(&is_over);
        let own = format!("({})", std::process::id());
        let sentence =
            format!("{own} waits with a write of 8388608 bytes at 0 of /state: the bytes");
        for arguments in [&["why"][..], &["status", "--file", "/state"]] {
            until("one waits", || sandbox.ok(arguments).contains(&sentence).then_some(()));
        }
        let wait = until("one waits", || {
            let json = sandbox.json(&["why"]);
            json["atomic_waits"].as_array().and_then(|waits| waits.first()).cloned()
        });
        assert_eq!((&wait["path"], &wait["recall"]), (&"/state".into(), &false.into()));
        assert_eq!(wait["bytes"]["to"], 8 << 20);
        assert!(wait["holders"][0].as_str().is_some_and(|name| name.ends_with(&own)), "{wait}");
    });
    assert_eq!(sandbox.json(&["why"])["atomic_waits"], serde_json::json!([]));
}

/// Calls that wait fail, and the job can start again.
#[test]
fn a_file_is_reset() {
    let sandbox = Sandbox::served();
    let ranks = waiting(&sandbox);
    assert!(sandbox.refused(3, &["reset", "/none"]).contains("/none: no job has it open"));
    let text = sandbox.ok(&["reset", "/result"]);
    assert_eq!(text, "/result: reset; its job must open it again\n");
    for rank in &ranks[..2] {
        let error = rank.outcome().unwrap_err();
        assert!(error.contains("/result: job job 7: it was reset with `pario reset`"), "{error}");
    }
    for rank in &ranks {
        rank.begin(|files, file| {
            let error = file.write(b"x").unwrap_err().to_string();
            assert!(error.contains("open the file again"), "{error}");
            let file = files.create("/again", Mode::Sync)?;
            file.write(b"abc")?;
            file.close()
        });
    }
    for rank in &ranks {
        rank.outcome().unwrap();
    }
    assert_eq!(sandbox.ok(&["cat", "/again"]), "abcabcabc");
    for rank in ranks {
        rank.end();
    }
}

#[test]
fn all_jobs_are_reset() {
    let sandbox = Sandbox::served();
    let ranks = waiting(&sandbox);
    let json = sandbox.json(&["reset"]);
    assert_eq!(json["jobs"], serde_json::json!(["job 7"]));
    assert_eq!(json["files"], serde_json::json!(["/result"]));
    for rank in &ranks[..2] {
        assert!(rank.outcome().unwrap_err().contains("was reset"));
    }
    assert_eq!(sandbox.ok(&["why"]), "no jobs\n");
    // Every rank gets one error, then all can start again.
    for rank in &ranks {
        rank.begin(|files, _| {
            let error = files.barrier().unwrap_err().to_string();
            assert!(error.contains("job 7: it was reset with `pario reset`"), "{error}");
            files.barrier()
        });
    }
    for rank in &ranks {
        rank.outcome().unwrap();
    }
    for rank in ranks {
        rank.end();
    }
    assert!(sandbox.pario(&["--data", "x", "reset"]).output().unwrap().status.code() == Some(2));
}

/// A long wait is logged once.
#[test]
fn the_node_warns_of_long_waits() {
    let mut sandbox = Sandbox::empty();
    let root = sandbox.path().display().to_string();
    let text = format!(
        "[nodes.a]\ndata = \"{root}/data\"\ndisks = [\"{root}/disk\"]\n\
         wait_warning_seconds = 0.2\n"
    );
    std::fs::write(sandbox.file("cluster.toml"), text).unwrap();
    let mut serve = sandbox.pario(&["serve", "--config", "cluster.toml", "--node", "a"]);
    serve.env("PARIO_LOG", "warn").stderr(Stdio::piped());
    let mut node = ServerProcess::start(serve);
    let mut log = node.stderr().lines();
    sandbox.serve_by(node);
    let ranks: Vec<_> = (0..2).map(|rank| Rank::start(&sandbox, "slow", 2, rank)).collect();
    for number in 0..2 {
        ranks[0].begin(|_, file| file.write(b"x"));
        let warning = log.next().unwrap().unwrap();
        let told = "rank 0 waits for rank 1 in write of 1 byte on /result; `pario why slow` tells \
                    more";
        assert!(warning.contains("WARN") && warning.contains(told), "{warning}");
        // A second warning of the same wait would come before that of the next one.
        until("it has waited much longer", || {
            let json = sandbox.json(&["why", "slow"]);
            let wait = &json["jobs"][0]["waits"][0];
            assert_eq!(wait["number"], number);
            (wait["waited_ms"].as_u64()? > 1_500).then_some(())
        });
        ranks[1].begin(|_, file| file.write(b"y"));
        for rank in &ranks {
            rank.outcome().unwrap();
        }
    }
    for rank in ranks {
        rank.end();
    }
    let node = sandbox.node();
    node.signal(rustix::process::Signal::TERM);
    drop(node.wait());
    let rest: Vec<_> = log.map(Result::unwrap).filter(|line| line.contains("waits for")).collect();
    assert_eq!(rest, [] as [&str; 0]);
}

/// Two nodes: ranks coordinate at the first one; their file is on the second one, which can be
/// paused.
struct Pair {
    sandbox: Sandbox,
    far: ServerProcess,
    log: Lines<BufReader<ChildStderr>>,
}

impl Pair {
    fn start() -> Self {
        let mut sandbox = Sandbox::empty();
        let key = sandbox.file("lab.key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [near, far] = ports.map(|port| port.local_addr().unwrap());
        let root = sandbox.path().display();
        let text = format!(
            "name = \"lab\"\nkey_file = {key:?}\n\
             [nodes.a]\nlisten = \"{near}\"\ndata = \"{root}/data\"\n\
             disks = [\"{root}/disk\"]\nwait_warning_seconds = 0.2\n\
             [nodes.b]\nlisten = \"{far}\"\ndata = \"{root}/b\"\ndisks = [\"{root}/far\"]\n\
             short_cut = false\n"
        );
        std::fs::write(sandbox.file("cluster.toml"), text).unwrap();
        let serve = |name| sandbox.pario(&["serve", "--config", "cluster.toml", "--node", name]);
        let mut near = serve("a");
        near.env("PARIO_LOG", "warn").stderr(Stdio::piped());
        let (mut near, far) = (ServerProcess::start(near), ServerProcess::start(serve("b")));
        let log = near.stderr().lines();
        sandbox.serve_by(near);
        until("the nodes know each other", || {
            sandbox.run(&["status"]).status.success().then_some(())
        });
        Self { sandbox, far, log }
    }

    /// Starts three ranks that coordinate in shared memory or by messages, share a file on the
    /// second node, and have written a byte each.
    fn ranks(&self, job: &str, is_near: bool, path: &'static str, mode: Mode) -> Vec<Rank> {
        let options = ClusterOptions {
            short_cut: Some(is_near),
            key_file: Some(self.sandbox.file("lab.key")),
            timeout: Some(Duration::from_secs(600)),
            ..ClusterOptions::default()
        };
        let start = |rank| {
            Rank::opening(&self.sandbox, options.clone(), (job, 3, rank), move |files| {
                let open = files.options(mode).read(true).write(true).create(true);
                open.disks(["b/far"]).open(path)
            })
        };
        let ranks: Vec<_> = (0..3).map(start).collect();
        for rank in &ranks {
            rank.begin(|_, file| file.write(b"x"));
        }
        for rank in &ranks {
            rank.outcome().unwrap();
        }
        ranks
    }

    /// Returns the first node's next warning with this text.
    fn warning(&mut self, what: &str) -> String {
        let mut lines = self.log.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(what)).expect("the node runs")
    }

    /// Returns the waits of a job, once there are `count`.
    fn waits(&self, job: &str, count: usize) -> Option<Value> {
        let text = self.ok_without_far(&["--json", "why", job]);
        let mut json: Value = serde_json::from_str(&text).unwrap();
        let waits = json["jobs"][0]["waits"].take();
        (waits.as_array().map(Vec::len) == Some(count)).then_some(waits)
    }

    /// Runs the command, which must succeed and say that the paused node does not answer. Returns its
    /// output.
    fn ok_without_far(&self, arguments: &[&str]) -> String {
        let output = self.sandbox.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let told = stderr(&output);
        assert!(told.starts_with("pario: the waits at node b are unknown: "), "{told}");
        assert!(told.contains(" is paused (stopped by a signal)"), "{told}");
        stdout(&output).to_owned()
    }

    fn finish(&self, ranks: Vec<Rank>, busy: &[usize]) {
        self.far.resume();
        for rank in busy {
            ranks[*rank].outcome().unwrap();
        }
        for rank in ranks {
            rank.end();
        }
    }
}

fn write_at(offset: u64) -> RankOperation {
    Box::new(move |_, file| {
        file.seek(SeekFrom::Start(offset))?;
        file.write(&[1; 65_536])
    })
}

/// Two ranks write overlapping bytes; the first one holds them as long as the disk is paused. A
/// third rank reads bytes that both want.
fn waits_for_bytes_are_told(job: &str, is_near: bool) {
    let mut pair = Pair::start();
    let ranks = pair.ranks(job, is_near, "/state", Mode::Unix);
    pair.far.pause();
    let places = [0, 131_072, 98_304];
    for rank in [1, 2] {
        ranks[rank].begin(write_at(places[rank]));
    }
    let waits = until("one waits for the other", || pair.waits(job, 1));
    let (late, early) = if waits[0]["arrived"][0]["rank"] == 1 { (1, 2) } else { (2, 1) };
    let (wanted, held) = (places[late], places[early]);
    let warning = pair.warning(" waits for bytes ");
    let told = format!(
        "rank {late} waits for bytes of rank {early} in write of 65536 bytes at {wanted} on \
         /state; `pario why {job}` tells more"
    );
    assert!(warning.contains("WARN") && warning.contains(&told), "{warning}");

    let bytes = &waits[0]["bytes"];
    let to = wanted + 65_536;
    assert_eq!(bytes["wanted"], json!({ "from": wanted, "to": to, "write": true }));
    assert_eq!((&bytes["before"][0]["rank"], &bytes["more"]), (&early.into(), &0.into()));
    assert_eq!(
        (&waits[0]["number"], &waits[0]["missing"][0]["rank"]),
        (&Value::Null, &early.into())
    );

    ranks[0].begin(|_, file| {
        file.seek(SeekFrom::Start(100_000))?;
        let mut bytes = [0; 50_000];
        file.read(&mut bytes).map(|_| ())
    });
    until("another one waits for both", || pair.waits(job, 2));
    for arguments in [["why", job].as_slice(), &["status", "--file", "/state"]] {
        let text = pair.ok_without_far(arguments);
        let lines: Vec<&str> = text.lines().collect();
        let begins = |line: &&str| line.starts_with("  /state  M_UNIX, for ");
        let starts: Vec<_> = (0..lines.len()).filter(|line| begins(&lines[*line])).collect();
        let [first, second] = starts[..] else { panic!("{text}") };
        let writes = |place: u64| format!(" in write of 65536 bytes at {place}");
        assert_eq!(lines[first + 1], format!("   {}: rank {late}", writes(wanted)), "{text}");
        let has = format!("    waits for bytes that rank {early} has: for ");
        assert!(lines[first + 2].starts_with(&has), "{text}");
        assert!(lines[first + 2].ends_with(&writes(held)), "{text}");
        assert_eq!(second, first + 3, "{text}");
        assert_eq!(lines[second + 1], "    in read of 50000 bytes at 100000: rank 0", "{text}");
        assert!(lines[second + 2].starts_with(&has), "{text}");
        let wants = format!("    waits for bytes that rank {late} wants too, and asked earlier: ");
        assert!(lines[second + 3].starts_with(&wants), "{text}");
        assert_eq!(lines.len(), second + 4, "{text}");
    }
    pair.finish(ranks, &[0, 1, 2]);
}

#[test]
fn waits_for_bytes_are_told_in_common_memory() {
    waits_for_bytes_are_told("near", true);
}

#[test]
fn waits_for_bytes_are_told_by_messages() {
    waits_for_bytes_are_told("far", false);
}

/// A read at the known end of a file, while its disk is paused.
#[test]
fn waits_for_the_size_of_a_file_are_told() {
    let mut pair = Pair::start();
    for (job, is_near, path) in [("near", true, "/near"), ("far", false, "/far")] {
        let ranks = pair.ranks(job, is_near, path, Mode::Log);
        pair.far.pause();
        ranks[1].begin(|_, file| file.read(&mut [0; 10]).map(|_| ()));
        let waits = until("one waits", || pair.waits(job, 1));
        assert_eq!((&waits[0]["measured"], &waits[0]["missing"]), (&true.into(), &json!([])));
        let text = pair.ok_without_far(&["why", job]);
        assert!(text.contains(&format!("\n  {path}  M_LOG, for ")), "{text}");
        let told = "\n    in read of 10 bytes: rank 1\n    the home node is measuring the file\n";
        assert!(text.contains(told), "{text}");
        assert!(pair.ok_without_far(&["why"]).contains(" for the size of the file\n"));
        let told = format!("rank 1 waits for the size of the file in read of 10 bytes on {path}; ");
        let warning = pair.warning(" waits for the size ");
        assert!(warning.contains(&told), "{warning}");
        pair.finish(ranks, &[1]);
    }
}

/// Runs a command by its PFSLib name.
fn old(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Output {
    old_command(sandbox, program, arguments).output().unwrap()
}

fn old_command(sandbox: &Sandbox, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    // The same directory and environment as for `pario`.
    let like = sandbox.pario::<&str>(&[]);
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(sandbox.path()).stdin(Stdio::null()).args(arguments);
    command
}

const PFSD: &str = env!("CARGO_BIN_EXE_pfsd");
const PFSDEXIT: &str = env!("CARGO_BIN_EXE_pfsdexit");
const PFSDRESET: &str = env!("CARGO_BIN_EXE_pfsdreset");
const PFSDSTAT: &str = env!("CARGO_BIN_EXE_pfsdstat");

/// Two servers on one machine; each answers its own commands.
#[test]
fn the_old_names_of_commands_work() {
    let sandbox = Sandbox::empty();
    std::fs::create_dir(sandbox.file("second")).unwrap();
    let first = ServerProcess::start(old_command(&sandbox, PFSD, &["2"]));
    let mut second = old_command(&sandbox, PFSD, &[]);
    second.current_dir(sandbox.file("second"));
    let second = ServerProcess::start(second);
    assert!(first.lines[0].contains("4 disks in ./pario-data"), "{:?}", first.lines);

    let output = old(&sandbox, PFSDSTAT, &["pario-data", "-i", "-v"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("local/disk3"), "{}", stdout(&output));
    assert_ne!(pid_of(&sandbox, "pario-data"), pid_of(&sandbox, "second/pario-data"));

    let output = old(&sandbox, PFSDSTAT, &["pario-data", "-f", "/none"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let cluster = Cluster::connect(&sandbox.file("pario-data").display().to_string()).unwrap();
    let files = Job::new("old", 1, 0).unwrap().files(&cluster);
    let file = files.create("/f", Mode::Log).unwrap();
    let output = old(&sandbox, PFSDSTAT, &["pario-data", "-f", "/f"]);
    assert!(stdout(&output).contains("M_LOG"), "{}", stdout(&output));
    let output = old(&sandbox, PFSDRESET, &["pario-data", "/f"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Relative names, as a program in this directory opens them.
    let here = sandbox.path().canonicalize().unwrap().display().to_string();
    let relative = files.create_all(&format!("{here}/sub/x.pfs"), Mode::Log).unwrap();
    relative.write(b"0123").unwrap();
    let output = old(&sandbox, PFSDSTAT, &["pario-data", "-v", "-f", "sub/./x.pfs"]);
    let shown = stdout(&output);
    assert!(shown.contains(&format!("{here}/sub/x.pfs")), "{shown}{}", stderr(&output));
    assert!(shown.contains(" M_LOG        4    4 "), "pointer and end: {shown}");
    let output = old(&sandbox, PFSDRESET, &["pario-data", "sub/x.pfs"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    drop(relative);
    // Private pointers and started requests.
    let private = files.create("/p", Mode::Async).unwrap();
    private.write(b"0123456789").unwrap();
    let request = private.show_request(42, false, 65_536).unwrap();
    for arguments in [&["pario-data", "-v"][..], &["pario-data", "-f", "/p", "-i"]] {
        let output = old(&sandbox, PFSDSTAT, arguments);
        let row = stdout(&output).lines().find(|line| line.contains(" read "));
        let row: Vec<&str> = row.into_iter().flat_map(str::split_whitespace).collect();
        assert_eq!(&row[..7], ["/p", "old", "0", "10", "42", "read", "65536"], "{arguments:?}");
    }
    drop(request);
    let output = old(&sandbox, PFSDSTAT, &["pario-data", "-v"]);
    let is_row = |line: &str| line.starts_with("/p ") && line.contains(" 10        -  - ");
    assert!(stdout(&output).lines().any(is_row), "{}", stdout(&output));
    assert!(!stdout(&output).contains("only its processes know"), "{}", stdout(&output));
    drop(private);
    let far = ClusterOptions { short_cut: Some(false), ..ClusterOptions::default() };
    let far =
        Cluster::connect_with(&sandbox.file("pario-data").display().to_string(), far).unwrap();
    let alone = Job::new("far", 1, 0).unwrap().files(&far);
    let unseen = alone.create("/unseen", Mode::Async).unwrap();
    let output = old(&sandbox, PFSDSTAT, &["pario-data", "-f", "/unseen"]);
    let told = "job far: only its processes know their private pointers and started requests on \
                /unseen: ";
    assert!(stdout(&output).contains(told), "{}", stdout(&output));
    drop((unseen, alone, far));
    let output = old(&sandbox, PFSDRESET, &["pario-data"]);
    assert_eq!(stdout(&output), "job old: forgotten; calls that waited have failed\n");
    drop((file, files, cluster));

    let output = old(&sandbox, PFSDEXIT, &["pario-data"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "node \"local\" is stopping\n");
    assert_eq!(first.wait().0.code(), Some(0));
    // The other server is not affected.
    let output = old(&sandbox, PFSDEXIT, &["second/pario-data"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(second.wait().0.code(), Some(0));
    assert_eq!(old(&sandbox, PFSDEXIT, &["localhost"]).status.code(), Some(5), "nothing runs");
    for program in [PFSD, PFSDEXIT, PFSDRESET, PFSDSTAT] {
        let wrong = old(&sandbox, program, &["-x"]);
        assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
        assert!(stderr(&wrong).starts_with("pario: pfsd"), "{}", stderr(&wrong));
        assert_eq!(old(&sandbox, program, &["--help"]).status.code(), Some(0));
    }
}

fn pid_of(sandbox: &Sandbox, data: &str) -> Value {
    let output = sandbox.pario(&["--cluster", data, "status", "--json"]).output().unwrap();
    let json: Value = serde_json::from_str(stdout(&output)).unwrap();
    json["nodes"][0]["pid"].clone()
}
