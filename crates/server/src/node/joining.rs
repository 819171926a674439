//! How nodes find each other: every node tells the interface node which disks it has, and learns
//! their ids and where the others are.
//!
//! What was learnt is kept in a file, so that a node knows its disks also if it starts while the
//! interface node is away. It accepts no grant then before it has joined: only the interface node
//! knows which were revoked.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pario_proto::{ClusterMap, DiskId, Failure, NodeInfo, PeerRequest, Reply, Request};
use parking_lot::Mutex;

use super::{informing, wait_for};
use crate::disks::NO_ID;
use crate::private_files;
use crate::shared::{Names, Shared};

/// Recalls what was learnt before.
pub fn recall_map(shared: &Shared) {
    let Ok(bytes) = fs::read(map_path(shared)) else { return };
    let Ok(known) = postcard::from_bytes::<ClusterMap>(&bytes) else {
        tracing::warn!("{} is not readable and not used", map_path(shared).display());
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

/// The interface node's own disks get their ids.
pub fn enter_own_disks(shared: &Arc<Shared>) -> Result<(), Failure> {
    let own = NodeInfo {
        name: shared.name().to_owned(),
        address: shared.map.read().nodes[shared.me].address.clone(),
        disks: shared.disks.infos(),
    };
    enter(shared, own).map(|_| ())
}

/// A node joins: its disks get their ids, and it is told of the others. Runs at the interface
/// node, in a thread that may wait.
pub fn enter(shared: &Arc<Shared>, mut joined: NodeInfo) -> Result<Reply, Failure> {
    let names = shared.names()?;
    let Some(number) = shared.config.nodes.iter().position(|node| node.name == joined.name) else {
        return Err(Failure::Refused {
            node: shared.name().to_owned(),
            why: format!("the cluster has no node named {}", joined.name),
        });
    };
    for disk in &mut joined.disks {
        disk.id = id_of(shared, names, disk.uuid, disk.id)?;
    }
    // Who finds it in the map can reach it.
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
    keep_map(shared);
    if number != shared.me {
        shared.rebuild.note_join(number);
    }
    if number == shared.me {
        shared.disks.set_ids(&joined.disks);
    } else {
        names.describer.joined();
    }
    Ok(Reply::Joined { map, node: joined })
}

fn id_of(shared: &Shared, names: &Names, uuid: u128, hint: DiskId) -> Result<DiskId, Failure> {
    let gone = || Failure::Internal {
        node: shared.name().to_owned(),
        why: "the namespace is gone".to_owned(),
    };
    let known = names.namespace.disks()?;
    if let Some((_, id)) = known.iter().find(|(known, _)| *known == uuid) {
        return Ok(*id);
    }
    // The namespace was lost, and the disk is not new: its files know it by this id.
    if hint != NO_ID && !known.iter().any(|(_, id)| *id == hint) {
        wait_for(|done| names.namespace.restore_disk(uuid, hint, done)).ok_or_else(gone)??;
        return Ok(hint);
    }
    wait_for(|done| names.namespace.register_disk(uuid, done)).ok_or_else(gone)?
}

/// Joins the interface node, again if the link was lost.
pub fn stay_joined(shared: &Arc<Shared>) {
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
            learn_map(shared, map);
            match informing::load_revocations(shared) {
                Ok(()) => shared.peers.set_joined(connection),
                Err(failure) => tracing::warn!(%failure, "revocations could not be loaded"),
            }
        }
        Some(Err(failure)) => tracing::warn!(%failure, "this node could not join"),
        _ => tracing::warn!("the interface node gave no sensible answer"),
    }
}

/// Learns from the interface node which nodes have joined since, if it answers soon.
pub fn renew_map(shared: &Arc<Shared>, patience: Duration) {
    let interface = shared.config.interface;
    let is_known_here = shared.names.is_some();
    if is_known_here || !shared.peers.is_linked(interface) || !shared.peers.has_joined() {
        return;
    }
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    shared.peers.ask_then(interface, Request::Map, move |answer| {
        // Nobody waits any more if it has taken too long.
        let _ = tell.lock().send(answer);
    });
    if let Ok(Ok(answer)) = told.recv_timeout(patience)
        && let Ok(Reply::Map(map)) = answer.result
    {
        learn_map(shared, map);
    }
}

/// Takes over what the interface node knows of the others.
fn learn_map(shared: &Shared, mut map: ClusterMap) {
    let mut known = shared.map.write();
    if map.nodes.len() != known.nodes.len() {
        tracing::warn!("the interface node has another configuration than this node");
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
    keep_map(shared);
}

fn map_path(shared: &Shared) -> PathBuf {
    shared.node().data.join("cluster.map")
}

/// Writes the map to its file. A map that cannot be kept is learnt again at the next start.
///
/// Nodes may join at the same time. Each writer waits for the one before and writes the map as it
/// is then, so that the last one writes what all have changed.
fn keep_map(shared: &Shared) {
    let _one_at_a_time = shared.map_file.lock();
    let map = shared.map.read().clone();
    let path = map_path(shared);
    let making = path.with_extension("new");
    let kept = postcard::to_allocvec(&map).map_err(|error| error.to_string()).and_then(|bytes| {
        private_files::replace(&path, &making, &bytes).map_err(|error| error.to_string())
    });
    if let Err(error) = kept {
        tracing::warn!("{} cannot be written: {error}", path.display());
    }
}
