//! Every error of the manual, and invalid arguments, from C. The node and other jobs are not
//! disturbed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use crate::site::{Site, describe_output, new_job, run_ok, source, wait};
use pario_c::errors;
use pario_server::config::DiskConfig;

fn compiled(site: &Site) -> std::path::PathBuf {
    site.compile(&source("errors.c"))
}

/// A process that prints its progress and waits for a line on standard input.
pub struct SteppedProcess(pub Child);

impl SteppedProcess {
    pub fn start(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().unwrap())
    }

    /// Starts a process and waits until it prints a line.
    #[track_caller]
    fn until(command: Command, said: &str) -> Self {
        let mut started = Self::start(command);
        started.says(said);
        started
    }

    #[track_caller]
    pub fn says(&mut self, said: &str) {
        let mut line = String::new();
        // The process prints one line and waits, so the buffer holds no further line.
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.trim_end() != said {
            let mut errors_printed = String::new();
            std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut errors_printed)
                .unwrap();
            panic!("{line:?} instead of {said:?}: {errors_printed}");
        }
    }

    fn go_on(mut self) -> Output {
        self.0.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        wait(self.0)
    }

    #[track_caller]
    pub fn ends_well(self) -> Output {
        let output = self.go_on();
        assert!(output.status.success(), "{}", describe_output(&output));
        output
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn invalid_arguments_are_refused() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 1, &["arguments"]);
    // Other jobs are not disturbed.
    site.run_ranks_ok(&compiled(&site), 2, &["mixed"]);
}

#[test]
fn requests_are_counted() {
    let site = Site::new();
    let program = compiled(&site);
    site.run_ranks_ok(&program, 1, &["requests"]);
    let limited = |limit: &str| {
        let mut outputs = site.run_ranks_with(1, |rank| {
            let mut command = site.rank(&program, &new_job(), 1, rank);
            command.arg("requests").env("PARIO_REQUESTS", limit);
            command
        });
        stderr(&outputs.remove(0))
    };
    assert!(limited("5").contains("5 requests are under way"), "the limit can be set");
    assert!(limited("many").contains("PARIO_REQUESTS"), "an invalid limit is reported");
}

#[test]
fn processes_that_disagree_get_an_error() {
    let site = Site::new();
    let program = compiled(&site);
    for short_cut in ["0", "1"] {
        let job = new_job();
        let outputs = site.run_ranks_with(2, |rank| {
            let mut command = site.rank(&program, &job, 2, rank);
            command.arg("mixed").env("PARIO_SHORT_CUT", short_cut);
            command
        });
        for output in outputs {
            assert!(output.status.success(), "short cut {short_cut}: {}", describe_output(&output));
        }
    }
}

#[test]
fn waiting_for_a_killed_process_fails() {
    let site = Site::new();
    let outputs = site.run_ranks(&compiled(&site), 2, &["gone"]);
    assert!(outputs[0].status.success(), "{}", describe_output(&outputs[0]));
    assert!(!outputs[1].status.success());
    let said = stderr(&outputs[0]);
    assert!(said.starts_with("gone: PFSLib: ") && said.contains("rank 1 is gone"), "{said}");
    assert!(!said.contains("on the server side"), "{said}");
}

#[test]
fn a_process_too_far_ahead_of_the_others_is_refused() {
    let site = Site::new();
    let (program, job) = (compiled(&site), new_job());
    let rank = |rank| {
        let mut command = site.rank(&program, &job, 2, rank);
        // In shared memory, calls beyond the limit wait instead of failing.
        command.arg("ahead").env("PARIO_REQUESTS", "10000").env("PARIO_SHORT_CUT", "0");
        command
    };
    let mut first = SteppedProcess::start(rank(0));
    let second = SteppedProcess::start(rank(1));
    first.says("ahead");
    // The second process has nothing to wait for, and ends.
    assert!(wait(second.0).status.success());
    first.ends_well();
}

#[test]
fn a_restarted_node_knows_no_open_files() {
    let mut site = Site::new();
    let program = compiled(&site);
    for short_cut in ["0", "1"] {
        let mut command = site.rank(&program, &new_job(), 1, 0);
        command.arg("restarted").env("PARIO_SHORT_CUT", short_cut);
        let process = SteppedProcess::until(command, "open");
        site.start_again();
        process.ends_well();
    }
}

