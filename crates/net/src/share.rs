//! What one user may take of a process: connections and descriptors.
//!
//! Invariant: a user other than the own one and root never holds more than half of the
//! descriptors, and none of those in reserve, so that the process keeps working for all others.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{Resource, getrlimit};

/// The largest limit that is looked at: no process has more descriptors.
const DESCRIPTORS_LIMIT: usize = 1 << 20;

/// Who made a link to this space, as far as limits per user are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LinkOwner {
    /// A user of this machine, as the kernel says.
    User(u32),
    /// Peers over TCP that have proved that they know the key.
    Keyed,
    /// Peers over TCP that need no key.
    Unknown,
}

/// What one user may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    connections: usize,
    descriptors: usize,
    reserved: usize,
}

impl Share {
    /// Limits the connections of each user, and keeps descriptors of this process in reserve.
    pub fn new(connections: usize, reserved: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(limit).unwrap_or(usize::MAX).min(DESCRIPTORS_LIMIT);
        Self { connections, descriptors, reserved: reserved.min(descriptors / 4) }
    }

    /// Whether a user that has `taken` connections may have the one of this descriptor too;
    /// otherwise says which limit it has reached.
    pub fn admit(
        &self,
        owner: LinkOwner,
        taken: usize,
        socket: BorrowedFd<'_>,
    ) -> Result<(), String> {
        let (name, is_privileged) = match owner {
            LinkOwner::User(uid) => {
                let is_own = uid == rustix::process::geteuid().as_raw();
                (format!("user {uid}"), is_own || uid == 0)
            }
            LinkOwner::Keyed => return Ok(()),
            LinkOwner::Unknown => ("who connects without a key".to_owned(), false),
        };
        let half = (self.descriptors - self.reserved) / 2;
        let limit = if is_privileged { self.connections } else { self.connections.min(half) };
        if taken >= limit {
            return Err(format!(
                "{name} has {taken} connections here, and the limit for one user is {limit}; close \
                 some"
            ));
        }
        // The system gives the lowest number that is free.
        let number = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
        if !is_privileged && number >= self.descriptors - self.reserved {
            let reserved = self.reserved;
            return Err(format!(
                "the last {reserved} descriptors of this process are in reserve; try again later"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn other_users_get_half_and_leave_the_reserve() {
        let file = File::open("/dev/null").unwrap();
        let number = usize::try_from(file.as_raw_fd()).unwrap();
        let own = LinkOwner::User(rustix::process::geteuid().as_raw());
        let other = LinkOwner::User(54_321);
        let share = Share { connections: 100, descriptors: number + 61, reserved: 60 };
        let admit = |share: Share, owner, taken| share.admit(owner, taken, file.as_fd());
        assert_eq!(admit(share, other, 0), Ok(()));
        let half = number.div_ceil(2);
        let told = admit(share, other, half).unwrap_err();
        assert!(told.contains(&format!("limit for one user is {half}")), "{told}");
        assert_eq!(admit(share, own, half), Ok(()));
        assert!(admit(share, own, 100).unwrap_err().contains("limit for one user is 100"));
        let full = Share { descriptors: number + 60, ..share };
        assert!(admit(full, other, 0).unwrap_err().contains("last 60 descriptors"));
        assert!(admit(full, LinkOwner::Unknown, 0).unwrap_err().contains("in reserve"));
        assert_eq!(admit(full, own, 0), Ok(()));
        assert_eq!(admit(full, LinkOwner::Keyed, 100_000), Ok(()));
    }
}
