//! A node to test with, the installed library, and C programs that are compiled and run as the
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

/// How long processes may take: only a guard against those that hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node, and a directory for what is compiled. Fields are dropped in order.
pub struct Site {
    pub node: Option<Node>,
    pub dir: TempDir,
    config: Config,
}

impl Site {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A site whose node is configured otherwise.
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

    /// A client of the node.
    pub fn cluster(&self) -> Cluster {
        Cluster::connect(&self.address()).unwrap()
    }

    /// What is in a file of the cluster.
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

    /// The same with other questions to pkg-config, and further arguments.
    pub fn compile_with(&self, source: &Path, wanted: &[&str], more: &[&str]) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = source.file_stem().unwrap().to_string_lossy();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let program = self.dir.path().join(format!("{name}-{number}"));
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        ended(gcc.arg(source).arg("-o").arg(&program).args(more).args(flags(wanted)));
        program
    }

    /// A program with what it needs to find the node; pkg-config has told it where the library is.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env_remove("LD_LIBRARY_PATH")
            .env("PARIO_CLUSTER", self.address())
            .stdin(Stdio::null());
        command
    }

    /// Runs a program as each process of a new job.
    pub fn ranks(&self, program: &Path, size: u32, arguments: &[&str]) -> Vec<Output> {
        let job = new_job();
        self.ranks_by(size, |rank| {
            let mut command = self.rank(program, &job, size, rank);
            command.args(arguments);
            command
        })
    }

    /// A program as one process of a job.
    pub fn rank(&self, program: &Path, job: &str, size: u32, rank: u32) -> Command {
        let mut command = self.command(program);
        command
            .env("PARIO_RANK", rank.to_string())
            .env("PARIO_SIZE", size.to_string())
            .env("PARIO_JOB", job);
        command
    }

    /// How ranks of one job are told to behave as if they were on so many machines, in turn.
    pub fn machines(&self, machines: u32) -> impl Fn(&mut Command, u32) + use<> {
        static JOBS: AtomicU8 = AtomicU8::new(1);
        // Each process has its own addresses of loopback.
        let process = std::process::id().to_le_bytes();
        let last = JOBS.fetch_add(1, Ordering::Relaxed).max(1);
        let host = Ipv4Addr::new(127, process[1] / 2, process[0], last);
        let key = self.dir.path().join("key");
        std::fs::write(&key, pario::team::Key::random().to_hex()).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, private).unwrap();
        move |command, rank| {
            if machines > 1 {
                command.env("PARIO_TEAM", format!("{host}:7000")).env("PARIO_KEY", &key);
                command.env("PARIO_MACHINE", format!("m{}", rank % machines));
            }
        }
    }

    /// Runs several processes at once, each started as told.
    pub fn ranks_by(&self, size: u32, command: impl Fn(u32) -> Command) -> Vec<Output> {
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

    /// Runs a program as all processes of a new job, which all must end well, and gives what they
    /// have printed.
    pub fn fine(&self, program: &Path, size: u32, arguments: &[&str]) -> String {
        let outputs = self.ranks(program, size, arguments);
        for (rank, output) in outputs.iter().enumerate() {
            assert!(output.status.success(), "rank {rank}: {}", told(output));
        }
        outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout)).collect()
    }
}

/// What pkg-config answers.
pub fn flags(wanted: &[&str]) -> Vec<String> {
    let mut question = Command::new("pkg-config");
    question.args(wanted).arg("pario");
    let flags = ended(question.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")));
    let flags = String::from_utf8(flags.stdout).unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// The name of a job that nobody else has.
pub fn new_job() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    format!("test {} {}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed))
}

/// Waits for a process; one that takes far too long is ended.
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
    // Who has closed both is about to end.
    for _ in 0..2 {
        if is_closed.recv_timeout(PATIENCE).is_err() {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    Output { status, stdout, stderr }
}

/// Runs a command, which must be there and end well.
pub fn ended(command: &mut Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    output
}

/// Runs a command, which must be there.
pub fn output(command: &mut Command) -> Output {
    match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => wait(child),
        Err(error) => panic!(
            "{:?} cannot be started ({error}): `./test` says which package has it",
            command.get_program()
        ),
    }
}

/// How a process ended, and what it has said.
pub fn told(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A C program of the tests.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// A C program of the examples.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c").join(name)
}

/// Where the library is installed: once for all tests, by the script that users call.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let built = program.parent().unwrap();
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        // What is installed is as new as what it was made of.
        let headers = std::fs::read_dir(crate_dir.join("include")).unwrap();
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
        ended(Command::new(crate_dir.join("install")).arg(&prefix).arg(built));
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
