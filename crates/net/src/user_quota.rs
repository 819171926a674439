//! What one user may use of a process: connections and descriptors.
//!
//! Invariant: a user other than the process's own and root never holds more than half of the
//! descriptors, and none of the reserve, so that the process keeps working for all others.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{Resource, getrlimit};

/// An upper bound for the descriptor limit.
const DESCRIPTORS_LIMIT: usize = 1 << 20;

/// The owner of a link, for the limits per user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LinkOwner {
    /// A user of this machine, as the kernel says.
    User(u32),
    /// Peers over TCP that have proved that they know the key.
    Keyed,
    /// Peers over TCP that need no key.
    Unknown,
}

/// The limits for one user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserQuota {
    connections: usize,
    descriptors: usize,
    reserved: usize,
}

impl UserQuota {
    /// Limits the connections per user, and reserves descriptors of this process.
    pub fn new(connections: usize, reserved: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(limit).unwrap_or(usize::MAX).min(DESCRIPTORS_LIMIT);
        Self { connections, descriptors, reserved: reserved.min(descriptors / 4) }
    }

    /// Checks whether a user with `taken` connections may have the one of this descriptor too. The
    /// error names the limit it has reached.
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
            LinkOwner::Unknown => ("a client without a key".to_owned(), false),
        };
        let half = (self.descriptors - self.reserved) / 2;
        let limit = if is_privileged { self.connections } else { self.connections.min(half) };
        if taken >= limit {
            return Err(format!(
                "{name} has {taken} connections here, and the limit for one user is {limit}; close \
                 some"
            ));
        }
        // The system assigns the lowest free number.
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
        let quota = UserQuota { connections: 100, descriptors: number + 61, reserved: 60 };
        let admit = |quota: UserQuota, owner, taken| quota.admit(owner, taken, file.as_fd());
        assert_eq!(admit(quota, other, 0), Ok(()));
        let half = number.div_ceil(2);
        let told = admit(quota, other, half).unwrap_err();
        assert!(told.contains(&format!("limit for one user is {half}")), "{told}");
        assert_eq!(admit(quota, own, half), Ok(()));
        assert!(admit(quota, own, 100).unwrap_err().contains("limit for one user is 100"));
        let full = UserQuota { descriptors: number + 60, ..quota };
        assert!(admit(full, other, 0).unwrap_err().contains("last 60 descriptors"));
        assert!(admit(full, LinkOwner::Unknown, 0).unwrap_err().contains("in reserve"));
        assert_eq!(admit(full, own, 0), Ok(()));
        assert_eq!(admit(full, LinkOwner::Keyed, 100_000), Ok(()));
    }
}
