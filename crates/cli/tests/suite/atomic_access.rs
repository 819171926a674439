//! Atomic access by a process that answers nothing: warnings of the node, `pario reset`, and
//! `pfsdreset`.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use pario::{Cluster, ErrorKind, File};
use pario_net::{Address, RpcClient, Space};
use pario_proto::{
    Access, AtomicCall, AtomicOutcome, AtomicRequest, BytesUse, Failure, FileId, FilePath, Grant,
    Identity, NamespaceRequest, PROTOCOL_VERSION, PeerKind, Reply, Request, RequestMessage,
};
use pario_server::NodeProtocol;

use crate::command::{Sandbox, ServerProcess, until};

/// A process that opens files for atomic access, claims bytes, and then does nothing.
struct StuckProcess {
    rpc: RpcClient<NodeProtocol>,
    _space: Space,
}

impl StuckProcess {
    fn connect(socket: PathBuf) -> Self {
        let space = Space::builder("stuck").join(&Address::unix(socket)).build().unwrap();
        let rpc = RpcClient::open(&space, "requests", Duration::from_secs(10)).unwrap();
        let process = Self { rpc, _space: space };
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let (version, identity) = (PROTOCOL_VERSION, Identity { uid, gids: vec![gid] });
        let (client, peer) = ("stuck".to_owned(), PeerKind::Client);
        let welcome = process.ask(Request::Hello { version, identity, client, peer });
        assert!(matches!(welcome, Ok(Reply::Welcome { .. })), "{welcome:?}");
        process
    }

    fn ask(&self, request: Request) -> Result<Reply, Failure> {
        let message = RequestMessage { request, data: Vec::new() };
        self.rpc.start(message).unwrap().wait().unwrap().result
    }

    fn atomic(&self, file: FileId, call: AtomicCall) -> Result<AtomicOutcome, Failure> {
        let request = AtomicRequest { file, opener: 1, call };
        match self.ask(Request::Atomic(request))? {
            Reply::Atomic(outcome) => Ok(outcome),
            reply => panic!("{reply:?}"),
        }
    }

    fn grant(&self, path: &str) -> Grant {
        let path = FilePath::new(path).unwrap();
        let open = NamespaceRequest::Open { path, access: Access::READ_WRITE };
        match self.ask(Request::Namespace(open)) {
            Ok(Reply::Opened(opened)) => opened.grant,
            reply => panic!("{reply:?}"),
        }
    }

    /// Opens an existing file for atomic access.
    fn open(&self, path: &str) -> (FileId, AtomicOutcome) {
        let grant = self.grant(path);
        let (file, path) = (grant.file, FilePath::new(path).unwrap());
        let open = AtomicCall::Open { grant, path, shared_file: None };
        (file, self.atomic(file, open).unwrap())
    }

    /// Claims the first bytes of a file.
    fn claim(&self, file: FileId, number: u64) -> Result<AtomicOutcome, Failure> {
        let bytes = BytesUse::new(0, 100, true);
        self.atomic(file, AtomicCall::Claim { number, bytes })
    }
}

/// A node that warns of waits of 200 ms, and its log.
fn served() -> (Sandbox, impl Iterator<Item = String>) {
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
    let log = node.stderr().lines().map(Result::unwrap);
    sandbox.serve_by(node);
    (sandbox, log)
}

fn connect(sandbox: &Sandbox) -> Cluster {
    Cluster::connect(&sandbox.file("data").display().to_string()).unwrap()
}

fn open(cluster: &Cluster, path: &str) -> File {
    let options = cluster.options().read(true).write(true).create(true);
    options.atomic(true).open(path).unwrap()
}

/// Waits for bytes, and for a delegation that is recalled, are logged once.
#[test]
fn the_node_warns_of_long_waits_for_atomic_access() {
    let (sandbox, mut log) = served();
    let mut warning = |what: &str| {
        let line = log.by_ref().find(|line| line.contains(what));
        line.unwrap_or_else(|| panic!("the node runs, and logs {what}"))
    };
    let cluster = connect(&sandbox);
    let file = open(&cluster, "/state");
    let stuck = StuckProcess::connect(sandbox.file("data/pario.sock"));
    let (id, _) = stuck.open("/state");
    assert_eq!(stuck.claim(id, 0), Ok(AtomicOutcome::AtHome));
    thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at(&[1; 10], 0));
        let told = warning(" waits with a write ");
        let sentence = format!(
            "({}) waits with a write of 10 bytes at 0 of /state: the bytes are used by stuck; \
             `pario why` tells more",
            std::process::id()
        );
        assert!(told.contains("WARN") && told.contains(&sentence), "{told}");
        stuck.atomic(id, AtomicCall::Release { number: 0 }).unwrap();
        writer.join().unwrap().unwrap();
    });
    cluster.create("/alone").unwrap();
    let (_, outcome) = stuck.open("/alone");
    assert!(matches!(outcome, AtomicOutcome::Delegated { .. }), "{outcome:?}");
    // It never gives the delegation back: the open waits until its lease ends.
    open(&cluster, "/alone");
    let told = warning(" waits to open ");
    let sentence = "waits to open /alone: its delegation is recalled from stuck; `pario why`";
    assert!(told.contains(sentence), "{told}");
}

/// A process that keeps bytes, and the processes that wait for them.
#[test]
fn atomic_access_is_reset() {
    let (sandbox, _log) = served();
    let pfsdreset = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pfsdreset"));
        let like = sandbox.pario::<&str>(&[]);
        for (name, value) in like.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.current_dir(sandbox.path()).args(["data", "/state"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let reset = || sandbox.ok(&["reset", "/state"]);
    let resets: [&dyn Fn() -> String; 2] = [&reset, &pfsdreset];
    for reset in resets {
        let cluster = connect(&sandbox);
        let file = Arc::new(open(&cluster, "/state"));
        let stuck = StuckProcess::connect(sandbox.file("data/pario.sock"));
        let (id, _) = stuck.open("/state");
        assert_eq!(stuck.claim(id, 0), Ok(AtomicOutcome::AtHome));
        let ((say, heard), writer) = (channel(), file.clone());
        thread::spawn(move || say.send(writer.write_at(&[1; 10], 0)));
        until("the write waits", || {
            let json = sandbox.json(&["why"]);
            json["atomic_waits"].as_array().filter(|waits| !waits.is_empty()).map(|_| ())
        });
        let text = reset();
        assert_eq!(text, "/state: reset; the processes that have it open must open it again\n");
        let error = heard.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err();
        let told = "/state: `pario reset` has ended the atomic access of this process to the \
                    file; open the file again";
        assert_eq!((error.to_string().as_str(), error.kind()), (told, ErrorKind::Stale));
        assert_eq!(file.read_at(&mut [0; 1], 0).unwrap_err().to_string(), told);
        assert_eq!(stuck.claim(id, 1), Err(Failure::AccessReset));
        // The file can be opened again, while the other one is still open.
        let again = open(&cluster, "/state");
        again.write_at(&[2; 10], 0).unwrap();
        drop(file);
        again.write_at(&[3; 10], 0).unwrap();
    }
    let told = sandbox.refused(3, &["reset", "/none"]);
    assert!(told.contains("/none: no job has it open, and no process in M_UNIX"), "{told}");
}
