//! Sends any bytes to the descriptor socket of a real node, whole requests and parts of them: the
//! node refuses or closes the connection, and serves a fresh caller.
#![no_main]

mod peer;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pario_net::DescriptorClient;
use peer::FuzzedNode;

fuzz_target!(|input: (u8, Vec<Vec<u8>>)| {
    let (what, requests) = input;
    let node = FuzzedNode::node("descriptors");
    let path = PathBuf::from(format!("{}-files", node.socket.display()));
    let mut stream = UnixStream::connect(&path).expect("the node listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket takes a timeout");
    for (number, request) in requests.iter().enumerate() {
        // Most requests have the announced length; one of them may have another.
        let len = u32::try_from(request.len()).unwrap_or(0);
        let said = if usize::from(what) == number { len.wrapping_mul(77) ^ 1 } else { len };
        if stream.write_all(&[&said.to_le_bytes()[..], request].concat()).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let ended = stream.read_to_end(&mut said);
    let is_silent = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!is_silent, "the node leaves a caller without an end");

    // The node refuses an invalid request of a fresh caller as well.
    let mut fresh = DescriptorClient::connect(&path).expect("the node listens");
    assert!(fresh.request(b"").expect("the node answers").is_err());
});
