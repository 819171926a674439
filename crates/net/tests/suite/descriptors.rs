//! Descriptors over a Unix socket, and clients that mean harm.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pario_net::{DescriptorClient, DescriptorServer, User};
use rustix::fs::{MemfdFlags, memfd_create};

const SOON: Duration = Duration::from_secs(10);

struct Place {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("socket"), _folder: folder }
    }

    /// A server that passes as many files as requested; each holds its own number.
    fn server(&self) -> DescriptorServer {
        let give = |user: &User, request: &[u8]| {
            assert_eq!(user.pid, std::process::id());
            let Ok(count) = std::str::from_utf8(request).unwrap_or("").parse::<u32>() else {
                assert_ne!(request, b"panic", "it was to be so");
                return Err([b"not a number: ", request].concat());
            };
            let files = (0..count).map(|number| -> OwnedFd {
                let name = format!("number {number}");
                let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC).unwrap());
                write!(file, "{number}").unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                file.into()
            });
            Ok((request.repeat(3), files.collect()))
        };
        DescriptorServer::open(&self.path, false, give).unwrap()
    }

    fn knock(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }
}

/// Requests files and checks all of them.
fn check(client: &mut DescriptorClient, count: u32) {
    let (bytes, files) = client.request(count.to_string().as_bytes()).unwrap().unwrap();
    assert_eq!(bytes, count.to_string().repeat(3).as_bytes());
    assert_eq!(files.len(), count as usize);
    for (number, file) in files.into_iter().enumerate() {
        let flags = rustix::io::fcntl_getfd(file.as_fd()).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, number.to_string());
    }
}

#[test]
fn files_are_given_one_answer_after_the_other() {
    // 600 here and 600 on their way are more than some systems allow.
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let place = Place::new();
    let server = place.server();
    let mut client = DescriptorClient::connect(&place.path).unwrap();
    for count in [0, 1, 600, 253, 254, 506, 2] {
        check(&mut client, count);
        let refused = client.request(b"none").unwrap().unwrap_err();
        assert_eq!(refused, b"not a number: none");
    }
    let long = vec![b'x'; 64 << 10];
    assert_eq!(client.request(&long).unwrap().unwrap_err().len(), long.len() + 14);
    let error = client.request(&vec![b'x'; (64 << 10) + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(client.request(b"panic").unwrap().unwrap_err(), b"the handler panicked");
    check(&mut client, 3);

    // Another server cannot listen at the same path, but after this one it can.
    let again = || DescriptorServer::open(&place.path, false, |_, _| Ok((Vec::new(), Vec::new())));
    assert_eq!(again().unwrap_err().kind(), ErrorKind::AddrInUse);
    drop(server);
    assert!(!place.path.exists());
    assert_eq!(client.request(b"1").unwrap_err().kind(), ErrorKind::BrokenPipe);
    let _server = again().unwrap();
    let mut client = DescriptorClient::connect(&place.path).unwrap();
    assert!(client.request(b"").unwrap().unwrap().0.is_empty());
}

#[test]
fn many_clients_are_served_at_once() {
    let place = Place::new();
    let _server = place.server();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = DescriptorClient::connect(&place.path).unwrap();
                (0..50).for_each(|count| check(&mut client, count % 7));
            });
        }
    });
}

#[test]
fn callers_that_mean_harm_are_let_go() {
    let place = Place::new();
    let _server = place.server();
    let mut honest = DescriptorClient::connect(&place.path).unwrap();
    check(&mut honest, 1);

    let mut too_long = place.knock();
    too_long.write_all(&(64 * 1024 + 1u32).to_le_bytes()).unwrap();
    assert_eq!(too_long.read(&mut [0; 9]).unwrap(), 0, "at once");
    check(&mut honest, 1);

    // Leaves in the middle, or with its reply unread.
    for bytes in [&b"\x05"[..], b"\x05\0\0\0ab", b"\x03\0\0\x00200", b"\x03\0\0\x00600\x01\0\0\0x"]
    {
        place.knock().write_all(bytes).unwrap();
        check(&mut honest, 1);
    }

    // Stops in the middle, sends nothing, or sends requests without reading the replies.
    let began = Instant::now();
    let mut midway = place.knock();
    midway.write_all(b"\x05\0\0\0ab").unwrap();
    let mut silent = place.knock();
    let mut deaf = place.knock();
    deaf.set_nonblocking(true).unwrap();
    let mut request = (64 * 1024u32).to_le_bytes().to_vec();
    request.resize(4 + (64 << 10), b'x');
    let mut written = 0;
    let refused = loop {
        match deaf.write(&request[written..]) {
            Ok(count) => written = (written + count) % request.len(),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    check(&mut honest, 1);
    for stream in [&mut midway, &mut silent] {
        assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0);
        assert!(began.elapsed() >= Duration::from_secs(2) - Duration::from_millis(50));
    }
    deaf.set_nonblocking(false).unwrap();
    deaf.set_read_timeout(Some(SOON)).unwrap();
    // It gets the bytes written before it was disconnected, and then nothing.
    let mut got = Vec::new();
    match deaf.read_to_end(&mut got) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    // The honest one was silent for as long, but in the middle of nothing.
    check(&mut honest, 1);
}

#[test]
fn the_most_silent_is_displaced_when_many_come() {
    let place = Place::new();
    let _server = place.server();
    let mut honest = DescriptorClient::connect(&place.path).unwrap();
    let mut silent: Vec<UnixStream> = Vec::new();
    for _ in 0..200 {
        silent.push(place.knock());
        check(&mut honest, 1);
    }
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    let mut last = silent.pop().unwrap();
    last.write_all(b"\x01\0\0\x000").unwrap();
    let mut answer = [9; 12];
    last.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\0\x03\0\0\0\0\0\0\x00000");
}

/// Many clients come at once with one request each: later ones displace none of them.
#[test]
fn a_crowd_is_answered() {
    let place = Place::new();
    let _server = place.server();
    std::thread::scope(|scope| {
        for _ in 0..150 {
            scope.spawn(|| check(&mut DescriptorClient::connect(&place.path).unwrap(), 1));
        }
    });
}

/// A client that sends requests without end keeps no other waiting, and several requests may come
/// together.
#[test]
fn callers_are_answered_in_turn() {
    let place = Place::new();
    let _server = place.server();
    let mut eager = place.knock();
    eager.write_all(&b"\x01\0\0\x000".repeat(500)).unwrap();
    let mut honest = DescriptorClient::connect(&place.path).unwrap();
    check(&mut honest, 1);
    let mut answers = vec![0; 500 * 12];
    eager.read_exact(&mut answers).unwrap();
    assert_eq!(answers, b"\0\x03\0\0\0\0\0\0\x00000".repeat(500));
    check(&mut honest, 1);
}

#[test]
fn random_bytes_harm_no_other_client() {
    let place = Place::new();
    let _server = place.server();
    let mut random = fastrand::Rng::with_seed(5);
    let mut honest = DescriptorClient::connect(&place.path).unwrap();
    for _ in 0..200 {
        let mut bytes = vec![0; random.usize(..300)];
        random.fill(&mut bytes);
        if random.bool() && bytes.len() > 4 {
            bytes[1..4].fill(0);
        }
        let _ = place.knock().write_all(&bytes);
        check(&mut honest, 1);
    }
}
