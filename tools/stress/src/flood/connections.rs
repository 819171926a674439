//! Floods of bare connections, which never send a request.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Connections that one flood holds at once.
const CONNECTIONS: usize = 200;

/// The time limit of a write, and the pause between two rounds.
const PAUSE: Duration = Duration::from_millis(50);

/// Connects and sends nothing.
pub fn stay_silent(socket: &Path, end: Instant) -> Result<String> {
    hold(socket, end, |_| Vec::new())
}

/// Connects and sends up to 96 random bytes in place of a handshake.
pub fn send_half_handshakes(socket: &Path, end: Instant) -> Result<String> {
    hold(socket, end, |number| {
        let len = number % 97;
        (0..len).map(|_| fastrand::u8(..)).collect()
    })
}

/// Connects and sends packet headers of absurd sizes.
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

/// Connects to the descriptor socket and sends invalid requests.
pub fn send_to_descriptor_socket(socket: &Path, end: Instant) -> Result<String> {
    let mut path = socket.to_owned().into_os_string();
    path.push("-files");
    hold(path.as_ref(), end, |number| {
        let len = u32::try_from(number % 5_000).unwrap_or(0);
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.extend((0..number % 300).map(|_| fastrand::u8(..)));
        bytes
    })
}

/// Holds connections that have sent some bytes, and replaces those that the node has closed.
fn hold(socket: &Path, end: Instant, bytes: impl Fn(usize) -> Vec<u8>) -> Result<String> {
    let (mut opened, mut refused, mut closed) = (0, 0, 0);
    let mut held: Vec<UnixStream> = Vec::new();
    while Instant::now() < end {
        if held.len() < CONNECTIONS {
            match UnixStream::connect(socket) {
                Ok(mut stream) => {
                    stream.set_write_timeout(Some(PAUSE))?;
                    // The node may close the connection at any time.
                    let _ = stream.write_all(&bytes(opened));
                    stream.set_nonblocking(true)?;
                    held.push(stream);
                    opened += 1;
                }
                Err(_) => {
                    refused += 1;
                    std::thread::sleep(PAUSE);
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
        closed += before - held.len();
        // The oldest connections make room for new ones.
        held.drain(..(held.len() / 4).min(held.len()));
        std::thread::sleep(PAUSE);
    }
    Ok(format!("{opened} connections opened, {refused} refused, {closed} closed by the node"))
}
