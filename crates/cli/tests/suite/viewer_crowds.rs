//! The viewer among hundreds of connections that send no request or read no answer: well-behaved
//! clients still get their pictures.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::viewer::{Answer, PhantomSpec, TIMEOUT, ViewerSession, get};
use pario_image::Pixel;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const BODY: PhantomSpec<'_> = ("/body", [64, 64, 48], [1.0; 3], Pixel::RGB);
const GREY: PhantomSpec<'_> = ("/grey", [40, 40, 30], [1.0; 3], Pixel::GREY);
const SLICE: &str = "/api/volumes/0/slice?origin=0,0,5&right=1,0,0&down=0,1,0&width=40&height=40";
/// A picture that is larger than all buffers of a connection.
const HUGE: &str = "/api/volumes/0/slice?origin=0,0,20&right=1,0.1,0&down=0,1,0.1&width=2200\
                    &height=2200&zoom=33&interpolation=trilinear";
/// Attacking connections.
const CROWD: usize = 512;
/// Time limit for a client's picture: far less than any time limit that would end the attack by
/// itself.
const PICTURE_DEADLINE: Duration = Duration::from_secs(8);

/// Opens a connection from a given loopback address, with a small receive buffer.
fn connection(session: &ViewerSession, from: Ipv4Addr) -> TcpStream {
    let to: SocketAddr = session.address.parse().unwrap();
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(4096, |most| most.min(4096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
}

/// Asserts that a well-behaved client gets its picture, possibly after refusals with status 429.
fn assert_serves(session: &ViewerSession, what: &str) {
    let begin = Instant::now();
    let mut answer = get(&session.address, SLICE);
    while answer.status == 429 && begin.elapsed() < PICTURE_DEADLINE {
        answer = get(&session.address, SLICE);
    }
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    let took = begin.elapsed();
    assert!(took < PICTURE_DEADLINE, "{what}: the picture came after {took:?}");
    println!("{what}: the picture came after {took:?}");
}

/// Returns the attackers' addresses: another one, and that of the client.
fn addresses() -> [Ipv4Addr; 2] {
    [Ipv4Addr::new(127, 0, 0, 9), Ipv4Addr::LOCALHOST]
}

#[test]
fn connections_that_send_no_whole_request_keep_no_client_out() {
    allow_many_descriptors();
    for from in addresses() {
        let session = ViewerSession::of(&[GREY], &[]);
        let silent: Vec<_> = (0..CROWD)
            .map(|number| {
                let mut stream = connection(&session, from);
                // Some send nothing, some half a request.
                if number % 2 == 0 {
                    let _ = stream.write_all(b"GET /api/volumes HTTP/1.1\r\nHost: loc");
                }
                stream
            })
            .collect();
        assert_serves(&session, &format!("{CROWD} silent connections from {from}"));
        drop(silent);
        assert_eq!(session.get(SLICE).status, 200);
    }
}

#[test]
fn connections_that_never_read_keep_no_client_out() {
    allow_many_descriptors();
    for from in addresses() {
        let session = ViewerSession::of(&[GREY], &[]);
        // Each requests a megabyte at once, and reads nothing of it.
        let requests = "GET /viewer.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
        let deaf: Vec<_> = (0..CROWD)
            .map(|_| {
                let mut stream = connection(&session, from);
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(requests.as_bytes());
                stream
            })
            .collect();
        assert_serves(&session, &format!("{CROWD} deaf connections from {from}"));
        assert!(session.peak_kib() < 512 << 10, "{} KiB", session.peak_kib());
        drop(deaf);
        assert_eq!(session.get(SLICE).status, 200);
    }
}

#[test]
fn pictures_that_are_never_read_are_given_up() {
    let session = ViewerSession::of(&[BODY], &["--workers", "2"]);
    let deaf: Vec<_> = (0..4)
        .map(|number| {
            let mut stream = connection(&session, Ipv4Addr::LOCALHOST);
            let request = format!("GET {HUGE}&client={number} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    session.wait_for(|status| status["begun"] == 4 && status["running"] == 0);
    assert!(session.json("/api/status")["unsent_bytes"].as_u64().unwrap() > 1 << 20);
    // Only the time limit for writing ends them.
    session.wait_for(|status| status["unsent_bytes"] == 0);
    for mut stream in deaf {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(session.get(SLICE).status, 200);
}

#[test]
fn an_address_with_too_many_connections_is_told() {
    allow_many_descriptors();
    let session = ViewerSession::of(&[GREY], &["--workers", "1"]);
    session.node.pause();
    // Connections with requests in progress are not closed for others.
    let from = Ipv4Addr::new(127, 0, 0, 9);
    let busy: Vec<_> = (0..256)
        .map(|number| {
            let mut stream = connection(&session, from);
            let path = format!("{SLICE}&client={}", number % 8);
            write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    session.wait_for(|status| status["running"] == 1 && status["waiting"] == 255);
    let mut refused = connection(&session, from);
    write!(refused, "GET {SLICE} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = Answer::read(refused);
    assert_eq!(answer.status, 429);
    assert!(answer.refusal().contains("your address has 256 connections"), "{}", answer.refusal());
    assert_eq!(answer.headers["retry-after"], "1");
    // Other addresses have their own limit.
    assert_eq!(get(&session.address, "/api/status").status, 200);
    session.node.resume();
    for mut stream in busy {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
    }
}
