//! Handing out descriptors of flat subfiles to clients on the same machine, which then read and
//! write by themselves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pario_flow::RunningProgram;
use pario_net::{DescriptorServer, User};
use pario_proto::{
    DescriptorAnswer, DescriptorRequest, Failure, Grant, SubfileLocation, TrafficAnswer,
};
use pario_store::FlatFile;
use parking_lot::Mutex;

use super::socket_mode;
use crate::config::ShortCut;
use crate::node_state::NodeState;
use crate::program::{NodeTask, Operations};

/// The most descriptors of one file that a client gets; wider files go over the node.
const PARTS_LIMIT: usize = 256;

type Handed = Result<(Vec<u8>, Vec<OwnedFd>), Vec<u8>>;

/// How long a disk may take for subfiles that are to be handed out. The thread that hands them out
/// is the only one: who wants them of a slower disk goes over the node.
const MAKE_WAIT: Duration = Duration::from_secs(1);

/// Opens the socket for descriptors, beside the node's own.
pub fn open(
    shared: &Arc<NodeState>,
    run: Arc<RunningProgram>,
    operations: Operations,
) -> io::Result<DescriptorServer> {
    let path = socket_path(shared);
    let all_users = shared.node().all_users;
    let shared = shared.clone();
    let mode = socket_mode(shared.node());
    let door = DescriptorServer::open(&path, all_users, move |user: &User, request: &[u8]| {
        let asked = decode(request)?;
        let make = |grant: &Grant, parts| make(&shared, &run, &operations, grant, parts);
        give(&shared, user.uid, &asked, make).map_err(|failure| {
            let client = format!("process {}", user.pid);
            shared.audit.note_failure(Some(user.uid), &client, &failure);
            shared.events.note_failure(Some(user.uid), &client, &failure);
            encode(&failure)
        })
    })?;
    std::fs::set_permissions(&path, mode)?;
    Ok(door)
}

/// Has subfiles made and opened by the clerks, and waits for a limited time.
fn make(
    shared: &Arc<NodeState>,
    run: &RunningProgram,
    operations: &Operations,
    grant: &Grant,
    parts: Vec<(usize, SubfileLocation)>,
) -> Result<(), Failure> {
    let slow = |disk: usize| Failure::Refused {
        node: shared.name().to_owned(),
        why: format!("disk {} takes too long", shared.disks.disk(disk).name),
    };
    let mut waiting = Vec::new();
    for (disk, part) in parts {
        let load = &shared.disks.disk(disk).load;
        if load.has_late_subfiles() {
            return Err(slow(disk));
        }
        let (send, receive) = mpsc::channel();
        let work = NodeTask::Make { grant: grant.clone(), parts: vec![(disk, part)] };
        let (late, of) = (Arc::new(Mutex::new(Some(false))), shared.clone());
        let is_late = late.clone();
        let begun = run.start_then(operations.perform_task, work, move |answer| {
            let answer = answer.map_err(|error| error.to_string()).map(|answer| answer.result);
            let _ = send.send(answer);
            if is_late.lock().take() == Some(true) {
                of.disks.disk(disk).load.clear_late();
            }
        });
        begun.map_err(|_| Failure::Stopping { node: shared.name().to_owned() })?;
        waiting.push((disk, receive, late));
    }
    let deadline = Instant::now() + MAKE_WAIT;
    for (disk, receive, late) in waiting {
        match receive.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(result)) => result.map(|_| ())?,
            Ok(Err(why)) => {
                return Err(Failure::Internal { node: shared.name().to_owned(), why });
            }
            Err(_) => {
                // Unless it has come at this moment, it is remembered until it comes.
                if let Some(is_late) = late.lock().as_mut() {
                    *is_late = true;
                    shared.disks.disk(disk).load.note_late();
                }
                return Err(slow(disk));
            }
        }
    }
    Ok(())
}

