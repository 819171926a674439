//! Every error of the manual, and arguments that nobody can mean, from C. The node and other jobs go
//! on as if nothing had been.

mod site;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use pario_c::errors;
use pario_server::config::DiskConfig;
use site::{Site, ended, new_job, source, told, wait};

fn compiled(site: &Site) -> std::path::PathBuf {
    site.compile(&source("errors.c"))
}

/// A process that says how far it has come, and goes on when it is told to.
struct Stepping(Child);

impl Stepping {
    fn start(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().unwrap())
    }

    /// Starts it, and waits until it says something.
    #[track_caller]
    fn until(command: Command, said: &str) -> Self {
        let mut started = Self::start(command);
        started.says(said);
        started
    }

    #[track_caller]
    fn says(&mut self, said: &str) {
        let mut line = String::new();
        // It says one line and waits: nothing is lost in the buffer.
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.trim_end() != said {
            let mut told = String::new();
            std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut told).unwrap();
            panic!("{line:?} instead of {said:?}: {told}");
        }
    }

    fn go_on(mut self) -> Output {
        self.0.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        wait(self.0)
    }

    #[track_caller]
    fn ends_well(self) -> Output {
        let output = self.go_on();
        assert!(output.status.success(), "{}", told(&output));
        output
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn arguments_that_nobody_can_mean() {
    let site = Site::new();
    site.fine(&compiled(&site), 1, &["arguments"]);
    // Others do not notice.
    site.fine(&compiled(&site), 2, &["mixed"]);
}

#[test]
fn requests_are_counted() {
    let site = Site::new();
    let program = compiled(&site);
    site.fine(&program, 1, &["requests"]);
    let limited = |limit: &str| {
        let mut outputs = site.ranks_by(1, |rank| {
            let mut command = site.rank(&program, &new_job(), 1, rank);
            command.arg("requests").env("PARIO_REQUESTS", limit);
            command
        });
        stderr(&outputs.remove(0))
    };
    assert!(limited("5").contains("5 are under way"), "the limit can be set");
    assert!(limited("many").contains("PARIO_REQUESTS"), "nonsense is told");
}

#[test]
fn processes_that_disagree_are_told() {
    let site = Site::new();
    let program = compiled(&site);
    for short_cut in ["0", "1"] {
        let job = new_job();
        let outputs = site.ranks_by(2, |rank| {
            let mut command = site.rank(&program, &job, 2, rank);
            command.arg("mixed").env("PARIO_SHORT_CUT", short_cut);
            command
        });
        for output in outputs {
            assert!(output.status.success(), "short cut {short_cut}: {}", told(&output));
        }
    }
}

#[test]
fn who_waits_for_a_process_that_is_killed_is_told() {
    let site = Site::new();
    let outputs = site.ranks(&compiled(&site), 2, &["gone"]);
    assert!(outputs[0].status.success(), "{}", told(&outputs[0]));
    assert!(!outputs[1].status.success());
    let said = stderr(&outputs[0]);
    assert!(said.starts_with("gone: PFSLib: ") && said.contains("rank 1 is gone"), "{said}");
    assert!(!said.contains("on the server side"), "{said}");
}

#[test]
fn nobody_can_be_too_far_ahead() {
    let site = Site::new();
    let (program, job) = (compiled(&site), new_job());
    let rank = |rank| {
        let mut command = site.rank(&program, &job, 2, rank);
        // In memory that they have in common, calls wait when there are too many.
        command.arg("ahead").env("PARIO_REQUESTS", "10000").env("PARIO_SHORT_CUT", "0");
        command
    };
    let mut first = Stepping::start(rank(0));
    let second = Stepping::start(rank(1));
    first.says("ahead");
    // The second one has nothing to wait for, and is gone.
    assert!(wait(second.0).status.success());
    first.ends_well();
}

#[test]
fn a_node_that_was_started_again_knows_no_open_files() {
    let mut site = Site::new();
    let program = compiled(&site);
    for short_cut in ["0", "1"] {
        let mut command = site.rank(&program, &new_job(), 1, 0);
        command.arg("restarted").env("PARIO_SHORT_CUT", short_cut);
        let process = Stepping::until(command, "open");
        site.start_again();
        process.ends_well();
    }
}

#[test]
fn a_node_that_is_down_is_told() {
    let mut site = Site::new();
    let program = compiled(&site);
    let mut command = site.rank(&program, &new_job(), 1, 0);
    // Otherwise reading and writing goes on without it.
    command.arg("down").env("PARIO_SHORT_CUT", "0");
    let process = Stepping::until(command, "open");
    site.stop();
    let said = stderr(&process.ends_well());
    let no_node = "moving: PFSLib: Couldn't get an I/O daemon: /pfs/down: node local";
    let (moving, _) = said.split_once('\n').unwrap();
    assert!(moving.starts_with(no_node) && moving.contains(" does not answer"), "{said}");
    let (_, opening) = said.split_once("\ndown: PFSLib: ").unwrap();
    assert!(opening.contains("local") && !opening.contains("on the server side"), "{said}");
}

#[test]
fn what_is_forbidden_is_told() {
    let site = Site::with(|config| config.nodes[0].all_users = true);
    std::fs::set_permissions(site.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = compiled(&site);
    let cluster = site.cluster();
    cluster.make_directory("/pfs").unwrap();
    cluster.set_mode("/pfs", 0o777).unwrap();
    cluster.create("/pfs/theirs").unwrap();
    cluster.set_mode("/pfs/theirs", 0).unwrap();
    for short_cut in ["0", "1"] {
        let mut command = site.rank(&program, &new_job(), 1, 0);
        command.arg("forbidden").env("PARIO_SHORT_CUT", short_cut);
        let process = Stepping::until(command, "open");
        cluster.set_mode("/pfs/mine", 0).unwrap();
        let said = stderr(&process.ends_well());
        let [opening, reading] = said.lines().collect::<Vec<_>>().try_into().unwrap();
        assert!(opening.starts_with("opening: Permission denied: /pfs/theirs: "), "{said}");
        let forbidden = "reading: PFSLib: Incorrect authentication: /pfs/mine: ";
        assert!(reading.starts_with(forbidden), "{said}");
        cluster.remove("/pfs/mine").unwrap();
    }
}

/// A node that is not for all users; only root can be another one.
#[test]
fn strangers_are_not_let_in() {
    let site = Site::new();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can act as another user");
        return;
    }
    std::fs::set_permissions(site.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(site.dir.path().join("s"), PermissionsExt::from_mode(0o777)).unwrap();
    let said = stderr(&site.ranks(&compiled(&site), 1, &["stranger"]).remove(0));
    assert!(said.starts_with("stranger: PFSLib: "), "{said}");
    assert!(!said.contains("on the server side"), "{said}");
}

/// `pfslib_perror` prints the text of the error number, then the cause.
#[test]
fn the_cause_follows_the_text_of_the_number() {
    let site = Site::new();
    let output = site.ranks(&compiled(&site), 1, &["causes"]).remove(0);
    assert!(output.status.success(), "{}", told(&output));
    let said = stderr(&output);
    let expected = [
        "missing: No such file or directory: /pfs/nothing: there is no such file or directory",
        "plain: No such file or directory: no/such/file",
        "exists: File exists: /pfs/x: ",
        "null: Bad address: the buffer is NULL",
        "mode: PFSLib: Invalid argument: 6 is no mode: M_UNIX to M_ASYNC are 0 to 5",
        "seek: Invalid argument: /pfs/x: lseek to -1 from whence 0: there is no such place",
        "length: Invalid argument: /pfs/x: the length -1 is negative",
        "access: Bad file descriptor: /pfs/x: not opened for reading",
        "long: PFSLib: Too large I/O operation: 4294967295 bytes in one call: at most 2147483647 are \
         possible",
        "locked: Invalid argument: /pfs/x: 99 is no command of lockf",
        "other: No such file or directory",
    ];
    for (line, expected) in said.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line:?} instead of {expected:?}");
    }
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    assert_eq!(said.lines().last(), expected.last().copied());
}

