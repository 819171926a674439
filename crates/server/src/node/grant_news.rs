//! Which grants are valid: the interface node counts grant epochs and keeps revocations. The other
//! nodes load them when they join, and ask for news once a second.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pario_proto::{Failure, FileId, PeerRequest, Reply, Request};
use parking_lot::Mutex;

use super::wait_for;
use crate::node_state::NodeState;

/// Loads the epoch and the revocations from the namespace when the interface node starts.
pub fn load_own_revocations(shared: &NodeState) -> Result<(), Failure> {
    let interface = shared.interface()?;
    let known = interface.namespace.revocations()?;
    let mut window = shared.grant_window.write();
    for revocation in known {
        window.revoke(revocation);
    }
    window.enter(interface.grant_epochs.lock().current());
    Ok(())
}

/// Begins the next grant epoch if it is due: in the namespace first, then here. Runs on the
/// interface node.
pub fn begin_due_epoch(shared: &Arc<NodeState>, now: Instant) {
    let Some(interface) = &shared.interface else { return };
    let Some(epoch) = interface.grant_epochs.lock().next_due(now) else { return };
    begin_epoch(shared, epoch, |result| {
        if let Err(failure) = result {
            tracing::warn!(%failure, "the next grant epoch cannot begin");
        }
    });
}

/// Begins `count` grant epochs, and waits until they are durable.
pub fn begin_epochs(shared: &Arc<NodeState>, count: u64) -> Result<(), Failure> {
    shared.interface()?;
    for _ in 0..count {
        wait_for(|done| begin_epoch(shared, 0, done)).ok_or_else(|| no_result(shared))??;
    }
    Ok(())
}

/// Begins grant epoch `epoch`, or the epoch after the current one if that is later.
fn begin_epoch(
    shared: &Arc<NodeState>,
    epoch: u64,
    done: impl FnOnce(Result<(), Failure>) + Send + 'static,
) {
    let interface = match shared.interface() {
        Ok(interface) => interface,
        Err(failure) => return done(Err(failure)),
    };
    let after = shared.clone();
    interface.namespace.begin_grant_epoch(epoch, move |result| {
        if let Some(interface) = &after.interface {
            let mut epochs = interface.grant_epochs.lock();
            match &result {
                Ok(epoch) => {
                    epochs.begun(*epoch, Instant::now());
                    after.grant_window.write().enter(*epoch);
                }
                Err(_) => epochs.failed(Instant::now()),
            }
        }
        done(result.map(|_| ()));
    });
}

/// Returns the current epoch for another node, and whether that node must load all revocations.
/// Runs on the interface node.
pub fn grant_news(shared: &NodeState, node: &str) -> Result<Reply, Failure> {
    let interface = shared.interface()?;
    let number = number_of(shared, node)?;
    let must_reload = interface.uninformed_nodes.lock().contains(&number);
    Ok(Reply::GrantNews { epoch: interface.grant_epochs.lock().current(), must_reload })
}

/// Returns a page of revocations for another node. Runs on the interface node, in a thread that may
/// wait.
pub fn revocations(
    shared: &Arc<NodeState>,
    node: &str,
    known_epoch: Option<u64>,
    after: Option<FileId>,
) -> Result<Reply, Failure> {
    let interface = shared.interface()?;
    let number = number_of(shared, node)?;
    if after.is_none() {
        // A later revocation that the node misses adds it again.
        interface.uninformed_nodes.lock().remove(&number);
    }
    let current = interface.grant_epochs.lock().current();
    if let Some(known) = known_epoch.filter(|known| *known > current) {
        tracing::warn!(node, known, current, "a node knows a later grant epoch than the namespace");
        wait_for(|done| begin_epoch(shared, known, done)).ok_or_else(|| no_result(shared))??;
    }
    let window = shared.grant_window.read();
    let epoch = window.epoch().unwrap_or(current);
    let (revocations, is_more) = window.page(after);
    Ok(Reply::Revocations { epoch, revocations, is_more })
}

/// Loads the epoch and all revocations from the interface node. A node that has just started
/// accepts no grant before that.
pub fn load_revocations(shared: &Arc<NodeState>) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let request = PeerRequest::Revocations {
            node: shared.name().to_owned(),
            known_epoch: shared.grant_window.read().epoch(),
            after,
        };
        let interface = shared.config.interface;
        let answer =
            wait_for(|done| shared.peers.ask_then(interface, Request::Peer(request), done));
        let reply = answer.ok_or_else(|| no_result(shared))?.and_then(|answer| answer.result)?;
        let Reply::Revocations { epoch, revocations, is_more } = reply else {
            return Err(Failure::Invalid(
                "the interface node has sent a reply that does not fit the request".into(),
            ));
        };
        after = revocations.last().map(|last| last.file);
        for revocation in revocations {
            // Clients with descriptors of the file must ask for new ones.
            shared.revoke(revocation);
        }
        if !is_more || after.is_none() {
            shared.grant_window.write().enter(epoch);
            return Ok(());
        }
    }
}

/// Asks the interface node for the epoch; loads all revocations again if this node has missed one.
pub fn poll_grant_news(shared: &Arc<NodeState>, timeout: Duration) {
    let interface = shared.config.interface;
    let is_known_here = shared.interface.is_some();
    if is_known_here || !shared.peers.is_linked(interface) || !shared.peers.has_joined() {
        return;
    }
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    let request = Request::Peer(PeerRequest::GrantNews { node: shared.name().to_owned() });
    shared.peers.ask_then(interface, request, move |answer| {
        // The receiver is gone after the timeout.
        let _ = send.lock().send(answer);
    });
    let Ok(Ok(answer)) = receive.recv_timeout(timeout) else { return };
    let Ok(Reply::GrantNews { epoch, must_reload }) = answer.result else { return };
    if must_reload && let Err(failure) = load_revocations(shared) {
        tracing::warn!(%failure, "this node cannot load the revocations");
        return;
    }
    shared.grant_window.write().enter(epoch);
}

fn number_of(shared: &NodeState, node: &str) -> Result<usize, Failure> {
    let number = shared.config.nodes.iter().position(|known| known.name == node);
    number.ok_or_else(|| Failure::Refused {
        node: shared.name().to_owned(),
        why: format!("the cluster has no node named {node}"),
    })
}

fn no_result(shared: &NodeState) -> Failure {
    let (node, why) = (shared.name().to_owned(), "the request ended without a result".to_owned());
    Failure::Internal { node, why }
}
