//! Processes that say who they are with `pfslib_init`: without a launcher, under any parent, from
//! several machines; and the hosts that they name.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::errors::SteppedProcess;
use crate::lab::Lab;
use crate::site::{Site, describe_output, source, wait};

/// A host that does not answer must be reported within this time, also on a busy machine.
const SECONDS: Duration = Duration::from_secs(8);

fn compiled(site: &Site) -> PathBuf {
    site.compile(&source("errors.c"))
}

/// The command of a rank, which opens a file with the others and waits for its input.
fn rank(site: &Site, program: &Path, host: &str, size: u32, rank: u32) -> Command {
    let mut command = site.command(program);
    command.args(["init", host, &size.to_string(), &rank.to_string()]);
    command.env_remove("PARIO_JOB");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits until a job of this size with these ranks has joined, and returns its name.
fn until_joined(site: &Site, size: u32, ranks: &[u32]) -> String {
    let (cluster, deadline) = (site.cluster(), Instant::now() + Duration::from_secs(20));
    loop {
        let jobs = cluster.jobs().unwrap();
        let found = jobs.iter().find(|job| job.size == size && job.here == ranks);
        if let Some(found) = found {
            return found.job.clone();
        }
        assert!(Instant::now() < deadline, "no job of {size} with ranks {ranks:?}: {jobs:?}");
        std::thread::yield_now();
    }
}

/// All ranks open the file and close it together.
fn all_end_well(mut ranks: Vec<SteppedProcess>) {
    ranks.iter_mut().for_each(|rank| rank.says("open"));
    std::thread::scope(|scope| {
        for rank in ranks {
            scope.spawn(move || rank.ends_well());
        }
    });
}

/// The variables are those of other jobs, such as that of the batch system whose shell starts a
/// program.
#[test]
fn ranks_under_different_parents_and_environments_meet() {
    let site = Site::new();
    let program = compiled(&site);
    let environments: [&[(&str, &str)]; 4] = [
        &[],
        &[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
        ],
        &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", "x@1")],
        &[("PMI_RANK", "5")],
    ];
    for _ in 0..2 {
        let start = |(number, variables): (u32, &&[(&str, &str)])| {
            let own = rank(&site, &program, "", 4, number);
            let mut shell = site.command("sh");
            // The shell stays, as the parent of the rank.
            shell.args(["-c", "\"$@\"; exit $?", "sh"]).arg(own.get_program()).args(own.get_args());
            shell.env_remove("PARIO_JOB").envs(variables.iter().copied());
            SteppedProcess::start(shell)
        };
        all_end_well((0..).zip(&environments).map(start).collect());
    }
}

#[test]
fn a_second_process_with_a_rank_is_refused_and_both_are_named() {
    let site = Site::new();
    let program = compiled(&site);
    let first = SteppedProcess::start(rank(&site, &program, "", 2, 0));
    let job = until_joined(&site, 2, &[0]);
    assert!(job.starts_with("unnamed "), "{job}");
    let name = program.file_name().unwrap().to_str().unwrap();
    let second = SteppedProcess::start(rank(&site, &program, "", 2, 0));
    let pids = [first.0.id(), second.0.id()];
    let output = wait(second.0);
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    let told = stderr(&output);
    for part in [
        &format!("process {} ({name}) on host ", pids[0]),
        &format!("process {} ({name}) on host ", pids[1]),
        "cannot be rank 0 of 2",
        "PARIO_JOB",
    ] {
        assert!(told.contains(part), "{told}");
    }
    // Jobs with a name, and jobs of another size, begin at the same time.
    let named = |number| {
        let mut command = rank(&site, &program, "", 2, number);
        command.env("PARIO_JOB", "mine");
        SteppedProcess::start(command)
    };
    all_end_well(vec![named(1), named(0)]);
    all_end_well(
        (0..3).map(|it| SteppedProcess::start(rank(&site, &program, "", 3, it))).collect(),
    );
    // The first process has waited for its own rank 1 all the time.
    all_end_well(vec![first, SteppedProcess::start(rank(&site, &program, "", 2, 1))]);
}

/// A process that says its rank with `do_nio`, under a shell of its own.
fn donio_rank(site: &Site, program: &Path, size: u32, rank: u32) -> Command {
    let mut shell = site.command("sh");
    // The shell stays, as the parent of the rank.
    shell.args(["-c", "\"$@\"; exit $?", "sh"]).arg(program).arg("unnamed");
    shell.args([rank.to_string(), size.to_string()]);
    for variable in ["PARIO_RANK", "PARIO_SIZE", "PARIO_JOB"] {
        shell.env_remove(variable);
    }
    // No other test meets here, and no node is needed.
    shell.env("XDG_RUNTIME_DIR", site.dir.path()).env("PARIO_CLUSTER", "unix:/nowhere");
    shell
}

#[test]
fn processes_of_donio_under_different_parents_meet() {
    let site = Site::new();
    let program = site.compile(&source("jobs.c"));
    for size in [2, 3, 3] {
        for output in site.run_ranks_with(size, |rank| donio_rank(&site, &program, size, rank)) {
            assert!(output.status.success(), "{}", describe_output(&output));
        }
    }
}

#[test]
fn a_second_process_of_donio_with_a_rank_is_refused_and_both_are_named() {
    let site = Site::new();
    let program = site.compile(&source("jobs.c"));
    let name = program.file_name().unwrap().to_str().unwrap();
    let mut both = [(); 2].map(|()| {
        let mut command = donio_rank(&site, &program, 2, 1);
        command.stderr(std::process::Stdio::piped()).spawn().unwrap()
    });
    // One of them waits for rank 0, and the other one is refused at once.
    let deadline = Instant::now() + Duration::from_secs(20);
    let refused = loop {
        let ended = both.iter_mut().position(|one| one.try_wait().unwrap().is_some());
        match ended {
            Some(ended) => break ended,
            None => assert!(Instant::now() < deadline, "both wait"),
        }
        std::thread::yield_now();
    };
    let mut told = String::new();
    let [first, second] = &mut both;
    let (ended, waiting) = if refused == 0 { (first, second) } else { (second, first) };
    std::io::Read::read_to_string(ended.stderr.as_mut().unwrap(), &mut told).unwrap();
    assert_eq!(told.matches(&format!("({name}) on host ")).count(), 2, "{told}");
    for part in ["cannot be rank 1 of 2", "is that rank of the unnamed job", "PARIO_JOB"] {
        assert!(told.contains(part), "{told}");
    }
    // The other process meets its rank 0.
    let output = wait(donio_rank(&site, &program, 2, 0).spawn().unwrap());
    assert!(output.status.success(), "{}", describe_output(&output));
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn an_ended_rank_of_an_incomplete_job_is_reported_to_those_that_wait_for_it() {
    let site = Site::new();
    let program = compiled(&site);
    let waiting = SteppedProcess::start(rank(&site, &program, "", 3, 0));
    let ending = SteppedProcess::start(rank(&site, &program, "", 3, 1));
    until_joined(&site, 3, &[0, 1]);
    let mut child = ending.0;
    child.kill().unwrap();
    child.wait().unwrap();
    let output = wait(waiting.0);
    assert_eq!(output.status.code(), Some(5), "{}", describe_output(&output));
    assert!(stderr(&output).contains("rank 1 is gone"), "{}", describe_output(&output));
    // Nothing is left of that job.
    all_end_well(
        (0..3).map(|it| SteppedProcess::start(rank(&site, &program, "", 3, it))).collect(),
    );
}

#[test]
fn a_host_is_used_and_never_ignored() {
    let site = Site::new();
    let program = compiled(&site);
    let own = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    for host in ["localhost", "127.0.0.1", &own] {
        all_end_well(vec![SteppedProcess::start(rank(&site, &program, host, 1, 0))]);
    }
    let refused = |command: Command| {
        let began = Instant::now();
        let output = wait(SteppedProcess::start(command).0);
        assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
        assert!(began.elapsed() < SECONDS, "known after {:?}", began.elapsed());
        stderr(&output)
    };
    // An address for documents, which no machine has.
    let told = refused(rank(&site, &program, "192.0.2.1", 1, 0));
    assert!(
        told.contains("host 192.0.2.1") && told.contains("PARIO_CLUSTER names unix:"),
        "{told}"
    );
    let mut unknown = rank(&site, &program, "no-such-host.invalid", 1, 0);
    unknown.env_remove("PARIO_CLUSTER");
    let told = refused(unknown);
    assert!(told.contains("\"no-such-host.invalid\" is not the address of a cluster"), "{told}");
}

/// On a machine whose network has no further one.
#[test]
fn a_host_that_does_not_answer_is_an_error_within_seconds() {
    let Some(lab) = Lab::new(1) else { return };
    let site = Site::new();
    let program = compiled(&site);
    // A machine of the same network that is down, and one to which no way leads.
    for host in ["10.79.0.99", "192.0.2.1"] {
        let own = rank(&site, &program, host, 1, 0);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.namespace(0)]);
        command.arg(own.get_program()).args(own.get_args()).current_dir(site.dir.path());
        let began = Instant::now();
        let output = wait(SteppedProcess::start(command).0);
        assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
        assert!(began.elapsed() < SECONDS, "known after {:?}", began.elapsed());
        let told = stderr(&output);
        let tried = [format!("on host {host} at port 7411"), format!("tcp:{host}:7411")];
        for part in tried.iter().map(String::as_str).chain(["no node answers", "--listen"]) {
            assert!(told.contains(part), "{told}");
        }
    }
}

