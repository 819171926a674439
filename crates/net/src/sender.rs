//! Who sent a token.

use std::fs;
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock};

use rustix::io::Errno;

use crate::key::SpaceId;

/// The space that sent a token, and whose process it is.
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
    /// The id of the space.
    pub space: SpaceId,
    /// The name of the space, as it calls itself.
    pub name: Arc<str>,
    /// Whose process it is, as the kernel says: over a Unix socket the user of the other side, in
    /// the same process the own one. Over TCP nobody can say.
    pub user: Option<User>,
    /// Whether it has proved that it knows the key of this space.
    pub knows_key: bool,
    /// Whether it is the space that received, so that the token moved by pointer.
    pub is_local: bool,
}

/// A user of this machine and one of its processes, as the kernel identifies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// All groups it is in besides; the one of `gid` alone if they cannot be found out.
    pub groups: Vec<u32>,
    /// The process.
    pub pid: u32,
}

/// This process. What it is when it is first asked for stays.
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

    /// Who opened the other end of a connected Unix socket.
    pub(crate) fn of_peer(socket: impl AsFd) -> Result<Self, Errno> {
        let user = rustix::net::sockopt::socket_peercred(socket)?;
        let pid = user.pid.as_raw_nonzero().get().unsigned_abs();
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        let groups = fs::read_to_string(format!("/proc/{pid}/status"))
            .ok()
            .and_then(|status| groups(&status, uid))
            .unwrap_or_else(|| vec![gid]);
        Ok(Self { uid, gid, groups, pid })
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether it is the user of this process, or root.
    pub(crate) fn is_own_or_root(&self) -> bool {
        self.is_root() || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The groups in the status of a process. None if the process is of another user: then the one
/// that opened the socket has ended, and its number was given to another.
fn groups(status: &str, uid: u32) -> Option<Vec<u32>> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let effective: u32 = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    if effective != uid {
        return None;
    }
    field("Groups:")?.split_whitespace().map(|group| group.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn groups_are_believed_of_the_same_user_only() {
        let status = "Name:\tx\nUid:\t7\t8\t8\t8\nGid:\t9\t9\t9\t9\nGroups:\t4 24 1000 \nNgid: 0\n";
        assert_eq!(groups(status, 8), Some(vec![4, 24, 1000]));
        assert_eq!(groups(status, 7), None);
        assert_eq!(groups(&status.replace("24", "x"), 8), None);
        assert_eq!(groups(&status.replace("4 24 1000", ""), 8), Some(vec![]));
        assert_eq!(groups("", 0), None);
    }

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(User::of_peer(&one).unwrap(), User::own());
    }
}
