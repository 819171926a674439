//! Modules: operations that arrived as WebAssembly, with their owners and permissions.

use pario_proto::{Failure, Identity, ModuleHash, ModulePermission, ModuleRecord, ModuleReference};

use super::handle::Namespace;
use super::key;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, decode, encode};
use crate::metadata::Snapshot;

/// A module to store. It is compiled and checked.
#[derive(Clone, Debug)]
pub struct NewModule {
    /// The name of the operation.
    pub name: String,
    /// The permissions.
    pub mode: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The hash of the bytes.
    pub hash: ModuleHash,
    /// The functions that it exports for nodes.
    pub functions: Vec<String>,
}

impl Namespace {
    /// Stores a module. A module of the same name is replaced, if the user may write it; it keeps
    /// its owner. The same bytes keep their version.
    pub fn add_module(
        &self,
        who: Identity,
        module: NewModule,
        done: impl FnOnce(Result<ModuleRecord, Failure>) + Send + 'static,
    ) {
        self.transact(move |transaction| add(transaction, &who, &module), done);
    }

    /// Removes a module; only its owner and root may.
    pub fn remove_module(
        &self,
        who: Identity,
        name: String,
        done: impl FnOnce(Result<ModuleRecord, Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            let record = existing(transaction.snapshot(), &name)?;
            if !who.is_root() && who.uid != record.uid {
                return Err(denied(&who, &record, "remove it").into());
            }
            transaction.delete(&key::module(&name));
            transaction.delete(&key::module_bytes(&name));
            Ok(record)
        };
        self.transact(body, done);
    }

    /// Returns the records of all modules in the order of names.
    pub fn modules(&self) -> Result<Vec<ModuleRecord>, Failure> {
        self.read(|snapshot| {
            let pairs = snapshot.range(b"m", b"n", usize::MAX)?;
            pairs.iter().map(|(_, value)| decode(value, || "a module".into())).collect()
        })
    }

    /// Returns the record of a module.
    pub fn module(&self, name: &str) -> Result<ModuleRecord, Failure> {
        self.read(|snapshot| existing(snapshot, name))
    }

    /// Returns the record of a module that a user may call.
    pub fn callable_module(
        &self,
        who: &Identity,
        reference: &ModuleReference,
    ) -> Result<ModuleRecord, Failure> {
        let record = self.module(&reference.name)?;
        if !record.allows(who, ModulePermission::Execute) {
            return Err(denied(who, &record, "call it"));
        }
        match reference.version {
            Some(version) if version != record.version => {
                Err(Failure::NoSuchModule { operation: reference.to_string().into() })
            }
            _ => Ok(record),
        }
    }

    /// Returns the bytes of a module; fails if it has other bytes by now.
    pub fn module_bytes(&self, name: &str, hash: ModuleHash) -> Result<Vec<u8>, Failure> {
        self.read(|snapshot| {
            let missing = || Failure::NoSuchModule { operation: name.into() };
            if existing(snapshot, name)?.hash != hash {
                return Err(missing().into());
            }
            let bytes = snapshot.get(&key::module_bytes(name))?;
            Ok(bytes.ok_or_else(missing)?)
        })
    }
}

fn add(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    module: &NewModule,
) -> Result<ModuleRecord, NamespaceError> {
    let before = find(transaction.snapshot(), &module.name)?;
    if let Some(before) = &before
        && !before.allows(who, ModulePermission::Write)
    {
        return Err(denied(who, before, "replace it").into());
    }
    let mode = module.mode & 0o777;
    if let Some(before) = &before
        && before.mode != mode
        && !who.is_root()
        && who.uid != before.uid
    {
        return Err(denied(who, before, "change its mode").into());
    }
    let owner = before.as_ref().map_or_else(
        || (who.uid, who.gids.first().copied().unwrap_or(who.uid)),
        |before| (before.uid, before.gid),
    );
    let (version, added_ns) = match &before {
        Some(before) if before.hash == module.hash => (before.version, before.added_ns),
        Some(before) => (before.version.saturating_add(1), transaction.now_ns),
        None => (1, transaction.now_ns),
    };
    let record = ModuleRecord {
        name: module.name.clone(),
        version,
        hash: module.hash,
        len_bytes: module.bytes.len() as u64,
        uid: owner.0,
        gid: owner.1,
        mode,
        added_ns,
        functions: module.functions.clone(),
    };
    if before.as_ref() != Some(&record) {
        transaction.put(&key::module(&module.name), encode(&record));
        transaction.put(&key::module_bytes(&module.name), module.bytes.clone());
    }
    Ok(record)
}

fn find(snapshot: &dyn Snapshot, name: &str) -> Result<Option<ModuleRecord>, NamespaceError> {
    let value = snapshot.get(&key::module(name))?;
    value.map(|value| decode(&value, || format!("module {name}"))).transpose()
}

fn existing(snapshot: &dyn Snapshot, name: &str) -> Result<ModuleRecord, NamespaceError> {
    let missing = || Failure::NoSuchModule { operation: name.into() };
    Ok(find(snapshot, name)?.ok_or_else(missing)?)
}

fn denied(who: &Identity, record: &ModuleRecord, action: &str) -> Failure {
    Failure::ModuleDenied {
        operation: record.name.as_str().into(),
        uid: who.uid,
        action: action.into(),
        owner: record.uid,
        mode: record.mode,
    }
}
