//! Issuing grants, and verifying them locally.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pario_net::Key;
use pario_proto::{Access, FileId, Grant};

/// The secret that all nodes of a cluster share.
pub struct GrantKey([u8; 32]);

impl GrantKey {
    /// Derives the secret from the key of the cluster.
    pub fn of_cluster(key: &Key) -> Self {
        Self(blake3::derive_key("pario 2026 grants of a cluster", key.to_hex().as_bytes()))
    }

    /// Reads the secret of a node without a cluster key from a file that only its user can read, and
    /// creates the file if it is missing.
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

    /// Issues a grant for a user.
    pub fn grant(
        &self,
        file: FileId,
        uid: u32,
        access: Access,
        rights_version: u32,
        epoch: u64,
    ) -> Grant {
        let mut grant = Grant { file, uid, access, rights_version, epoch, seal: [0; 32] };
        grant.seal = *self.seal(&grant).as_bytes();
        grant
    }

    /// Issues the same right again, for another epoch.
    pub fn reissue(&self, grant: &Grant, epoch: u64) -> Grant {
        let Grant { file, uid, access, rights_version, .. } = *grant;
        self.grant(file, uid, access, rights_version, epoch)
    }

    /// Whether a node of this cluster has issued exactly this grant.
    pub fn is_genuine(&self, grant: &Grant) -> bool {
        // The comparison takes constant time.
        self.seal(grant) == blake3::Hash::from_bytes(grant.seal)
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
    fn the_secret_of_a_node_stays_and_no_other_user_can_read_it() {
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
