//! Handing out descriptors of flat subfiles to clients on the same machine, which then read and
//! write by themselves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pario_net::{DescriptorDoor, User};
use pario_proto::{DescriptorAnswer, DescriptorRequest, Failure};
use pario_store::FlatFile;

use crate::shared::Shared;

/// The most descriptors of one file that a client gets; wider files go over the node.
const PARTS_LIMIT: usize = 256;

type Handed = Result<(Vec<u8>, Vec<OwnedFd>), Vec<u8>>;

/// Opens the socket for descriptors, beside the node's own.
pub fn open(shared: &Arc<Shared>) -> io::Result<DescriptorDoor> {
    let path = socket_path(shared);
    let all_users = shared.node().all_users;
    let shared = shared.clone();
    DescriptorDoor::open(&path, all_users, move |user: &User, request: &[u8]| {
        let asked = decode(request)?;
        if asked.grant.uid != user.uid && user.uid != 0 {
            let why = "it was given to another user".to_owned();
            return Err(encode(&Failure::BadGrant { file: asked.grant.file, why }));
        }
        give(&shared, &asked).map_err(|failure| encode(&failure))
    })
}

/// Where the socket for descriptors is.
pub fn socket_path(shared: &Shared) -> std::path::PathBuf {
    let mut path = shared.node().socket.clone().into_os_string();
    path.push("-files");
    path.into()
}

/// Hands out descriptors within this process.
pub fn hand_out(shared: &Arc<Shared>, request: &[u8]) -> Handed {
    give(shared, &decode(request)?).map_err(|failure| encode(&failure))
}

fn give(
    shared: &Arc<Shared>,
    asked: &DescriptorRequest,
) -> Result<(Vec<u8>, Vec<OwnedFd>), Failure> {
    let _ticket = shared.begin()?;
    let DescriptorRequest { grant, parts } = asked;
    let write = grant.access.write;
    let refused =
        |why: &str| Failure::Refused { node: shared.name().to_owned(), why: why.to_owned() };
    let lease = shared.leases.number(grant.file).map_err(|error| refused(&error.to_string()))?;
    shared.check_grant(grant, !write, write)?;
    if parts.len() > PARTS_LIMIT {
        return Err(refused("too many descriptors are asked for"));
    }
    let leases = shared.leases.share().map_err(|error| refused(&error.to_string()))?;
    let mut descriptors = vec![leases];
    for part in parts {
        let disk = shared.disks.disk(shared.disks.number_of(part.disk)?);
        let id = pario_store::SubfileId::data(grant.file.0, part.subfile.0);
        let shared_file = shared.flat_made(disk, grant, *part)?.share(grant.access.read, write);
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
