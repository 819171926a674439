//! From the name of an operation to a compiled module, for a call at this node.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pario_net::{Bulk, panic_text};
use pario_proto::{
    Failure, Identity, ModuleHash, ModuleRecord, ModuleReference, PeerRequest, Reply, ReplyMessage,
    Request,
};
use parking_lot::Mutex;

use super::host::HostedModule;
use crate::node_state::NodeState;

/// How nodes name a module to each other begins with this: `module:NAME:HASH`. No module and no
/// built-in operation has such a name.
pub const PEER_PREFIX: &str = "module:";

/// A module that is ready to be called.
pub struct CallableModule {
    /// Its name and version, for messages.
    pub title: String,
    /// How this node names it to other nodes.
    pub peer_name: String,
    /// The compiled module.
    pub module: HostedModule,
}

/// Finds the module of an operation that a user calls, and passes it to `then`: at once if this node
/// has it, and otherwise on another thread.
pub fn find_for_call(
    shared: &Arc<NodeState>,
    reference: ModuleReference,
    who: Identity,
    then: impl FnOnce(Result<CallableModule, Failure>) + Send + 'static,
) {
    let of = shared.clone();
    let found = move |found: Result<ModuleRecord, Failure>| match found {
        Ok(record) => {
            let title = format!("{}@{}", record.name, record.version);
            compiled(&of, record.name, record.hash, title, then);
        }
        Err(failure) => then(Err(failure)),
    };
    if let Some(interface) = &shared.interface {
        return found(interface.namespace.callable_module(&who, &reference));
    }
    let request = PeerRequest::FindModule { module: reference, who };
    shared.peers.ask_then(shared.config.interface, Request::Peer(request), move |reply| {
        found(reply.and_then(|reply| match reply.result? {
            Reply::Module(record) => Ok(*record),
            _ => Err(strange()),
        }));
    });
}

/// Finds a module that another node has named, for a call that it has checked.
pub fn find_for_peer(
    shared: &Arc<NodeState>,
    peer_name: &str,
    then: impl FnOnce(Result<CallableModule, Failure>) + Send + 'static,
) {
    match parse_peer_name(peer_name) {
        Some((name, hash)) => compiled(shared, name.to_owned(), hash, name.to_owned(), then),
        None => then(Err(strange())),
    }
}

/// Returns the module from the cache, or fetches and compiles it.
#[cfg_attr(
    not(feature = "modules"),
    expect(unreachable_code, reason = "such a node never has a compiled module")
)]
fn compiled(
    shared: &Arc<NodeState>,
    name: String,
    hash: ModuleHash,
    title: String,
    then: impl FnOnce(Result<CallableModule, Failure>) + Send + 'static,
) {
    let peer_name = format!("{PEER_PREFIX}{name}:{hash}");
    let callable = |module| CallableModule { title, peer_name, module };
    if let Some(module) = shared.modules.cached(hash) {
        return then(Ok(callable(module)));
    }
    if shared.interface.is_some() {
        let of = shared.clone();
        return in_thread(shared, then, move || {
            let bytes = of.interface()?.namespace.module_bytes(&name, hash)?;
            compile(&of, &name, hash, &bytes).map(callable)
        });
    }
    let of = shared.clone();
    let request = PeerRequest::FetchModule { name: name.clone(), hash };
    shared.peers.ask_then(
        shared.config.interface,
        Request::Peer(request),
        move |reply| match reply.and_then(fetched_bytes) {
            Ok(bytes) => {
                let shared = of.clone();
                in_thread(&of, then, move || compile(&shared, &name, hash, &bytes).map(callable));
            }
            Err(failure) => then(Err(failure)),
        },
    );
}

fn compile(
    shared: &NodeState,
    name: &str,
    hash: ModuleHash,
    bytes: &[u8],
) -> Result<HostedModule, Failure> {
    shared.modules.compile(hash, bytes).map_err(|why| Failure::Operation {
        node: shared.name().into(),
        operation: name.into(),
        place: None,
        why,
    })
}

/// Runs long work in a thread of its own, and passes its result to `then`, also if the work panics or
/// the thread cannot be started. The number of such threads is limited by the calls of modules that
/// users may have.
fn in_thread<T: 'static>(
    shared: &NodeState,
    then: impl FnOnce(Result<T, Failure>) + Send + 'static,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) {
    let node = shared.label.clone();
    let internal = move |why| Failure::Internal { node: node.to_string(), why };
    let then = Arc::new(Mutex::new(Some(then)));
    let (of_thread, failed) = (then.clone(), internal.clone());
    let builder = std::thread::Builder::new().name("module".to_owned());
    let started = builder.spawn(move || {
        let worked = catch_unwind(AssertUnwindSafe(work));
        let worked = worked.unwrap_or_else(|panic| Err(failed(panic_text(&*panic).to_owned())));
        pass_on(&of_thread, worked);
    });
    if let Err(error) = started {
        let why = format!("it cannot start a thread that compiles a module: {error}");
        pass_on(&then, Err(internal(why)));
    }
}

/// Passes a result to the receiver, once.
fn pass_on<T>(receiver: &Mutex<Option<impl FnOnce(T)>>, result: T) {
    let then = receiver.lock().take();
    if let Some(then) = then {
        then(result);
    }
}

fn fetched_bytes(reply: ReplyMessage<Bulk>) -> Result<Bulk, Failure> {
    match (reply.result?, reply.data.into_iter().next()) {
        (Reply::Module(_), Some(bytes)) => Ok(bytes),
        _ => Err(strange()),
    }
}

fn parse_peer_name(text: &str) -> Option<(&str, ModuleHash)> {
    let (name, hash) = text.strip_prefix(PEER_PREFIX)?.split_once(':')?;
    let mut bytes = [0; 32];
    if hash.len() != 2 * bytes.len() || !hash.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(hash.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some((name, ModuleHash(bytes)))
}

fn strange() -> Failure {
    Failure::Invalid("a node has sent a message about a module that does not fit".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_name_a_module_by_name_and_hash() {
        let hash = ModuleHash(std::array::from_fn(|byte| u8::try_from(byte * 7).unwrap()));
        let text = format!("{PEER_PREFIX}threshold:{hash}");
        assert_eq!(parse_peer_name(&text), Some(("threshold", hash)));
        for wrong in ["threshold", "module:x", "module:x:12", &text[..text.len() - 1]] {
            assert_eq!(parse_peer_name(wrong), None, "{wrong}");
        }
        let signs = format!("module:x:{}", "+f".repeat(32));
        assert_eq!(parse_peer_name(&signs), None);
    }
}
