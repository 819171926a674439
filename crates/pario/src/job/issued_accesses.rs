//! The accesses of this process to one file that are issued and not over.
//!
//! Two accesses conflict if they overlap and one of them writes. Conflicting accesses move their
//! bytes in the order of issue; all others overlap in time. The writes that are under way count for
//! the end of the file as this process sees it.
//!
//! *No deadlock.* An access waits for earlier ones only. The end of a *collective* access depends on
//! other ranks, which may have issued the accesses of several open files in another order: an access
//! waits for a collective one only if both belong to the same open file, whose calls all ranks make
//! in one order.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use pario_proto::{AccessRange, FileId};
use parking_lot::{Condvar, Mutex};

/// The accesses of this process to one file, through all its open files.
#[derive(Debug, Default)]
pub(crate) struct IssuedAccesses {
    state: Mutex<IssueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct IssueState {
    /// The number of accesses issued so far.
    issued: u64,
    /// Those that are not over, by number.
    under_way: BTreeMap<u64, IssuedAccess>,
}

#[derive(Clone, Copy, Debug)]
struct IssuedAccess {
    start: u64,
    end: u64,
    is_write: bool,
    is_collective: bool,
    opening: u64,
}

/// An open file of this process, as the issuer of accesses.
#[derive(Debug)]
pub(super) struct AccessIssuer {
    accesses: Arc<IssuedAccesses>,
    opening: u64,
}

/// An access that is not over; dropping it ends it.
#[derive(Debug)]
pub(super) struct IssueTicket {
    accesses: Arc<IssuedAccesses>,
    number: u64,
}

/// The issued accesses of this process, by file.
#[derive(Debug, Default)]
pub(crate) struct IssuedByFile(Mutex<HashMap<FileId, Weak<IssuedAccesses>>>);

impl IssuedByFile {
    /// Returns the accesses of a file.
    pub fn of_file(&self, file: FileId) -> Arc<IssuedAccesses> {
        let mut files = self.0.lock();
        if let Some(known) = files.get(&file).and_then(Weak::upgrade) {
            return known;
        }
        // Before the map grows: most files in it may be closed.
        if files.len() == files.capacity() {
            files.retain(|_, known| known.strong_count() > 0);
        }
        let new = Arc::default();
        files.insert(file, Arc::downgrade(&new));
        new
    }
}

impl AccessIssuer {
    pub fn new(accesses: Arc<IssuedAccesses>) -> Self {
        static OPENINGS: AtomicU64 = AtomicU64::new(0);
        Self { accesses, opening: OPENINGS.fetch_add(1, Ordering::Relaxed) }
    }

    /// Issues an access of this process alone.
    pub fn issue(&self, range: AccessRange, is_write: bool) -> IssueTicket {
        self.add(range, is_write, false)
    }

    /// Issues an access that ends when other ranks have done their part.
    pub fn issue_collective(&self, range: AccessRange, is_write: bool) -> IssueTicket {
        self.add(range, is_write, true)
    }

    fn add(&self, range: AccessRange, is_write: bool, is_collective: bool) -> IssueTicket {
        let AccessRange { offset: start, len } = range;
        let end = start.saturating_add(len);
        let access = IssuedAccess { start, end, is_write, is_collective, opening: self.opening };
        let mut state = self.accesses.state.lock();
        let number = state.issued;
        state.issued += 1;
        state.under_way.insert(number, access);
        IssueTicket { accesses: self.accesses.clone(), number }
    }

    /// The end of the writes that are under way.
    pub fn end(&self) -> u64 {
        let state = self.accesses.state.lock();
        let writes =
            state.under_way.values().filter(|access| access.is_write && !access.is_empty());
        writes.map(|access| access.end).max().unwrap_or(0)
    }

    /// Waits until the accesses that were issued before this call are over, except collective ones of
    /// other open files.
    pub fn wait_for_all(&self) {
        let mut state = self.accesses.state.lock();
        let issued = state.issued;
        while state.under_way.range(..issued).any(|(_, access)| access.ends_for(self.opening)) {
            self.accesses.changed.wait(&mut state);
        }
    }
}

impl IssuedAccess {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether an access of an open file may wait for the end of this one.
    fn ends_for(&self, opening: u64) -> bool {
        !self.is_collective || self.opening == opening
    }

