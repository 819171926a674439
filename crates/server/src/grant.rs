//! Giving grants, and checking them without asking anybody.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pario_net::Key;
use pario_proto::{Access, Deed, FileId, FilePath, FileRecord, Grant, SealedDeed};

/// The secret that all nodes of a cluster share.
pub struct GrantKey([u8; 32]);

impl GrantKey {
    /// The secret that follows from the key of the cluster.
    pub fn of_cluster(key: &Key) -> Self {
        Self(blake3::derive_key("pario 2026 grants of a cluster", key.to_hex().as_bytes()))
    }

    /// The secret of a node that has no cluster key: kept in a file that only its user can read.
    pub fn of_node(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(bytes) => match <[u8; 32]>::try_from(bytes) {
                Ok(secret) => Ok(Self(secret)),
                Err(_) => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} does not hold 32 bytes; remove it", path.display()),
                )),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = blake3::derive_key(
                    "pario 2026 grants of a node",
                    Key::random().to_hex().as_bytes(),
                );
                let making = path.with_extension("new");
                let mut options = fs::OpenOptions::new();
                let options = options.write(true).create(true).truncate(true).mode(0o600);
                let mut file = options.open(&making)?;
                file.write_all(&secret)?;
                file.sync_all()?;
                fs::rename(&making, path)?;
                Ok(Self(secret))
            }
            Err(error) => Err(error),
        }
    }

    /// A grant for a user.
    pub fn grant(
        &self,
        file: FileId,
        uid: u32,
        access: Access,
        rights_version: u32,
        epoch: u64,
    ) -> Grant {
        let (seal, deed) = ([0; 32], None);
        let mut grant = Grant { file, uid, access, rights_version, epoch, seal, deed };
        grant.seal = *self.seal(&grant).as_bytes();
        grant
    }

    /// The same right, as of another epoch.
    pub fn reissue(&self, grant: &Grant, epoch: u64) -> Grant {
        let Grant { file, uid, access, rights_version, .. } = *grant;
        let fresh = self.grant(file, uid, access, rights_version, epoch);
        Grant { deed: grant.deed.clone(), ..fresh }
    }

    /// Whether the grant was given by a node of this cluster, just so.
    pub fn is_genuine(&self, grant: &Grant) -> bool {
        // Comparing hashes takes the same time wherever they differ.
        self.seal(grant) == blake3::Hash::from_bytes(grant.seal)
    }

    /// The deed of a file; none if it has no subfile that may have to be made.
    pub fn deed(&self, path: &FilePath, record: &FileRecord) -> Option<SealedDeed> {
        if record.is_all_settled() {
            return None;
        }
        let deed = Deed { path: path.clone(), record: record.clone() };
        let deed = postcard::to_allocvec(&deed).ok()?;
        let seal = *self.deed_seal(&deed).as_bytes();
        Some(SealedDeed { deed, seal })
    }

    /// What a deed says, if a node of this cluster has written it.
    pub fn open_deed(&self, sealed: &SealedDeed) -> Option<Deed> {
        let is_genuine = self.deed_seal(&sealed.deed) == blake3::Hash::from_bytes(sealed.seal);
        if is_genuine { postcard::from_bytes(&sealed.deed).ok() } else { None }
    }

    fn deed_seal(&self, deed: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&blake3::derive_key("pario 2026 deeds", &self.0), deed)
    }

    fn seal(&self, grant: &Grant) -> blake3::Hash {
        blake3::keyed_hash(&self.0, &grant.sealed_bytes())
    }
}

impl fmt::Debug for GrantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::{DiskId, Disks, FileKind, Part, Striped, SubfileIndex};

    use super::*;

    #[test]
    fn no_field_of_a_grant_can_be_changed() {
        let key = GrantKey::of_cluster(&Key::from_bytes([7; 32]));
        let grant = key.grant(FileId(9), 1000, Access::READ, 3, 50);
        assert!(key.is_genuine(&grant));
        let changed = [
            Grant { file: FileId(8), ..grant.clone() },
            Grant { uid: 0, ..grant.clone() },
            Grant { access: Access::READ_WRITE, ..grant.clone() },
            Grant { access: Access::WRITE, ..grant.clone() },
            Grant { rights_version: 4, ..grant.clone() },
            Grant { epoch: 51, ..grant.clone() },
            Grant { seal: [0; 32], ..grant.clone() },
        ];
        assert!(changed.iter().all(|grant| !key.is_genuine(grant)));
        let other = GrantKey::of_cluster(&Key::from_bytes([8; 32]));
        assert!(!other.is_genuine(&grant));
        let fresh = key.reissue(&grant, 51);
        assert!(key.is_genuine(&fresh) && fresh.epoch == 51);
    }

    #[test]
    fn no_byte_of_a_deed_can_be_changed() {
        let key = GrantKey::of_cluster(&Key::from_bytes([7; 32]));
        let disks = Disks::new([DiskId(3), DiskId(4)]).unwrap();
        let mut record = FileRecord {
            id: FileId(9),
            kind: FileKind::Flat,
            layout: Some(Striped::new(65_536, disks).unwrap().into()),
            uid: 1000,
            gid: 1000,
            mode: 0o644,
            created_ns: 1,
            changed_ns: 2,
            rights_version: 0,
            settled: Vec::new(),
        };
        record.settle(1);
        let path = FilePath::new("/a/b").unwrap();
        let sealed = key.deed(&path, &record).unwrap();
        let deed = key.open_deed(&sealed).unwrap();
        assert_eq!((&deed.path, &deed.record), (&path, &record));
        let part = |disk, subfile| Part { disk: DiskId(disk), subfile: SubfileIndex(subfile) };
        assert!(deed.covers(part(3, 0)));
        assert!(!deed.covers(part(4, 1)), "it is settled");
        assert!(!deed.covers(part(4, 0)) && !deed.covers(part(5, 2)), "not its disk");
        for byte in 0..sealed.deed.len() {
            let mut changed = sealed.clone();
            changed.deed[byte] ^= 1;
            assert_eq!(key.open_deed(&changed), None);
        }
        let other = GrantKey::of_cluster(&Key::from_bytes([8; 32]));
        assert_eq!(other.open_deed(&sealed), None);
        record.settle(0);
        assert_eq!(key.deed(&path, &record), None, "nothing is left to be made");
    }

    #[test]
    fn the_secret_of_a_node_stays_and_nobody_else_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("grants.key");
        let first = GrantKey::of_node(&path).unwrap();
        let second = GrantKey::of_node(&path).unwrap();
        assert_eq!(first.0, second.0);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&path, b"short").unwrap();
        assert!(GrantKey::of_node(&path).unwrap_err().to_string().contains("32 bytes"));
    }
}
