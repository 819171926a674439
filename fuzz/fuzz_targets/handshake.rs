//! Sends any bytes in place of a handshake, as a caller to a node and as a host to a client: the
//! result is a refusal or a link in bounded time, and the node goes on.
#![no_main]

mod peer;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pario_net::{Address, Options, Space};
use peer::{FuzzedNode, hello, proof};

/// Runs between two checks that the node serves a fresh client.
const CHECK_EVERY: u32 = 64;
/// Runs between two in which the bytes are those of a host.
const HOST_EVERY: u32 = 16;

static RUNS: AtomicU32 = AtomicU32::new(0);

fuzz_target!(|input: (u8, &[u8])| {
    let (what, bytes) = input;
    let node = FuzzedNode::node("handshake");
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    if run % HOST_EVERY == 0 {
        send_as_host(node, what, bytes);
    }
    let mut stream = UnixStream::connect(&node.socket).expect("the node listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket takes a timeout");
    let own = hello();
    // The bytes alone, behind a part of a good hello, in place of a part of it, or as the proof.
    match what % 4 {
        0 => drop(stream.write_all(bytes)),
        1 => {
            let len = usize::from(what) % own.len();
            drop(stream.write_all(&[&own[..len], bytes].concat()));
        }
        2 => {
            let mut changed = own.clone();
            let at = usize::from(what) % own.len();
            let len = bytes.len().min(own.len() - at);
            changed[at..at + len].copy_from_slice(&bytes[..len]);
            drop(stream.write_all(&changed));
        }
        _ => {
            stream.write_all(&own).expect("the node reads");
            let mut head = [0; 61];
            stream.read_exact(&mut head).expect("the node says hello");
            let mut name = vec![0; usize::from(head[12])];
            stream.read_exact(&mut name).expect("the node says its name");
            let mut given = proof(&own, &[&head[1..], &name].concat());
            let len = bytes.len().min(32);
            given[..len].copy_from_slice(&bytes[..len]);
            drop(stream.write_all(&given));
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    // The node closes the connection after any of these bytes.
    let mut said = Vec::new();
    let ended = stream.read_to_end(&mut said);
    assert!(
        ended.as_ref().is_ok()
            || ended
                .as_ref()
                .is_err_and(|error| { error.kind() != std::io::ErrorKind::WouldBlock }),
        "the node leaves a caller without an end"
    );
    if run % CHECK_EVERY == 0 {
        node.check_serves();
    }
});

/// Lets a client join a host that sends these bytes.
fn send_as_host(node: &FuzzedNode, what: u8, bytes: &[u8]) {
    let path = node.socket.with_extension("host");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("the path is free");
    let options = Options { answer_wait: Duration::from_millis(20), ..Options::default() };
    let builder = Space::builder("client").listen_nowhere().options(options);
    let joining = std::thread::spawn(move || builder.join(&Address::unix(&path)).build().is_ok());
    let (mut stream, _) = listener.accept().expect("the client connects");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket takes a timeout");
    let _ = stream.read_exact(&mut [0; 60]);
    let good = [&[0][..], &hello()].concat();
    let len = usize::from(what) % (good.len() + 1);
    let _ = stream.write_all(&[&good[..len], bytes].concat());
    let _ = stream.shutdown(Shutdown::Write);
    joining.join().expect("the client does not panic");
}