/// Where the socket for descriptors is.
pub fn socket_path(shared: &NodeState) -> std::path::PathBuf {
    let mut path = shared.node().socket.clone().into_os_string();
    path.push("-files");
    path.into()
}

/// Hands out descriptors within this process.
pub fn hand_out(shared: &Arc<NodeState>, request: &[u8]) -> Handed {
    // Who asks waits in its own thread, and holds up nobody.
    let uid = User::own().uid;
    give(shared, uid, &decode(request)?, |_, _| Ok(())).map_err(|failure| encode(&failure))
}

fn give(
    shared: &Arc<NodeState>,
    uid: u32,
    asked: &DescriptorRequest,
    make: impl FnOnce(&Grant, Vec<(usize, SubfileLocation)>) -> Result<(), Failure>,
) -> Result<(Vec<u8>, Vec<OwnedFd>), Failure> {
    let _ticket = shared.begin()?;
    let refused =
        |why: &str| Failure::Refused { node: shared.name().to_owned(), why: why.to_owned() };
    let (grant, parts) = match asked {
        DescriptorRequest::Subfiles { grant, parts } => (grant, parts),
        DescriptorRequest::Memory(id) => {
            let memory = shared.job_memories.share(*id, uid);
            return Ok((Vec::new(), vec![memory.map_err(|error| refused(&error.to_string()))?]));
        }
        DescriptorRequest::Traffic => {
            let traffic = &shared.short_cut_traffic;
            let table = traffic.add(&shared.quotas.account(uid), Instant::now())?;
            let infos = shared.disks.infos().into_iter().take(traffic.disks());
            let answer = TrafficAnswer { disks: infos.map(|disk| disk.id).collect() };
            return Ok((encode(&answer), vec![table]));
        }
    };
    if grant.uid != uid && uid != 0 {
        let why = "it was given to another user".to_owned();
        return Err(Failure::BadGrant { file: grant.file, why });
    }
    let write = grant.access.write;
    match shared.node().short_cut {
        ShortCut::Write => {}
        ShortCut::Read if !write => {}
        ShortCut::Read => return Err(refused("its descriptors are for reading only")),
        ShortCut::Off => return Err(refused("it hands out no descriptors")),
    }
    let lease = shared.leases.number(grant.file).map_err(|error| refused(&error.to_string()))?;
    shared.check_grant(grant, !write, write)?;
    if parts.len() > PARTS_LIMIT {
        return Err(refused("too many descriptors are asked for"));
    }
    let mut closed = Vec::new();
    for part in parts {
        let disk = shared.disks.number_of(part.disk)?;
        if shared.disks.disk(disk).is_slow {
            return Err(refused("a disk behaves like a slower one, and nobody may go around it"));
        }
        if !shared.disks.disk(disk).has_open(grant.file, part.subfile.0) {
            closed.push((disk, *part));
        }
    }
    if !closed.is_empty() {
        make(grant, closed)?;
    }
    let leases = shared.leases.share().map_err(|error| refused(&error.to_string()))?;
    let mut descriptors = vec![leases];
    for part in parts {
        let disk = shared.disks.disk(shared.disks.number_of(part.disk)?);
        let id = pario_store::SubfileId::data(grant.file.0, part.subfile.0);
        let shared_file =
            shared.flat_or_create(disk, grant, *part)?.share(grant.access.read, write);
        match shared_file.map_err(|error| disk.failure(error, id, "share it"))? {
            Some(descriptor) => descriptors.push(descriptor),
            None => return Err(refused("the disk has no files")),
        }
    }
    let answer = DescriptorAnswer { data_start_bytes: FlatFile::DATA_START_BYTES, lease };
    Ok((encode(&answer), descriptors))
}

fn decode(request: &[u8]) -> Result<DescriptorRequest, Vec<u8>> {
    postcard::from_bytes(request)
        .map_err(|error| encode(&Failure::Invalid(format!("the request is malformed: {error}"))))
}

fn encode<T: serde::Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap_or_default()
}
