//! Keys of the metadata store.
//!
//! Invariant: the first byte of a key is its type, and all parts before the last have a fixed
//! length, so no key is ambiguous. Numbers are big endian, so keys sort like ids.

use pario_proto::FileId;

/// Counters over which the number of entries is spread, so that changes in different directories
/// seldom conflict.
pub const COUNT_SHARDS: u8 = 32;

pub const ID_EPOCH: &[u8] = b"cepoch";
pub const FORMAT: &[u8] = b"cformat";
pub const DISKS: &[u8] = b"cdisks";
/// The last file that an upgrade has described.
pub const DESCRIPTION_CURSOR: &[u8] = b"u";
pub const GRANT_EPOCH: &[u8] = b"cgrant epoch";

/// The entry of a name in a directory.
pub fn entry(directory: FileId, name: &str) -> Vec<u8> {
    let mut key = with_id(b'e', directory);
    key.extend(name.as_bytes());
    key
}

/// The first key after all entries of a directory: no name contains this byte.
pub fn end_of_entries(directory: FileId) -> Vec<u8> {
    let mut key = with_id(b'e', directory);
    key.push(0xff);
    key
}

/// The record of a file or directory.
pub fn node(id: FileId) -> Vec<u8> {
    with_id(b'n', id)
}

/// The tombstone of a file.
pub fn tombstone(id: FileId) -> Vec<u8> {
    with_id(b'x', id)
}

/// The entry of a file whose description is pending.
pub fn pending_description(id: FileId) -> Vec<u8> {
    with_id(b'o', id)
}

/// The counter of a file's renames.
pub fn path_version(id: FileId) -> Vec<u8> {
    with_id(b'p', id)
}

/// The revocation of grants of a file, recorded in a grant epoch.
pub fn revocation(epoch: u64, file: FileId) -> Vec<u8> {
    let mut key = revocations_from(epoch);
    key.extend(file.0.to_be_bytes());
    key
}

/// The first key of the revocations of an epoch and of later ones.
pub fn revocations_from(epoch: u64) -> Vec<u8> {
    let mut key = b"r".to_vec();
    key.extend(epoch.to_be_bytes());
    key
}

/// The epoch and the file in the key of a revocation.
pub fn revocation_in(key: &[u8]) -> Option<(u64, FileId)> {
    let (epoch, file) = key.get(1..)?.split_first_chunk()?;
    let file = u128::from_be_bytes(file.try_into().ok()?);
    Some((u64::from_be_bytes(*epoch), FileId(file)))
}

/// The number of a disk.
pub fn disk(uuid: u128) -> Vec<u8> {
    with_id(b'd', FileId(uuid))
}

/// The record of a module.
pub fn module(name: &str) -> Vec<u8> {
    [b"m", name.as_bytes()].concat()
}

/// The bytes of a module.
pub fn module_bytes(name: &str) -> Vec<u8> {
    [b"b", name.as_bytes()].concat()
}

/// The counter of entries of the shard of a directory.
pub fn count(directory: FileId) -> Vec<u8> {
    count_of_shard(directory.0.to_le_bytes()[0] % COUNT_SHARDS)
}

/// The counter of one shard.
pub fn count_of_shard(shard: u8) -> Vec<u8> {
    let mut key = b"ccount".to_vec();
    key.push(shard);
    key
}

/// The first key after a given one.
pub fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The id or uuid in a key that consists of a letter and sixteen bytes.
pub fn id_in(key: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(key.get(1..)?.try_into().ok()?))
}

/// The directory and the name in the key of an entry.
pub fn entry_in(key: &[u8]) -> Option<(FileId, &str)> {
    let (directory, name) = key.get(1..)?.split_first_chunk()?;
    Some((FileId(u128::from_be_bytes(*directory)), std::str::from_utf8(name).ok()?))
}

fn with_id(letter: u8, id: FileId) -> Vec<u8> {
    let mut key = Vec::with_capacity(17 + 32);
    key.push(letter);
    key.extend(id.0.to_be_bytes());
    key
}
