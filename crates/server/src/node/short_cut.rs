//! The short cut: passes descriptors of flat subfiles to clients on the same machine, which then
//! read and write by themselves.

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

/// The limit of descriptors of one file that a client gets; clients access wider files through the
/// node.
const PARTS_LIMIT: usize = 256;

type PassedDescriptors = Result<(Vec<u8>, Vec<OwnedFd>), Vec<u8>>;

/// How long a disk may take to create and open subfiles for the short cut. A single thread passes
/// all descriptors, so clients access files on a slower disk through the node.
const CREATE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens the descriptor socket beside the socket of the node.
pub fn open(
    shared: &Arc<NodeState>,
    run: Arc<RunningProgram>,
    operations: Operations,
) -> io::Result<DescriptorServer> {
    let path = socket_path(shared);
    let all_users = shared.node().all_users;
    let shared = shared.clone();
    let mode = socket_mode(shared.node());
    let server = DescriptorServer::open(&path, all_users, move |user: &User, request: &[u8]| {
        let decoded = decode(request)?;
        let create =
            |grant: &Grant, parts| create_subfiles(&shared, &run, &operations, grant, parts);
        pass_descriptors(&shared, user.uid, &decoded, create).map_err(|failure| {
            let client = format!("process {}", user.pid);
            shared.audit.note_failure(Some(user.uid), &client, &failure);
            shared.events.note_failure(Some(user.uid), &client, &failure);
            encode(&failure)
        })
    })?;
    std::fs::set_permissions(&path, mode)?;
    Ok(server)
}

/// Has subfiles created and opened in the lanes of their disks, and waits for a limited time.
fn create_subfiles(
    shared: &Arc<NodeState>,
    run: &RunningProgram,
    operations: &Operations,
    grant: &Grant,
    parts: Vec<(usize, SubfileLocation)>,
) -> Result<(), Failure> {
    let slow = |disk: usize| Failure::Refused {
        node: shared.name().to_owned(),
        why: format!("disk {} takes too long to open subfiles", shared.disks.disk(disk).name),
    };
    let mut waiting = Vec::new();
    for (disk, part) in parts {
        let load = &shared.disks.disk(disk).load;
        if load.has_late_subfiles() {
            return Err(slow(disk));
        }
        let (send, receive) = mpsc::channel();
        let task = NodeTask::Create { grant: grant.clone(), parts: vec![(disk, part)] };
        let (late, of) = (Arc::new(Mutex::new(Some(false))), shared.clone());
        let is_late = late.clone();
        let started = run.start_then(operations.perform_task, task, move |answer| {
            let answer = answer.map_err(|error| error.to_string()).map(|answer| answer.result);
            let _ = send.send(answer);
            if is_late.lock().take() == Some(true) {
                of.disks.disk(disk).load.clear_late();
            }
        });
        started.map_err(|_| Failure::Stopping { node: shared.name().to_owned() })?;
        waiting.push((disk, receive, late));
    }
    let deadline = Instant::now() + CREATE_TIMEOUT;
    for (disk, receive, late) in waiting {
        match receive.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(result)) => result.map(|_| ())?,
            Ok(Err(why)) => {
                return Err(Failure::Internal { node: shared.name().to_owned(), why });
            }
            Err(_) => {
                // Marks the disk as late until the reply arrives, unless it has arrived by now.
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

/// Returns the path of the descriptor socket.
pub fn socket_path(shared: &NodeState) -> std::path::PathBuf {
    let mut path = shared.node().socket.clone().into_os_string();
    path.push("-files");
    path.into()
}

/// Passes descriptors within this process.
pub fn pass_in_process(shared: &Arc<NodeState>, request: &[u8]) -> PassedDescriptors {
    // The caller waits in its own thread, so the wait delays no other client.
    let uid = User::own().uid;
    pass_descriptors(shared, uid, &decode(request)?, |_, _| Ok(()))
        .map_err(|failure| encode(&failure))
}

fn pass_descriptors(
    shared: &Arc<NodeState>,
    uid: u32,
    request: &DescriptorRequest,
    create: impl FnOnce(&Grant, Vec<(usize, SubfileLocation)>) -> Result<(), Failure>,
) -> Result<(Vec<u8>, Vec<OwnedFd>), Failure> {
    let _ticket = shared.begin()?;
    let refused =
        |why: &str| Failure::Refused { node: shared.name().to_owned(), why: why.to_owned() };
    let (grant, parts) = match request {
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
        ShortCut::Read => return Err(refused("its short cut is for reading only")),
        ShortCut::Off => return Err(refused("its short cut is off")),
    }
    let lease = shared.leases.number(grant.file).map_err(|error| refused(&error.to_string()))?;
    shared.check_grant(grant, !write, write)?;
    if parts.len() > PARTS_LIMIT {
        return Err(refused(&format!("a client gets at most {PARTS_LIMIT} descriptors of a file")));
    }
    let mut closed = Vec::new();
    for part in parts {
        let disk = shared.disks.number_of(part.disk)?;
        if shared.disks.disk(disk).is_slow {
            return Err(refused("a disk is configured as a slower one, which has no short cut"));
        }
        if !shared.disks.disk(disk).has_open(grant.file, part.subfile.0) {
            closed.push((disk, *part));
        }
    }
    if !closed.is_empty() {
        create(grant, closed)?;
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
            None => return Err(refused("the disk has no files whose descriptors could be passed")),
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
