//! The claim of bytes at a coordination table that the accesses of this process share in a mode whose
//! accesses are atomic.
//!
//! A rank has one claim at a table, and its accesses are to overlap in time. So the claim covers all of
//! its accesses that are ready: it is made for those that wait, and an access that comes later joins
//! it if no other rank uses or has claimed the bytes between. An access that cannot join waits until
//! the claim is released and takes part in the next one, so that other ranks are not passed over.

use std::collections::BTreeMap;

use pario_proto::BytesUse;
use parking_lot::{Condvar, Mutex};

use crate::error::Error;

/// The claim of this process, and the accesses that wait for it.
#[derive(Debug, Default)]
pub(super) struct RangeClaim {
    state: Mutex<ClaimState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ClaimState {
    /// The number of accesses so far.
    accesses: u64,
    /// The number of claims so far.
    claims: u64,
    /// The accesses that wait, by number.
    waiting: BTreeMap<u64, BytesUse>,
    claim: Claim,
}

#[derive(Debug, Default)]
enum Claim {
    #[default]
    None,
    /// An access waits for the claim.
    Pending,
    Held {
        bytes: BytesUse,
        /// The accesses that use it.
        users: usize,
        /// The accesses below this number waited when the claim was made: it covers them.
        first_later: u64,
    },
}

/// How this process claims bytes.
pub(super) trait ClaimSite {
    /// Waits until this process holds the bytes. `number` counts its claims.
    fn claim(&self, number: u64, bytes: BytesUse) -> Result<(), Error>;
    /// Makes the claim larger. Returns false if other ranks use or have claimed some of the bytes.
    fn widen(&self, bytes: BytesUse) -> bool;
    /// Releases the bytes.
    fn release(&self, number: u64);
}

/// An access that uses the claim; dropping it ends that.
struct ClaimUser<'c, S: ClaimSite>(&'c RangeClaim, &'c S);

impl RangeClaim {
    /// Runs `what` while this process holds the bytes.
    pub fn with<R>(
        &self,
        site: &impl ClaimSite,
        bytes: BytesUse,
        what: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.join(site, bytes)?;
        let _user = ClaimUser(self, site);
        what()
    }

    fn join(&self, site: &impl ClaimSite, bytes: BytesUse) -> Result<(), Error> {
        let mut state = self.state.lock();
        let access = state.accesses;
        state.accesses += 1;
        state.waiting.insert(access, bytes);
        loop {
            let all = state.waiting.values().copied().reduce(hull).unwrap_or(bytes);
            match &mut state.claim {
                Claim::Held { bytes: held, users, first_later } => {
                    let wider = hull(*held, bytes);
                    if access < *first_later || site.widen(wider) {
                        (*held, *users) = (wider, *users + 1);
                        state.waiting.remove(&access);
                        return Ok(());
                    }
                }
                Claim::None => {
                    state.claim = Claim::Pending;
                    state.claims += 1;
                    let (number, first_later) = (state.claims, state.accesses);
                    drop(state);
                    let claimed = site.claim(number, all);
                    state = self.state.lock();
                    state.claim = match &claimed {
                        Ok(()) => Claim::Held { bytes: all, users: 0, first_later },
                        Err(_) => Claim::None,
                    };
                    self.changed.notify_all();
                    if let Err(error) = claimed {
                        state.waiting.remove(&access);
                        return Err(error);
                    }
                    continue;
                }
                Claim::Pending => {}
            }
            self.changed.wait(&mut state);
        }
    }
}

impl<S: ClaimSite> Drop for ClaimUser<'_, S> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let number = state.claims;
        let first_waiting = state.waiting.keys().next().copied();
        if let Claim::Held { users, first_later, .. } = &mut state.claim {
            *users -= 1;
            // An access that the claim was made for may not have begun yet.
            let is_awaited = first_waiting.is_some_and(|access| access < *first_later);
            if *users == 0 && !is_awaited {
                state.claim = Claim::None;
                self.1.release(number);
                self.0.changed.notify_all();
            }
        }
    }
}

/// The smallest use that contains both.
fn hull(one: BytesUse, other: BytesUse) -> BytesUse {
    BytesUse {
        from: one.from.min(other.from),
        to: one.to.max(other.to),
        is_write: one.is_write || other.is_write,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Records the claims; other ranks may stand in the way.
    #[derive(Default)]
    struct Recorder {
        log: Mutex<Vec<String>>,
        is_contended: Mutex<bool>,
    }

    impl ClaimSite for Recorder {
        fn claim(&self, number: u64, bytes: BytesUse) -> Result<(), Error> {
            self.log.lock().push(format!("claim {number}: {}..{}", bytes.from, bytes.to));
            Ok(())
        }

        fn widen(&self, bytes: BytesUse) -> bool {
            let is_free = !*self.is_contended.lock();
            self.log.lock().push(format!("widen {}..{} {is_free}", bytes.from, bytes.to));
            is_free
        }

        fn release(&self, number: u64) {
            self.log.lock().push(format!("release {number}"));
        }
    }

    #[test]
    fn accesses_join_a_claim_unless_another_rank_waits() {
        let (claim, site) = (RangeClaim::default(), Recorder::default());
        let read = |from| BytesUse::new(from, 10, false);
        claim
            .with(&site, read(0), || {
                claim.with(&site, read(30), || Ok(()))?;
                *site.is_contended.lock() = true;
                let (send, receive) = mpsc::channel::<()>();
                std::thread::scope(|scope| {
                    // It waits for the release, which is below.
                    let late = scope.spawn(|| {
                        claim.with(&site, read(50), || {
                            drop(send);
                            Ok(())
                        })
                    });
                    while claim.state.lock().waiting.is_empty() {
                        std::thread::yield_now();
                    }
                    assert_eq!(receive.try_recv(), Err(mpsc::TryRecvError::Empty));
                    drop(ClaimUser(&claim, &site));
                    late.join().unwrap().unwrap();
                    claim.join(&site, read(0))
                })
            })
            .unwrap();
        let log = [
            "claim 1: 0..10",
            "widen 0..40 true",
            "widen 0..60 false",
            "release 1",
            "claim 2: 50..60",
            "release 2",
            "claim 3: 0..10",
            "release 3",
        ];
        assert_eq!(*site.log.lock(), log);
    }
}
