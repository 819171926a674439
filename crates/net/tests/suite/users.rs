//! One user of a machine against the others: links, handshakes and descriptors that it may take,
//! what it may do at a space that admits every user, and users in other pid namespaces.
//!
//! Root runs these tests, and threads of them as other users.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::protocols::Test;
use crate::stranger::peer::{Control, PortInfo, RawPeer};
use crate::stranger::{HELLO, SOON, refused};
use pario_net::{
    Address, DescriptorClient, DescriptorServer, LinkChoice, Options, RecvError, Space, SpaceError,
    User,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ALICE: u32 = 54_321;
const BOB: u32 = 54_322;

/// Runs in a thread of another user; none if this process may not do that.
fn as_user<R: Send>(uid: u32, run: impl FnOnce() -> R + Send) -> Option<R> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a thread as another user");
        return None;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).unwrap();
            run()
        });
        Some(thread.join().unwrap())
    })
}

/// A directory that every user can enter.
fn public_directory() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// Connects and says hello: whether the host does too.
fn is_greeted(path: &Path) -> Result<UnixStream, String> {
    let mut stream = connect(path);
    // A host that refuses may have left before.
    let _ = stream.write_all(&HELLO);
    let mut answer = vec![0; 1];
    stream.read_exact(&mut answer).unwrap();
    if answer == [0] {
        return Ok(stream);
    }
    // What it said is there, whether or not it has read our hello.
    let _ = stream.read_to_end(&mut answer);
    Err(String::from_utf8_lossy(&answer[3..]).into_owned())
}

#[test]
fn one_user_has_a_bounded_number_of_links() {
    let folder = public_directory();
    let path = folder.path().join("socket");
    let options = Options { links_per_user: 5, ..Options::default() };
    let builder = Space::builder("server").listen_unix(&path).admit_any_user(true);
    let server = builder.options(options).host().build().unwrap();
    let _port = server.input::<u64>("port").unwrap();
    let come = |uid| as_user(uid, || RawPeer::come_in(connect(&path)));
    let Some(first) = come(ALICE) else { return };
    let mut peers = vec![first];
    (0..4).for_each(|_| peers.extend(come(ALICE)));
    peers.iter_mut().for_each(|peer| drop(peer.find("port")));
    let told = as_user(ALICE, || is_greeted(&path)).unwrap().unwrap_err();
    assert_eq!(
        told,
        "user 54321 has 5 connections here, and the limit for one user is 5; close some"
    );
    refused(&server, "user 54321 has 5 connections");
    // Other users are not concerned, and a user that closes one link may open another.
    for uid in [BOB, 0] {
        as_user(uid, || is_greeted(&path)).unwrap().unwrap();
    }
    drop(peers.pop());
    let began = std::time::Instant::now();
    while as_user(ALICE, || is_greeted(&path)).unwrap().is_err() {
        assert!(began.elapsed() < SOON);
    }
}

/// A flood of connections that say nothing displaces its own, not those of others.
#[test]
fn a_flood_of_handshakes_displaces_its_own() {
    let folder = public_directory();
    let path = folder.path().join("socket");
    let server = Space::builder("server").listen_unix(&path).admit_any_user(true).host().build();
    let server = server.unwrap();
    let _port = server.input::<u64>("port").unwrap();
    let Some(slow) = as_user(BOB, || connect(&path)) else { return };
    let flood: Vec<UnixStream> =
        as_user(ALICE, || (0..300).map(|_| connect(&path)).collect()).unwrap();
    refused(&server, "too many callers that say nothing");
    // The one that came first is still welcome.
    RawPeer::come_in(slow).find("port");
    drop(flood);
}

const NARROW: &str = "PARIO_NET_TEST_NARROW";
/// Descriptors of the narrow process.
const FEW: u64 = 256;

