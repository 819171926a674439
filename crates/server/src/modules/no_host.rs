//! The host of a node that is built without the feature `modules`: it refuses all of them.

use std::sync::Arc;

use pario_proto::{Failure, ModuleHash};

use crate::limits::UserAccount;
use crate::operation::Operation;

/// The host of a node that runs no modules.
#[derive(Default)]
pub struct ModuleHost {}

/// No module is ever compiled.
#[derive(Clone)]
pub enum HostedModule {}

impl ModuleHost {
    /// Returns no module.
    pub fn cached(&self, _: ModuleHash) -> Option<HostedModule> {
        None
    }

    /// Refuses to compile.
    pub fn compile(&self, _: ModuleHash, _: &[u8]) -> Result<HostedModule, String> {
        Err("this node was built without the feature `modules`, and runs no WebAssembly: use the \
             command `pario serve`, or build the program with the feature"
            .to_owned())
    }
}

impl HostedModule {
    /// Returns the operation for the calls of one user.
    pub fn operation(&self, _: &str, _: &Arc<UserAccount>) -> Result<Arc<dyn Operation>, Failure> {
        match *self {}
    }

    /// Returns the names of the functions that the module exports for nodes.
    pub fn functions(&self) -> Vec<String> {
        match *self {}
    }
}
