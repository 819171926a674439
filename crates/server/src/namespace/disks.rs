//! Numbers of disks.
//!
//! Invariant: a number is given to one disk only, known by its uuid, and never taken back, since
//! layouts refer to it.

use pario_proto::{DiskId, Failure};

use super::change::Change;
use super::handle::Namespace;
use super::key;
use super::tree::{Stop, counter, inconsistent};

impl Namespace {
    /// The number of a disk; a disk that is not known gets the next one.
    pub fn register_disk(
        &self,
        uuid: u128,
        done: impl FnOnce(Result<DiskId, Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            let key = key::disk(uuid);
            if let Some(value) = change.state().get(&key)? {
                return disk_id(uuid, &value);
            }
            let next = counter(change.state(), key::DISKS)?;
            let id = u32::try_from(next)
                .map_err(|_| Failure::Invalid("there are no more numbers for disks".to_owned()))?;
            change.put_counter(key::DISKS, next + 1);
            change.put(&key, id.to_be_bytes().to_vec());
            Ok(DiskId(id))
        };
        self.change(body, done);
    }

    /// Gives a disk the number that layouts on the disks use for it, in a namespace that is made
    /// anew. Fails if the number or the disk is taken.
    pub fn restore_disk(
        &self,
        uuid: u128,
        id: DiskId,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |change: &mut Change<'_>| {
            for (key, value) in change.state().range(b"d", b"e", usize::MAX)? {
                let (other, number) = known_disk(&key, &value)?;
                if (other == uuid) != (number == id) {
                    let why = format!("{id} cannot be {uuid:032x}: {number} is {other:032x}");
                    return Err(Failure::Invalid(why).into());
                }
            }
            let next = counter(change.state(), key::DISKS)?.max(u64::from(id.0) + 1);
            change.put_counter(key::DISKS, next);
            change.put(&key::disk(uuid), id.0.to_be_bytes().to_vec());
            Ok(())
        };
        self.change(body, done);
    }

    /// The disks that are known.
    pub fn disks(&self) -> Result<Vec<(u128, DiskId)>, Failure> {
        self.look(|state| {
            let pairs = state.range(b"d", b"e", usize::MAX)?;
            pairs.iter().map(|(key, value)| known_disk(key, value)).collect()
        })
    }
}

fn known_disk(key: &[u8], value: &[u8]) -> Result<(u128, DiskId), Stop> {
    let uuid = key::id_in(key).ok_or_else(|| inconsistent("a disk has no uuid".to_owned()))?;
    Ok((uuid, disk_id(uuid, value)?))
}

fn disk_id(uuid: u128, value: &[u8]) -> Result<DiskId, Stop> {
    let bytes = value.try_into();
    let wrong = |_| inconsistent(format!("the number of disk {uuid:032x} cannot be read"));
    Ok(DiskId(u32::from_be_bytes(bytes.map_err(wrong)?)))
}