#[test]
fn a_node_that_is_down_is_reported() {
    let mut site = Site::new();
    let program = compiled(&site);
    let mut command = site.rank(&program, &new_job(), 1, 0);
    // With the short cut, reads and writes would not need the node.
    command.arg("down").env("PARIO_SHORT_CUT", "0");
    let process = SteppedProcess::until(command, "open");
    site.stop();
    let said = stderr(&process.ends_well());
    let no_node = "moving: PFSLib: Couldn't get an I/O daemon: /pfs/down: node local";
    let (moving, _) = said.split_once('\n').unwrap();
    assert!(moving.starts_with(no_node) && moving.contains(" does not answer"), "{said}");
    let (_, opening) = said.split_once("\ndown: PFSLib: ").unwrap();
    assert!(opening.contains("local") && !opening.contains("on the server side"), "{said}");
}

#[test]
fn missing_permissions_are_reported() {
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
        let process = SteppedProcess::until(command, "open");
        cluster.set_mode("/pfs/mine", 0).unwrap();
        let said = stderr(&process.ends_well());
        let [opening, reading] = said.lines().collect::<Vec<_>>().try_into().unwrap();
        assert!(opening.starts_with("opening: Permission denied: /pfs/theirs: "), "{said}");
        let forbidden = "reading: PFSLib: Incorrect authentication: /pfs/mine: ";
        assert!(reading.starts_with(forbidden), "{said}");
        cluster.remove("/pfs/mine").unwrap();
    }
}

/// A node that serves one user refuses others. Only root can act as another user.
#[test]
fn strangers_are_not_let_in() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED, nothing was tested: only root can act as another user");
        return;
    }
    let site = Site::new();
    std::fs::set_permissions(site.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(site.dir.path().join("s"), PermissionsExt::from_mode(0o777)).unwrap();
    let said = stderr(&site.run_ranks(&compiled(&site), 1, &["stranger"]).remove(0));
    assert!(said.starts_with("stranger: PFSLib: "), "{said}");
    assert!(!said.contains("on the server side"), "{said}");
}

/// `pfslib_perror` prints the text of the error number, then the cause.
#[test]
fn the_cause_follows_the_text_of_the_number() {
    let site = Site::new();
    let output = site.run_ranks(&compiled(&site), 1, &["causes"]).remove(0);
    assert!(output.status.success(), "{}", describe_output(&output));
    let said = stderr(&output);
    let expected = [
        "missing: No such file or directory: /pfs/nothing: there is no such file or directory",
        "plain: No such file or directory: no/such/file",
        "exists: File exists: /pfs/x: ",
        "null: Bad address: the buffer is NULL",
        "mode: PFSLib: Invalid argument: I/O mode 6 is unknown: M_UNIX to M_ASYNC are 0 to 5",
        "seek: Invalid argument: /pfs/x: lseek to offset -1 with whence 0 is not a position in a file",
        "length: Invalid argument: /pfs/x: the length -1 is negative",
        "access: Bad file descriptor: /pfs/x: not opened for reading",
        "long: PFSLib: Too large I/O operation: 4294967295 bytes in one call: the limit is 2147483647",
        "locked: Invalid argument: /pfs/x: lockf command 99 is unknown",
        "other: No such file or directory",
    ];
    for (line, expected) in said.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line:?} instead of {expected:?}");
    }
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    assert_eq!(said.lines().last(), expected.last().copied());
}

