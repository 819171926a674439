//! Quotas: how much of a node's resources one user can take.
//!
//! Invariants: a user takes a [`QuotaShare`], and dropping the share gives it back, also in a panic.
//! The node refuses a user at its limit with the name of the limit, its value and a remedy, and goes on
//! serving other users. The node keeps the last part of each total for root and for the user that runs
//! it; these two have no limit of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pario_proto::Failure;
use parking_lot::Mutex;

/// A limited resource of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Connected clients.
    Sessions,
    /// Open files at the interface node.
    Handles,
    /// Requests that wait: for other ranks, for bytes, for locks, for the size of a file.
    Waits,
    /// Locked byte ranges.
    Locks,
    /// Jobs that coordinate at the node.
    Jobs,
    /// Shared files of jobs.
    SharedFiles,
    /// Shared-memory objects of jobs, each with a descriptor of the node.
    JobMemories,
    /// Processing calls.
    Calls,
    /// Extents that processing calls have selected.
    ChosenExtents,
    /// Jobs on several machines that use the rendezvous of the node.
    TeamRendezvous,
    /// Tables in which clients count their short-cut traffic, each with a descriptor of the node.
    TrafficTables,
    /// Openers of files whose accesses are atomic, at the home nodes of the files.
    AtomicOpeners,
    /// Files that processes of jobs have opened one by one.
    JobOpens,
    /// Stored modules, at the interface node.
    Modules,
    /// Calls of modules, and modules that are being added.
    ModuleCalls,
    /// Bytes of memory of the instances of modules.
    ModuleMemory,
}

/// The limits of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The most that one user has.
    pub per_user: u64,
    /// The most that all have together.
    pub total: u64,
    /// The part of the total that only root and the user that runs the node can have.
    pub reserve: u64,
}

/// All resources, in the order of their declaration.
pub const RESOURCES: [Resource; 16] = [
    Resource::Sessions,
    Resource::Handles,
    Resource::Waits,
    Resource::Locks,
    Resource::Jobs,
    Resource::SharedFiles,
    Resource::JobMemories,
    Resource::Calls,
    Resource::ChosenExtents,
    Resource::TeamRendezvous,
    Resource::TrafficTables,
    Resource::AtomicOpeners,
    Resource::JobOpens,
    Resource::Modules,
    Resource::ModuleCalls,
    Resource::ModuleMemory,
];

/// The bytes of replies that one user may leave unread, over all its clients. The node disconnects a
/// client that exceeds it.
pub const UNREAD_LIMIT_BYTES: usize = 512 << 20;

/// Unread bytes of a client below this do not count.
pub const UNREAD_NOTED_BYTES: usize = 1 << 20;

/// The longest offer of a rendezvous: address and key together.
pub const RENDEZVOUS_LIMIT_BYTES: usize = 1024;

impl Resource {
    /// Returns the limits of a resource.
    pub const fn limit(self) -> ResourceLimit {
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
            Resource::TeamRendezvous => (256, 4_096, 64),
            Resource::TrafficTables => (1_024, 8_192, 256),
            Resource::AtomicOpeners => (16_384, 262_144, 16_384),
            Resource::JobOpens => (16_384, 262_144, 16_384),
            Resource::Modules => (64, 1_024, 64),
            Resource::ModuleCalls => (16, 256, 16),
            Resource::ModuleMemory => (1 << 30, 4 << 30, 1 << 30),
        };
        ResourceLimit { per_user, total, reserve }
    }

    /// Returns what a user can do about a refusal.
    const fn remedy(self) -> &'static str {
        match self {
            Resource::Sessions | Resource::TrafficTables => {
                "end some of the processes that are connected"
            }
            Resource::Handles | Resource::AtomicOpeners | Resource::JobOpens => "close some files",
            Resource::Waits => "wait for some of the calls that are under way",
            Resource::Locks => "unlock some ranges, or lock longer ones",
            Resource::Jobs | Resource::TeamRendezvous => "end some jobs",
            Resource::SharedFiles => "close some shared files of jobs",
            Resource::JobMemories => "end some jobs; the others coordinate by messages",
            Resource::Calls | Resource::ModuleCalls => "wait for some calls",
            Resource::Modules => "remove some with `pario operation remove`",
            Resource::ModuleMemory => "wait for some calls, or let the module use less memory",
            Resource::ChosenExtents => "wait for some calls, or select fewer extents in each",
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
            Resource::JobMemories => "shared-memory objects of jobs",
            Resource::Calls => "processing calls",
            Resource::ChosenExtents => "extents selected by processing calls",
            Resource::TeamRendezvous => "jobs that look for their machines",
            Resource::TrafficTables => "clients whose short cut is counted",
            Resource::AtomicOpeners => "files open for atomic access",
            Resource::JobOpens => "files opened one by one in jobs",
            Resource::Modules => "stored modules",
            Resource::ModuleCalls => "calls of modules",
            Resource::ModuleMemory => "bytes of memory of modules",
        })
    }
}

