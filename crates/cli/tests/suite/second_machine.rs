//! A cluster that a second machine uses: `pfsd --listen`, its key, and the commands of PFSLib with a
//! host, between two network namespaces.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::command::{Sandbox, ServerProcess, stderr, stdout};
use crate::document_examples::fences;
use crate::lab::Lab;

const PARIO: &str = env!("CARGO_BIN_EXE_pario");
const PFSD: &str = env!("CARGO_BIN_EXE_pfsd");
const PFSDEXIT: &str = env!("CARGO_BIN_EXE_pfsdexit");
const PFSDRESET: &str = env!("CARGO_BIN_EXE_pfsdreset");
const PFSDSTAT: &str = env!("CARGO_BIN_EXE_pfsdstat");

/// A host that does not answer must be reported within this time, also on a busy machine.
const SECONDS: Duration = Duration::from_secs(8);

/// A machine: a network namespace, and directories of its own.
struct Machine {
    namespace: String,
    sandbox: Sandbox,
}

impl Machine {
    fn new(lab: &Lab, number: u32) -> Self {
        Self { namespace: lab.namespace(number), sandbox: Sandbox::empty() }
    }

    /// A command on this machine.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        let like = self.sandbox.pario::<&str>(&[]);
        for (name, value) in like.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["netns", "exec", &self.namespace, program]).args(arguments);
        command.current_dir(self.sandbox.path()).env_remove("PARIO_KEY");
        command
    }

    #[track_caller]
    fn ends(&self, code: i32, program: &str, arguments: &[&str]) -> Output {
        self.ends_with(code, self.command(program, arguments))
    }

    #[track_caller]
    fn ends_with(&self, code: i32, mut command: Command) -> Output {
        let began = Instant::now();
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", stderr(&output));
        assert!(began.elapsed() < SECONDS, "{command:?}: ended after {:?}", began.elapsed());
        output
    }

    /// The file of the user's key.
    fn key(&self) -> PathBuf {
        self.sandbox.runtime().join("config/pario/key")
    }
}

#[test]
fn a_second_machine_needs_the_name_of_the_host_and_a_copy_of_the_key() {
    let Some(lab) = Lab::new(2) else { return };
    let (server, client) = (Machine::new(&lab, 0), Machine::new(&lab, 1));
    let host = &lab.meeting().ip().to_string();
    let pfsd = || server.command(PFSD, &["3", "--listen"]);
    let mut node = ServerProcess::start(pfsd());
    assert!(node.lines[0].contains("tcp:0.0.0.0:7411"), "{:?}", node.lines);
    let told = node.line();
    assert!(told.contains(&format!("the key in {}", server.key().display())), "{told}");
    let key = std::fs::read_to_string(server.key()).unwrap();
    let mode = std::fs::metadata(server.key()).unwrap().permissions().mode() & 0o777;
    assert_eq!((key.trim().len(), mode), (64, 0o600));

    // Without the key, with another one, and with the key in the variable.
    let told = stderr(&client.ends(4, PFSDSTAT, &[host])).to_owned();
    assert!(told.contains("admits only clients with the cluster's key"), "{told}");
    assert!(told.contains(&client.key().display().to_string()), "{told}");
    let with_key = |key: &str| {
        let mut command = client.command(PFSDSTAT, &[host, "-i", "-v"]);
        command.env("PARIO_KEY", key);
        command
    };
    let told = stderr(&client.ends_with(4, with_key(&"7".repeat(64)))).to_owned();
    assert!(told.contains("another key than the one in the variable PARIO_KEY"), "{told}");
    let output = client.ends_with(0, with_key(key.trim()));
    let shown = stdout(&output);
    assert!(shown.contains("local/disk3") && shown.contains("local/11 "), "{shown}");
    assert!(!shown.contains("local/12 "), "three threads for each of four disks: {shown}");

    // With a copy of the file.
    std::fs::create_dir_all(client.key().parent().unwrap()).unwrap();
    std::fs::copy(server.key(), client.key()).unwrap();
    std::fs::write(client.sandbox.file("here"), "over the network").unwrap();
    client.ends(0, PARIO, &["--cluster", host, "put", "here", "/there"]);
    let output = client.ends(0, PARIO, &["--cluster", host, "cat", "/there"]);
    assert_eq!(stdout(&output), "over the network");
    let output = client.ends(0, PARIO, &["--cluster", &format!("tcp:{host}"), "ls", "/"]);
    assert_eq!(stdout(&output), "there\n");
    // The server's own machine needs no key.
    let output = server.ends(0, PFSDSTAT, &[host, "-f", "/there"]);
    assert_eq!(stdout(&output), "/there: no job has it open\n");
    let told = stderr(&client.ends(3, PFSDRESET, &[host, "there"])).to_owned();
    let named = client.sandbox.file("there").display().to_string();
    assert!(told.contains(&format!("{named}: no job has it open")), "{told}");

    // A host and a variable that disagree; hosts that do not answer.
    let mut command = client.command(PFSDSTAT, &["localhost"]);
    command.env("PARIO_CLUSTER", format!("tcp:{host}:7411"));
    let told = stderr(&client.ends_with(2, command)).to_owned();
    assert!(told.contains("names host localhost, but the variable PARIO_CLUSTER"), "{told}");
    for nobody in ["10.79.0.99", "192.0.2.1"] {
        let told = stderr(&client.ends(5, PFSDSTAT, &[nobody])).to_owned();
        assert!(told.contains(&format!("no node answers on host {nobody} at port 7411")), "{told}");
        assert!(told.contains(&format!("tcp:{nobody}:7411")), "{told}");
    }

    let output = client.ends(0, PFSDEXIT, &[host]);
    assert_eq!(stdout(&output), "node \"local\" is stopping\n");
    assert_eq!(node.wait().0.code(), Some(0));
    let told = stderr(&client.ends(5, PFSDEXIT, &[host])).to_owned();
    assert!(told.contains("no process listens there") && told.contains("pfsd --listen"), "{told}");
    // The next start has the same key.
    let _node = ServerProcess::start(pfsd());
    client.ends(0, PFSDSTAT, &[host]);
}