/// A server with few descriptors, until its standard input ends.
#[test]
fn narrow_server() {
    let Ok(path) = std::env::var(NARROW) else { return };
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(FEW), maximum }).unwrap();
    let builder = Space::builder("narrow").listen_unix(&path).admit_any_user(true);
    let space = builder.host().build().unwrap();
    let _input = space.input::<u64>("port").unwrap();
    let files = PathBuf::from(format!("{path}-files"));
    let _server = DescriptorServer::open(&files, true, |_, _| Ok((b"given".to_vec(), Vec::new())));
    println!("@ready");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A server in a process of its own.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, variable: &str, path: &Path, test: &str) -> Self {
        let mut process = command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("@ready"));
        assert!(is_ready, "the server did not start");
        std::thread::spawn(move || lines.for_each(drop));
        Self(process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One user took 238 of 256 descriptors once.
#[test]
fn one_user_does_not_take_the_descriptors_of_others() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a thread as another user");
        return;
    }
    let folder = public_directory();
    let path = folder.path().join("socket");
    let _server = Server::start(&mut Command::new("env"), NARROW, &path, "users::narrow_server");
    let flood = |uid| {
        as_user(uid, || {
            let mut peers = Vec::new();
            loop {
                let mut stream = connect(&path);
                let _ = stream.write_all(&HELLO);
                let mut answer = [9];
                stream.read_exact(&mut answer).unwrap();
                if answer != [0] {
                    let mut told = Vec::new();
                    let _ = stream.read_to_end(&mut told);
                    return (peers, String::from_utf8_lossy(&told).into_owned());
                }
                peers.push(stream);
                assert!(peers.len() < 256, "no limit");
            }
        })
        .unwrap()
    };
    // Both leave a quarter of all in reserve, and one takes half of the others at most.
    let (alices, told) = flood(ALICE);
    assert!(alices.len() <= 96 && alices.len() > 80, "{} links, then: {told}", alices.len());
    assert!(told.contains("the limit for one user is 96"), "{told}");
    let (bobs, told) = flood(BOB);
    assert!(alices.len() + bobs.len() <= 192, "{}: {told}", bobs.len());
    assert!(told.contains("in reserve"), "{told}");
    RawPeer::come_in(connect(&path)).find("port");

    // The same at the descriptor socket, which refuses without a word.
    let files = PathBuf::from(format!("{}-files", path.display()));
    let refused =
        as_user(BOB, || DescriptorClient::connect(&files).unwrap().request(b"x")).unwrap();
    assert!(refused.is_err(), "{refused:?}");
    let given = DescriptorClient::connect(&files).unwrap().request(b"x").unwrap();
    assert_eq!(given.unwrap().0, b"given");
}

/// A user that has taken all its places at the descriptor socket takes none of others, and none of
/// its own is displaced by them.
#[test]
fn callers_for_descriptors_have_places_per_user() {
    let folder = public_directory();
    let path = folder.path().join("files");
    let _server = DescriptorServer::open(&path, true, |user, _| {
        Ok((user.uid.to_string().into_bytes(), Vec::new()))
    })
    .unwrap();
    let ask = |client: &mut DescriptorClient| client.request(b"who am I").unwrap().unwrap().0;
    let ask_once = || ask(&mut DescriptorClient::connect(&path).unwrap());
    let many = || -> Vec<DescriptorClient> {
        let mut clients: Vec<_> =
            (0..64).map(|_| DescriptorClient::connect(&path).unwrap()).collect();
        clients.iter_mut().for_each(|client| drop(ask(client)));
        clients
    };
    let Some(mut alices) = as_user(ALICE, many) else { return };
    for uid in [BOB, 0] {
        assert_eq!(as_user(uid, ask_once).unwrap(), uid.to_string().as_bytes());
    }
    for client in &mut alices {
        assert_eq!(ask(client), ALICE.to_string().as_bytes());
    }
    // More that say nothing wait for a place of their user, and for no other.
    let flood = || -> Vec<UnixStream> { (0..300).map(|_| connect(&path)).collect() };
    let _flood = as_user(ALICE, flood);
    for uid in [BOB, 0] {
        assert_eq!(as_user(uid, ask_once).unwrap(), uid.to_string().as_bytes());
    }
}

/// Another user cannot make others find a port in its place.
#[test]
fn another_user_cannot_announce_ports() {
    let folder = public_directory();
    let path = folder.path().join("socket");
    let server = Space::builder("server").listen_unix(&path).admit_any_user(true).host().build();
    let server = server.unwrap();
    let Some(mut peer) = as_user(ALICE, || RawPeer::come_in(connect(&path))) else { return };
    let port = PortInfo { name: "mine".into(), number: 1, kind: "u64".into(), fingerprint: 1 };
    peer.tell(&Control::Announce { request: 1, port });
    peer.sees_the_end();
    refused(&server, "it announced a port, which other users may not");
}