type UsedAmounts = [AtomicU64; RESOURCES.len()];

/// The resources that all users have taken of a node.
#[derive(Debug)]
pub struct Quotas {
    node: Arc<str>,
    /// The user that runs the node.
    administrator: u32,
    used: Arc<UsedAmounts>,
    /// Accounts in use; adding one removes the unused ones.
    users: Mutex<HashMap<u32, Weak<UserAccount>>>,
}

/// The resources that one user has taken of a node.
#[derive(Debug)]
pub struct UserAccount {
    uid: u32,
    node: Arc<str>,
    is_privileged: bool,
    used: UsedAmounts,
    used_by_all: Arc<UsedAmounts>,
    unread_bytes: AtomicUsize,
}

/// A part of a resource that a user has taken; dropping it gives the part back.
#[derive(Debug)]
#[must_use = "an unused share is given back at once"]
pub struct QuotaShare {
    account: Arc<UserAccount>,
    resource: Resource,
    count: u64,
}

impl Quotas {
    /// Creates the quotas of a node that a user runs.
    pub fn new(node: &str, administrator: u32) -> Self {
        Self { node: node.into(), administrator, used: Arc::default(), users: Mutex::default() }
    }

    /// Returns how much of a resource all users have taken in shares.
    pub fn used(&self, resource: Resource) -> u64 {
        self.used[resource.index()].load(Ordering::SeqCst)
    }

    /// Returns the account of a user.
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
            used: UsedAmounts::default(),
            used_by_all: self.used.clone(),
            unread_bytes: AtomicUsize::new(0),
        });
        users.insert(uid, Arc::downgrade(&account));
        account
    }

    /// Checks that a user can have one more of a resource, for tables that count by themselves: the
    /// user has `own` of it, and all users together have `all`.
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
    /// Returns the most that this user, and all users together, may have after this user takes more.
    fn limits(&self, resource: Resource) -> (u64, u64) {
        let ResourceLimit { per_user, total, reserve } = resource.limit();
        if self.is_privileged { (u64::MAX, total) } else { (per_user, total - reserve) }
    }

    /// Takes some of a resource for the user.
    pub fn take(self: &Arc<Self>, resource: Resource, count: u64) -> Result<QuotaShare, Failure> {
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
        Ok(QuotaShare { account: self.clone(), resource, count })
    }

    /// Returns how much of a resource the user has taken in shares.
    #[cfg(test)]
    pub fn used(&self, resource: Resource) -> u64 {
        self.used[resource.index()].load(Ordering::SeqCst)
    }

    /// Updates the unread bytes of one client. Returns those of all clients of the user.
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

impl QuotaShare {
    /// Changes the size of the share. A refusal leaves it unchanged.
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

impl Drop for QuotaShare {
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
        let mut shares: Vec<QuotaShare> =
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
        let ResourceLimit { per_user, total, reserve } = Resource::Calls.limit();
        let shares: Vec<QuotaShare> = (1000..)
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
        assert_eq!(one.used(Resource::Locks), 3, "a refusal changes nothing");
        drop(share);
        assert_eq!(one.used(Resource::Locks), 0);
        assert_eq!((one.note_unread(0, 10), one.note_unread(10, 4)), (10, 4));
    }
}