/// Runs the session of docs/how-to/second-machine.md, with two users' homes and a stand-in for `ssh`.
#[test]
fn the_session_of_the_guide_runs_as_it_stands() {
    let Some(lab) = Lab::new(2) else { return };
    let (sun, moon) = (Machine::new(&lab, 0), Machine::new(&lab, 1));
    let host = lab.meeting().ip().to_string();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sessions = fences::all(&root);
    sessions.retain(|fence| fence.language == "machines");
    assert_eq!(sessions.len(), 1, "one guide has a session on two machines");
    let programs = moon.sandbox.file("bin");
    std::fs::create_dir(&programs).unwrap();
    let ssh = format!("#!/bin/sh\nshift\ncd {} && exec \"$@\"\n", sun.sandbox.path().display());
    std::fs::write(programs.join("ssh"), ssh).unwrap();
    std::fs::set_permissions(programs.join("ssh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(moon.sandbox.file("results.h5"), "results").unwrap();
    let built = Path::new(PARIO).parent().unwrap().display().to_string();
    let path = format!("{}:{built}:{}", programs.display(), std::env::var("PATH").unwrap());
    let shell = |machine: &Machine, line: &str| {
        let mut command = machine.command("bash", &["-c", line]);
        let home = machine.sandbox.path();
        command.env("PATH", &path).env("HOME", home).env_remove("XDG_CONFIG_HOME");
        command
    };
    let mut nodes = Vec::new();
    let mut printed = String::new();
    for line in sessions[0].text.lines() {
        let (machine, typed) = line.split_once("$ ").expect("a command");
        let typed = typed.replace("ssh sun", "ssh SUN").replace(" sun", &format!(" {host}"));
        let typed = typed.replace("=sun", &format!("={host}"));
        match (machine, typed.strip_suffix(" &")) {
            ("sun", Some(server)) => {
                nodes.push(ServerProcess::start(shell(&sun, &format!("exec {server}"))));
            }
            ("moon", None) => printed += stdout(&moon.ends_with(0, shell(&moon, &typed))),
            _ => panic!("{line}: not a machine of the guide"),
        }
    }
    assert!(printed.contains("results.h5\n") && printed.contains("is stopping"), "{printed}");
    for node in nodes {
        assert_eq!(node.wait().0.code(), Some(0));
    }
}