/// Nothing of a space without a path can be reached by others, not even its name.
#[test]
fn the_socket_of_a_space_without_a_path_is_private() {
    let server = Space::builder("server").host().build().unwrap();
    let path = server.address().unix.unwrap();
    assert!(path.is_absolute(), "{}", path.display());
    let mode = std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let Some(result) = as_user(ALICE, || UnixStream::connect(&path).map(drop)) else { return };
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    drop(server);
    assert!(!path.exists(), "removed with its space");
}

const DEAF: &str = "PARIO_NET_TEST_DEAF";

/// A space that listens nowhere has no listening socket at all, and still gets its replies.
#[test]
fn a_space_that_listens_nowhere_has_no_listener() {
    // In a process of its own: other tests listen, too.
    if std::env::var_os(DEAF).is_none() {
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "users::a_space_that_listens_nowhere_has_no_listener"]).env(DEAF, "1");
        return assert!(own.status().unwrap().success());
    }
    let folder = public_directory();
    let path = folder.path().join("socket");
    let server = Space::builder("server").listen_unix(&path).host().build().unwrap();
    let port =
        pario_net::RpcServer::<Test<u64, u64>>::new(&server, "port", Default::default()).unwrap();
    let before = listeners();
    let client = Space::builder("client").links(LinkChoice::Unix).listen_nowhere();
    let client = client.join(&server.address()).build().unwrap();
    assert_eq!(listeners(), before);
    assert_eq!((client.address().unix, client.address().tcp), (None, None));
    let rpc_client = pario_net::RpcClient::<Test<u64, u64>>::open(&client, "port", SOON).unwrap();
    let pending = rpc_client.start(1).unwrap();
    port.recv_timeout(SOON).unwrap().responder.send_now(2);
    assert_eq!(pending.wait().unwrap(), 2);
}

/// How many listening sockets this process has.
fn listeners() -> usize {
    let is_listening = |number: &str| {
        let Ok(number) = number.parse::<i32>() else { return false };
        // SAFETY: the number is looked at for the time of one call, and any number may be asked.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        rustix::net::sockopt::socket_acceptconn(fd).unwrap_or(false)
    };
    let names = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    names.filter(|entry| entry.file_name().to_str().is_some_and(is_listening)).count()
}

const INNER: &str = "PARIO_NET_TEST_INNER";

/// User, group, process and groups of the client.
type Who = Test<(), (u32, u32, u32, Vec<u32>)>;

/// A server in a pid namespace of its own: says who sends.
#[test]
fn inner_server() {
    let Ok(path) = std::env::var(INNER) else { return };
    let builder = Space::builder("inner").listen_unix(&path).admit_any_user(true);
    let space = builder.host().build().unwrap();
    let port = pario_net::RpcServer::<Who>::new(&space, "who", Default::default());
    let port = port.unwrap();
    println!("@ready");
    loop {
        match port.recv() {
            Ok(asked) => {
                let User { uid, gid, pid, groups } = asked.sender.user.clone().unwrap();
                asked.responder.send_now((uid, gid, pid, groups));
            }
            // The client is done.
            Err(RecvError::Lost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The kernel tells a process nothing of the pid of a peer outside of its pid namespace.
#[test]
fn a_peer_of_another_pid_namespace_is_let_in() {
    let mut unshare = Command::new("unshare");
    let probe = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: this process may not make a pid namespace (unshare --pid)");
        return;
    }
    let folder = public_directory();
    let path = folder.path().join("socket");
    let _server = Server::start(
        unshare.args(["--pid", "--fork", "--kill-child"]),
        INNER,
        &path,
        "users::inner_server",
    );
    let ask = || -> Result<(u32, u32, u32, Vec<u32>), SpaceError> {
        let builder = Space::builder("outer").links(LinkChoice::Unix).listen_nowhere();
        let builder = builder.connect_to_any_user(true).join(&Address::unix(&path));
        let space = builder.build()?;
        let rpc_client = pario_net::RpcClient::<Who>::open(&space, "who", SOON).unwrap();
        Ok(rpc_client.start(()).unwrap().wait().unwrap())
    };
    let User { uid, gid, groups, .. } = User::own();
    assert_eq!(ask().unwrap(), (uid, gid, 0, groups.clone()));
    if let Some(told) = as_user(ALICE, ask) {
        assert_eq!(told.unwrap(), (ALICE, gid, 0, groups));
    }
}
