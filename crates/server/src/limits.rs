//! How much of a node one user can take, and what is left for others.
//!
//! Invariants: what a user takes is a [`Share`], and is given back when the share is dropped, also by
//! a panic. A user who has reached a limit is refused with the limit, its name and what to do; other
//! users are not. The last part of each total is kept for root and for the user that runs the node,
//! who have no limit of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pario_proto::Failure;
use parking_lot::Mutex;

/// Something of which a node has a limited amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Clients that have said hello.
    Sessions,
    /// Files that are open at the interface node.
    Handles,
    /// Requests that wait: for other ranks, for bytes, for locks, for the size of a file.
    Waits,
    /// Ranges of bytes that are locked.
    Locks,
    /// Jobs whose processes meet at the node.
    Jobs,
    /// Files that jobs have open together.
    SharedFiles,
    /// Objects of shared memory, each with a descriptor of the node.
    JobMemories,
    /// Calls that work with extents.
    Calls,
    /// Extents that these calls have chosen.
    ChosenExtents,
    /// Places at which the machines of a job come together.
    TeamPlaces,
    /// Tables in which clients count what they read and write by themselves, each with a descriptor
    /// of the node.
    TrafficTables,
}

/// The limits of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most that one user has.
    pub per_user: u64,
    /// The most that all have together.
    pub total: u64,
    /// What of the total only root and the user that runs the node can have.
    pub reserve: u64,
}

/// All resources, in the order of their declaration.
pub const RESOURCES: [Resource; 11] = [
    Resource::Sessions,
    Resource::Handles,
    Resource::Waits,
    Resource::Locks,
    Resource::Jobs,
    Resource::SharedFiles,
    Resource::JobMemories,
    Resource::Calls,
    Resource::ChosenExtents,
    Resource::TeamPlaces,
    Resource::TrafficTables,
];

/// The answers that one user may leave unread, over all its clients; a client that goes beyond is
/// cut off.
pub const UNREAD_LIMIT_BYTES: usize = 512 << 20;

/// Backlogs below this are not added up.
pub const UNREAD_NOTED_BYTES: usize = 1 << 20;

/// The longest text of an offer of a team place, address and key together.
pub const TEAM_PLACE_LIMIT_BYTES: usize = 1024;

impl Resource {
    /// The limits of a node.
    pub const fn limit(self) -> Limit {
        let (per_user, total, reserve) = match self {
            Resource::Sessions => (1_024, 8_192, 256),
            Resource::Handles => (16_384, 262_144, 16_384),
            Resource::Waits => (8_192, 65_536, 4_096),
            Resource::Locks => (65_536, 1 << 20, 65_536),
            Resource::Jobs => (256, 4_096, 64),
            Resource::SharedFiles => (4_096, 65_536, 1_024),
            Resource::JobMemories => (64, 512, 32),
            Resource::Calls => (128, 1_024, 64),
            Resource::ChosenExtents => (1 << 24, 1 << 26, 1 << 24),
            Resource::TeamPlaces => (256, 4_096, 64),
            Resource::TrafficTables => (1_024, 8_192, 256),
        };
        Limit { per_user, total, reserve }
    }

    /// What a user can do about a refusal.
    const fn remedy(self) -> &'static str {
        match self {
            Resource::Sessions | Resource::TrafficTables => {
                "end some of the processes that are connected"
            }
            Resource::Handles => "close some files",
            Resource::Waits => "wait for some of the calls that are under way",
            Resource::Locks => "unlock some ranges, or lock longer ones",
            Resource::Jobs | Resource::TeamPlaces => "end some jobs",
            Resource::SharedFiles => "close some of the files that jobs have open together",
            Resource::JobMemories => "end some jobs; the others meet by messages",
            Resource::Calls => "wait for some calls",
            Resource::ChosenExtents => "wait for some calls, or have each choose fewer extents",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Sessions => "connected clients",
            Resource::Handles => "open files",
            Resource::Waits => "waiting requests",
            Resource::Locks => "locked ranges",
            Resource::Jobs => "jobs",
            Resource::SharedFiles => "files open in jobs",
            Resource::JobMemories => "memories of jobs",
            Resource::Calls => "calls that work with extents",
            Resource::ChosenExtents => "extents chosen by calls",
            Resource::TeamPlaces => "jobs that look for their machines",
            Resource::TrafficTables => "clients whose short cut is counted",
        })
    }
}

