//! The record locks of all open files, at the interface node.
//!
//! A lock belongs to the process that has the file open; its connection identifies it. The lock ends
//! when the process unlocks it, closes the file, or is lost.
//!
//! Invariants: one short mutex guards all locks; replies are sent after it is released. A request looks
//! the open file up under the mutex, and a close removes the locks after the file is closed: so no
//! process keeps a lock of a file that it has closed.

use std::collections::HashMap;

use pario_net::SpaceId;
use pario_proto::{
    Access, Failure, FileId, LockCall, LockKind, LockOutcome, LockRange, LockRequest, LockWait,
    Reply, ReplyMessage,
};
use parking_lot::Mutex;

use crate::coordination::{LockAnswers, LockClaim, Locker, Locks};
use crate::limits::{QuotaShare, Resource};
use crate::open_files::OpenFiles;
use crate::reply_sender::ReplySender;
use crate::sessions::{Session, Sessions};

/// The record locks of all open files.
#[derive(Debug, Default)]
pub struct RecordLocks {
    locks: Mutex<Locks<ReplySender>>,
    /// The share of each process in the quota of its user.
    shares: Mutex<HashMap<SpaceId, QuotaShare>>,
}

impl RecordLocks {
    /// Handles a lock request of a process that has the file open. Never blocks: the reply to a wait is
    /// sent when the lock is free.
    pub fn call(
        &self,
        node: &str,
        open_files: &OpenFiles,
        session: &Session,
        request: LockRequest,
        reporter: ReplySender,
        now_ms: u64,
    ) {
        let LockRequest { handle, pid, call } = request;
        let space = session.space;
        let who = Locker { space, pid };
        let mut locks = self.locks.lock();
        let stale = || Failure::StaleHandle { node: node.to_owned() };
        let open = open_files.find(handle, space).ok_or_else(stale);
        let file = match open.and_then(|(file, access)| checked(file, access, &call)) {
            Ok(file) => file,
            Err(failure) => {
                drop(locks);
                return reporter.fail(failure);
            }
        };
        // A lock adds at most two ranges, whatever ranges it replaces.
        let adds = matches!(call, LockCall::Try(..) | LockCall::Wait { .. });
        let room = session.account.take(Resource::Locks, if adds { 2 } else { 0 });
        if let Err(failure) = &room {
            drop(locks);
            return reporter.fail(failure.clone());
        }
        let answers = match call {
            LockCall::Try(range, kind) => {
                locks.lock(file, who, LockClaim { range, kind }, reporter)
            }
            LockCall::Wait { range, kind, number } => {
                locks.wait(file, who, LockClaim { range, kind }, (number, handle), reporter, now_ms)
            }
            LockCall::Unlock(range) => locks.unlock(file, who, range, reporter),
            LockCall::Test(range, kind) => {
                vec![(reporter, Ok(locks.test(file, space, LockClaim { range, kind })))]
            }
            LockCall::Withdraw { number } => {
                let mut answers = locks.withdraw(space, number);
                answers.push((reporter, Ok(LockOutcome::Done)));
                answers
            }
        };
        let count = locks.range_count(space);
        drop(room);
        self.count(session, count);
        drop(locks);
        send(answers);
    }

    /// Updates the share of a process to the number of its locked ranges. A lock that a waiting process
    /// gets later counts with its next request.
    fn count(&self, session: &Session, count: u64) {
        let mut shares = self.shares.lock();
        if count == 0 {
            shares.remove(&session.space);
            return;
        }
        let is_counted = match shares.get_mut(&session.space) {
            Some(share) => share.resize(count).is_ok(),
            None => match session.account.take(Resource::Locks, count) {
                Ok(share) => {
                    shares.insert(session.space, share);
                    true
                }
                Err(_) => false,
            },
        };
        if !is_counted {
            tracing::debug!(
                uid = session.identity.uid,
                count,
                "a user has more locks than its limit"
            );
        }
    }

