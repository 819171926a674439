//! A test site: a node, the installed library, and C programs that are compiled and run as the
//! processes of a job.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use pario::Cluster;
use pario_server::Node;
use pario_server::config::Config;
use tempfile::TempDir;

/// Guards against processes that hang.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A node, and a directory for compiled programs. Fields are dropped in order.
pub struct Site {
    pub node: Option<Node>,
    pub dir: TempDir,
    config: Config,
}

impl Site {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates a site whose node has a changed configuration.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::alone(&dir.path().join("data"));
        config.nodes[0].socket = dir.path().join("s");
        change(&mut config);
        let node = Some(Node::start(&config, "local").unwrap());
        Self { node, dir, config }
    }

    /// Stops the node.
    pub fn stop(&mut self) {
        self.node = None;
    }

    /// Starts the node again.
    pub fn start_again(&mut self) {
        self.node = None;
        self.node = Some(Node::start(&self.config, "local").unwrap());
    }

    pub fn address(&self) -> String {
        format!("unix:{}", self.dir.path().join("s").display())
    }

    /// Connects a client.
    pub fn cluster(&self) -> Cluster {
        Cluster::connect(&self.address()).unwrap()
    }

    /// Returns the content of a file of the cluster.
    pub fn content(&self, path: &str) -> Vec<u8> {
        let file = self.cluster().open(path).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// Compiles a C program with the flags that pkg-config gives.
    pub fn compile(&self, source: &Path) -> PathBuf {
        self.compile_with(source, &["--cflags", "--libs"], &[])
    }

    /// The same with other pkg-config options and further arguments.
    pub fn compile_with(&self, source: &Path, wanted: &[&str], more: &[&str]) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = source.file_stem().unwrap().to_string_lossy();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let program = self.dir.path().join(format!("{name}-{number}"));
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        run_ok(gcc.arg(source).arg("-o").arg(&program).args(more).args(flags(wanted)));
        program
    }

    /// Returns a command that finds the node. The program finds the library by the flags of
    /// pkg-config.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env_remove("LD_LIBRARY_PATH")
            .env("PARIO_CLUSTER", self.address())
            .stdin(Stdio::null());
        command
    }

    /// Runs a program as all processes of a new job.
    pub fn run_ranks(&self, program: &Path, size: u32, arguments: &[&str]) -> Vec<Output> {
        let job = new_job();
        self.run_ranks_with(size, |rank| {
            let mut command = self.rank(program, &job, size, rank);
            command.args(arguments);
            command
        })
    }

    /// Returns the command for one process of a job.
    pub fn rank(&self, program: &Path, job: &str, size: u32, rank: u32) -> Command {
        let mut command = self.command(program);
        command
            .env("PARIO_RANK", rank.to_string())
            .env("PARIO_SIZE", size.to_string())
            .env("PARIO_JOB", job);
        command
    }

    /// Returns a function that makes ranks act as if they ran on several machines, in turn.
    pub fn machines(&self, machines: u32) -> impl Fn(&mut Command, u32) + use<> {
        static JOBS: AtomicU8 = AtomicU8::new(1);
        // Each test process uses its own loopback addresses.
        let process = std::process::id().to_le_bytes();
        let last = JOBS.fetch_add(1, Ordering::Relaxed).max(1);
        let host = Ipv4Addr::new(127, process[1] / 2, process[0], last);
        let key = self.dir.path().join("key");
        std::fs::write(&key, pario::memory::Key::random().to_hex()).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, private).unwrap();
        move |command, rank| {
            if machines > 1 {
                command.env("PARIO_TEAM", format!("{host}:7000")).env("PARIO_KEY", &key);
                command.env("PARIO_MACHINE", format!("m{}", rank % machines));
            }
        }
    }

    /// Runs several processes at once.
    pub fn run_ranks_with(&self, size: u32, command: impl Fn(u32) -> Command) -> Vec<Output> {
        let children: Vec<Child> = (0..size)
            .map(|rank| {
                let mut command = command(rank);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        std::thread::scope(|scope| {
            let waiting: Vec<_> =
                children.into_iter().map(|child| scope.spawn(|| wait(child))).collect();
            waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Runs a program as all processes of a new job, which must succeed. Returns what they printed.
    pub fn run_ranks_ok(&self, program: &Path, size: u32, arguments: &[&str]) -> String {
        let outputs = self.run_ranks(program, size, arguments);
        for (rank, output) in outputs.iter().enumerate() {
            assert!(output.status.success(), "rank {rank}: {}", describe_output(output));
        }
        outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout)).collect()
    }
}

/// Returns the flags that pkg-config prints.
pub fn flags(wanted: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(wanted);
    // Programs name another package, or none.
    if wanted.iter().all(|word| word.starts_with('-')) {
        command.arg("pario");
    }
    let flags = run_ok(command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")));
    let flags = String::from_utf8(flags.stdout).unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Returns a unique job name.
pub fn new_job() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    format!("test {} {}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed))
}

/// Waits for a process; kills it after the time limit.
pub fn wait(mut child: Child) -> Output {
    let (closed, is_closed) = mpsc::channel();
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        let closed = closed.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).unwrap();
            }
            let _ = closed.send(());
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    // A process that has closed both pipes is about to end.
    for _ in 0..2 {
        if is_closed.recv_timeout(TIMEOUT).is_err() {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    Output { status, stdout, stderr }
}

/// Runs a command, which must exist and succeed.
pub fn run_ok(command: &mut Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}", describe_output(&output));
    output
}

/// Runs a command, which must exist.
pub fn output(command: &mut Command) -> Output {
    match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => wait(child),
        Err(error) => panic!(
            "{:?} cannot be started ({error}): `./test` says which package provides it",
            command.get_program()
        ),
    }
}

/// Describes how a process ended and what it printed.
pub fn describe_output(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Returns the path of a C test program.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// Returns the path of a C example.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c").join(name)
}

/// Returns the prefix of the installed library. The users' script installs it once for all tests.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let built = program.parent().unwrap();
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        // The stamp of an installation is the newest of its sources.
        let headers = ["include", "include/pfs"].map(|dir| crate_dir.join(dir));
        let headers = headers.into_iter().flat_map(|dir| std::fs::read_dir(dir).unwrap());
        let headers = headers.map(|entry| entry.unwrap().path());
        let preload = std::fs::read_dir(crate_dir.join("preload")).unwrap();
        let preload = preload.map(|entry| entry.unwrap().path());
        let others = preload.chain([crate_dir.join("install")]);
        let library = [built.join("libpario_c.so")];
        let newest = headers.chain(others).chain(library).map(|path| modified(&path)).max();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(root).unwrap();
        let lock = File::create(root.join("installing")).unwrap();
        lock.lock().unwrap();
        let prefix = root.join("prefix");
        let note = prefix.join("installed");
        let stamp = format!("{newest:?}");
        if std::fs::read_to_string(&note).is_ok_and(|noted| noted == stamp) {
            return prefix;
        }
        run_ok(Command::new(crate_dir.join("install")).arg(&prefix).arg(built));
        std::fs::write(note, stamp).unwrap();
        prefix
    })
}

fn modified(path: &Path) -> std::time::SystemTime {
    let metadata = std::fs::metadata(path);
    metadata
        .and_then(|known| known.modified())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
