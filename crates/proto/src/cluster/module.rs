//! Operations that arrive as WebAssembly modules: records, names and requests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::record::Identity;

/// The longest name of a module.
pub const MODULE_NAME_LIMIT_BYTES: usize = 64;

/// The hash (BLAKE3) of the bytes of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModuleHash(pub [u8; 32]);

/// A module that the cluster stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// The name of the operation.
    pub name: String,
    /// 1 for the first module of this name, one more for each that replaces it.
    pub version: u32,
    /// The hash of the bytes.
    pub hash: ModuleHash,
    /// The number of bytes.
    pub len_bytes: u64,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The permissions: to read the bytes, to replace the module, to call the operation.
    pub mode: u32,
    /// When this version was added, in nanoseconds since 1970.
    pub added_ns: u64,
    /// The functions that the module exports for nodes.
    pub functions: Vec<String>,
}

/// One of the three permissions of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulePermission {
    /// To read its bytes.
    Read = 4,
    /// To replace it.
    Write = 2,
    /// To call the operation.
    Execute = 1,
}

/// The name of a module, with or without a version: `threshold` or `threshold@3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleReference {
    /// The name.
    pub name: String,
    /// The only version that will do.
    pub version: Option<u32>,
}

/// A request about modules, for the interface node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModuleRequest {
    /// Stores the module in the data, or replaces the one of this name.
    Add {
        /// The name of the operation.
        name: String,
        /// The permissions.
        mode: u32,
    },
    /// Asks for the records of all modules, in the order of names.
    List,
    /// Asks for the record of a module.
    Find {
        /// The name.
        name: String,
    },
    /// Asks for the record and the bytes of a module.
    Fetch {
        /// The name.
        name: String,
    },
    /// Removes a module.
    Remove {
        /// The name.
        name: String,
    },
}

impl ModuleRecord {
    /// Whether the mode grants a user a permission. Only the owner's bits count for the owner.
    pub fn allows(&self, who: &Identity, permission: ModulePermission) -> bool {
        let shift = if who.uid == self.uid {
            6
        } else if who.gids.contains(&self.gid) {
            3
        } else {
            0
        };
        who.is_root() || self.mode >> shift & permission as u32 != 0
    }
}

impl ModuleReference {
    /// Reads the name of an operation; `None` if no module can have it.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.parse().ok()?)),
            None => (text, None),
        };
        is_module_name(name).then(|| Self { name: name.to_owned(), version })
    }
}

/// Whether a module can have a name: letters, digits, `-`, `_` and `.`, at most
/// [`MODULE_NAME_LIMIT_BYTES`].
pub fn is_module_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MODULE_NAME_LIMIT_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}

impl fmt::Display for ModuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for ModuleReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_a_name_and_perhaps_a_version() {
        let parsed = |text: &str| ModuleReference::parse(text).map(|parsed| parsed.to_string());
        for text in ["threshold", "a-b_c.9@4294967295", &"x".repeat(64)] {
            assert_eq!(parsed(text).as_deref(), Some(text));
        }
        for text in ["", "byte histogram", "a/b", "a@", "a@-1", "a@1@2", "ä", &"x".repeat(65)] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn owner_group_and_others_have_their_own_bits() {
        let record = ModuleRecord {
            name: "x".to_owned(),
            version: 1,
            hash: ModuleHash([0; 32]),
            len_bytes: 8,
            uid: 7,
            gid: 70,
            mode: 0o641,
            added_ns: 0,
            functions: Vec::new(),
        };
        let rights = |uid, gid| {
            let who = Identity { uid, gids: vec![gid] };
            let all = [ModulePermission::Read, ModulePermission::Write, ModulePermission::Execute];
            all.map(|permission| record.allows(&who, permission))
        };
        assert_eq!(rights(7, 70), [true, true, false]);
        assert_eq!(rights(8, 70), [true, false, false]);
        assert_eq!(rights(8, 71), [false, false, true]);
        assert_eq!(rights(0, 0), [true; 3]);
    }
}
