//! Who is connected, and as whom.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_net::SpaceId;
use pario_proto::{ClientStatus, Identity};
use parking_lot::RwLock;

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
    requests: AtomicU64,
}

/// All clients that have said hello.
#[derive(Debug, Default)]
pub struct Sessions {
    by_space: RwLock<HashMap<SpaceId, Arc<Session>>>,
}

impl Sessions {
    /// A client has said hello.
    pub fn enter(&self, space: SpaceId, name: String, identity: Identity, is_node: bool) {
        let session = Session { space, name, identity, is_node, requests: AtomicU64::new(0) };
        self.by_space.write().insert(space, Arc::new(session));
    }

    /// Who asks; counts the request.
    pub fn of(&self, space: SpaceId) -> Option<Arc<Session>> {
        let session = self.by_space.read().get(&space).cloned()?;
        session.requests.fetch_add(1, Ordering::Relaxed);
        Some(session)
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
