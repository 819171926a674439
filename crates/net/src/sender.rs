//! The sender of a token.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, LazyLock};

use crate::key::SpaceId;

/// The most groups read of a peer; Linux allows a process 65,536.
const GROUPS_LIMIT: usize = 1 << 16;

/// The space that sent a token, and the user of its process.
///
/// There is one for each link, shared by all tokens that come over it.
///
/// ```
/// use pario_net::Space;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let space = Space::alone("home");
/// let input = space.input::<u32>("numbers")?;
/// input.output().send(7)?;
/// let (number, sender) = input.recv_from()?;
/// assert_eq!((number, &*sender.name, sender.is_local), (7, "home", true));
/// assert_eq!(sender.user.as_ref().unwrap().pid, std::process::id());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sender {
    /// The id under which the receiving space knows the sender. For a sender behind a link the
    /// receiver draws it at random when the link is made, so that no peer can choose it, guess it
    /// or take another one's. A space that connects twice has two. Within a space it is the id of
    /// the space.
    pub space: SpaceId,
    /// The name of the space, as it calls itself.
    pub name: Arc<str>,
    /// The user of the process, as the kernel reports it: over a Unix socket that of the peer,
    /// within a process its own. None over TCP.
    pub user: Option<User>,
    /// Whether the sender has proved that it knows the key of this space.
    pub knows_key: bool,
    /// Whether sender and receiver are the same space, so that the token moved by pointer.
    pub is_local: bool,
}

/// A user of this machine and one of its processes, as the kernel identifies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its supplementary groups; only `gid` if they cannot be read.
    pub groups: Vec<u32>,
    /// The process; 0 if it lives in a pid namespace that this process does not see.
    pub pid: u32,
}

/// The user of this process, read once.
static OWN: LazyLock<User> = LazyLock::new(|| {
    let pid = std::process::id();
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let groups = match rustix::process::getgroups() {
        Ok(groups) => groups.into_iter().map(|group| group.as_raw()).collect(),
        Err(_) => vec![gid],
    };
    User { uid, gid, groups, pid }
});

impl User {
    /// The user of this process.
    pub fn own() -> Self {
        OWN.clone()
    }

    /// Returns the user that opened the other end of a connected Unix socket, or listened on it, as
    /// the kernel recorded it at that time.
    pub fn of_peer(socket: impl AsFd) -> io::Result<Self> {
        let libc::ucred { pid, uid, gid } = peer_credentials(socket.as_fd())?;
        let groups = peer_groups(socket.as_fd()).unwrap_or_else(|_| vec![gid]);
        Ok(Self { uid, gid, groups, pid: u32::try_from(pid).unwrap_or(0) })
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether this is the user of this process or root.
    pub fn is_own_or_root(&self) -> bool {
        self.is_root() || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Reads `SO_PEERCRED`. The pid is 0 for a process of another pid namespace, which the types of
/// rustix cannot express; hence the system call itself.
fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut found = MaybeUninit::<libc::ucred>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `len`
    // bytes, which is the size of what it is given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            found.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeros and whatever the kernel writes are valid values of three numbers.
    Ok(unsafe { found.assume_init() })
}

/// Reads `SO_PEERGROUPS`: the supplementary groups, also of a process whose `/proc` entry cannot
/// be seen.
fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let bytes = groups.len() * size_of::<u32>();
        let mut len = libc::socklen_t::try_from(bytes).unwrap_or(0);
        // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `len`
        // bytes, which is the size of the vector; any bytes are valid numbers.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let count = len as usize / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // If the buffer is too small, the kernel returns the size it needs.
        if error.raw_os_error() != Some(libc::ERANGE)
            || count <= groups.len()
            || count > GROUPS_LIMIT
        {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(User::of_peer(&one).unwrap(), User::own());
    }
}
