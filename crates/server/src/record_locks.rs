//! The locks of records of all open files, at the node that keeps the names.
//!
//! Locks belong to the process that has the file open, which is known by its connection. They end
//! when it unlocks them, when it has the file open no more, and when it is gone.
//!
//! Invariants: one lock, held for moments; answers are sent after it is released. A file is found to
//! be open under it, and closing lets go of locks after the file is open no more: so nobody keeps a
//! lock of a file that it has closed.

use std::collections::HashMap;

use pario_net::{Bulk, Responder, SpaceId};
use pario_proto::{
    Answer, Failure, FileId, LockCall, LockKind, LockOutcome, LockRange, LockRequest, LockWait,
    Reply,
};
use parking_lot::Mutex;

use crate::coordination::{Answers, Locker, Locks, Wish};
use crate::open_files::OpenFiles;
use crate::sessions::Sessions;

type Reporter = Responder<Answer<Bulk>>;

/// The locks of records of all open files.
#[derive(Debug, Default)]
pub struct RecordLocks {
    locks: Mutex<Locks<Reporter>>,
}

impl RecordLocks {
    /// A process asks something about the locks of a file that it has open. Nobody waits here.
    pub fn call(
        &self,
        open_files: &OpenFiles,
        space: SpaceId,
        request: LockRequest,
        reporter: Reporter,
        now_ms: u64,
    ) -> Result<(), (Reporter, Refusal)> {
        let LockRequest { handle, pid, call } = request;
        let who = Locker { space, pid };
        let mut locks = self.locks.lock();
        let Some((file, access)) = open_files.find(handle, space) else {
            return Err((reporter, Refusal::Stale));
        };
        let (range, kind) = match call {
            LockCall::Try(range, kind) | LockCall::Wait { range, kind, .. } => (range, Some(kind)),
            LockCall::Unlock(range) | LockCall::Test(range, _) => (range, None),
            LockCall::Withdraw { .. } => (LockRange::ALL, None),
        };
        if LockRange::new(range.from, range.to).is_none() {
            return Err((reporter, Refusal::Failure(impossible(range))));
        }
        let why = match kind {
            Some(LockKind::Shared) if !access.read => Some("reading"),
            Some(LockKind::Exclusive) if !access.write => Some("writing"),
            _ => None,
        };
        if let Some(verb) = why {
            let why = format!("the file was not opened for {verb}");
            return Err((reporter, Refusal::Failure(Failure::BadGrant { file, why })));
        }
        let answers = match call {
            LockCall::Try(range, kind) => locks.lock(file, who, Wish { range, kind }, reporter),
            LockCall::Wait { range, kind, number } => {
                locks.wait(file, who, Wish { range, kind }, (number, handle), reporter, now_ms)
            }
            LockCall::Unlock(range) => locks.unlock(file, who, range, reporter),
            LockCall::Test(range, kind) => {
                vec![(reporter, Ok(locks.test(file, space, Wish { range, kind })))]
            }
            LockCall::Withdraw { number } => {
                let mut answers = locks.withdraw(space, number);
                answers.push((reporter, Ok(LockOutcome::Done)));
                answers
            }
        };
        drop(locks);
        tell(answers);
        Ok(())
    }

    /// A process has closed a file, which it may have opened more than once.
    pub fn close(&self, open_files: &OpenFiles, file: FileId, space: SpaceId) {
        let mut locks = self.locks.lock();
        if !locks.is_known(file, space) || open_files.is_open(file, space) {
            return;
        }
        let answers = locks.leave(file, space);
        drop(locks);
        tell(answers);
    }

    /// A process is gone.
    pub fn lose(&self, space: SpaceId) {
        let answers = self.locks.lock().lose(space);
        tell(answers);
    }

    /// Who waits, longest first.
    pub fn waits(&self, open_files: &OpenFiles, sessions: &Sessions, now_ms: u64) -> Vec<LockWait> {
        let waits = self.locks.lock().waits();
        let mut names = HashMap::new();
        let mut name = |space: SpaceId| -> String {
            let named = || sessions.name_of(space).unwrap_or_default();
            names.entry(space).or_insert_with(named).clone()
        };
        let told = waits.into_iter().filter_map(|wait| {
            let open = open_files.get(wait.handle, wait.space)?;
            Some(LockWait {
                path: open.path,
                uid: open.identity.uid,
                client: name(wait.space),
                range: wait.wish.range,
                kind: wait.wish.kind,
                holders: wait.holders.into_iter().map(&mut name).collect(),
                waited_ms: now_ms.saturating_sub(wait.since_ms),
            })
        });
        told.collect()
    }
}

/// Why a call about locks is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The process does not have the file open.
    Stale,
    /// It cannot be.
    Failure(Failure),
}

fn impossible(range: LockRange) -> Failure {
    let LockRange { from, to } = range;
    Failure::Invalid(format!("no bytes from byte {from} on and before byte {to} can be locked"))
}

fn tell(answers: Answers<Reporter>) {
    for (reporter, result) in answers {
        reporter.send_now(Answer { result: result.map(Reply::Lock), data: Vec::new() });
    }
}
