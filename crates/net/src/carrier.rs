//! The carriers of packets: memory, sockets, virtual time.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{OnceLock, Weak};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sockopt};

use crate::assembler::Assembler;
use crate::file_part::{FilePart, OutgoingSegment};
use crate::link::Link;
use crate::outbox::SealedPacket;
use crate::simulation::Wire;

/// Slices per system call.
const SLICES_AT_ONCE: usize = 256;
/// The buffer size of a Unix socket, if the system allows it. With more, data leaves the
/// processor's cache before it is read; with less, the sender is woken more often.
const UNIX_BUFFER_BYTES: usize = 512 << 10;

pub(crate) enum Carrier {
    /// The other link is in the same process.
    Memory(OnceLock<Weak<Link>>),
    Socket(Socket),
    Simulated(Wire),
}

impl Carrier {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Socket(socket) if socket.is_tcp => "tcp",
            Self::Socket(_) => "unix",
            Self::Simulated(_) => "simulated",
        }
    }
}

/// A connected, non-blocking stream socket.
pub(crate) struct Socket {
    fd: OwnedFd,
    pub is_tcp: bool,
}

impl Socket {
    pub fn tcp(stream: TcpStream, silence: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&stream, silence_ms)?;
        // Within a machine and on a local network cubic is several times faster than others.
        let _ = sockopt::set_tcp_congestion(&stream, "cubic");
        stream.set_nonblocking(true)?;
        Ok(Self { fd: stream.into(), is_tcp: true })
    }

    pub fn unix(stream: UnixStream) -> io::Result<Self> {
        let bytes = UNIX_BUFFER_BYTES;
        if sockopt::set_socket_send_buffer_size_force(&stream, bytes).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&stream, bytes);
        }
        stream.set_nonblocking(true)?;
        Ok(Self { fd: stream.into(), is_tcp: false })
    }

    /// Writes as much as the socket takes now; `written` bytes of the first packet were written
    /// before.
    pub fn write(&self, packets: &VecDeque<SealedPacket>, written: usize) -> Result<usize, Errno> {
        let mut total = 0;
        loop {
            let (wanted, result) = self.write_once(packets, written + total);
            match result {
                Err(Errno::INTR) => {}
                // Bytes written before count; the error will come again.
                Err(_) if total > 0 => return Ok(total),
                Err(error) => return Err(error),
                Ok(count) => {
                    total += count;
                    // Less than there was: the socket is full. Nothing more: all is written.
                    if wanted == 0 || count < wanted {
                        return Ok(total);
                    }
                }
            }
        }
    }

    /// Writes the bytes in memory up to the next part of a file, or that part, with one system
    /// call. Returns how much it is, and how much of it was written.
    fn write_once(
        &self,
        packets: &VecDeque<SealedPacket>,
        written: usize,
    ) -> (usize, Result<usize, Errno>) {
        let mut slices = Vec::with_capacity(8);
        let mut skip = written;
        let mut flags = SendFlags::NOSIGNAL;
        'packets: for packet in packets {
            if skip < packet.inline.len() {
                slices.push(IoSlice::new(&packet.inline[skip..]));
                skip = 0;
            } else {
                skip -= packet.inline.len();
            }
            for segment in &packet.bulk {
                if skip >= segment.len() {
                    skip -= segment.len();
                    continue;
                }
                match segment {
                    OutgoingSegment::Memory(bulk) => slices.push(IoSlice::new(&bulk[skip..])),
                    OutgoingSegment::File(part) if slices.is_empty() => {
                        return (part.len() - skip, self.write_part(part, skip));
                    }
                    OutgoingSegment::File(_) => {
                        flags |= SendFlags::MORE;
                        break 'packets;
                    }
                }
                skip = 0;
                if slices.len() >= SLICES_AT_ONCE {
                    break 'packets;
                }
            }
        }
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let result = match slices.as_slice() {
            [] => Ok(0),
            [slice] => rustix::net::send(&self.fd, slice, flags),
            slices => {
                let mut none = SendAncillaryBuffer::default();
                rustix::net::sendmsg(&self.fd, slices, &mut none, flags)
            }
        };
        (wanted, result)
    }

    /// Writes a part of a file. If the file was truncated, writes zeros, because the header has
    /// promised the bytes.
    fn write_part(&self, part: &FilePart, skip: usize) -> Result<usize, Errno> {
        match part.send(&self.fd, skip) {
            Ok(0) => {
                let zeros = [0; 4096];
                let count = zeros.len().min(part.len() - skip);
                rustix::net::send(&self.fd, &zeros[..count], SendFlags::NOSIGNAL)
            }
            result => result,
        }
    }

    /// Reads once into the memory of the assembler. Returns the count, and whether all memory was
    /// filled.
    pub fn read(&self, assembler: &mut Assembler) -> Result<(usize, bool), Errno> {
        loop {
            let result = assembler.with_buffers(|slices| {
                let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
                let count = match slices {
                    [slice] => rustix::io::read(&self.fd, &mut **slice)?,
                    slices => rustix::io::readv(&self.fd, slices)?,
                };
                Ok((count, count == wanted))
            });
            match result {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Shuts down the sending side.
    pub fn end_writing(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    /// Ends the connection.
    pub fn end(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A stream during the handshake, with time limits.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }

    pub fn into_socket(self, silence: Duration) -> io::Result<Socket> {
        match self {
            Self::Unix(stream) => Socket::unix(stream),
            Self::Tcp(stream) => Socket::tcp(stream, silence),
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }

    /// Writes to a stream. Handshake messages always fit into the socket's buffer.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let flags = SendFlags::NOSIGNAL;
            match rustix::net::send(self.as_fd(), rest, flags) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}
