//! Numbers of disks.
//!
//! Invariant: a number belongs to one disk for ever, known by its uuid, because layouts refer to it.

use pario_proto::{DiskId, Failure};

use super::handle::Namespace;
use super::key;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, counter, inconsistent};

impl Namespace {
    /// Passes the number of a disk to `done`; an unknown disk gets the next one.
    pub fn register_disk(
        &self,
        uuid: u128,
        done: impl FnOnce(Result<DiskId, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            let key = key::disk(uuid);
            if let Some(value) = transaction.snapshot().get(&key)? {
                return disk_id(uuid, &value);
            }
            let next = counter(transaction.snapshot(), key::DISKS)?;
            let id = u32::try_from(next)
                .map_err(|_| Failure::Invalid("all numbers for disks are used".to_owned()))?;
            transaction.put_counter(key::DISKS, next + 1);
            transaction.put(&key, id.to_be_bytes().to_vec());
            Ok(DiskId(id))
        };
        self.transact(body, done);
    }

    /// Gives a disk the number that the layouts on the disks use for it, while the namespace is
    /// rebuilt. Fails if the number or the disk is taken.
    pub fn restore_disk(
        &self,
        uuid: u128,
        id: DiskId,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            for (key, value) in transaction.snapshot().range(b"d", b"e", usize::MAX)? {
                let (other, number) = known_disk(&key, &value)?;
                if (other == uuid) != (number == id) {
                    let why = format!("{id} cannot be {uuid:032x}: {number} is {other:032x}");
                    return Err(Failure::Invalid(why).into());
                }
            }
            let next = counter(transaction.snapshot(), key::DISKS)?.max(u64::from(id.0) + 1);
            transaction.put_counter(key::DISKS, next);
            transaction.put(&key::disk(uuid), id.0.to_be_bytes().to_vec());
            Ok(())
        };
        self.transact(body, done);
    }

    /// Returns the registered disks.
    pub fn disks(&self) -> Result<Vec<(u128, DiskId)>, Failure> {
        self.read(|snapshot| {
            let pairs = snapshot.range(b"d", b"e", usize::MAX)?;
            pairs.iter().map(|(key, value)| known_disk(key, value)).collect()
        })
    }
}

fn known_disk(key: &[u8], value: &[u8]) -> Result<(u128, DiskId), NamespaceError> {
    let uuid = key::id_in(key).ok_or_else(|| inconsistent("a disk has no uuid".to_owned()))?;
    Ok((uuid, disk_id(uuid, value)?))
}

fn disk_id(uuid: u128, value: &[u8]) -> Result<DiskId, NamespaceError> {
    let bytes = value.try_into();
    let wrong = |_| inconsistent(format!("the number of disk {uuid:032x} cannot be read"));
    Ok(DiskId(u32::from_be_bytes(bytes.map_err(wrong)?)))
}
