//! The built binary, run on a cluster of its own: embedded, or served by a child process.

use std::ffi::OsStr;
use std::fs::{DirEntry, read_dir, read_to_string};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A directory for one test, and how commands reach the cluster in it.
pub struct Sandbox {
    dir: TempDir,
    /// Where sockets are made.
    runtime: TempDir,
    node: Option<ServerProcess>,
}

impl Sandbox {
    /// A place where nothing is started.
    pub fn empty() -> Self {
        let directory = || tempfile::tempdir().expect("a directory");
        Self { dir: directory(), runtime: directory(), node: None }
    }

    /// A place where a node is running.
    pub fn served() -> Self {
        let mut sandbox = Self::empty();
        sandbox.node = Some(ServerProcess::start(sandbox.pario(&["serve", "--data", "data"])));
        sandbox
    }

    /// Both ways to have a cluster: in the command itself, and in a node.
    pub fn both() -> [Self; 2] {
        [Self::empty(), Self::served()]
    }

    /// The directory that commands are started in.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The directory that stands for the user's own, in which the runtime directory lies.
    pub fn runtime(&self) -> &Path {
        self.runtime.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// From now on this node is used, which serves the directory `data`.
    pub fn serve_by(&mut self, node: ServerProcess) {
        self.node = Some(node);
    }

    /// The node.
    pub fn node(&mut self) -> ServerProcess {
        self.node.take().expect("a node is running")
    }

    /// The command without a cluster.
    pub fn pario<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
        command
            .current_dir(self.path())
            .env_remove("PARIO_CLUSTER")
            .env_remove("PARIO_LOG")
            // The user's own node must not be found, and not be disturbed.
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .stdin(Stdio::null())
            .args(arguments);
        command
    }

    /// The command on the cluster.
    pub fn on_cluster<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let way = if self.node.is_some() { "--cluster" } else { "--data" };
        let mut command = self.pario(&[way, "data"]);
        if self.node.is_none() {
            command.arg("--create");
        }
        command.args(arguments);
        command
    }

    /// Runs the command on the cluster.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        self.on_cluster(arguments).output().expect("the binary starts")
    }

    /// Runs the command on the cluster with something on stdin.
    pub fn run_with(&self, input: &[u8], arguments: &[&str]) -> Output {
        let mut child = self
            .on_cluster(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input).expect("the command reads");
        drop(stdin);
        child.wait_with_output().expect("the command ends")
    }

    /// Runs the command, which must be fine, and gives what it printed.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let shown: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(0), "{shown:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{shown:?}");
        stdout(&output).to_owned()
    }

    /// Runs the command, which must fail with a code and print nothing but the reason, and gives
    /// the reason.
    pub fn refused<S: AsRef<OsStr>>(&self, code: i32, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let shown: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(code), "{shown:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{shown:?}");
        stderr(&output).to_owned()
    }

    /// Runs the command with `--json`, which must be fine.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[&["--json"], arguments].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{text}"))
    }

    /// Writes a local file with content that depends on the seed, and gives the content.
    pub fn write(&self, name: &str, len: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        std::fs::write(self.file(name), &bytes).expect("the file can be written");
        bytes
    }

    /// A local file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// What went to stdout.
pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

/// What went to stderr.
pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

/// A node in a child process. It is killed when this value goes.
pub struct ServerProcess {
    child: Child,
    said: BufReader<ChildStdout>,
    /// The two lines that a node begins with.
    pub lines: [String; 2],
}

impl ServerProcess {
    /// Starts a node, and waits until it has said that it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = [(); 2].map(|()| {
            let mut line = String::new();
            said.read_line(&mut line).expect("a line");
            line.trim_end().to_owned()
        });
        Self { child, said, lines }
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// What it says to stderr, if that was made a pipe.
    pub fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().expect("a pipe"))
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the node is there");
    }

    /// It does nothing more until it is resumed.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        // The signal has come to a process before each of its threads has stopped.
        let is_stopped = |task: std::io::Result<DirEntry>| {
            let stat = read_to_string(task.expect("a thread").path().join("stat"));
            stat.is_ok_and(|stat| {
                stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            })
        };
        let tasks = format!("/proc/{}/task", self.child.id());
        while !read_dir(&tasks).expect("the node is there").all(is_stopped) {
            std::thread::yield_now();
        }
    }

    /// It goes on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for the end: how it ended, and what it said since the first two lines.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("the node ends"), rest)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