    /// Whether a later access must wait for this one.
    fn precedes(&self, later: &IssuedAccess) -> bool {
        let overlap = self.start < later.end && later.start < self.end;
        let is_empty = self.is_empty() || later.is_empty();
        overlap && !is_empty && (self.is_write || later.is_write) && self.ends_for(later.opening)
    }
}

impl IssueTicket {
    /// Waits until no earlier access conflicts with this one.
    pub fn wait(&self) {
        let mut state = self.accesses.state.lock();
        let Some(own) = state.under_way.get(&self.number).copied() else { return };
        while state.under_way.range(..self.number).any(|(_, access)| access.precedes(&own)) {
            self.accesses.changed.wait(&mut state);
        }
    }

    /// Waits for the earlier writes that end behind an offset, because a read has found the end of
    /// the file there. Returns false if there is none.
    pub fn wait_for_end_behind(&self, offset: u64) -> bool {
        let mut state = self.accesses.state.lock();
        let Some(own) = state.under_way.get(&self.number).copied() else { return false };
        let extends = |(_, access): (&u64, &IssuedAccess)| {
            let is_longer = access.is_write && !access.is_empty() && access.end > offset;
            is_longer && access.ends_for(own.opening)
        };
        let mut is_found = false;
        while state.under_way.range(..self.number).any(extends) {
            is_found = true;
            self.accesses.changed.wait(&mut state);
        }
        is_found
    }
}

impl Drop for IssueTicket {
    fn drop(&mut self) {
        self.accesses.state.lock().under_way.remove(&self.number);
        self.accesses.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn range(offset: u64, len: u64) -> AccessRange {
        AccessRange { offset, len }
    }

    /// Whether the access would have to wait now.
    fn is_waiting(ticket: &IssueTicket) -> bool {
        let state = ticket.accesses.state.lock();
        let own = state.under_way[&ticket.number];
        state.under_way.range(..ticket.number).any(|(_, access)| access.precedes(&own))
    }

    #[test]
    fn conflicting_accesses_keep_their_order_and_others_do_not_wait() {
        let file = AccessIssuer::new(Arc::default());
        let write = file.issue(range(0, 10), true);
        let (beside, inside) = (file.issue(range(10, 5), false), file.issue(range(9, 1), false));
        let same = file.issue(range(9, 3), false);
        let (again, empty) = (file.issue(range(5, 10), true), file.issue(range(3, 0), true));
        assert!(!is_waiting(&write) && !is_waiting(&beside) && !is_waiting(&empty));
        assert!(is_waiting(&inside) && is_waiting(&same) && is_waiting(&again));
        assert_eq!(file.end(), 15);
        drop(write);
        assert!(!is_waiting(&inside) && !is_waiting(&same), "reads do not wait for each other");
        assert!(is_waiting(&again));
        drop((inside, same));
        assert!(is_waiting(&again), "the first read is under way");
        drop(beside);
        assert!(!is_waiting(&again));
        drop(again);
        assert_eq!(file.end(), 0, "what is over counts at the disks");
    }

    #[test]
    fn a_ticket_waits_until_the_earlier_access_is_over() {
        let file = AccessIssuer::new(Arc::default());
        let (write, read) = (file.issue(range(0, 10), true), file.issue(range(0, 10), false));
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                read.wait();
                send.send(()).unwrap();
            });
            assert!(receive.try_recv().is_err());
            drop(write);
            receive.recv().unwrap();
        });
        assert!(!read.wait_for_end_behind(0));
    }

    #[test]
    fn an_access_waits_for_collective_ones_of_its_own_open_file_only() {
        let accesses = Arc::new(IssuedAccesses::default());
        let (one, other) = (AccessIssuer::new(accesses.clone()), AccessIssuer::new(accesses));
        let collective = one.issue_collective(range(0, 10), true);
        let alone = one.issue(range(20, 10), true);
        assert!(is_waiting(&one.issue(range(0, 1), false)));
        assert!(!is_waiting(&other.issue(range(0, 1), false)));
        assert!(is_waiting(&other.issue(range(20, 1), false)));
        assert_eq!(other.end(), 30, "the end counts for all open files of the process");
        drop((collective, alone));
        other.wait_for_all();
    }
}
