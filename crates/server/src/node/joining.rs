//! Joining a cluster: each node reports its disks to the interface node, and learns their ids and
//! the addresses of the other nodes.
//!
//! A node saves this cluster map in a file, so that it knows its disks also if it starts while the
//! interface node is away. Until it has joined it accepts no grant, because only the interface node
//! knows which grants are revoked.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pario_proto::{ClusterMap, DiskId, Failure, NodeInfo, PeerRequest, Reply, Request};
use parking_lot::Mutex;

use super::{grant_news, wait_for};
use crate::disks::NO_ID;
use crate::node_state::{InterfaceState, NodeState};
use crate::private_files;

/// Loads the map that this node saved before.
pub fn load_saved_map(shared: &NodeState) {
    let Ok(bytes) = fs::read(map_path(shared)) else { return };
    let Ok(known) = postcard::from_bytes::<ClusterMap>(&bytes) else {
        tracing::warn!("{} is not a cluster map and is ignored", map_path(shared).display());
        return;
    };
    let mut map = shared.map.write();
    for node in &mut map.nodes {
        if let Some(before) = known.nodes.iter().find(|before| before.name == node.name) {
            node.disks = before.disks.clone();
        }
    }
    shared.disks.set_ids(&map.nodes[shared.me].disks);
}

/// Registers the disks of the interface node itself.
pub fn register_own_disks(shared: &Arc<NodeState>) -> Result<(), Failure> {
    let own = NodeInfo {
        name: shared.name().to_owned(),
        address: shared.map.read().nodes[shared.me].address.clone(),
        disks: shared.disks.infos(),
    };
    admit_node(shared, own).map(|_| ())
}

/// Admits a node: gives ids to its disks, and returns the map. Runs on the interface node, in a
/// thread that may wait.
pub fn admit_node(shared: &Arc<NodeState>, mut joined: NodeInfo) -> Result<Reply, Failure> {
    let interface = shared.interface()?;
    let Some(number) = shared.config.nodes.iter().position(|node| node.name == joined.name) else {
        return Err(Failure::Refused {
            node: shared.name().to_owned(),
            why: format!("the cluster has no node named {}", joined.name),
        });
    };
    for disk in &mut joined.disks {
        disk.id = disk_id(shared, interface, disk.uuid, disk.id)?;
    }
    // A reader of the map must be able to reach the node.
    if number != shared.me
        && let Ok(address) = joined.address.parse()
    {
        shared.peers.set_address(number, address);
    }
    let map = {
        let mut map = shared.map.write();
        map.nodes[number].disks = joined.disks.clone();
        if number != shared.me && !joined.address.is_empty() {
            map.nodes[number].address = joined.address.clone();
        }
        map.clone()
    };
    save_map(shared);
    if number != shared.me {
        shared.rebuild.note_join(number);
    }
    if number == shared.me {
        shared.disks.set_ids(&joined.disks);
    } else {
        interface.description_writer.note_join();
    }
    Ok(Reply::Joined { map, node: joined })
}

fn disk_id(
    shared: &NodeState,
    interface: &InterfaceState,
    uuid: u128,
    hint: DiskId,
) -> Result<DiskId, Failure> {
    let no_result = || Failure::Internal {
        node: shared.name().to_owned(),
        why: "the namespace has stopped".to_owned(),
    };
    let known = interface.namespace.disks()?;
    if let Some((_, id)) = known.iter().find(|(known, _)| *known == uuid) {
        return Ok(*id);
    }
    // The namespace was lost, and the disk is not new: layouts of its files name it by this id.
    if hint != NO_ID && !known.iter().any(|(_, id)| *id == hint) {
        wait_for(|done| interface.namespace.restore_disk(uuid, hint, done))
            .ok_or_else(no_result)??;
        return Ok(hint);
    }
    wait_for(|done| interface.namespace.register_disk(uuid, done)).ok_or_else(no_result)?
}

/// Joins the interface node unless this node has joined over the current link.
pub fn ensure_joined(shared: &Arc<NodeState>) {
    let interface = shared.config.interface;
    if shared.peers.is_linked(interface) && shared.peers.has_joined() {
        return;
    }
    let Ok(connection) = shared.peers.try_reach(interface) else { return };
    let node = NodeInfo {
        name: shared.name().to_owned(),
        address: shared.map.read().nodes[shared.me].address.clone(),
        disks: shared.disks.infos(),
    };
    let request = Request::Peer(PeerRequest::Join { node });
    let answer = wait_for(|done| shared.peers.ask_then(interface, request, done));
    match answer.map(|answer| answer.and_then(|answer| answer.result)) {
        Some(Ok(Reply::Joined { map, node })) => {
            shared.disks.set_ids(&node.disks);
            adopt_map(shared, map);
            match grant_news::load_revocations(shared) {
                Ok(()) => shared.peers.set_joined(connection),
                Err(failure) => tracing::warn!(%failure, "this node cannot load the revocations"),
            }
        }
        Some(Err(failure)) => tracing::warn!(%failure, "this node cannot join the cluster"),
        _ => tracing::warn!("the interface node has sent a reply that does not fit the request"),
    }
}

/// Loads the map from the interface node, if it answers within the timeout.
pub fn refresh_map(shared: &Arc<NodeState>, timeout: Duration) {
    let interface = shared.config.interface;
    let is_known_here = shared.interface.is_some();
    if is_known_here || !shared.peers.is_linked(interface) || !shared.peers.has_joined() {
        return;
    }
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    shared.peers.ask_then(interface, Request::Map, move |answer| {
        // The receiver is gone after the timeout.
        let _ = send.lock().send(answer);
    });
    if let Ok(Ok(answer)) = receive.recv_timeout(timeout)
        && let Ok(Reply::Map(map)) = answer.result
    {
        adopt_map(shared, map);
    }
}

/// Takes over the map of the interface node.
fn adopt_map(shared: &NodeState, mut map: ClusterMap) {
    let mut known = shared.map.write();
    if map.nodes.len() != known.nodes.len() {
        tracing::warn!("the configuration of the interface node differs from that of this node");
        return;
    }
    for (number, node) in map.nodes.iter_mut().enumerate() {
        if number == shared.me {
            node.address = known.nodes[number].address.clone();
        } else if let Ok(address) = node.address.parse() {
            shared.peers.set_address(number, address);
        }
    }
    if *known == map {
        return;
    }
    *known = map;
    drop(known);
    save_map(shared);
}

fn map_path(shared: &NodeState) -> PathBuf {
    shared.node().data.join("cluster.map")
}

/// Writes the map to its file. A node that cannot write it learns the map again at the next start.
///
/// Nodes may join at the same time. The lock makes each writer read the map after the previous one
/// has finished, so the last one writes all changes.
fn save_map(shared: &NodeState) {
    let _one_at_a_time = shared.map_file.lock();
    let map = shared.map.read().clone();
    let path = map_path(shared);
    let new = path.with_extension("new");
    let kept = postcard::to_allocvec(&map).map_err(|error| error.to_string()).and_then(|bytes| {
        private_files::replace(&path, &new, &bytes).map_err(|error| error.to_string())
    });
    if let Err(error) = kept {
        tracing::warn!("{} cannot be written: {error}", path.display());
    }
}
