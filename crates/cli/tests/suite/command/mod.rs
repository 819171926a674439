//! Runs the built binary on a temporary cluster: embedded, or served by a child process.

use std::ffi::OsStr;
use std::fs::{DirEntry, read_dir, read_to_string};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A temporary directory for one test, and the way to the cluster in it.
pub struct Sandbox {
    dir: TempDir,
    /// Runtime directory, which holds the sockets.
    runtime: TempDir,
    node: Option<ServerProcess>,
}

impl Sandbox {
    /// Creates a directory in which nothing runs.
    pub fn empty() -> Self {
        let directory = || tempfile::tempdir().expect("a directory");
        Self { dir: directory(), runtime: directory(), node: None }
    }

    /// Creates a directory in which a node runs.
    pub fn served() -> Self {
        let mut sandbox = Self::empty();
        sandbox.node = Some(ServerProcess::start(sandbox.pario(&["serve", "--data", "data"])));
        sandbox
    }

    /// Returns both kinds of clusters: embedded in the command, and served by a node.
    pub fn both() -> [Self; 2] {
        [Self::empty(), Self::served()]
    }

    /// Returns the working directory of commands.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the value of XDG_RUNTIME_DIR.
    pub fn runtime(&self) -> &Path {
        self.runtime.path()
    }

    /// Returns the path of a file in the working directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Uses this node, which serves the directory `data`, from now on.
    pub fn serve_by(&mut self, node: ServerProcess) {
        self.node = Some(node);
    }

    /// Takes the node out of the sandbox.
    pub fn node(&mut self) -> ServerProcess {
        self.node.take().expect("a node is running")
    }

    /// Returns the command without a cluster.
    pub fn pario<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pario"));
        command
            .current_dir(self.path())
            .env_remove("PARIO_CLUSTER")
            .env_remove("PARIO_LOG")
            // Commands must neither find nor disturb a node of the user who runs the tests.
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .env("XDG_CONFIG_HOME", self.runtime.path().join("config"))
            .stdin(Stdio::null())
            .args(arguments);
        command
    }

    /// Returns the command on the cluster.
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

    /// Runs the command on the cluster with an input.
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

    /// Runs the command, which must succeed, and returns its output.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let shown: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(0), "{shown:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{shown:?}");
        stdout(&output).to_owned()
    }

    /// Runs the command, which must fail with a code and print only the reason, and returns the
    /// reason.
    pub fn refused<S: AsRef<OsStr>>(&self, code: i32, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let shown: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        assert_eq!(output.status.code(), Some(code), "{shown:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{shown:?}");
        stderr(&output).to_owned()
    }

    /// Runs the command with `--json`, which must succeed, and returns the JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[&["--json"], arguments].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{text}"))
    }

    /// Writes a local file with random content of a seed, and returns the content.
    pub fn write(&self, name: &str, len: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        std::fs::write(self.file(name), &bytes).expect("the file can be written");
        bytes
    }

    /// Reads a local file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// Returns the standard output as text.
pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

/// Returns the standard error as text.
pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

/// A node (or viewer) in a child process, killed on drop.
pub struct ServerProcess {
    child: Child,
    said: BufReader<ChildStdout>,
    /// The first two lines that it prints.
    pub lines: [String; 2],
}

impl ServerProcess {
    /// Starts a process, and waits until it has printed that it listens.
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

    /// Reads its next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Returns its stderr, if that is a pipe.
    pub fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().expect("a pipe"))
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the node is there");
    }

    /// Stops all its threads until it is resumed.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        // The signal arrives before each thread of the process has stopped.
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

    /// Resumes it.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for its end; returns its status and its output after the first two lines.
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

/// Repeats a question until it has an answer; fails after a minute.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within a minute");
    }
}