    /// Removes the locks of a process that has closed a file, unless it has the file open again.
    pub fn close(&self, open_files: &OpenFiles, file: FileId, space: SpaceId) {
        let mut locks = self.locks.lock();
        if !locks.is_known(file, space) || open_files.is_open(file, space) {
            return;
        }
        let answers = locks.leave(file, space);
        drop(locks);
        send(answers);
    }

    /// Removes the locks and waits of a lost process.
    pub fn lose(&self, space: SpaceId) {
        let answers = self.locks.lock().lose(space);
        self.shares.lock().remove(&space);
        send(answers);
    }

    /// Returns the waits, longest first.
    pub fn waits(&self, open_files: &OpenFiles, sessions: &Sessions, now_ms: u64) -> Vec<LockWait> {
        let waits = self.locks.lock().waits();
        let mut names = HashMap::new();
        let mut name = |space: SpaceId| -> String {
            let named = || sessions.name_of(space).unwrap_or_default();
            names.entry(space).or_insert_with(named).clone()
        };
        let waits = waits.into_iter().filter_map(|wait| {
            let open = open_files.get(wait.handle, wait.space)?;
            Some(LockWait {
                path: open.path,
                uid: open.identity.uid,
                client: name(wait.space),
                range: wait.claim.range,
                kind: wait.claim.kind,
                holders: wait.holders.into_iter().map(&mut name).collect(),
                waited_ms: now_ms.saturating_sub(wait.since_ms),
            })
        });
        waits.collect()
    }
}

/// Returns the file if the access of its opener permits the call.
fn checked(file: FileId, access: Access, call: &LockCall) -> Result<FileId, Failure> {
    let (range, kind) = match *call {
        LockCall::Try(range, kind) | LockCall::Wait { range, kind, .. } => (range, Some(kind)),
        LockCall::Unlock(range) | LockCall::Test(range, _) => (range, None),
        LockCall::Withdraw { .. } => return Ok(file),
    };
    let LockRange { from, to } = range;
    if LockRange::new(from, to).is_none() {
        let text = format!("no bytes from byte {from} on and before byte {to} can be locked");
        return Err(Failure::Invalid(text));
    }
    let missing = match kind {
        Some(LockKind::Shared) if !access.read => "reading",
        Some(LockKind::Exclusive) if !access.write => "writing",
        _ => return Ok(file),
    };
    let why = format!("the file was not opened for {missing}");
    Err(Failure::BadGrant { file, why })
}

fn send(answers: LockAnswers<ReplySender>) {
    for (reporter, result) in answers {
        reporter.send_now(ReplyMessage { result: result.map(Reply::Lock), data: Vec::new() });
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::LOCK_END;

    use super::*;

    #[test]
    fn requests_of_clients_are_checked() {
        let file = FileId(7);
        let range = |from, to| LockRange { from, to };
        let (shared, alone) = (LockKind::Shared, LockKind::Exclusive);
        let call = |access, call| checked(file, access, &call);
        for wrong in [range(3, 3), range(4, 3), range(0, LOCK_END + 1), range(u64::MAX, u64::MAX)] {
            let calls = [
                LockCall::Try(wrong, shared),
                LockCall::Wait { range: wrong, kind: alone, number: 0 },
                LockCall::Unlock(wrong),
                LockCall::Test(wrong, alone),
            ];
            for one in calls {
                let refused = call(Access::READ_WRITE, one);
                assert!(matches!(refused, Err(Failure::Invalid(_))), "{one:?}");
            }
        }
        let some = range(0, 1);
        let wait = |kind| LockCall::Wait { range: some, kind, number: 0 };
        assert_eq!(call(Access::READ, LockCall::Try(some, shared)), Ok(file));
        assert_eq!(call(Access::WRITE, wait(alone)), Ok(file));
        for (access, kind) in
            [(Access::READ, alone), (Access::WRITE, shared), (Access::LOOK, shared)]
        {
            for one in [LockCall::Try(some, kind), wait(kind)] {
                assert!(matches!(call(access, one), Err(Failure::BadGrant { .. })), "{one:?}");
            }
        }
        assert_eq!(call(Access::LOOK, LockCall::Test(some, alone)), Ok(file));
        assert_eq!(call(Access::LOOK, LockCall::Unlock(some)), Ok(file));
    }
}
