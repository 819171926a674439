//! Floods that never come as far as a request: bare sockets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The connections that one flood holds at once.
const HELD: usize = 200;

/// How long a read or write of a flood may take.
const WAIT: Duration = Duration::from_millis(50);

/// Connects and says nothing.
pub fn stay_silent(socket: &Path, end: Instant) -> Result<String> {
    hold(socket, end, |_| Vec::new())
}

/// Connects and sends the beginning of a handshake, of any length.
pub fn shake_half_a_hand(socket: &Path, end: Instant) -> Result<String> {
    hold(socket, end, |number| {
        let len = number % 97;
        (0..len).map(|_| fastrand::u8(..)).collect()
    })
}

/// Connects and sends what would be packets of absurd sizes.
pub fn send_oversized(socket: &Path, end: Instant) -> Result<String> {
    hold(socket, end, |number| {
        let mut bytes = vec![0xff; 64 << 10];
        // Sometimes it begins like a packet header with a plausible first word.
        if number.is_multiple_of(2) {
            bytes[..4].copy_from_slice(&1u32.to_le_bytes());
        }
        bytes
    })
}

/// Connects to the socket for descriptors and sends requests that are none.
pub fn bother_descriptors(socket: &Path, end: Instant) -> Result<String> {
    let mut path = socket.to_owned().into_os_string();
    path.push("-files");
    hold(path.as_ref(), end, |number| {
        let len = u32::try_from(number % 5_000).unwrap_or(0);
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.extend((0..number % 300).map(|_| fastrand::u8(..)));
        bytes
    })
}

/// Holds connections that send something, and replaces those that were ended.
fn hold(socket: &Path, end: Instant, bytes: impl Fn(usize) -> Vec<u8>) -> Result<String> {
    let (mut made, mut refused, mut ended) = (0, 0, 0);
    let mut held: Vec<UnixStream> = Vec::new();
    while Instant::now() < end {
        if held.len() < HELD {
            match UnixStream::connect(socket) {
                Ok(mut stream) => {
                    stream.set_write_timeout(Some(WAIT))?;
                    // The node may end it at any moment.
                    let _ = stream.write_all(&bytes(made));
                    stream.set_nonblocking(true)?;
                    held.push(stream);
                    made += 1;
                }
                Err(_) => {
                    refused += 1;
                    std::thread::sleep(WAIT);
                }
            }
            continue;
        }
        let before = held.len();
        held.retain_mut(|stream| match stream.read(&mut [0; 256]) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        ended += before - held.len();
        // The oldest ones make room, so that new ones keep coming.
        held.drain(..(held.len() / 4).min(held.len()));
        std::thread::sleep(WAIT);
    }
    Ok(format!("{made} connections made, {refused} refused, {ended} ended by the node"))
}
