//! Messages over Unix sockets that carry descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors per message; the limit of the system.
pub(crate) const DESCRIPTORS_PER_MESSAGE: usize = 253;

/// A message that was received.
#[derive(Debug)]
pub struct DescriptorMessage {
    /// The number of bytes; 0 if the peer is gone.
    pub len: usize,
    /// The descriptors that came with them.
    pub descriptors: Vec<OwnedFd>,
    /// Whether further descriptors came, for which this process has no room.
    pub is_truncated: bool,
}

/// Sends bytes and up to 253 descriptors in one message. Over a stream socket the bytes should be
/// few, so that the system does not split them.
pub fn send_message(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop).map_err(Into::into),
        }
    }
}

/// Receives bytes, and the descriptors that came with them.
pub fn receive_message(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<DescriptorMessage> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let slices = &mut [IoSliceMut::new(bytes)];
        match recvmsg(&socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = part {
            descriptors.extend(more);
        }
    }
    let is_truncated = message.flags.contains(ReturnFlags::CTRUNC);
    Ok(DescriptorMessage { len: message.bytes, descriptors, is_truncated })
}