type Used = [AtomicU64; RESOURCES.len()];

/// What all users have taken of a node.
#[derive(Debug)]
pub struct Quotas {
    node: Arc<str>,
    /// The user that runs the node.
    administrator: u32,
    used: Arc<Used>,
    /// A user that has taken nothing is forgotten when the next one comes.
    users: Mutex<HashMap<u32, Weak<UserAccount>>>,
}

/// What one user has taken of a node.
#[derive(Debug)]
pub struct UserAccount {
    uid: u32,
    node: Arc<str>,
    is_privileged: bool,
    used: Used,
    used_by_all: Arc<Used>,
    unread_bytes: AtomicUsize,
}

/// A part of a resource that a user has; it is given back when this is dropped.
#[derive(Debug)]
#[must_use = "it is given back at once"]
pub struct Share {
    account: Arc<UserAccount>,
    resource: Resource,
    count: u64,
}

impl Quotas {
    /// Nothing is taken of a node that a user runs.
    pub fn new(node: &str, administrator: u32) -> Self {
        Self { node: node.into(), administrator, used: Arc::default(), users: Mutex::default() }
    }

    /// How much of a resource all users have taken in shares.
    pub fn used(&self, resource: Resource) -> u64 {
        self.used[resource.index()].load(Ordering::SeqCst)
    }

    /// The account of a user.
    pub fn account(&self, uid: u32) -> Arc<UserAccount> {
        let mut users = self.users.lock();
        if let Some(account) = users.get(&uid).and_then(Weak::upgrade) {
            return account;
        }
        users.retain(|_, account| account.strong_count() > 0);
        let account = Arc::new(UserAccount {
            uid,
            node: self.node.clone(),
            is_privileged: uid == 0 || uid == self.administrator,
            used: Used::default(),
            used_by_all: self.used.clone(),
            unread_bytes: AtomicUsize::new(0),
        });
        users.insert(uid, Arc::downgrade(&account));
        account
    }
}

impl Quotas {
    /// Whether a user who has `own` of a resource, of the `all` that all users have, can have one
    /// more: for tables that count by themselves.
    pub fn check(&self, uid: u32, resource: Resource, own: u64, all: u64) -> Result<(), Failure> {
        let account = self.account(uid);
        let (own_limit, all_limit) = account.limits(resource);
        if own >= own_limit {
            return Err(account.refusal(resource, Some(uid), own_limit));
        }
        if all >= all_limit {
            return Err(account.refusal(resource, None, all_limit));
        }
        Ok(())
    }
}

impl UserAccount {
    /// The most that the user can have of a resource, and that all can have before it is refused.
    fn limits(&self, resource: Resource) -> (u64, u64) {
        let Limit { per_user, total, reserve } = resource.limit();
        if self.is_privileged { (u64::MAX, total) } else { (per_user, total - reserve) }
    }

    /// Takes some of a resource for the user.
    pub fn take(self: &Arc<Self>, resource: Resource, count: u64) -> Result<Share, Failure> {
        let (own, all) = self.limits(resource);
        let add = |used: &AtomicU64, limit: u64| {
            let within = |used: u64| used.checked_add(count).filter(|after| *after <= limit);
            used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok()
        };
        if !add(&self.used[resource.index()], own) {
            return Err(self.refusal(resource, Some(self.uid), own));
        }
        if !add(&self.used_by_all[resource.index()], all) {
            self.used[resource.index()].fetch_sub(count, Ordering::SeqCst);
            return Err(self.refusal(resource, None, all));
        }
        Ok(Share { account: self.clone(), resource, count })
    }

