//! Atomic access to the files whose home is this node, by processes that have opened them each for
//! itself.
//!
//! Invariants: one short mutex guards all openers; replies are sent after it is released. A call
//! that waits holds no thread.

use std::collections::HashMap;

use pario_net::SpaceId;
use pario_proto::{
    AtomicCall, AtomicRequest, AtomicWait, Failure, FileId, FilePath, OPENER_CLAIMS_LIMIT, Reply,
    ReplyMessage,
};
use parking_lot::Mutex;

use crate::coordination::{
    AtomicOpeners, NewOpener, OpenerAnswers, OpenerId, OpenerRefusal, OpenerWait,
};
use crate::limits::{QuotaShare, Resource};
use crate::reply_sender::ReplySender;
use crate::sessions::{Session, Sessions};

/// The openers of the files whose home is this node.
#[derive(Debug, Default)]
pub struct AtomicFiles {
    state: Mutex<AtomicFilesState>,
}

#[derive(Debug, Default)]
struct AtomicFilesState {
    openers: AtomicOpeners<ReplySender>,
    /// The share of each opener in the quota of its user.
    shares: HashMap<(FileId, OpenerId), QuotaShare>,
}

impl AtomicFiles {
    /// Handles a call of an opener, whose grant was checked if it opens the file. Never blocks.
    pub fn call(
        &self,
        node: &str,
        session: &Session,
        request: AtomicRequest,
        reply: ReplySender,
        now_ms: u64,
    ) {
        let AtomicRequest { file, opener, call } = request;
        // Calls that release something are never refused, and an opener waits for one recall.
        let reply = match call {
            AtomicCall::Open { .. } | AtomicCall::Claim { .. } => reply.waiting(0),
            _ => Some(reply),
        };
        let Some(reply) = reply else { return };
        let id = OpenerId { space: session.space, number: opener };
        let mut state = self.state.lock();
        let openers = &mut state.openers;
        let answers = match call {
            AtomicCall::Open { path, shared_file, .. } => {
                let share = match session.account.take(Resource::AtomicOpeners, 1) {
                    Ok(share) => share,
                    Err(failure) => {
                        drop(state);
                        return reply.fail(failure);
                    }
                };
                let who = NewOpener { id, uid: session.identity.uid, path, shared_file };
                let answers = openers.open(file, who, reply, now_ms);
                state.shares.insert((file, id), share);
                answers
            }
            AtomicCall::Claim { number, bytes } => {
                openers.claim(file, id, (number, bytes), reply, now_ms)
            }
            AtomicCall::Release { number } => openers.release(file, id, number, reply, now_ms),
            AtomicCall::AwaitRecall { delegation } => {
                openers.await_recall(file, id, delegation, reply)
            }
            AtomicCall::GiveBack { delegation, claims } => {
                openers.give_back(file, id, (delegation, claims), reply, now_ms)
            }
            AtomicCall::Close => {
                let answers = openers.close(file, id, reply, now_ms);
                state.shares.remove(&(file, id));
                answers
            }
        };
        drop(state);
        send(node, answers);
    }

    /// Removes the openers of a lost process.
    pub fn lose(&self, node: &str, space: SpaceId, now_ms: u64) {
        let mut state = self.state.lock();
        let answers = state.openers.lose(space, now_ms);
        state.shares.retain(|(_, id), _| id.space != space);
        drop(state);
        send(node, answers);
    }

    /// Ends the atomic accesses of a user, or of all users, to these files, or to all files. Returns
    /// the files.
    pub fn reset(
        &self,
        node: &str,
        uid: Option<u32>,
        files: &[FilePath],
        now_ms: u64,
    ) -> Vec<FilePath> {
        let (paths, answers) = self.state.lock().openers.reset(uid, files, now_ms);
        send(node, answers);
        paths.into_iter().collect()
    }

    /// Lets the calls go on that have waited for leases which have expired by now.
    pub fn expire(&self, node: &str, now_ms: u64) {
        let answers = self.state.lock().openers.expire(now_ms);
        send(node, answers);
    }

    /// Returns the waits, longest first.
    pub fn waits(&self, sessions: &Sessions, now_ms: u64) -> Vec<AtomicWait> {
        let waits = self.state.lock().openers.waits(now_ms);
        let name = |space: SpaceId| sessions.name_of(space).unwrap_or_default();
        let wait = |wait: OpenerWait| AtomicWait {
            path: wait.path,
            uid: wait.uid,
            client: name(wait.space),
            bytes: wait.bytes,
            holders: wait.holders.into_iter().map(name).collect(),
            is_recall: wait.is_recall,
            waited_ms: now_ms.saturating_sub(wait.since_ms),
        };
        waits.into_iter().map(wait).collect()
    }
}

fn send(node: &str, answers: OpenerAnswers<ReplySender>) {
    for (reply, result) in answers {
        let result = result.map(Reply::Atomic).map_err(|refusal| match refusal {
            OpenerRefusal::Unknown => Failure::StaleHandle { node: node.to_owned() },
            OpenerRefusal::TooManyClaims => Failure::Invalid(format!(
                "a process has at most {OPENER_CLAIMS_LIMIT} atomic accesses to a file under way: \
                 wait for some of them"
            )),
            OpenerRefusal::Reset => Failure::AccessReset,
        });
        reply.send_now(ReplyMessage { result, data: Vec::new() });
    }
}
