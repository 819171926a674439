//! The grant of an open file, and its renewal.
//!
//! A grant is valid for some minutes. After a third of that time, the next use of the file requests
//! a new one from the interface node and does not wait for it: an interface node that is down
//! delays no access. If a node refuses a grant, the request is repeated with a new one.

use std::time::{Duration, Instant};

use pario_proto::{Grant, NamespaceRequest, Opened, Reply, Request};
use parking_lot::{Mutex, RwLock};

use super::File;
use crate::connection::{Waiting, strange};
use crate::error::Error;

/// A connection that breaks within this time was broken before the request.
const AT_ONCE: Duration = Duration::from_millis(50);
/// The time that a node may take after its start to learn which grants are valid, and the pause
/// between attempts.
const INFORMED_WAIT: Duration = Duration::from_secs(1);
const INFORMED_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a failed renewal.
const RENEW_PAUSE: Duration = Duration::from_secs(5);

/// The grant of an open file.
#[derive(Debug)]
pub(super) struct KeptGrant {
    grant: RwLock<Grant>,
    /// When the next use of the file renews it.
    due: Mutex<Due>,
}

struct Due {
    at: Instant,
    after: Duration,
    /// A renewal under way.
    under_way: Option<Waiting>,
}

impl std::fmt::Debug for Due {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Due({:?})", self.at.saturating_duration_since(Instant::now()))
    }
}

impl KeptGrant {
    pub fn new(grant: Grant, renew_after_ms: u64) -> Self {
        let after = Duration::from_millis(renew_after_ms);
        let due = Due { at: later(after), after, under_way: None };
        Self { grant: RwLock::new(grant), due: Mutex::new(due) }
    }

    fn set(&self, opened: Opened) {
        let after = Duration::from_millis(opened.renew_after_ms);
        *self.grant.write() = opened.grant;
        *self.due.lock() = Due { at: later(after), after, under_way: None };
    }
}

fn later(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or(now)
}

impl File {
    /// Returns the grant. Starts a renewal if it is due, or takes the result of one.
    pub(crate) fn grant(&self) -> Grant {
        self.keep_renewed();
        self.state.grant.grant.read().clone()
    }

    fn keep_renewed(&self) {
        // Another thread does it.
        let Some(mut due) = self.state.grant.due.try_lock() else { return };
        if let Some(waiting) = due.under_way.take_if(|waiting| waiting.pending.is_done()) {
            let renewed = waiting.wait();
            drop(due);
            // Without a new grant, the old one serves as long as nodes accept it.
            if let Ok((Reply::Opened(opened), _)) = renewed {
                self.state.grant.set(opened);
            }
            return;
        }
        if due.under_way.is_some() || Instant::now() < due.at {
            return;
        }
        due.at = later(due.after.min(RENEW_PAUSE));
        let last = self.state.grant.grant.read().clone();
        let request = NamespaceRequest::Renew { handle: self.state.handle, grant: last };
        let interface = self.state.cluster.shared.interface();
        // Opening a connection may take long: only a call that needs one does it.
        if interface.is_open() {
            let waiting = interface.start(Request::Namespace(request), Vec::new()).ok();
            // Looking for the reply sends the request.
            waiting.as_ref().map(|waiting| waiting.pending.is_done());
            due.under_way = waiting;
        }
    }

    /// Runs `work` with the grant, and again with a new one if a node does not accept it.
    pub(super) fn with_renewal<T>(
        &self,
        grant: Grant,
        work: impl Fn(Grant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let worked = match work(grant) {
            Err(error) if error.is_uninformed() => self.when_informed(&work),
            Err(error) if error.needs_renewal() => self.renew().and_then(work),
            other => other,
        };
        worked.map_err(|error| error.of_file(self.state.path.as_str()))
    }

    /// Repeats `work` while a node that has just started learns which grants are valid.
    fn when_informed<T>(&self, work: &impl Fn(Grant) -> Result<T, Error>) -> Result<T, Error> {
        let deadline = Instant::now() + INFORMED_WAIT;
        loop {
            std::thread::sleep(INFORMED_PAUSE);
            match work(self.grant()) {
                Err(error) if error.is_uninformed() && Instant::now() < deadline => {}
                Err(error) if error.needs_renewal() && !error.is_uninformed() => {
                    return self.renew().and_then(work);
                }
                other => return other,
            }
        }
    }

    /// Like `with_renewal`, for work that can be repeated without harm: also repeats it if a node
    /// was restarted since its last request, so that the connection breaks at once.
    pub(super) fn with_retry<T>(
        &self,
        grant: Grant,
        work: impl Fn(Grant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        self.with_renewal(grant, |grant| match work(grant.clone()) {
            Err(Error::NodeDown { .. }) if began.elapsed() < AT_ONCE => work(grant),
            other => other,
        })
    }

    /// Fetches a new grant, with the current rights.
    pub(super) fn renew(&self) -> Result<Grant, Error> {
        let last = self.state.grant.grant.read().clone();
        let request = NamespaceRequest::Renew { handle: self.state.handle, grant: last };
        let Reply::Opened(opened) = self.state.cluster.names(request)? else {
            return Err(strange("interface"));
        };
        let grant = opened.grant.clone();
        self.state.grant.set(opened);
        Ok(grant)
    }

    /// Fetches a new grant, with the current rights, for nodes that process the file.
    pub(crate) fn renew_rights(&self) -> Result<(), Error> {
        self.renew().map(drop)
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use crate::cluster::Cluster;

    use super::*;

    #[test]
    fn a_file_in_use_is_renewed_when_it_is_time_and_holds_nothing_up() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path()).unwrap();
        let file = cluster.create("/f").unwrap();
        let after = file.state.grant.due.lock().after;
        assert_eq!(after, Duration::from_secs(100), "a third of ten epochs");
        let now = Instant::now();
        file.grant();
        assert!(file.state.grant.due.lock().under_way.is_none(), "it is too early");
        file.state.grant.due.lock().at = now;
        file.grant();
        let deadline = now + Duration::from_secs(20);
        while file.state.grant.due.lock().at < now + after {
            assert!(Instant::now() < deadline, "no renewal was taken over");
            file.grant();
        }
        assert!(file.state.grant.due.lock().under_way.is_none());
        file.write_at(b"still mine", 0).unwrap();
    }
}