/// Mounts a small file system that only this thread and its children see.
fn small_file_system() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: no file descriptors are unshared.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    unshared.expect("this test mounts a disk of 24 MiB: run it as root");
    run_ok(Command::new("mount").args(["--make-rprivate", "/"]));
    let tmpfs = ["-t", "tmpfs", "-o", "size=24m", "tmpfs"];
    run_ok(Command::new("mount").args(tmpfs).arg(dir.path()));
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
        let output = wait(SteppedProcess::start(command).0);
        assert!(output.status.success(), "{}", describe_output(&output));
        let said = stderr(&output);
        let expected = "full: No space left on device: /pfs/full: disk local/disk0 is full";
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn forms_without_underscore_print_the_error_and_exit() {
    let site = Site::new();
    let program = compiled(&site);
    let bad_file = "PFSLib: Bad file number";
    let expected = [
        ("cread", "PFSLib: Read or written too few data: 0 of 10 bytes were transferred"),
        ("creadv", "PFSLib: Read or written too few data: 0 of 10 bytes were transferred"),
        ("cwrite", "PFSLib: Read or written too few data: 100 of 200 bytes were transferred"),
        ("cwritev", bad_file),
        ("iread", bad_file),
        ("ireadv", bad_file),
        ("iwrite", bad_file),
        ("iwritev", bad_file),
        ("iodone", "PFSLib: Bad I/O id: no request with id -1 is under way"),
        ("iowait", "PFSLib: Bad I/O id: no request with id -1 is under way"),
        ("iseof", bad_file),
        ("iomode", "PFSLib: Bad file number: descriptor -1 is not that of a shared file"),
        ("setiomode", "PFSLib: Bad file number: descriptor -1 is not that of a shared file"),
        ("lsize", bad_file),
        ("gopen", "No such file or directory: /pfs/nothing: there is no such file or directory"),
    ];
    for (name, message) in expected {
        let output = site.run_ranks(&program, 1, &["plain", name]).remove(0);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", describe_output(&output));
        assert_eq!(stderr(&output), format!("pario: process 0 of 1: {name}: {message}\n"));
    }
}

#[test]
fn invalid_ranks_and_sizes_are_refused() {
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
    let output = wait(SteppedProcess::start(command).0);
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    assert!(stderr(&output).contains("pfslib_init: PFSLib: "), "{output:?}");
    assert!(!stderr(&output).contains("on the server side"), "{output:?}");
    for (size, rank) in [("2", "2"), ("2", "-1"), ("0", "0"), ("-3", "0"), ("1", "2147483647")] {
        let output = wait(SteppedProcess::start(init(size, rank)).0);
        assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
        let said = stderr(&output);
        let expected = format!("pfslib_init: PFSLib: Invalid argument: process {rank} of {size}:");
        assert!(said.contains(&expected), "{said}");
    }
    // Two processes open the file. Then others claim a rank that is taken, or another size.
    let (mut first, mut second) =
        (SteppedProcess::start(init("2", "0")), SteppedProcess::start(init("2", "1")));
    first.says("open");
    second.says("open");
    let refused = |size: &str, rank: &str, reasons: &[&str]| {
        let process = SteppedProcess::start(init(size, rank)).0;
        let newcomer = format!("process {} (", process.id());
        let output = wait(process);
        assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
        let said = stderr(&output);
        assert!(said.contains("pfslib_init: PFSLib: Invalid argument"), "{said}");
        assert!(reasons.iter().all(|why| said.contains(why)), "{said}");
        (said, newcomer)
    };
    let holder = format!("process {} (", first.0.id());
    let taken = format!("cannot be rank 0 of job {job}: {holder}");
    let (said, newcomer) = refused("2", "0", &[&taken, ") on host ", "PARIO_JOB"]);
    assert!(said.contains(&newcomer), "{said}");
    refused("3", "2", &["rank 2 gives 3 as its size"]);
    std::thread::scope(|scope| {
        // Closing is collective.
        let first = scope.spawn(move || first.ends_well());
        second.ends_well();
        first.join().unwrap();
    });
}

#[test]
fn each_error_has_its_text() {
    let site = Site::new();
    let output = site.run_ranks(&compiled(&site), 1, &["texts"]).remove(0);
    let said = stderr(&output);
    let mut lines = said.lines();
    for (_, _, text) in errors::LIBRARY_ERRORS {
        assert_eq!(lines.next().unwrap(), format!("text: {text}"));
    }
    assert!(lines.next().unwrap().starts_with("text: Unknown error 50"));
    assert_eq!(lines.next(), Some("text: No such file or directory"));
    assert_eq!(lines.next(), Some("Permission denied"));
    assert_eq!(lines.next(), None);
}

#[test]
fn a_forked_process_gets_errors_and_disturbs_no_other() {
    let site = Site::new();
    site.run_ranks_ok(&compiled(&site), 1, &["forked"]);
}