/// The node and one rank on one machine, the other rank on another one.
#[test]
fn ranks_on_two_machines_meet_by_the_name_of_the_host() {
    let Some(lab) = Lab::new(2) else { return };
    let server = lab.meeting().ip();
    // The threads that this one starts are on that machine, too.
    let namespace = File::open(Path::new("/run/netns").join(lab.namespace(0))).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    let key = tempfile::tempdir().unwrap();
    let key_file = key.path().join("pario/key");
    assert!(pario::create_key_file(&key_file).unwrap());
    let site = Site::with(|config| {
        config.nodes[0].listen = Some((std::net::Ipv4Addr::UNSPECIFIED, 7411).into());
        config.key_file = Some(key_file.clone());
    });
    let program = compiled(&site);
    let start = |number| {
        let own = rank(&site, &program, &server.to_string(), 2, number);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.namespace(number)]);
        command.arg(own.get_program()).args(own.get_args());
        command.env_remove("PARIO_CLUSTER").env_remove("PARIO_JOB").env_remove("PARIO_KEY");
        command.env("XDG_CONFIG_HOME", key.path()).current_dir(site.dir.path());
        if number == 0 {
            // Other nodes of the user may run on this machine.
            command.env("PARIO_CLUSTER", site.address());
        }
        SteppedProcess::start(command)
    };
    all_end_well(vec![start(0), start(1)]);
}
