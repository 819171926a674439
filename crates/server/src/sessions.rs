//! Who is connected, and as whom.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pario_net::SpaceId;
use pario_proto::{ClientStatus, Failure, Identity};
use parking_lot::RwLock;

use crate::limits::{QuotaShare, Resource, UNREAD_LIMIT_BYTES, UNREAD_NOTED_BYTES, UserAccount};

/// A client that has said hello.
#[derive(Debug)]
pub struct Session {
    /// Its address space.
    pub space: SpaceId,
    /// What people call it.
    pub name: String,
    /// As whom it is known.
    pub identity: Identity,
    /// Whether it may ask what only nodes may ask.
    pub is_node: bool,
    /// What its user has taken of the node.
    pub account: Arc<UserAccount>,
    requests: AtomicU64,
    /// Answers that it has not read, as far as they were noted.
    unread_bytes: AtomicUsize,
    _share: QuotaShare,
}

impl Session {
    /// Notes how much the client has not read; whether all clients of its user together have left too
    /// much.
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

/// All clients that have said hello.
#[derive(Debug, Default)]
pub struct Sessions {
    by_space: RwLock<HashMap<SpaceId, Arc<Session>>>,
}

impl Sessions {
    /// A client has said hello. One more of its user may be too many.
    pub fn enter(
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

    /// Who asks; counts the request.
    pub fn of(&self, space: SpaceId) -> Option<Arc<Session>> {
        let session = self.by_space.read().get(&space).cloned()?;
        session.requests.fetch_add(1, Ordering::Relaxed);
        Some(session)
    }

    /// What people call a client.
    pub fn name_of(&self, space: SpaceId) -> Option<String> {
        self.by_space.read().get(&space).map(|session| session.name.clone())
    }

    /// A client is gone.
    pub fn leave(&self, space: SpaceId) {
        self.by_space.write().remove(&space);
    }

    /// All clients that are not nodes; `open_files` says how many files each has open.
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

    fn enter(sessions: &Sessions, space: SpaceId, name: String, uid: u32, is_node: bool) {
        let account = Quotas::new("alpha", 0).account(uid);
        sessions.enter(space, name, user(uid), is_node, account).unwrap();
    }

    #[test]
    fn who_has_said_hello_is_known_until_it_is_gone() {
        let sessions = Sessions::default();
        assert!(sessions.of(space(1)).is_none(), "it has not said hello");
        enter(&sessions, space(1), "copy".to_owned(), 7, false);
        let session = sessions.of(space(1)).unwrap();
        assert_eq!((session.space, session.identity.uid, session.is_node), (space(1), 7, false));
        assert!(sessions.of(space(2)).is_none(), "this is another one");
        // Who says hello again may be somebody else by then.
        enter(&sessions, space(1), "copy".to_owned(), 8, false);
        assert_eq!(sessions.of(space(1)).unwrap().identity.uid, 8);
        assert_eq!(session.identity.uid, 7, "what was begun before goes on as whom it was begun");
        sessions.leave(space(1));
        sessions.leave(space(1));
        assert!(sessions.of(space(1)).is_none());
    }

    #[test]
    fn a_user_has_so_many_clients_and_others_are_let_in() {
        let quotas = Quotas::new("alpha", 0);
        let sessions = Sessions::default();
        let limit = Resource::Sessions.limit().per_user;
        let id = |number: u64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            SpaceId::from_bytes(bytes)
        };
        let enter = |number, uid| {
            let account = quotas.account(uid);
            sessions.enter(id(number), "many".to_owned(), user(uid), false, account)
        };
        for number in 0..limit {
            enter(number, 7).unwrap();
        }
        let refused = enter(limit, 7).unwrap_err().to_string();
        assert!(refused.contains("user 7 has 1024 connected clients at node alpha"), "{refused}");
        enter(limit + 1, 8).unwrap();
        sessions.leave(id(3));
        enter(limit, 7).unwrap();
        let unread = UNREAD_LIMIT_BYTES / 2 + UNREAD_NOTED_BYTES;
        assert!(!sessions.of(id(0)).unwrap().is_over(unread), "one client may");
        assert!(sessions.of(id(1)).unwrap().is_over(unread), "both together may not");
        assert!(!sessions.of(id(limit + 1)).unwrap().is_over(unread), "another user may");
        sessions.leave(id(0));
        assert!(!sessions.of(id(1)).unwrap().is_over(unread), "the first one is gone");
    }

    #[test]
    fn clients_are_told_by_name_with_what_they_do_and_nodes_are_not() {
        let sessions = Sessions::default();
        enter(&sessions, space(1), "zebra".to_owned(), 7, false);
        enter(&sessions, space(2), "node beta".to_owned(), 0, true);
        enter(&sessions, space(3), "ape".to_owned(), 9, false);
        for _ in 0..5 {
            sessions.of(space(3)).unwrap();
        }
        let told = sessions.status(|of| if of == space(1) { 4 } else { 0 });
        let told: Vec<_> = told
            .iter()
            .map(|client| (client.name.as_str(), client.uid, client.requests, client.open_files))
            .collect();
        assert_eq!(told, [("ape", 9, 5, 0), ("zebra", 7, 0, 4)]);
    }
}
