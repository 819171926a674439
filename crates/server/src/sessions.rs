//! The sessions of a node: its connected clients and their identities.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pario_net::SpaceId;
use pario_proto::{ClientStatus, Failure, Identity};
use parking_lot::RwLock;

use crate::limits::{QuotaShare, Resource, UNREAD_LIMIT_BYTES, UNREAD_NOTED_BYTES, UserAccount};

/// The number of the node itself at the disks.
pub const NODE_CALLER: u64 = 0;

/// Returns a number by which the disks tell clients and processing calls apart.
pub fn next_caller() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A client that has sent a hello.
#[derive(Debug)]
pub struct Session {
    /// Its address space.
    pub space: SpaceId,
    /// A number that no other session of this process has.
    pub number: u64,
    /// Its name in messages.
    pub name: String,
    /// Its identity.
    pub identity: Identity,
    /// Whether it may send requests that are reserved for nodes.
    pub is_node: bool,
    /// The account of its user.
    pub account: Arc<UserAccount>,
    requests: AtomicU64,
    /// Unread bytes of replies, as counted last.
    unread_bytes: AtomicUsize,
    _share: QuotaShare,
}

impl Session {
    /// Counts the unread bytes of the client. Returns whether all clients of its user together have
    /// too many.
    pub fn is_over(&self, unread_bytes: usize) -> bool {
        let noted = if unread_bytes < UNREAD_NOTED_BYTES { 0 } else { unread_bytes };
        if noted == 0 && self.unread_bytes.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let before = self.unread_bytes.swap(noted, Ordering::Relaxed);
        self.account.note_unread(before, noted) > UNREAD_LIMIT_BYTES && noted > 0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.account.note_unread(*self.unread_bytes.get_mut(), 0);
    }
}

/// All clients that have sent a hello.
#[derive(Debug, Default)]
pub struct Sessions {
    by_space: RwLock<HashMap<SpaceId, Arc<Session>>>,
}

impl Sessions {
    /// Opens the session of a client. Fails if its user has too many.
    pub fn open(
        &self,
        space: SpaceId,
        name: String,
        identity: Identity,
        is_node: bool,
        account: Arc<UserAccount>,
    ) -> Result<(), Failure> {
        let share = account.take(Resource::Sessions, 1)?;
        let session = Session {
            space,
            number: next_caller(),
            name,
            identity,
            is_node,
            account,
            requests: AtomicU64::new(0),
            unread_bytes: AtomicUsize::new(0),
            _share: share,
        };
        self.by_space.write().insert(space, Arc::new(session));
        Ok(())
    }

    /// Returns the session of a client, and counts a request.
    pub fn get(&self, space: SpaceId) -> Option<Arc<Session>> {
        let session = self.by_space.read().get(&space).cloned()?;
        session.requests.fetch_add(1, Ordering::Relaxed);
        Some(session)
    }

    /// Returns the name of a client.
    pub fn name_of(&self, space: SpaceId) -> Option<String> {
        self.by_space.read().get(&space).map(|session| session.name.clone())
    }

    /// Closes the session of a client.
    pub fn close(&self, space: SpaceId) {
        self.by_space.write().remove(&space);
    }

    /// Returns the status of all clients that are not nodes; `open_files` returns the number of
    /// files that a client has open.
    pub fn status(&self, open_files: impl Fn(SpaceId) -> u64) -> Vec<ClientStatus> {
        let sessions = self.by_space.read();
        let clients = sessions.values().filter(|session| !session.is_node);
        let mut status: Vec<_> = clients
            .map(|session| ClientStatus {
                name: session.name.clone(),
                uid: session.identity.uid,
                requests: session.requests.load(Ordering::Relaxed),
                open_files: open_files(session.space),
            })
            .collect();
        status.sort_by(|a, b| a.name.cmp(&b.name));
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Quotas;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    fn user(uid: u32) -> Identity {
        Identity { uid, gids: vec![uid] }
    }

    fn open(sessions: &Sessions, space: SpaceId, name: String, uid: u32, is_node: bool) {
        let account = Quotas::new("alpha", 0).account(uid);
        sessions.open(space, name, user(uid), is_node, account).unwrap();
    }

    #[test]
    fn a_session_lasts_from_hello_to_close() {
        let sessions = Sessions::default();
        assert!(sessions.get(space(1)).is_none(), "it has not said hello");
        open(&sessions, space(1), "copy".to_owned(), 7, false);
        let session = sessions.get(space(1)).unwrap();
        assert_eq!((session.space, session.identity.uid, session.is_node), (space(1), 7, false));
        assert!(sessions.get(space(2)).is_none(), "this is another one");
        // The client may have another identity at its next hello.
        open(&sessions, space(1), "copy".to_owned(), 8, false);
        assert_eq!(sessions.get(space(1)).unwrap().identity.uid, 8);
        assert_eq!(session.identity.uid, 7, "a session keeps its identity");
        sessions.close(space(1));
        sessions.close(space(1));
        assert!(sessions.get(space(1)).is_none());
    }

    #[test]
    fn the_clients_of_a_user_are_limited_and_those_of_others_are_not() {
        let quotas = Quotas::new("alpha", 0);
        let sessions = Sessions::default();
        let limit = Resource::Sessions.limit().per_user;
        let id = |number: u64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            SpaceId::from_bytes(bytes)
        };
        let open = |number, uid| {
            let account = quotas.account(uid);
            sessions.open(id(number), "many".to_owned(), user(uid), false, account)
        };
        for number in 0..limit {
            open(number, 7).unwrap();
        }
        let refused = open(limit, 7).unwrap_err().to_string();
        assert!(refused.contains("user 7 has 1024 connected clients at node alpha"), "{refused}");
        open(limit + 1, 8).unwrap();
        sessions.close(id(3));
        open(limit, 7).unwrap();
        let unread = UNREAD_LIMIT_BYTES / 2 + UNREAD_NOTED_BYTES;
        assert!(!sessions.get(id(0)).unwrap().is_over(unread), "one client may");
        assert!(sessions.get(id(1)).unwrap().is_over(unread), "both together may not");
        assert!(!sessions.get(id(limit + 1)).unwrap().is_over(unread), "another user may");
        sessions.close(id(0));
        assert!(!sessions.get(id(1)).unwrap().is_over(unread), "the first one is gone");
    }

    #[test]
    fn the_status_lists_clients_by_name_and_no_nodes() {
        let sessions = Sessions::default();
        open(&sessions, space(1), "zebra".to_owned(), 7, false);
        open(&sessions, space(2), "node beta".to_owned(), 0, true);
        open(&sessions, space(3), "ape".to_owned(), 9, false);
        for _ in 0..5 {
            sessions.get(space(3)).unwrap();
        }
        let status = sessions.status(|of| if of == space(1) { 4 } else { 0 });
        let status: Vec<_> = status
            .iter()
            .map(|client| (client.name.as_str(), client.uid, client.requests, client.open_files))
            .collect();
        assert_eq!(status, [("ape", 9, 5, 0), ("zebra", 7, 0, 4)]);
    }
}
