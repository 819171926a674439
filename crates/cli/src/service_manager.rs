//! Notifies the service manager (systemd) of a node's state, like `sd_notify`: one datagram to the
//! socket in `NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The node serves clients.
pub const READY: &str = "READY=1";
/// The node stops.
pub const STOPPING: &str = "STOPPING=1";

/// Sends a state, with a sentence that `systemctl status` shows. Reports a failure on stderr,
/// because the manager then believes that the node did not start.
pub fn notify(state: &str, sentence: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, &format!("{state}\nSTATUS={sentence}\n")) {
        let socket = socket.display();
        eprintln!("pario: cannot notify the service manager at NOTIFY_SOCKET={socket}: {error}");
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // An abstract name, without a file.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => return Err(io::Error::other("it is neither a path nor an abstract name")),
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_at_paths_and_abstract_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("pario-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let at_path = UnixDatagram::bind(&path).unwrap();
        let at_name = UnixDatagram::bind_addr(&abstract_name).unwrap();
        for (socket, address) in
            [(at_path, path.clone().into_os_string()), (at_name, format!("@{name}").into())]
        {
            send(&address, "READY=1\n").unwrap();
            let mut bytes = [0; 64];
            let len = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], b"READY=1\n");
        }
        assert!(send(OsStr::new("relative"), "READY=1").is_err());
        assert!(send(dir.path().join("none").as_os_str(), "READY=1").is_err());
    }
}