/// A small file system, which only this thread and what it starts can see.
fn small_file_system() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: no file descriptors are unshared.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    unshared.expect("a disk of 24 MiB is mounted for this test: run it as root");
    ended(Command::new("mount").args(["--make-rprivate", "/"]));
    let tmpfs = ["-t", "tmpfs", "-o", "size=24m", "tmpfs"];
    ended(Command::new("mount").args(tmpfs).arg(dir.path()));
    dir
}

#[test]
fn a_full_disk_is_named() {
    let small = small_file_system();
    let disk = DiskConfig::at(small.path().join("disk0"));
    let site = Site::with(|config| config.nodes[0].disks = vec![disk]);
    for short_cut in ["0", "1"] {
        let mut command = site.rank(&compiled(&site), &new_job(), 1, 0);
        command.arg("full").env("PARIO_SHORT_CUT", short_cut);
        let output = wait(Stepping::start(command).0);
        assert!(output.status.success(), "{}", told(&output));
        let said = stderr(&output);
        let expected = "full: No space left on device: /pfs/full: disk local/disk0 is full";
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn plain_forms_say_what_is_wrong_and_end() {
    let site = Site::new();
    let program = compiled(&site);
    let bad_file = "PFSLib: Bad file number";
    let expected = [
        ("cread", "PFSLib: Read or written too few data: 0 of 10 bytes"),
        ("creadv", "PFSLib: Read or written too few data: 0 of 10 bytes"),
        ("cwrite", "PFSLib: Read or written too few data: 100 of 200 bytes"),
        ("cwritev", bad_file),
        ("iread", bad_file),
        ("ireadv", bad_file),
        ("iwrite", bad_file),
        ("iwritev", bad_file),
        ("iodone", "PFSLib: Bad I/O id: -1 is no request that is under way"),
        ("iowait", "PFSLib: Bad I/O id: -1 is no request that is under way"),
        ("iseof", bad_file),
        ("iomode", "PFSLib: Bad file number: -1 is no descriptor of a shared file"),
        ("setiomode", "PFSLib: Bad file number: -1 is no descriptor of a shared file"),
        ("lsize", bad_file),
        ("gopen", "No such file or directory: /pfs/nothing: there is no such file or directory"),
    ];
    for (name, message) in expected {
        let output = site.ranks(&program, 1, &["plain", name]).remove(0);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", told(&output));
        assert_eq!(stderr(&output), format!("pario: process 0 of 1: {name}: {message}\n"));
    }
}

#[test]
fn numbers_of_processes_that_cannot_be() {
    let site = Site::new();
    let program = compiled(&site);
    let job = new_job();
    let init = |size: &str, rank: &str| {
        let mut command = site.command(&program);
        command.args(["init", "", size, rank]).env("PARIO_JOB", &job);
        command
    };
    let mut command = site.command(&program);
    command.args(["init", "unix:/nowhere", "1", "0"]);
    let output = wait(Stepping::start(command).0);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(stderr(&output).contains("pfslib_init: PFSLib: "), "{output:?}");
    assert!(!stderr(&output).contains("on the server side"), "{output:?}");
    for (size, rank) in [("2", "2"), ("2", "-1"), ("0", "0"), ("-3", "0"), ("1", "2147483647")] {
        let output = wait(Stepping::start(init(size, rank)).0);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let said = stderr(&output);
        let expected = format!("pfslib_init: PFSLib: Invalid argument: process {rank} of {size}:");
        assert!(said.contains(&expected), "{said}");
    }
    // Two that agree open the file; then somebody else claims a rank, or another number of them.
    let (mut first, mut second) =
        (Stepping::start(init("2", "0")), Stepping::start(init("2", "1")));
    first.says("open");
    second.says("open");
    let refused = |size: &str, rank: &str, why: &str| {
        let output = wait(Stepping::start(init(size, rank)).0);
        assert_eq!(output.status.code(), Some(4), "{}", told(&output));
        let said = stderr(&output);
        assert!(said.starts_with("init: PFSLib: Invalid argument") && said.contains(why), "{said}");
    };
    refused("2", "0", "another process has rank 0 already");
    refused("3", "2", "rank 2 gives 3 as its size");
    std::thread::scope(|scope| {
        // They close it together.
        let first = scope.spawn(move || first.ends_well());
        second.ends_well();
        first.join().unwrap();
    });
}

#[test]
fn each_error_has_its_text() {
    let site = Site::new();
    let output = site.ranks(&compiled(&site), 1, &["texts"]).remove(0);
    let said = stderr(&output);
    let mut lines = said.lines();
    for (_, _, text) in errors::ALL {
        assert_eq!(lines.next().unwrap(), format!("text: {text}"));
    }
    assert!(lines.next().unwrap().starts_with("text: Unknown error 50"));
    assert_eq!(lines.next(), Some("text: No such file or directory"));
    assert_eq!(lines.next(), Some("Permission denied"));
    assert_eq!(lines.next(), None);
}

#[test]
fn a_process_that_was_forked_is_told_and_disturbs_nobody() {
    let site = Site::new();
    site.fine(&compiled(&site), 1, &["forked"]);
}