    /// How much of a resource the user has taken in shares.
    #[cfg(test)]
    pub fn used(&self, resource: Resource) -> u64 {
        self.used[resource.index()].load(Ordering::SeqCst)
    }

    /// Notes that the unread answers of one client have changed; what all clients of the user leave
    /// unread now.
    pub fn note_unread(&self, before: usize, now: usize) -> usize {
        if now >= before {
            let more = now - before;
            self.unread_bytes.fetch_add(more, Ordering::Relaxed) + more
        } else {
            self.unread_bytes.fetch_sub(before - now, Ordering::Relaxed) - (before - now)
        }
    }

    fn refusal(&self, resource: Resource, uid: Option<u32>, limit: u64) -> Failure {
        Failure::LimitReached {
            node: (*self.node).into(),
            uid,
            what: resource.to_string().into(),
            limit,
            remedy: resource.remedy().into(),
        }
    }
}

impl Share {
    /// Changes how much of the resource it is. If that is too much, it stays as it was.
    pub fn resize(&mut self, count: u64) -> Result<(), Failure> {
        if count > self.count {
            let mut more = self.account.take(self.resource, count - self.count)?;
            more.count = 0;
        } else {
            self.give_back(self.count - count);
        }
        self.count = count;
        Ok(())
    }

    fn give_back(&self, count: u64) {
        for used in [&self.account.used, &*self.account.used_by_all] {
            used[self.resource.index()].fetch_sub(count, Ordering::SeqCst);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_at_its_limit_leaves_room_for_others() {
        let quotas = Quotas::new("alpha", 7);
        let limit = Resource::Jobs.limit();
        let one = quotas.account(1000);
        let mut shares: Vec<Share> =
            (0..limit.per_user).map(|_| one.take(Resource::Jobs, 1).unwrap()).collect();
        let refused = one.take(Resource::Jobs, 1).unwrap_err().to_string();
        assert_eq!(
            refused,
            "user 1000 has 256 jobs at node alpha, which is the limit of a user: end some jobs"
        );
        let other = quotas.account(1001).take(Resource::Jobs, 1).unwrap();
        assert_eq!(quotas.account(1000).used(Resource::Jobs), limit.per_user, "the same account");
        shares.pop();
        let again = one.take(Resource::Jobs, 1).unwrap();
        drop((shares, again, other));
        assert_eq!(one.used(Resource::Jobs), 0);
    }

    #[test]
    fn many_users_leave_the_reserve_to_root_and_the_administrator() {
        let quotas = Quotas::new("alpha", 7);
        let Limit { per_user, total, reserve } = Resource::Calls.limit();
        let shares: Vec<Share> = (1000..)
            .take(usize::try_from((total - reserve) / per_user).unwrap())
            .map(|uid| quotas.account(uid).take(Resource::Calls, per_user).unwrap())
            .collect();
        let left = (total - reserve) % per_user;
        let refused = quotas.account(9).take(Resource::Calls, left + 1).unwrap_err().to_string();
        assert!(refused.contains("keeps the rest for its administrator"), "{refused}");
        for uid in [0, 7] {
            drop(quotas.account(uid).take(Resource::Calls, reserve).unwrap());
        }
        drop(shares);
        assert_eq!(quotas.used(Resource::Calls), 0);
    }

    #[test]
    fn a_share_grows_and_shrinks_and_is_given_back() {
        let quotas = Quotas::new("alpha", 7);
        let one = quotas.account(1000);
        let mut share = one.take(Resource::Locks, 2).unwrap();
        share.resize(10).unwrap();
        assert_eq!(one.used(Resource::Locks), 10);
        share.resize(3).unwrap();
        share.resize(Resource::Locks.limit().per_user + 1).unwrap_err();
        assert_eq!(one.used(Resource::Locks), 3, "what is refused changes nothing");
        drop(share);
        assert_eq!(one.used(Resource::Locks), 0);
        assert_eq!((one.note_unread(0, 10), one.note_unread(10, 4)), (10, 4));
    }
}
