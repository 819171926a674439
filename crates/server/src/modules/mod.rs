//! Modules: operations that arrive as WebAssembly while the nodes run.
//!
//! The interface node stores modules in the namespace ([`requests`]). A node that gets a call of an
//! operation which it was not built with asks the interface node whether the user may call a module
//! of this name, fetches the module if it does not have it yet, and compiles it ([`lookup`]). So a
//! node runs only modules that the interface node has accepted, and every call is checked against
//! the current permissions. Compiled modules are cached by the hash of their bytes ([`host`]).

#[cfg(feature = "modules")]
mod host;
#[cfg(not(feature = "modules"))]
#[path = "no_host.rs"]
mod host;
mod lookup;
mod requests;

pub use host::ModuleHost;
pub use lookup::{PEER_PREFIX, find_for_call, find_for_peer};
pub use requests::{add, fetch, find, list, remove};
