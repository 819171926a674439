//! Operations on extents that arrive as WebAssembly modules, and the sandbox that runs them.
//!
//! A [`ModuleEngine`] compiles the bytes of a module to a [`CompiledModule`]. Its
//! [`operation`](CompiledModule::operation) is an [`Operation`](pario_operation::Operation) like a
//! compiled one: a node runs it without knowing the difference. Each compute thread has its own
//! instance of the module, whose memory is the state of that thread for the duration of a call.
//!
//! A module has no imports. It cannot reach files, sockets, clocks or random numbers, because a
//! WebAssembly module reaches only what it imports. Each invocation has limits of fuel, processor
//! time and memory ([`limits`]). A trap is an error of the call, with the name of the operation and
//! a backtrace.
//!
//! docs/operations.md describes the interface between node and module byte by byte; [`abi`] holds
//! the same numbers.
//!
//! This crate stores no modules and knows no users: nodes do (`pario_server::modules`).
//!
//! ```
//! use pario_module::{ModuleEngine, ModuleError};
//!
//! let engine = ModuleEngine::new()?;
//! let refused = engine.compile(b"no module").unwrap_err();
//! assert!(matches!(refused, ModuleError::NotAModule { .. }));
//! # Ok::<(), ModuleError>(())
//! ```
#![forbid(unsafe_code)]

pub mod abi;
mod compiled;
mod engine;
mod error;
mod instance;
pub mod limits;
mod operation;
mod ticker;

pub use compiled::{CompiledModule, ModuleExport};
pub use engine::ModuleEngine;
pub use error::ModuleError;
pub use limits::{MemoryBudget, Unlimited};
pub use operation::ModuleOperation;
