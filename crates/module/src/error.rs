//! Why a module is refused.

use thiserror::Error;

use crate::abi;
use crate::limits::{FUNCTION_LIMIT_BYTES, MODULE_LIMIT_BYTES};

/// Why a module cannot be an operation.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModuleError {
    /// The bytes are too many.
    #[error(
        "the module has {bytes} bytes, and the limit is {MODULE_LIMIT_BYTES}: build it with \
         optimisation (-O2) and without debug information (strip)"
    )]
    TooLarge {
        /// The length of the module.
        bytes: usize,
    },
    /// A function is too long.
    #[error(
        "a function of the module has {bytes} bytes, and the limit is {FUNCTION_LIMIT_BYTES}: \
         divide it, or let the compiler inline less"
    )]
    LongFunction {
        /// The length of the function.
        bytes: usize,
    },
    /// The bytes are not a valid module.
    #[error(
        "these bytes are not a WebAssembly module that Pario can run ({why}): give a module for \
         wasm32 without threads, 64-bit memories and exceptions"
    )]
    NotAModule {
        /// The reason.
        why: String,
    },
    /// The module needs something from outside.
    #[error(
        "the module imports {import}; a module of Pario imports nothing, so that it reaches \
         nothing but its input: build it without a standard library that needs an operating system \
         (clang: -nostdlib, Rust: wasm32-unknown-unknown)"
    )]
    Import {
        /// The first import.
        import: String,
    },
    /// An export is missing or has another type.
    #[error(
        "the module must export {export}: include pario_operation.h (C) or use the attribute \
         `operation` (Rust)"
    )]
    Export {
        /// The name and type of the export.
        export: &'static str,
    },
    /// The module was built for another version of the interface.
    #[error(
        "the module is built for version {found} of the interface between nodes and modules, and \
         this program knows version {version}: build the module with the header or the crate of \
         this release",
        version = abi::VERSION
    )]
    Version {
        /// The version of the module.
        found: i32,
    },
    /// The module fails before it processes anything.
    #[error("the module cannot be started: {why}")]
    Start {
        /// The trap or the exceeded limit.
        why: String,
    },
    /// The sandbox cannot be set up on this machine.
    #[error("this machine cannot run WebAssembly modules: {why}")]
    Unsupported {
        /// The reason.
        why: String,
    },
}
