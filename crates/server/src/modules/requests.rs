//! What the interface node does with modules for clients: stores, lists, returns and removes them.

use std::sync::mpsc;

use pario_net::Bulk;
use pario_proto::{
    Failure, Identity, ModuleHash, ModulePermission, ModuleRecord, Reply, ReplyMessage,
    is_module_name,
};

use crate::limits::Resource;
use crate::namespace::{Namespace, NewModule};
use crate::node_state::NodeState;

/// Checks a module and stores it. Takes long: compiling shows whether the module is an operation.
pub fn add(
    shared: &NodeState,
    who: Identity,
    name: String,
    mode: u32,
    bytes: &[u8],
) -> Result<ModuleRecord, Failure> {
    let namespace = &shared.interface()?.namespace;
    check_name(shared, &name)?;
    check_count(shared, namespace, &who, &name)?;
    let hash = ModuleHash(*blake3::hash(bytes).as_bytes());
    let module = shared.modules.compile(hash, bytes);
    let module = module.map_err(|why| Failure::Invalid(format!("operation {name:?}: {why}")))?;
    let functions = module.functions();
    let module = NewModule { name, mode, bytes: bytes.to_vec(), hash, functions };
    let (send, receive) = mpsc::channel();
    namespace.add_module(who, module, move |added| {
        // The receiver below waits for this.
        let _ = send.send(added);
    });
    receive.recv().unwrap_or_else(|_| Err(Failure::Stopping { node: shared.name().to_owned() }))
}

/// Returns the records of all modules.
pub fn list(shared: &NodeState) -> Result<Reply, Failure> {
    shared.interface()?.namespace.modules().map(Reply::Modules)
}

/// Returns the record of a module.
pub fn find(shared: &NodeState, name: &str) -> Result<Reply, Failure> {
    let record = shared.interface()?.namespace.module(name)?;
    Ok(Reply::Module(Box::new(record)))
}

/// Returns the record and the bytes of a module: to a user that may read it, or to a node.
pub fn fetch(
    shared: &NodeState,
    who: Option<&Identity>,
    name: &str,
    hash: Option<ModuleHash>,
) -> Result<ReplyMessage<Bulk>, Failure> {
    let namespace = &shared.interface()?.namespace;
    let record = namespace.module(name)?;
    if let Some(who) = who
        && !record.allows(who, ModulePermission::Read)
    {
        return Err(Failure::ModuleDenied {
            operation: name.into(),
            uid: who.uid,
            action: "read it".into(),
            owner: record.uid,
            mode: record.mode,
        });
    }
    let bytes = namespace.module_bytes(name, hash.unwrap_or(record.hash))?;
    let result = Ok(Reply::Module(Box::new(record)));
    Ok(ReplyMessage { result, data: vec![Bulk::from(bytes)] })
}

/// Removes a module, and passes its record to `done` when that is durable.
pub fn remove(
    shared: &NodeState,
    who: Identity,
    name: String,
    done: impl FnOnce(Result<ModuleRecord, Failure>) + Send + 'static,
) {
    match shared.interface() {
        Ok(interface) => interface.namespace.remove_module(who, name, done),
        Err(failure) => done(Err(failure)),
    }
}

fn check_name(shared: &NodeState, name: &str) -> Result<(), Failure> {
    if !is_module_name(name) {
        return Err(Failure::Invalid(format!(
            "{name:?} cannot be the name of a module: use 1 to 64 letters, digits, '-', '_' and '.'"
        )));
    }
    match shared.operations.find(name) {
        Some(_) => Err(Failure::Invalid(format!(
            "operation {name:?} is built into the nodes: choose another name"
        ))),
        None => Ok(()),
    }
}

/// Checks that the user may store one more module.
fn check_count(
    shared: &NodeState,
    namespace: &Namespace,
    who: &Identity,
    name: &str,
) -> Result<(), Failure> {
    let modules = namespace.modules()?;
    if modules.iter().any(|record| record.name == name) {
        return Ok(());
    }
    let own = modules.iter().filter(|record| record.uid == who.uid).count();
    shared.quotas.check(who.uid, Resource::Modules, own as u64, modules.len() as u64)
}
